//! What has to be there after a crash.

use std::collections::{BTreeMap, BTreeSet};

use latchwork_wal::Mode;

/// A transaction: what it was to do, under which tag, and when it committed, if that is known.
#[derive(Clone, Default, Debug)]
pub(crate) struct Intent {
    /// Keys that it puts, with its tag, and keys that it deletes.
    pub(crate) keys: BTreeMap<u32, bool>,
    /// Whose rows it has read in this life.
    pub(crate) read: Vec<u64>,
    pub(crate) acknowledged: Option<u64>,
}

/// All transactions of all lives that may be there.
pub(crate) struct Judge {
    mode: Mode,
    next_tag: u64,
    pub(crate) intents: BTreeMap<u64, Intent>,
    /// Refused since the last crash.
    gone: BTreeSet<u64>,
    /// Keys that somebody was told of since the last crash that there is nothing, as of a timestamp
    /// at least.
    missing: BTreeMap<u32, u64>,
    /// Looks at rows that were not acknowledged by then to their writers.
    pub(crate) told: usize,
    /// Counted over all crashes.
    pub(crate) acknowledged: usize,
    pub(crate) unknown: usize,
    /// Refused by a device that was full.
    pub(crate) refused: usize,
    /// That were put in place.
    pub(crate) checkpoints: usize,
    pub(crate) removed: usize,
}

/// Of each key that is there, the tag of its writer, and when that committed.
pub(crate) type Rows = BTreeMap<u32, (u64, u64)>;

impl Judge {
    pub(crate) fn new(mode: Mode) -> Judge {
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

    /// It is about to commit, and that is what it does.
    pub(crate) fn commits(&mut self, tag: u64, keys: BTreeMap<u32, bool>, read: Vec<u64>) {
        let intent = self.intents.get_mut(&tag).expect("it has begun");
        (intent.keys, intent.read) = (keys, read);
    }

    /// Somebody was told of the row of `tag`, which was written at `cts`; or that there is none,
    /// and whatever was deleted there is no younger than that. As good as an acknowledgement.
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

    /// It has told its caller that it did not commit.
    pub(crate) fn refuse(&mut self, tag: u64) {
        self.intents.remove(&tag);
        self.gone.insert(tag);
    }

    /// Judges what a recovery found. From then on that is what is known.
    pub(crate) fn judge(&mut self, rows: &Rows) {
        // When those committed that are seen.
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
        let lasting = self.mode == Mode::Sync;
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
        // What was not found does not come back. What has nothing left to be seen may have been or
        // not.
        let mut dead = Vec::new();
        for (&tag, intent) in &mut self.intents {
            match known.get(&tag) {
                Some(&cts) => {
                    intent.acknowledged = Some(cts);
                    // What was overwritten or deleted, be it by one that leaves nothing to be seen,
                    // does not come back either.
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
