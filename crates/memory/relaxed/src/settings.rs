//! [`WriteBufferSettings`]: the settings of a write buffer, checked before the buffer starts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// The order in which a worker's writes become visible to others; see the crate's page.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Consistency {
    /// Every write is visible before it returns: sequential consistency, without a buffer.
    #[default]
    Sequential,
    /// Total store order: writes become visible later, in the order in which they were issued.
    Tso,
    /// Partial store order: writes become visible later. Writes to one line keep the order in which
    /// they were issued.
    Pso,
}

impl Consistency {
    /// All levels, the strictest first.
    pub const ALL: [Consistency; 3] = [Consistency::Sequential, Consistency::Tso, Consistency::Pso];

    /// The name of the level: `sequential`, `tso`, `pso`.
    pub fn name(self) -> &'static str {
        match self {
            Consistency::Sequential => "sequential",
            Consistency::Tso => "tso",
            Consistency::Pso => "pso",
        }
    }

    /// Whether writes are buffered.
    pub fn buffers(self) -> bool {
        self != Consistency::Sequential
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Consistency {
    type Err = WriteBufferSettingsError;

    fn from_str(name: &str) -> Result<Self, WriteBufferSettingsError> {
        let found = Consistency::ALL.into_iter().find(|level| level.name() == name);
        found.ok_or_else(|| WriteBufferSettingsError::NoConsistency { given: name.into() })
    }
}

/// Settings of a [`WriteBuffer`](crate::WriteBuffer). At the level `Sequential` only `consistency`
/// has an effect, but the other fields are checked too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteBufferSettings {
    /// The order in which writes become visible.
    pub consistency: Consistency,
    /// A write is visible to all nodes this long after it was issued, or it never becomes visible
    /// and is reported as lost. 10 ms by default: many times the time to obtain a line.
    pub deadline: Duration,
    /// The batch delay: a write waits at most this long for later writes that fill its batch. 20 µs
    /// by default; less than the deadline. After this delay the write becomes visible as soon as
    /// its line is here. With [`Consistency::Tso`] all earlier writes must be visible, too.
    pub linger: Duration,
    /// The number of writes whose lines are obtained at the same time, 1 to
    /// [`BATCH_MAX`](WriteBufferSettings::BATCH_MAX); 8 by default. When this many writes wait,
    /// they start at once, without the batch delay.
    pub batch: usize,
    /// The maximum number of accesses in the buffer, at least a batch; 64 by default. Merged writes
    /// count as one.
    pub entries: usize,
    /// The maximum number of bytes in the buffer, at least a line's payload; 64 KiB by default.
    pub bytes: usize,
    /// Only for [`Consistency::Tso`] over memory that keeps no lines (SEL). A line that arrived
    /// before its turn is kept from other nodes until no write has become visible for a time T. T
    /// is the time that lines took to arrive lately, but at least this value and at most 8 times
    /// this value. 10 µs by default. With a longer time fewer lines are obtained twice. But two
    /// nodes, each of which keeps a line for which the other waits, make no progress for T.
    pub hold: Duration,
    /// The charged time of putting a write into the buffer, or of finding a write there, in a
    /// simulated world. 0 by default. In real time this setting has no effect.
    pub cost: Duration,
}

impl Default for WriteBufferSettings {
    fn default() -> Self {
        WriteBufferSettings {
            consistency: Consistency::Sequential,
            deadline: Duration::from_millis(10),
            linger: Duration::from_micros(20),
            batch: 8,
            entries: 64,
            bytes: 64 << 10,
            hold: Duration::from_micros(10),
            cost: Duration::ZERO,
        }
    }
}

/// An error in the settings.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum WriteBufferSettingsError {
    /// No such level.
    #[error("there is no consistency {given}: sequential, tso and pso are possible")]
    NoConsistency {
        /// The name that was given.
        given: String,
    },
    /// The batch is not in the range from 1 to the maximum.
    #[error(
        "a write batch of {given} is impossible: 1 to {} would do",
        WriteBufferSettings::BATCH_MAX
    )]
    Batch {
        /// The batch.
        given: usize,
    },
    /// Fewer entries than a batch.
    #[error("a write buffer of {entries} entries cannot fill a batch of {batch}: it needs as many")]
    Entries {
        /// The entries.
        entries: usize,
        /// The batch.
        batch: usize,
    },
    /// Some writes would never fit.
    #[error(
        "a write buffer of {bytes} bytes is too small for a write of a whole line, {payload} bytes"
    )]
    Bytes {
        /// The bytes.
        bytes: usize,
        /// A line's payload.
        payload: usize,
    },
    /// Writes would be lost before they start.
    #[error(
        "writes that linger for {linger:?} cannot meet a deadline of {deadline:?}: it has to be longer"
    )]
    Deadline {
        /// The batch delay.
        linger: Duration,
        /// The deadline.
        deadline: Duration,
    },
}

impl WriteBufferSettings {
    /// The largest batch.
    pub const BATCH_MAX: usize = 256;

    /// Checks that a buffer with these settings can work over lines with `payload` bytes of
    /// payload.
    ///
    /// # Errors
    /// The error in the settings, in one line.
    pub fn check(&self, payload: usize) -> Result<(), WriteBufferSettingsError> {
        let WriteBufferSettings { deadline, linger, batch, entries, bytes, .. } = *self;
        if !(1..=WriteBufferSettings::BATCH_MAX).contains(&batch) {
            return Err(WriteBufferSettingsError::Batch { given: batch });
        }
        if entries < batch {
            return Err(WriteBufferSettingsError::Entries { entries, batch });
        }
        if bytes < payload {
            return Err(WriteBufferSettingsError::Bytes { bytes, payload });
        }
        if linger >= deadline {
            return Err(WriteBufferSettingsError::Deadline { linger, deadline });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_one_line_that_says_what_would_do() {
        let good = WriteBufferSettings::default();
        assert_eq!(good.check(8192), Ok(()));
        let wrong = [
            WriteBufferSettings { batch: 0, ..good.clone() },
            WriteBufferSettings { batch: 257, entries: 300, ..good.clone() },
            WriteBufferSettings { entries: 7, ..good.clone() },
            WriteBufferSettings { bytes: 8191, ..good.clone() },
            WriteBufferSettings { linger: good.deadline, ..good.clone() },
        ];
        let said = wrong.map(|settings| settings.check(8192).expect_err("wrong").to_string());
        assert_eq!(said[1], "a write batch of 257 is impossible: 1 to 256 would do");
        for line in &said {
            assert!(!line.contains('\n'), "{line}");
        }
        for level in Consistency::ALL {
            assert_eq!(level.name().parse(), Ok(level));
        }
        let none = "weak".parse::<Consistency>().expect_err("none");
        assert_eq!(
            none.to_string(),
            "there is no consistency weak: sequential, tso and pso are possible"
        );
    }
}
