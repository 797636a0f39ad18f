//! [`Silence`]: how long a process has been stopped (SIGSTOP, a debugger), so that it answers
//! nothing.

use std::time::Duration;

use latchwork_runtime::Time;

use crate::proc;

/// A process that was stopped for this long counts as one that does not answer.
const SILENT: Duration = Duration::from_secs(1);

/// The interval between two lines about one silence.
const AGAIN: Duration = Duration::from_secs(10);

/// The interval between two looks at a process, so that looks take no time from a measured run.
const LOOK: Duration = Duration::from_millis(100);

/// What is known of a process's silence.
#[derive(Default)]
pub(crate) struct Silence {
    /// Every look since then found the process stopped, up to `until`.
    since: Option<Time>,
    /// The first look that found the process running again, or ending. A process with much memory
    /// takes a while to end.
    until: Option<Time>,
    next_look: Time,
    /// When the next line is due.
    next_line: Option<Time>,
}

impl Silence {
    /// Looks at the process. Returns what to say about it.
    pub(crate) fn look(&mut self, pid: u32, now: Time) -> Option<String> {
        if now < self.next_look {
            return None;
        }
        self.next_look = now + LOOK;
        self.seen(proc::is_stopped(pid), now)
    }

    fn seen(&mut self, is_stopped: bool, now: Time) -> Option<String> {
        match (is_stopped, self.until) {
            (true, None) => {}
            (true, Some(_)) => *self = Silence { since: Some(now), ..Silence::of(self) },
            (false, None) => self.until = self.since.map(|_| now),
            (false, Some(until)) if now - until >= SILENT => {
                let was_told = self.next_line.is_some();
                *self = Silence::of(self);
                return was_told.then(|| "answers again".to_owned());
            }
            (false, Some(_)) => {}
        }
        if !is_stopped {
            return None;
        }
        let since = *self.since.get_or_insert(now);
        if now < self.next_line.unwrap_or(since + SILENT) {
            return None;
        }
        self.next_line = Some(now + AGAIN);
        Some(format!("has not answered for {} s: it is stopped", (now - since).as_secs()))
    }

    /// A new silence of the same process.
    fn of(old: &Silence) -> Silence {
        Silence { next_look: old.next_look, ..Silence::default() }
    }

    /// Whether the process does not answer now. A debugger stops a process many times, each for a
    /// moment, and that does not count.
    pub(crate) fn goes_on(&self, now: Time) -> bool {
        self.until.is_none() && self.since.is_some_and(|since| now - since >= SILENT)
    }

    /// How long a process that has ended had not answered before, if it was ended for that.
    pub(crate) fn before_end(&self, now: Time) -> Option<Duration> {
        let lasted = self.until.unwrap_or(now) - self.since?;
        (lasted >= SILENT).then_some(lasted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_silence_after_a_second_and_again_and_its_end() {
        let at = |tenths: u64| Time::ZERO + Duration::from_millis(100 * tenths);
        let mut silence = Silence::default();
        let mut told = Vec::new();
        for tenths in 0..150 {
            let is_stopped = (10..130).contains(&tenths);
            told.extend(silence.seen(is_stopped, at(tenths)).map(|line| (tenths, line)));
            assert_eq!(silence.goes_on(at(tenths)), (20..130).contains(&tenths), "{tenths}");
        }
        let told: Vec<_> = told.iter().map(|(tenths, line)| (*tenths, line.as_str())).collect();
        let stopped = ["1", "11"].map(|s| format!("has not answered for {s} s: it is stopped"));
        assert_eq!(told, [(20, &*stopped[0]), (120, &*stopped[1]), (140, "answers again")]);
        assert_eq!(silence.before_end(at(150)), None);
    }

    #[test]
    fn a_debugger_stops_a_process_for_moments_and_one_that_ends_runs_for_a_moment() {
        let at = |tenths: u64| Time::ZERO + Duration::from_millis(100 * tenths);
        let mut silence = Silence::default();
        assert!((0..100).all(|tenths| silence.seen(tenths % 8 > 0, at(tenths)).is_none()));
        assert!((100..120).filter_map(|tenths| silence.seen(true, at(tenths))).count() == 1);
        assert!((120..125).all(|tenths| silence.seen(false, at(tenths)).is_none()));
        assert!(!silence.goes_on(at(125)));
        let lasted = silence.before_end(at(125)).expect("it was stopped until its end");
        assert!(lasted >= Duration::from_secs(2), "{lasted:?}");
    }
}
