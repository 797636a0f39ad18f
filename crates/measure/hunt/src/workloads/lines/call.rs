//! [`LineCall`]: a recorded call on one line, with the stamps that the call saw and wrote.

use std::fmt;

use latchwork_history::calls::{Access, Call, RegisterOperation};
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;

use crate::checks::history::Versioned;
use crate::world::Process;

/// The content of a line: the number of its writes (the version), and the number of the last
/// writer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Stamp(pub(super) u64);

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

    pub(crate) fn version(self) -> u64 {
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
pub(crate) struct LineCall {
    pub(crate) process: Process,
    pub(crate) line: GlobalAddr,
    pub(crate) invoked: Time,
    pub(crate) returned: Time,
    pub(crate) saw: Stamp,
    pub(crate) wrote: Option<Stamp>,
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
