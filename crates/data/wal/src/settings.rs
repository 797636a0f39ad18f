//! [`Settings`] of a log.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::format::GROUP_MAX;

/// When a commit is acknowledged. A database without a log has no [`Log`](crate::Log) and no mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// When its log record is durable.
    #[default]
    Sync,
    /// When its log record is in memory. The record is durable an interval later; a crash loses
    /// younger records.
    Async,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 2] = [Mode::Sync, Mode::Async];

    /// The name of the mode in flags.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Sync => "sync",
            Mode::Async => "async",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = SettingsError;

    fn from_str(given: &str) -> Result<Mode, SettingsError> {
        let found = Mode::ALL.into_iter().find(|mode| mode.name() == given);
        found.ok_or_else(|| SettingsError::NoMode { given: given.to_owned() })
    }
}

/// How a log works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// When a commit is acknowledged.
    pub mode: Mode,
    /// [`Mode::Async`]: how long log records wait in memory. In both modes: the time between two
    /// attempts to write a flush batch that must not be refused. 10 ms by default.
    pub interval: Duration,
    /// [`Mode::Sync`]: the longest wait of a flush batch for the committers of the last batch,
    /// which probably commit again soon. The wait never exceeds a quarter of a sync's time. 1 ms by
    /// default; zero never waits.
    pub gather: Duration,
    /// The size at which a segment is full. A new segment is begun behind the flush batch that
    /// reaches this size. 64 MiB by default.
    pub segment_bytes: u64,
    /// The largest backlog in bytes. 64 MiB by default.
    pub backlog_bytes: usize,
    /// The greatest age of the file `WITNESS`, which states how far the logs were durable. A
    /// durable record that is older cannot be lost without an error, even when no other node's log
    /// knows of it. 1 s by default.
    pub witness: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mode: Mode::Sync,
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
pub enum SettingsError {
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

impl Settings {
    /// The smallest segment.
    pub const SEGMENT_LEAST: u64 = 1 << 10;
    /// The smallest backlog.
    pub const BACKLOG_LEAST: usize = 1 << 12;
    const _CHECK: () = assert!(
        Settings::BACKLOG_LEAST <= GROUP_MAX && Settings::SEGMENT_LEAST > 64,
        "the limits leave something to choose"
    );

    /// Checks whether a log can work with these settings.
    ///
    /// # Errors
    /// The first invalid setting, in one line.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.segment_bytes < Settings::SEGMENT_LEAST {
            let least = Settings::SEGMENT_LEAST;
            return Err(SettingsError::Segment { given: self.segment_bytes, least });
        }
        let (least, most) = (Settings::BACKLOG_LEAST, GROUP_MAX);
        if !(least..=most).contains(&self.backlog_bytes) {
            return Err(SettingsError::Backlog { given: self.backlog_bytes, least, most });
        }
        if !(Duration::from_micros(1)..=Duration::from_secs(60)).contains(&self.interval) {
            return Err(SettingsError::Interval { given: self.interval });
        }
        if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&self.witness) {
            return Err(SettingsError::Witness { given: self.witness });
        }
        if self.gather > Duration::from_secs(1) {
            return Err(SettingsError::Gather { given: self.gather });
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
    /// A small model of a flash drive with power-loss protection: 50 us, 2 GB/s.
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
        let good = Settings::default();
        assert_eq!(good.check(), Ok(()));
        let wrong = [
            Settings { segment_bytes: 63, ..good.clone() },
            Settings { backlog_bytes: 0, ..good.clone() },
            Settings { backlog_bytes: usize::MAX, ..good.clone() },
            Settings { interval: Duration::ZERO, ..good.clone() },
            Settings { gather: Duration::from_secs(2), ..good.clone() },
            Settings { witness: Duration::ZERO, ..good.clone() },
        ];
        for settings in wrong {
            let said = settings.check().expect_err("wrong").to_string();
            assert!(said.contains("impossible") && !said.contains('\n'), "{said}");
        }
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        let said = "fast".parse::<Mode>().expect_err("none").to_string();
        assert_eq!(said, "there is no log mode fast: sync and async are possible");
    }

    #[test]
    fn a_device_takes_time_by_the_byte() {
        let device = Device { sync: Duration::ZERO, bytes_per_second: 1_000_000 };
        assert_eq!(device.writing(5), Duration::from_micros(5));
        assert_eq!(Device { bytes_per_second: 0, ..device }.writing(5), Duration::ZERO);
    }
}
