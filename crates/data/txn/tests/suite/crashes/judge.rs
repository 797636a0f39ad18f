//! The check of the rows after a crash.

use std::collections::{BTreeMap, BTreeSet};

use latchwork_wal::CommitMode;

/// A transaction: its changes, its tag, and its commit timestamp, if that is known.
#[derive(Clone, Default, Debug)]
pub(crate) struct Intent {
    /// The keys that it changes: true if it puts its tag, false if it deletes.
    pub(crate) keys: BTreeMap<u32, bool>,
    /// The tags of the rows that it has read in this life.
    pub(crate) read: Vec<u64>,
    pub(crate) acknowledged: Option<u64>,
}

/// All transactions of all lives that may have committed.
pub(crate) struct Judge {
    mode: CommitMode,
    next_tag: u64,
    pub(crate) intents: BTreeMap<u64, Intent>,
    /// Transactions that were refused since the last crash.
    gone: BTreeSet<u64>,
    /// Keys that a caller found missing since the last crash, with a timestamp that is at least
    /// that of the deletion.
    missing: BTreeMap<u32, u64>,
    /// The number of reads of rows whose writers were not yet acknowledged.
    pub(crate) told: usize,
    /// Counted over all crashes.
    pub(crate) acknowledged: usize,
    pub(crate) unknown: usize,
    /// Commits that a full device refused.
    pub(crate) refused: usize,
    /// Checkpoints that were published.
    pub(crate) checkpoints: usize,
    pub(crate) removed: usize,
}

/// For each existing key, the tag of the transaction that wrote it and the commit timestamp of that
/// transaction.
pub(crate) type Rows = BTreeMap<u32, (u64, u64)>;

impl Judge {
    pub(crate) fn new(mode: CommitMode) -> Judge {
        Judge {
            mode,
            next_tag: 1,
            intents: BTreeMap::new(),
            gone: BTreeSet::new(),
            missing: BTreeMap::new(),
            told: 0,
            acknowledged: 0,
            unknown: 0,
            refused: 0,
            checkpoints: 0,
            removed: 0,
        }
    }

    pub(crate) fn begin(&mut self) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.intents.insert(tag, Intent::default());
        tag
    }

    /// Notes the changes of a transaction that is about to commit.
    pub(crate) fn commits(&mut self, tag: u64, keys: BTreeMap<u32, bool>, read: Vec<u64>) {
        let intent = self.intents.get_mut(&tag).expect("it has begun");
        (intent.keys, intent.read) = (keys, read);
    }

    /// Notes that a caller got the row of `tag`, written at `cts`, or that the row is missing and
    /// was not deleted after `cts`. This counts like an acknowledgement.
    pub(crate) fn saw(&mut self, key: u32, tag: Option<u64>, cts: u64) {
        let Some(tag) = tag else {
            let since = self.missing.entry(key).or_default();
            *since = cts.max(*since);
            return;
        };
        assert!(!self.gone.contains(&tag), "{tag} was refused, and {key} is of it");
        let intent = self.intents.get_mut(&tag).expect("it has begun");
        self.told += usize::from(intent.acknowledged.is_none());
        assert_eq!(*intent.acknowledged.get_or_insert(cts), cts, "{tag} has two timestamps");
    }

    pub(crate) fn acknowledge(&mut self, tag: u64, cts: u64) {
        let intent = self.intents.get_mut(&tag).expect("it has begun");
        intent.acknowledged = Some(cts);
    }

    /// Notes that the caller was informed that the transaction did not commit.
    pub(crate) fn refuse(&mut self, tag: u64) {
        self.intents.remove(&tag);
        self.gone.insert(tag);
    }

    /// Checks the rows after a recovery. From then on these rows are the known state.
    pub(crate) fn judge(&mut self, rows: &Rows) {
        // The commit timestamps of the transactions whose rows are there.
        let mut known: BTreeMap<u64, u64> = BTreeMap::new();
        for (key, &(tag, cts)) in rows {
            let intent = self
                .intents
                .get(&tag)
                .unwrap_or_else(|| panic!("{key} is of {tag}, which cannot be there"));
            assert_eq!(
                intent.keys.get(key),
                Some(&true),
                "{key} is of {tag}, which did not put it"
            );
            assert_eq!(*known.entry(tag).or_insert(cts), cts, "{tag} has two timestamps");
            if let Some(told) = intent.acknowledged {
                assert_eq!(told, cts, "{tag} was acknowledged with another timestamp");
            }
        }
        let lasting = self.mode == CommitMode::Sync;
        let missing = std::mem::take(&mut self.missing);
        for (key, since) in missing.into_iter().filter(|_| lasting) {
            let there = rows.get(&key).map_or(u64::MAX, |row| row.1);
            assert!(there > since, "{key} was not there at {since}, and is as of {there}");
        }
        let gone = std::mem::take(&mut self.gone);
        for (&tag, intent) in &self.intents {
            match intent.acknowledged {
                Some(cts) if lasting => drop(known.insert(tag, cts)),
                Some(_) => {}
                None => self.unknown += 1,
            }
            self.acknowledged += usize::from(intent.acknowledged.is_some());
        }
        for (&tag, &cts) in &known {
            let built_on = self.intents[&tag].read.iter().find(|read| gone.contains(read));
            assert_eq!(built_on, None, "{tag} has built on what was refused");
            for (&key, &put) in &self.intents[&tag].keys {
                match rows.get(&key) {
                    Some(&(_, there)) if there >= cts => {}
                    Some(&(other, there)) => {
                        panic!(
                            "{tag} at {cts} wrote {key}, and there it is as of {other} at {there}"
                        )
                    }
                    None if !put => {}
                    None => assert!(
                        self.may_be_deleted(key, tag, cts),
                        "{tag} at {cts} put {key}, and it is not there"
                    ),
                }
            }
        }
        // A row that was not found must not come back. A transaction without a remaining row may or
        // may not have committed.
        let mut dead = Vec::new();
        for (&tag, intent) in &mut self.intents {
            match known.get(&tag) {
                Some(&cts) => {
                    intent.acknowledged = Some(cts);
                    // An overwritten or deleted row must not come back either, even if the deleting
                    // transaction has left no row.
                    intent.keys.retain(|key, _| rows.get(key).is_some_and(|row| row.0 == tag));
                }
                None => dead.push(tag),
            }
        }
        dead.into_iter().for_each(|tag| drop(self.intents.remove(&tag)));
    }

    fn may_be_deleted(&self, key: u32, but: u64, after: u64) -> bool {
        self.intents.iter().any(|(&tag, intent)| {
            let deletes = intent.keys.get(&key) == Some(&false);
            tag != but && deletes && intent.acknowledged.is_none_or(|cts| cts > after)
        })
    }
}
