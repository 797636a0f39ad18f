//! [`Waits`]: prints what a joining process waits for, if the wait is long.

use std::cell::RefCell;
use std::io::Write as _;
use std::time::Duration;

use latchwork_cluster::{NodeGroup, StartWait};
use latchwork_membership::NodeName;
use latchwork_runtime::{Clock, Time};

use crate::stop;

/// A shorter wait prints nothing.
const QUIET: Duration = Duration::from_secs(1);

/// The interval between two messages.
const AGAIN: Duration = Duration::from_secs(10);

/// Prints what a process waits for.
pub(crate) struct Waits {
    node: NodeName,
    limit: Duration,
    clock: Clock,
    state: RefCell<State>,
}

struct State {
    /// The condition that the process waits for.
    waiting: Option<StartWait>,
    /// No message is printed before this time.
    quiet_until: Time,
    has_said: bool,
}

impl Waits {
    /// The messages of this node, which waits at most `limit` for each condition.
    pub(crate) fn of(node: NodeName, limit: Duration) -> Waits {
        let state = State { waiting: None, quiet_until: Time::ZERO + QUIET, has_said: false };
        Waits { node, limit, clock: Clock::start(), state: RefCell::new(state) }
    }

    /// Prints the current wait, if a message is due. Returns false if a signal ended the program.
    pub(crate) fn tell(&self, waiting: &StartWait) -> bool {
        if let Some(line) = self.line(waiting, self.clock.now()) {
            say(&line);
        }
        !stop::is_aborted()
    }

    /// The line to print now, if any.
    fn line(&self, waiting: &StartWait, now: Time) -> Option<String> {
        let mut state = self.state.borrow_mut();
        let is_new = state.waiting.as_ref() != Some(waiting);
        if is_new {
            state.waiting = Some(waiting.clone());
            // Once a message was printed, a change of the condition is printed at once.
            if state.has_said {
                state.quiet_until = now;
            }
        }
        if now < state.quiet_until {
            return None;
        }
        state.quiet_until = now + AGAIN;
        state.has_said = true;
        Some(format!("{} waits for {waiting} ({} s at most)", self.node, self.limit.as_secs()))
    }

    /// Called when all processes have joined. Every process but the first prints that the first
    /// process shows the progress and the result.
    pub(crate) fn over(&self, group: &NodeGroup) {
        let (place, of) = (group.rank() + 1, group.nodes().len());
        if let (2.., Some(first)) = (place, group.nodes().first()) {
            let node = self.node;
            say(&format!(
                "{node} is process {place} of {of} of this run: {first} shows the results"
            ));
        }
    }
}

/// Prints a line. A failed write is ignored: standard error may be closed.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}: {line}", stop::program());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_logged_and_logged_again_and_what_changes_at_once() {
        let waits = Waits::of("C2".parse().expect("a name"), Duration::from_secs(60));
        let at = |seconds| Time::ZERO + Duration::from_millis(seconds);
        let memory = |there| StartWait::Memory { there, wanted: 2 };
        assert_eq!(waits.line(&memory(0), at(10)), None);
        assert_eq!(waits.line(&memory(0), at(900)), None);
        let line = waits.line(&memory(0), at(1100)).expect("it takes long");
        assert_eq!(
            line,
            "C2 waits for 2 more memory nodes: start memnode with the same --join (60 s at most)"
        );
        assert_eq!(waits.line(&memory(0), at(2000)), None);
        assert!(
            waits.line(&memory(1), at(2100)).expect("one has come").contains("1 more memory node:")
        );
        assert_eq!(waits.line(&memory(1), at(12000)), None);
        assert!(waits.line(&memory(1), at(12200)).is_some());
        let why = "the shared secret is not the same".to_owned();
        let reach = StartWait::Reach { node: "M1".parse().expect("a name"), why };
        let line = waits.line(&reach, at(12300)).expect("it is something else");
        assert!(line.starts_with("C2 waits for M1, which it cannot reach: the shared "), "{line}");
    }
}
