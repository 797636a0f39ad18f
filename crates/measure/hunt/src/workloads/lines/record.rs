//! [`LinesRecord`]: the recorded calls on lines, with the stamps that they saw and wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use latchwork_history::calls::{Access, Call, RegisterOperation};
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;

use crate::WorldCheck;
use crate::checks::CheckResult;
use crate::checks::counter::{self, Addition};
use crate::checks::history::{self, Versioned};
use crate::workloads::client::{Client, Work};
use crate::world::Process;

/// The content of a line: the number of its writes (the version), and the number of the last
/// writer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(in crate::workloads) struct Stamp(u64);

impl Stamp {
    const BY: u32 = 20;

    /// The stamp with these bits, which were read from a line.
    pub(in crate::workloads) fn of(bits: u64) -> Stamp {
        Stamp(bits)
    }

    pub(in crate::workloads) fn bits(self) -> u64 {
        self.0
    }

    pub(in crate::workloads) fn next(self, by: Process) -> Stamp {
        Stamp((self.version() + 1) << Self::BY | u64::from(by.number))
    }

    fn version(self) -> u64 {
        self.0 >> Self::BY
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.0 & ((1 << Self::BY) - 1);
        write!(f, "version {} by task {by}", self.version())
    }
}

/// A call on one line, with its result.
#[derive(Clone, Copy, Debug)]
struct LineCall {
    process: Process,
    line: GlobalAddr,
    invoked: Time,
    returned: Time,
    saw: Stamp,
    wrote: Option<Stamp>,
}

impl Versioned for LineCall {
    type Value = Stamp;

    fn timed(&self) -> Call<RegisterOperation<Stamp>> {
        let operation = match self.wrote {
            Some(stamp) => RegisterOperation::Write(stamp),
            None => RegisterOperation::Read(self.saw),
        };
        Call { invoked: self.invoked, returned: Some(self.returned), operation }
    }

    fn access(&self) -> Access<u32, u64> {
        Access {
            process: self.process.number,
            object: self.line.bits(),
            read: Some(self.saw.version()),
            wrote: self.wrote.map(Stamp::version),
        }
    }
}

impl fmt::Display for LineCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LineCall { process, line, invoked, returned, saw, .. } = self;
        write!(f, "{line}: {process}: {invoked} to {returned}: saw {saw}")?;
        self.wrote.map_or(Ok(()), |wrote| write!(f, ", wrote {wrote}"))
    }
}

/// The record of all tasks.
#[derive(Default)]
pub(in crate::workloads) struct LinesRecord {
    calls: Vec<LineCall>,
    pub(super) additions: Vec<Addition>,
    /// The counter at the end.
    pub(super) counted: Option<u64>,
}

impl LinesRecord {
    pub(in crate::workloads) fn merge(&mut self, other: LinesRecord) {
        self.calls.extend(other.calls);
        self.additions.extend(other.additions);
        self.counted = self.counted.or(other.counted);
    }

    pub(in crate::workloads) fn judge(&self) -> CheckResult {
        counter::check(&self.additions, self.counted)?;
        history::check(Stamp::default(), &self.calls)?;
        Ok(0)
    }

    /// Drops what dead nodes wrote last and no other node has seen, with the reads of it: their
    /// lines may have returned to an earlier version.
    pub(in crate::workloads) fn forget_unseen(&mut self, is_dead: impl Fn(usize) -> bool) {
        let of_dead = |call: &LineCall| is_dead(call.process.node);
        let writes =
            self.calls.iter().filter_map(|call| Some(((call.line, call.wrote?), call.saw)));
        let before: BTreeMap<_, Stamp> = writes.collect();
        // What a node has seen, and what it was written over.
        let mut seen = BTreeSet::new();
        for call in self.calls.iter().filter(|call| !of_dead(call)) {
            let mut stamp = Some(call.saw);
            while let Some(at) = stamp.filter(|at| seen.insert((call.line, *at))) {
                stamp = before.get(&(call.line, at)).copied();
            }
        }
        self.calls.retain(|call| {
            let is_seen = |stamp: Stamp| seen.contains(&(call.line, stamp));
            !of_dead(call) || is_seen(call.saw) && call.wrote.is_none_or(is_seen)
        });
    }
}

impl<W: Work<Record = LinesRecord>> Client<W> {
    /// Records a call that has ended now.
    pub(in crate::workloads) fn add_call(
        &self,
        at: usize,
        invoked: Time,
        saw: Stamp,
        wrote: Option<Stamp>,
    ) {
        let (process, line, returned) = (self.process, self.root(at), self.now());
        let call = LineCall { process, line, invoked, returned, saw, wrote };
        self.record(|record| record.calls.push(call));
    }

    /// The stamp of a line with these two ends. Different ends are a failure.
    pub(in crate::workloads) fn whole(&self, at: usize, (first, last): (u64, u64)) -> Stamp {
        let (first, last) = (Stamp::of(first), Stamp::of(last));
        if first != last {
            let line = self.root(at);
            self.wrong(WorldCheck::Values, format!("{line} is torn: {first} and {last}"));
        }
        first
    }
}
