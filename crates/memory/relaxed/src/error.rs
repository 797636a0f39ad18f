//! The errors of relaxed memory, and the report of a lost write.

use std::fmt;
use std::time::Duration;

use latchwork_coherence::MemoryError;
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;
use thiserror::Error;

/// Why a call failed.
#[derive(Clone, Debug, Error)]
pub enum RelaxedError {
    /// Writes that were issued earlier never became visible, and never will. The call itself had no
    /// effect. The next call works again.
    #[error("{0}")]
    Lost(LostWrites),
    /// The line of this call could not be used.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The bytes are not inside the line.
    #[error(
        "{len} bytes at offset {offset} are not inside line {addr}, whose payload has {payload} bytes"
    )]
    OutOfLine {
        /// The line.
        addr: GlobalAddr,
        /// The offset in the payload.
        offset: usize,
        /// The number of bytes.
        len: usize,
        /// The number of bytes of the payload.
        payload: usize,
    },
    /// An update of a task that shares the buffer took the whole deadline and held this write back.
    /// The write was not issued.
    #[error(
        "a write was held back for {0:?} by an update that does not end: await or drop every update that was begun"
    )]
    HeldBack(Duration),
    /// The worker has left: [`WriteBuffer::leave`](crate::WriteBuffer::leave) was called.
    #[error("the write buffer takes no more writes: its worker has left")]
    Closed,
}

/// Why a write was lost.
#[derive(Clone, Debug, Error)]
pub enum LossCause {
    /// The write was not visible at its deadline: its line was not obtained in time.
    #[error("its line was not obtained within {0:?}")]
    Deadline(Duration),
    /// The memory failed when the line was to be obtained.
    #[error("{0}")]
    Memory(MemoryError),
    /// An earlier write was lost, and this one must not become visible without it.
    #[error("a write before it was lost")]
    Order,
    /// The worker's executor ended first.
    #[error("its worker ended without a flush")]
    Abandoned,
}

/// Bytes that were written and never became visible.
#[derive(Clone, Debug)]
pub struct LostWrite {
    /// The line.
    pub addr: GlobalAddr,
    /// The offset in its payload.
    pub offset: usize,
    /// The bytes that were written, of all merged writes.
    pub bytes: Vec<u8>,
    /// The time at which the first write of the same access was issued.
    pub issued: Time,
    /// The cause of the loss.
    pub cause: LossCause,
}

impl fmt::Display for LostWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostWrite { addr, offset, bytes, issued, cause } = self;
        write!(
            f,
            "{} bytes at offset {offset} of line {addr}, issued at {issued}: {cause}",
            bytes.len()
        )
    }
}

/// All writes that were lost since the last report, in the order of [`issued`](LostWrite::issued);
/// never empty.
#[derive(Clone, Debug)]
pub struct LostWrites(pub Vec<LostWrite>);

/// The text names this many writes; the rest is counted.
const NAMED: usize = 4;

impl fmt::Display for LostWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("buffered writes were lost: ")?;
        for (at, lost) in self.0.iter().take(NAMED).enumerate() {
            let between = if at == 0 { "" } else { "; " };
            write!(f, "{between}{lost}")?;
        }
        match self.0.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
