//! [`LogSettings`]: the settings of a log.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::format::GROUP_MAX;

/// The time at which a commit is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CommitMode {
    /// When its log record is durable.
    #[default]
    Sync,
    /// When its log record is in the memory of the log. The record becomes durable about one
    /// [`interval`](LogSettings::interval) later. A crash may lose the records that are not durable
    /// yet.
    Async,
}

impl CommitMode {
    /// All modes.
    pub const ALL: [CommitMode; 2] = [CommitMode::Sync, CommitMode::Async];

    /// The name of the mode in flags.
    pub fn name(self) -> &'static str {
        match self {
            CommitMode::Sync => "sync",
            CommitMode::Async => "async",
        }
    }
}

impl fmt::Display for CommitMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CommitMode {
    type Err = LogSettingsError;

    fn from_str(given: &str) -> Result<CommitMode, LogSettingsError> {
        let found = CommitMode::ALL.into_iter().find(|mode| mode.name() == given);
        found.ok_or_else(|| LogSettingsError::NoMode { given: given.to_owned() })
    }
}

/// How a log works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogSettings {
    /// When a commit is acknowledged.
    pub mode: CommitMode,
    /// [`CommitMode::Async`]: how long log records wait in memory. In both modes: the time between
    /// two attempts to write a flush batch that must not be refused. 10 ms by default.
    pub interval: Duration,
    /// [`CommitMode::Sync`]: the longest time for which the flusher waits for more records before
    /// it takes a flush batch. The tasks whose commits were in the last batch probably commit again
    /// soon. The wait never exceeds a quarter of the time of the last sync. 1 ms by default; zero
    /// never waits.
    pub gather: Duration,
    /// The size at which a segment is full. A new segment is begun behind the flush batch that
    /// reaches this size. 64 MiB by default.
    pub segment_bytes: u64,
    /// The largest backlog in bytes. 64 MiB by default.
    pub backlog_bytes: usize,
    /// The time for which the file `WITNESS` may lack a durable record before the flusher writes
    /// the file. With several logs it may take twice this time. After the write a loss of the
    /// record is detected, even if no other node's log knows of the record. A crash of the system
    /// may bring the previous witness back, because the name of the file is synced later. A failed
    /// write is repeated after the same time. One second by default.
    pub witness: Duration,
}

impl Default for LogSettings {
    fn default() -> LogSettings {
        LogSettings {
            mode: CommitMode::Sync,
            interval: Duration::from_millis(10),
            gather: Duration::from_millis(1),
            segment_bytes: 64 << 20,
            backlog_bytes: 64 << 20,
            witness: Duration::from_secs(1),
        }
    }
}

/// Why settings are invalid.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LogSettingsError {
    /// There is no such mode.
    #[error("there is no log mode {given}: sync and async are possible")]
    NoMode {
        /// The name that was given.
        given: String,
    },
    /// The segments are too small.
    #[error("segments of {given} bytes are impossible: at least {least} are needed")]
    Segment {
        /// The size that was given.
        given: u64,
        /// The smallest size.
        least: u64,
    },
    /// The backlog is too small for a log record, or too large.
    #[error("a backlog of {given} bytes is impossible: {least} to {most} would do")]
    Backlog {
        /// The size that was given.
        given: usize,
        /// The smallest size.
        least: usize,
        /// The largest size.
        most: usize,
    },
    /// The interval is too short for records to wait at all, or too long.
    #[error("an interval of {given:?} is impossible: 1 us to 1 minute would do")]
    Interval {
        /// The interval that was given.
        given: Duration,
    },
    /// The witness would occupy the device, or a loss would be detected much too late.
    #[error("a witness every {given:?} is impossible: 1 ms to 1 minute would do")]
    Witness {
        /// The age that was given.
        given: Duration,
    },
    /// A commit would take too long.
    #[error("to gather for {given:?} is impossible: 0 to 1 s would do")]
    Gather {
        /// The time that was given.
        given: Duration,
    },
}

impl LogSettings {
    /// The smallest segment.
    pub(crate) const SEGMENT_LEAST: u64 = 1 << 10;
    /// The smallest backlog.
    pub(crate) const BACKLOG_LEAST: usize = 1 << 12;
    const _CHECK: () = assert!(
        LogSettings::BACKLOG_LEAST <= GROUP_MAX && LogSettings::SEGMENT_LEAST > 64,
        "the limits leave something to choose"
    );

    /// Checks that a log can work with these settings.
    ///
    /// # Errors
    /// The first invalid setting, in one line.
    pub fn check(&self) -> Result<(), LogSettingsError> {
        if self.segment_bytes < LogSettings::SEGMENT_LEAST {
            let least = LogSettings::SEGMENT_LEAST;
            return Err(LogSettingsError::Segment { given: self.segment_bytes, least });
        }
        let (least, most) = (LogSettings::BACKLOG_LEAST, GROUP_MAX);
        if !(least..=most).contains(&self.backlog_bytes) {
            return Err(LogSettingsError::Backlog { given: self.backlog_bytes, least, most });
        }
        if !(Duration::from_micros(1)..=Duration::from_secs(60)).contains(&self.interval) {
            return Err(LogSettingsError::Interval { given: self.interval });
        }
        if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&self.witness) {
            return Err(LogSettingsError::Witness { given: self.witness });
        }
        if self.gather > Duration::from_secs(1) {
            return Err(LogSettingsError::Gather { given: self.gather });
        }
        Ok(())
    }
}

/// The times of a simulated device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// The time of a sync, however little there is to write.
    pub sync: Duration,
    /// Bytes per second; zero makes writing take no time.
    pub bytes_per_second: u64,
}

impl Default for Device {
    /// A simple model of a flash drive with power-loss protection: 50 µs for a sync, 2 GB/s.
    fn default() -> Device {
        Device { sync: Duration::from_micros(50), bytes_per_second: 2_000_000_000 }
    }
}

impl Device {
    /// The time to write `bytes`, without the sync.
    pub fn writing(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        match self.bytes_per_second {
            0 => Duration::ZERO,
            _ => Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_one_line_that_says_what_would_do() {
        let good = LogSettings::default();
        assert_eq!(good.check(), Ok(()));
        let wrong = [
            LogSettings { segment_bytes: 63, ..good.clone() },
            LogSettings { backlog_bytes: 0, ..good.clone() },
            LogSettings { backlog_bytes: usize::MAX, ..good.clone() },
            LogSettings { interval: Duration::ZERO, ..good.clone() },
            LogSettings { gather: Duration::from_secs(2), ..good.clone() },
            LogSettings { witness: Duration::ZERO, ..good.clone() },
        ];
        for settings in wrong {
            let said = settings.check().expect_err("wrong").to_string();
            assert!(said.contains("impossible") && !said.contains('\n'), "{said}");
        }
        for mode in CommitMode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        let said = "fast".parse::<CommitMode>().expect_err("none").to_string();
        assert_eq!(said, "there is no log mode fast: sync and async are possible");
    }

    #[test]
    fn a_device_takes_time_by_the_byte() {
        let device = Device { sync: Duration::ZERO, bytes_per_second: 1_000_000 };
        assert_eq!(device.writing(5), Duration::from_micros(5));
        assert_eq!(Device { bytes_per_second: 0, ..device }.writing(5), Duration::ZERO);
    }
}
