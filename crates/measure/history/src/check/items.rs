//! Edges of single keys, and violations that need no cycle.

use super::choice::Choice;
use super::graph::{Builder, kind};
use super::index::{Index, Written};
use super::presence::{Observation, Times};
use super::report::{Class, Findings, name};
use crate::{RecordedOperation, RowVersion};

/// Visits all operations of all counted transactions.
pub(crate) struct Items<'a, 'h> {
    pub(crate) index: &'a Index<'h>,
    pub(crate) times: &'a Times,
    pub(crate) graph: &'a mut Builder,
    pub(crate) findings: &'a mut Findings,
    pub(crate) choices: &'a mut Vec<Choice>,
}

impl Items<'_, '_> {
    pub(crate) fn add(&mut self) {
        self.writers();
        for (number, _) in self.index.counted() {
            for (operation, keys) in self.index.operations(number) {
                match operation {
                    RecordedOperation::Read { version, hash, .. } => {
                        self.read(number, keys[0], *version, *hash);
                    }
                    RecordedOperation::Scan(scan) => {
                        for (seen, key) in scan.seen.iter().zip(keys) {
                            match seen.version {
                                Some(version) => self.read(number, *key, version, None),
                                None => self.presence(number, *key, true, true),
                            }
                        }
                    }
                    RecordedOperation::Write { .. } => {}
                }
            }
        }
    }

    /// Adds the ww edges, and reports committed writers with equal timestamps or without one.
    fn writers(&mut self) {
        for pair in self.index.versions.all().windows(2) {
            if pair[0].key == pair[1].key {
                self.graph.edge(pair[0].writer, pair[1].writer, kind::WW, pair[0].key);
            }
        }
        let mut stamps = Vec::new();
        for (number, transaction) in self.index.counted() {
            let is_write = |operation: &RecordedOperation| {
                matches!(operation, RecordedOperation::Write { .. })
            };
            if !transaction.operations.iter().any(is_write) {
                continue;
            }
            match transaction.outcome.cts() {
                0 => {
                    let text = "is committed with writes, and without a timestamp".to_owned();
                    self.findings.add(Class::Timestamp, &[transaction.id], text);
                }
                cts => stamps.push((cts, number)),
            }
        }
        stamps.sort_unstable();
        for pair in stamps.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let ids = [pair[0], pair[1]].map(|(_, number)| self.index.transaction(number).id);
            let text = format!("were both committed with timestamp {}", pair[0].0);
            self.findings.add(Class::Timestamp, &ids, text);
        }
    }

    /// Adds the edges of a read with a version, or reports that no counted transaction wrote the
    /// version.
    fn read(&mut self, reader: u32, key: u32, version: RowVersion, hash: Option<u64>) {
        let versions = self.index.versions.of(key);
        let at = versions.partition_point(|written| written.cts < version);
        match versions.get(at).filter(|written| written.cts == version) {
            Some(written) => {
                self.graph.edge(written.writer, reader, kind::WR, key);
                self.value(reader, written, hash);
                self.replaced(reader, key, &versions[at + 1..]);
            }
            None if version == 0 => self.presence(reader, key, false, false),
            None => {
                if let Some(written) = self.index.undone.find(key, version) {
                    let ids =
                        [reader, written.writer].map(|number| self.index.transaction(number).id);
                    let text = format!(
                        "read {} of version {version}, which its writer, {}, took back",
                        name(self.index, key),
                        ids[1]
                    );
                    self.findings.add(Class::AbortedRead, &ids, text);
                } else if version > self.index.history.base {
                    let id = self.index.transaction(reader).id;
                    let text = format!(
                        "read {} of version {version}, which nobody wrote",
                        name(self.index, key)
                    );
                    self.findings.add(Class::Unwritten, &[id], text);
                } else {
                    self.replaced(reader, key, &versions[at..]);
                }
            }
        }
    }

    fn presence(&mut self, reader: u32, key: u32, is_there: bool, is_range: bool) {
        let observation = Observation { reader, key, is_there, is_range };
        observation.settle(self.index, self.times, self.graph, self.findings, self.choices);
    }

    /// Adds the rw edge to the writer of the first version in `later`, which follows the version
    /// that the reader saw.
    fn replaced(&mut self, reader: u32, key: u32, later: &[Written]) {
        if let Some(next) = later.first() {
            self.graph.edge(reader, next.writer, kind::RW, key);
        }
    }

    /// Compares the hash that the reader recorded with the hash of the writer's last write of the
    /// row.
    fn value(&mut self, reader: u32, written: &Written, hash: Option<u64>) {
        let (Some(read), Some(last)) = (hash, written.change.hash()) else { return };
        if read == last {
            return;
        }
        let is_earlier = self.index.operations(written.writer).any(|(operation, keys)| {
            matches!(operation, RecordedOperation::Write { change, .. }
                if keys[0] == written.key && change.hash() == Some(read))
        });
        let ids = [reader, written.writer].map(|number| self.index.transaction(number).id);
        let key = name(self.index, written.key);
        let (class, what) = match is_earlier {
            true => (Class::IntermediateRead, "which is not the last that its writer wrote"),
            false => (Class::Value, "which is not what its writer wrote"),
        };
        let text = format!(
            "read {key} of version {} with a value of hash {read:x}, {what} ({}: {last:x})",
            written.cts, ids[1]
        );
        self.findings.add(class, &ids, text);
    }
}
