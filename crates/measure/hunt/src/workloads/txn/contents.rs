//! [`Contents`]: the contents of rows that a transaction has read and written, and their check. The
//! check needs no versions, so it also finds a row that has the version of one write and the
//! content of another.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::Content;

/// What a transaction has read of others, and what it writes, by the numbers of the keys. `None` is
/// no row.
#[derive(Clone, Default, Debug)]
pub(super) struct Contents {
    read: BTreeMap<u64, Option<Content>>,
    wrote: BTreeMap<u64, Option<Content>>,
}

impl Contents {
    /// Notes what the transaction has found. What it finds after its own write says nothing of
    /// others.
    pub(super) fn found(&mut self, key: u64, content: Option<Content>) {
        if !self.wrote.contains_key(&key) {
            self.read.entry(key).or_insert(content);
        }
    }

    pub(super) fn wrote(&mut self, key: u64, content: Option<Content>) {
        self.wrote.insert(key, content);
    }

    /// What the transaction itself has written.
    pub(super) fn own(&self, key: u64) -> Option<Option<Content>> {
        self.wrote.get(&key).copied()
    }
}

/// Checks the contents of all committed transactions:
///
/// - Each content that a transaction has read is one that a step has written to this key, and not
///   a step of a transaction that surely has not committed. `undone` has the heads of those.
/// - At most one transaction has read a content and replaced it: no write is lost.
///
/// `drawn` has the key of each head.
pub(super) fn check<'a>(
    drawn: &BTreeMap<u64, u64>,
    undone: &BTreeSet<u64>,
    committed: impl IntoIterator<Item = &'a Contents>,
) -> Result<(), String> {
    let mut replaced = BTreeMap::new();
    for transaction in committed {
        for (&key, &found) in &transaction.read {
            let Some(content) = found else { continue };
            for id in [content.head, content.tail] {
                if drawn.get(&id) != Some(&key) {
                    return Err(format!("key {key} has {content:x?}, which was not written there"));
                }
                if undone.contains(&id) {
                    return Err(format!(
                        "key {key} has {content:x?} of a transaction that has not committed"
                    ));
                }
            }
            let Some(new) = transaction.wrote.get(&key) else { continue };
            if let Some(other) = replaced.insert((key, content), new) {
                return Err(format!(
                    "a lost write: two transactions have read {content:x?} of key {key}, and \
                     replaced it by {other:x?} and by {new:x?}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u64 = 1;

    fn changes(from: u64, to: u64) -> Contents {
        let mut contents = Contents::default();
        contents.found(KEY, Some(Content::unique(from)));
        contents.wrote(KEY, Some(Content::unique(to)));
        contents
    }

    fn verdict(undone: &[u64], committed: &[Contents]) -> Result<(), String> {
        let drawn = (10..20).map(|head| (head, KEY)).collect();
        check(&drawn, &undone.iter().copied().collect(), committed)
    }

    #[test]
    fn lost_writes_strange_contents_and_undone_contents_are_found() {
        assert_eq!(verdict(&[], &[changes(10, 11), changes(11, 12)]), Ok(()));
        let lost = verdict(&[], &[changes(10, 11), changes(10, 12)]).expect_err("both of 10");
        assert!(lost.starts_with("a lost write"), "{lost}");
        let strange = verdict(&[], &[changes(20, 11)]).expect_err("20 was not written");
        assert!(strange.contains("not written there"), "{strange}");
        let undone = verdict(&[10], &[changes(10, 11)]).expect_err("10 has not committed");
        assert!(undone.contains("has not committed"), "{undone}");
        assert_eq!(verdict(&[10], &[changes(11, 12)]), Ok(()));
    }

    #[test]
    fn what_a_transaction_finds_of_its_own_says_nothing() {
        let mut contents = changes(10, 11);
        contents.found(KEY, Some(Content::unique(11)));
        assert_eq!(contents.own(KEY), Some(Some(Content::unique(11))));
        assert_eq!(verdict(&[11], &[contents]), Ok(()));
    }
}
