//! [`Ledger`]: the appended records with their outcomes, and the check of the records that a
//! recovery finds.

use std::collections::BTreeMap;
use std::sync::Mutex;

use latchwork_wal::{LogDirectory, LogRecordKind, NodeId, Replayed, TableId, Timestamp};

pub(crate) type Key = (TableId, Vec<u8>);
pub(crate) type Value = Option<Vec<u8>>;
/// The content of memory: for each key its commit timestamp and its value.
pub(crate) type Tables = BTreeMap<Key, (Timestamp, Value)>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Appended, without a known outcome.
    Unknown,
    /// Acknowledged, or found by a recovery that later commits built on.
    Lasting,
    /// The log reported that the record is not there.
    Refused,
    /// A recovery did not find the record.
    Lost,
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) node: NodeId,
    /// The number of the append on its node.
    pub(crate) order: u64,
    pub(crate) entries: Vec<(Key, Value)>,
    pub(crate) fate: Fate,
    /// The position of its acknowledgement, or of its discovery by a recovery, in the order of all
    /// appends and acknowledgements.
    acknowledged: u64,
}

/// What happened to a directory before it was opened.
#[derive(Clone, Debug)]
pub(crate) enum Opened {
    /// Crashes only.
    Whole,
    /// An end was cut off a log without a report.
    Cut {
        /// All logs had been closed before the cut.
        clean: bool,
    },
    /// An end was cut off, and the loss of these logs was accepted.
    Accepted(Vec<NodeId>),
}

#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) records: BTreeMap<Timestamp, Record>,
    orders: u64,
    /// The position of the opening of the directory in the order of all appends and
    /// acknowledgements.
    opened: u64,
}

impl Ledger {
    pub(crate) fn append(&mut self, at: Timestamp, node: NodeId, entries: Vec<(Key, Value)>) {
        self.orders += 1;
        let order = self.orders;
        let record = Record { node, order, entries, fate: Fate::Unknown, acknowledged: 0 };
        // A restart does not know a record that is not in the log, so its timestamp may be drawn
        // again.
        let before = self.records.insert(at, record);
        let gone = |record: Record| matches!(record.fate, Fate::Lost | Fate::Refused);
        assert!(before.is_none_or(gone), "{at} twice");
    }

    pub(crate) fn fate(&mut self, at: Timestamp, fate: Fate) {
        self.orders += 1;
        let record = self.records.get_mut(&at).expect("appended");
        (record.fate, record.acknowledged) = (fate, self.orders);
    }

    /// Checks the records that a recovery found. From now on these records are the expected state.
    pub(crate) fn judge(
        &mut self,
        directory: &LogDirectory,
        replayed: &Replayed,
        opened: &Opened,
    ) -> Result<Tables, String> {
        let found = Mutex::new(BTreeMap::new());
        let read = directory.read(2, |node, segment, offset, group| {
            let own = |e: latchwork_wal::LogEntry<'_>| {
                ((e.table, e.key.to_vec()), e.value.map(<[u8]>::to_vec))
            };
            let entries: Vec<(Key, Value)> = group.entries().map(own).collect();
            let place = (node, segment, offset);
            let at = (group.timestamp(), group.kind());
            let twice = found.lock().expect("whole").insert(at, (place, entries));
            assert!(twice.is_none(), "a group stands twice");
        });
        read.map_err(|e| e.to_string())?;
        let found = found.into_inner().expect("whole");
        let floor = directory.floor();
        for ((at, kind), (place, entries)) in &found {
            let Some(record) = self.records.get(at) else {
                return Err(format!("{at} at {place:?} was never appended"));
            };
            if *kind != LogRecordKind::Commit
                || record.node != place.0
                || record.entries != *entries
            {
                return Err(format!("{at} at {place:?} is not what was appended"));
            }
            if matches!(record.fate, Fate::Refused | Fate::Lost) {
                return Err(format!("{at} at {place:?} was {:?} and is back", record.fate));
            }
        }
        // A log ends between two records: no record is there without all records before it.
        let mut last: BTreeMap<NodeId, u64> = BTreeMap::new();
        for ((at, _), (place, _)) in &found {
            let last = last.entry(place.0).or_default();
            *last = (*last).max(self.records[at].order);
        }
        self.judge_losses(floor, opened, |at| found.contains_key(&(*at, LogRecordKind::Commit)))?;
        self.orders += 1;
        self.opened = self.orders;
        for (at, record) in &mut self.records {
            let is_found = found.contains_key(&(*at, LogRecordKind::Commit));
            if is_found || *at <= floor && record.fate == Fate::Lasting {
                record.fate = Fate::Lasting;
                record.acknowledged = self.opened;
                continue;
            }
            if record.fate == Fate::Lasting && matches!(opened, Opened::Whole) {
                return Err(format!("{at} of node {} was lasting and is lost", record.node.0));
            }
            if matches!(record.fate, Fate::Unknown | Fate::Lasting) {
                if *at > floor && last.get(&record.node).is_some_and(|last| *last > record.order) {
                    return Err(format!("{at} is lost, and later groups of its node are there"));
                }
                // At or below the floor every commit had ended, and the committed ones were
                // durable.
                record.fate = Fate::Lost;
            }
        }
        self.compare(floor, replayed)
    }

    /// Checks whether durable records may be missing.
    fn judge_losses(
        &self,
        floor: Timestamp,
        opened: &Opened,
        is_found: impl Fn(&Timestamp) -> bool,
    ) -> Result<(), String> {
        let there: Vec<_> = self.records.iter().filter(|(at, _)| is_found(at)).collect();
        let lost = self.records.iter().filter(|(at, record)| {
            let may_be_seen = matches!(record.fate, Fate::Lasting | Fate::Unknown);
            !is_found(at) && **at > floor && may_be_seen
        });
        for (at, record) in lost {
            match opened {
                Opened::Whole => {}
                Opened::Cut { clean } => {
                    if record.fate == Fate::Lasting
                        && (*clean || record.acknowledged <= self.opened)
                    {
                        return Err(format!("{at} is lost in silence: the witness knew of it"));
                    }
                    let knows = |other: &&(&Timestamp, &Record)| {
                        record.fate == Fate::Lasting
                            && other.1.node != record.node
                            && other.1.order > record.acknowledged
                    };
                    if let Some((other, _)) = there.iter().find(knows) {
                        return Err(format!("{at} is lost in silence, and {other} is there"));
                    }
                }
                Opened::Accepted(logs) if logs.contains(&record.node) => {
                    let keys = |record: &Record| -> Vec<Key> {
                        record.entries.iter().map(|(key, _)| key.clone()).collect()
                    };
                    let own = keys(record);
                    let has_seen = |(other, of): &&(&Timestamp, &Record)| {
                        *other > at && keys(of).iter().any(|key| own.contains(key))
                    };
                    if let Some((other, of)) = there.iter().find(has_seen) {
                        let (node, by) = (record.node.0, of.node.0);
                        return Err(format!(
                            "{at} of {node} is given up, and {other} of {by} has seen it"
                        ));
                    }
                }
                Opened::Accepted(_) => {}
            }
        }
        Ok(())
    }

    /// Checks whether the replay is the merge of the durable records.
    fn compare(&self, floor: Timestamp, replayed: &Replayed) -> Result<Tables, String> {
        let mut expected = Tables::new();
        for (at, record) in &self.records {
            if record.fate == Fate::Lasting {
                for (key, value) in &record.entries {
                    expected.insert(key.clone(), (*at, value.clone()));
                }
            }
        }
        let of = |(table, latest): (TableId, &latchwork_wal::LatestValue)| {
            let value = latest.value.as_ref().map(|value| value.to_vec());
            ((table, latest.key.to_vec()), (latest.timestamp, value))
        };
        let mut keys = Tables::new();
        for key in replayed.keys().map(of) {
            let again = keys.insert(key.0, key.1);
            if let Some(again) = again {
                return Err(format!("{again:?} is in two partitions"));
            }
        }
        // A deletion at or below the floor may be forgotten.
        let forgotten = |at: &Timestamp, value: &Value| value.is_none() && *at <= floor;
        let without = |tables: &Tables| -> Tables {
            let kept = tables.iter().filter(|(_, (at, value))| !forgotten(at, value));
            kept.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let (expected, found) = (without(&expected), without(&keys));
        if expected != found {
            let short = |tables: &Tables, others: &Tables| -> String {
                let differ = tables.iter().filter(|(key, value)| others.get(*key) != Some(value));
                let short = |(key, (at, value)): (&Key, &(Timestamp, Value))| {
                    format!("{}/{:?} at {at}: {:?}", key.0.0, key.1, value.as_ref().map(Vec::len))
                };
                differ.map(short).collect::<Vec<_>>().join(", ")
            };
            let (lacks, has) = (short(&expected, &found), short(&found, &expected));
            return Err(format!("replay above {floor} lacks [{lacks}], has [{has}]"));
        }
        let highest = expected.values().map(|(at, _)| *at).max().unwrap_or_default();
        if replayed.highest < highest {
            return Err(format!("the highest is {highest}, not {}", replayed.highest));
        }
        Ok(keys)
    }
}
