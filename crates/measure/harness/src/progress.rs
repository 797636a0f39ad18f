//! The display of a phase's progress: a bar if standard error is a terminal, else plain lines.

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latchwork_runtime::{Clock, Time};
use latchwork_strict::strict_assert;

use crate::PhaseProgress;
use crate::console::say;
use crate::numbers::short;

/// The interval between two updates, on a terminal and elsewhere.
const LOOK: Duration = Duration::from_millis(200);
const LOOK_PLAIN: Duration = Duration::from_secs(2);

/// The title of a phase in the display.
#[derive(Clone, Copy)]
pub struct Title {
    /// Its name.
    pub name: &'static str,
    /// The noun for the counted operations, in the plural.
    pub what: &'static str,
}

/// The extent of a phase, against which its progress is measured.
#[derive(Clone, Copy)]
pub enum Extent {
    /// The phase ends after this number of operations.
    Operations(u64),
    /// The phase ends at this time of the cluster's clock.
    Until(Time),
}

/// The source of the time for a phase's progress.
pub enum Timekeeper {
    /// The workers' clock. The text stands behind a rate, and says whose it is.
    Real(Clock, String),
    /// The virtual time that the phase reports. The phase began at this time.
    Virtual(Time),
}

impl Timekeeper {
    fn now(&self, phase: &PhaseProgress) -> Time {
        match self {
            Timekeeper::Real(clock, _) => clock.now(),
            Timekeeper::Virtual(begin) => phase.reached().max(*begin),
        }
    }

    /// The progress as text. `new` is the number of operations in `time`, of all that are `done`.
    /// Without virtual time there is no rate: real time says nothing about a simulated cluster.
    fn text(&self, what: &str, done: u64, new: u64, time: Duration) -> String {
        let of = match self {
            Timekeeper::Real(_, of) => of,
            Timekeeper::Virtual(_) if time.is_zero() => return format!("{done} {what}"),
            Timekeeper::Virtual(_) => " of virtual time",
        };
        let rate = new as f64 / time.as_secs_f64().max(1e-9);
        format!("{done} {what}, {} {what}/s{of}", short(rate))
    }
}

/// Runs `body`. Meanwhile a second thread shows the progress of `phase` on standard error.
pub fn show<T>(
    title: Title,
    extent: Extent,
    time: Timekeeper,
    phase: &PhaseProgress,
    body: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        let (done, ended) = channel::<()>();
        let display = move || display(title, extent, time, phase, &ended);
        // If the thread cannot start, there is only no display.
        let _display =
            std::thread::Builder::new().name("progress".into()).spawn_scoped(scope, display);
        let result = body();
        drop(done);
        result
    })
}

fn display(
    title: Title,
    extent: Extent,
    time: Timekeeper,
    phase: &PhaseProgress,
    ended: &Receiver<()>,
) {
    let Title { name, what } = title;
    let terminal = std::io::stderr().is_terminal();
    let begin = time.now(phase);
    let length = match extent {
        Extent::Operations(count) => count,
        Extent::Until(end) => micros(end - begin),
    };
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{prefix:>6} [{wide_bar}] {percent:>3}% {msg}")
    {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(name.to_owned());
    let mut last = (begin, 0);
    loop {
        let look = if terminal { LOOK } else { LOOK_PLAIN };
        let over = ended.recv_timeout(look) != Err(RecvTimeoutError::Timeout);
        // Workers of a simulated cluster report times that are not quite in order.
        let (now, done) = (time.now(phase).max(last.0), phase.done());
        strict_assert!(done >= last.1, "{done} {what} are done, and {} were before", last.1);
        let text = time.text(what, done, done.saturating_sub(last.1), now - last.0);
        last = (now, done);
        if over {
            bar.finish_and_clear();
            return;
        }
        if let Timekeeper::Real(..) = time {
            phase.look(now);
        }
        let position = match extent {
            Extent::Operations(_) => done,
            Extent::Until(_) => micros(now - begin),
        };
        if terminal {
            bar.set_position(position.min(length));
            bar.set_message(text);
        } else {
            let percent = (100 * position.min(length)).checked_div(length).unwrap_or(0);
            say(&format!("{name}: {percent} %, {text}"));
        }
    }
}

/// A duration as the length of the bar. The unit is microseconds, because phases in virtual time
/// are short.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_runs_once_and_the_display_ends_with_it() {
        let phase = PhaseProgress::new(2);
        let answer = show(
            Title { name: "test", what: "steps" },
            Extent::Operations(10),
            Timekeeper::Real(Clock::start(), String::new()),
            &phase,
            || {
                phase.count(0);
                phase.count(1);
                42
            },
        );
        assert_eq!((answer, phase.done()), (42, 2));
    }

    #[test]
    fn a_rate_says_whose_it_is_and_in_which_time() {
        let (second, rows) = (Duration::from_secs(1), "rows");
        let real = |of: &str| Timekeeper::Real(Clock::start(), of.to_owned());
        assert_eq!(real("").text(rows, 9, 4, second), "9 rows, 4 rows/s");
        assert_eq!(real(" at C1 alone").text(rows, 9, 4, second), "9 rows, 4 rows/s at C1 alone");
        let world = Timekeeper::Virtual(Time::ZERO);
        let told = world.text(rows, 9, 4, Duration::from_millis(1));
        assert_eq!(told, "9 rows, 4000 rows/s of virtual time");
        assert_eq!(world.text(rows, 9, 4, Duration::ZERO), "9 rows", "its time is not known");
    }
}
