//! [`Settings`] of a log.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::format::GROUP_MAX;

/// When a commit is acknowledged. A database without a log has no [`Log`](crate::Log) and no mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// When its group is lasting.
    #[default]
    Sync,
    /// When its group is in memory; it is lasting an interval later. A crash takes what is younger.
    Async,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 2] = [Mode::Sync, Mode::Async];

    /// As flags have it.
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
    /// [`Mode::Async`]: how long groups wait in memory; a batch that was refused is tried again as
    /// often. 10 ms by default.
    pub interval: Duration,
    /// [`Mode::Sync`]: how long a batch waits at most for those who were in the last one, who are likely to
    /// come again; a quarter of a sync's time is never exceeded. 1 ms by default; zero never waits.
    pub gather: Duration,
    /// A new segment is begun behind a batch that fills one to so many bytes. 64 MiB by default.
    pub segment_bytes: u64,
    /// Bytes that may wait to be written. 64 MiB by default.
    pub backlog_bytes: usize,
    /// How old the file `WITNESS` may be, which tells how far logs were durable: what is older
    /// cannot be lost without an error, also where no other node's log knows of it. 1 s by default.
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

/// What is wrong with settings.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SettingsError {
    /// No such mode.
    #[error("there is no log mode {given}: sync and async are possible")]
    NoMode {
        /// What was given.
        given: String,
    },
    /// Segments that hold nothing.
    #[error("segments of {given} bytes are impossible: at least {least} are needed")]
    Segment {
        /// What was given.
        given: u64,
        /// What would do.
        least: u64,
    },
    /// No group would fit.
    #[error("a backlog of {given} bytes is impossible: {least} to {most} would do")]
    Backlog {
        /// What was given.
        given: usize,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
    /// Groups would never wait, or for ever.
    #[error("an interval of {given:?} is impossible: 1 us to 1 minute would do")]
    Interval {
        /// What was given.
        given: Duration,
    },
    /// The device would do nothing else, or a loss be noticed much too late.
    #[error("a witness every {given:?} is impossible: 1 ms to 1 minute would do")]
    Witness {
        /// What was given.
        given: Duration,
    },
    /// A commit would take too long.
    #[error("to gather for {given:?} is impossible: 0 to 1 s would do")]
    Gather {
        /// What was given.
        given: Duration,
    },
}

impl Settings {
    /// The smallest segment.
    pub const SEGMENT_LEAST: u64 = 1 << 10;
    /// The smallest backlog.
    pub const BACKLOG_LEAST: usize = 1 << 12;

    /// Whether a log can work so.
    ///
    /// # Errors
    /// What is wrong, in one line.
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

/// What a simulated device takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// For a sync, however little there is to write.
    pub sync: Duration,
    /// Bytes per second; zero writes in no time.
    pub bytes_per_second: u64,
}

impl Default for Device {
    /// A flash drive with power-loss protection in the small: 50 us, 2 GB/s.
    fn default() -> Device {
        Device { sync: Duration::from_micros(50), bytes_per_second: 2_000_000_000 }
    }
}

impl Device {
    /// What it takes to write `bytes`, without the sync.
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
