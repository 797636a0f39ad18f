//! [`Watch`]: what makes the processes of a run one program: none goes on when another cannot, or is told to stop.
//!
//! ```text
//!   a process fails ─────► word "failed": node, status, line ─┐        ┌─► phases of all fail with that line
//!   a signal comes ──────► word "stopped": signal, node ──────┼─ bell ─┼─► the same signal, for all
//!   a node dies or leaves, memory dies ─────── the view ──────┘        └─► phases of all fail and name it
//! ```
//!
//! Each word is told once: the first counts, so that all end with one line and one status. A
//! process that fails may do so because of another that has died, which nobody knows before the
//! lease of that one has ended. So whoever has failed waits for the others, who come at once if
//! they live; [`Watch::patience`] is how long. A death says more than what came of it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use latchwork_cluster::Group;
use latchwork_membership::{Membership, NodeName};
use latchwork_runtime::{Clock, Time};

use crate::AppError;
use crate::loss::{self, Loss};
use crate::stop::{self, Signal};

/// Between two looks at what others have to say.
const LOOK: Duration = Duration::from_millis(50);

/// How long a process that a signal ends waits for the others: they end, too, and need nothing of
/// it.
const STOPPING: Duration = Duration::from_secs(1);

/// How much longer than a lease whoever has failed waits for those who might have died.
const SLACK: Duration = Duration::from_secs(1);

const FAILED: &str = "failed";
const STOPPED: &str = "stopped";

/// Watches over a run. Dropping this ends it.
pub(crate) struct Watch {
    state: Arc<State>,
    end: Option<(Sender<()>, JoinHandle<()>)>,
}

struct State {
    membership: Membership,
    group: Group,
    lease: Duration,
    clock: Clock,
    /// Why the run cannot go on, and since when that is known.
    ended: Mutex<Option<(AppError, Time)>>,
    /// When a signal was first seen.
    stopped: Mutex<Option<Time>>,
}

/// A failure, as all are told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Failure {
    node: NodeName,
    status: u8,
    line: String,
}

impl Failure {
    fn to_word(&self) -> Vec<u8> {
        format!("{} {} {}", self.node, self.status, self.line).into_bytes()
    }

    fn of_word(word: &[u8]) -> Option<Failure> {
        let text = String::from_utf8_lossy(word);
        let mut parts = text.splitn(3, ' ');
        let node = parts.next()?.parse().ok()?;
        let status = parts.next()?.parse().ok()?;
        Some(Failure { node, status, line: parts.next()?.to_owned() })
    }

    /// What a process of the run ends with.
    fn error(&self, me: NodeName) -> AppError {
        let Failure { node, status, line } = self;
        let signal = Signal::of_status(*status);
        let line = if *node == me { line.clone() } else { format!("node {node}: {line}") };
        match (status, signal) {
            (2, _) => AppError::Usage(line),
            (_, Some(signal)) => {
                // All are told where it came to.
                let told = stop::error().filter(|error| error.status() == *status);
                told.unwrap_or_else(|| AppError::StoppedAt(signal, node.to_string()))
            }
            _ => AppError::Failed(line),
        }
    }
}

impl Watch {
    /// Watches over a run of this group, whose members die after a lease of this length.
    pub(crate) fn start(membership: &Membership, group: &Group, lease: Duration) -> Watch {
        let state = Arc::new(State {
            membership: membership.clone(),
            group: group.clone(),
            lease,
            clock: Clock::start(),
            ended: Mutex::default(),
            stopped: Mutex::default(),
        });
        let (sender, end) = channel::<()>();
        let looking = state.clone();
        let look = move || {
            let mut told = false;
            while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                looking.look(&mut told);
            }
        };
        let thread = Builder::new().name("watch".into()).spawn(look);
        // Without a thread for it, all of it shows at the end of a phase.
        Watch { state, end: thread.ok().map(|thread| (sender, thread)) }
    }

    /// Why the run cannot go on, once that is known.
    pub(crate) fn ended(&self) -> Option<AppError> {
        locked(&self.state.ended).as_ref().map(|(error, _)| error.clone())
    }

    /// The run cannot go on because of this, here. What all end with: what another has told before,
    /// if one has.
    pub(crate) fn fail(&self, error: AppError) -> AppError {
        let State { group, membership, .. } = &*self.state;
        let me = membership.me().node;
        let line = error.to_string();
        let failure = Failure { node: me, status: error.status(), line };
        let told = group.tell(FAILED, &failure.to_word()).ok();
        let told = told.and_then(|word| Failure::of_word(&word)).filter(|first| *first != failure);
        let error = told.map_or(error, |first| first.error(me));
        tracing::info!(%error, "the run cannot go on");
        self.state.end(error.clone());
        error
    }

    /// The workers of this process are to end because of this. Others learn of it when they have.
    pub(crate) fn alarm(&self, error: AppError) {
        self.state.end(error);
    }

    /// How long to wait for the others: `limit`, and not much longer than a lease once the run
    /// cannot go on.
    pub(crate) fn goes_on(&self) -> bool {
        let State { clock, lease, ended, stopped, .. } = &*self.state;
        let now = clock.now();
        if stop::check().is_err() {
            let since = *locked(stopped).get_or_insert(now);
            if now >= since + STOPPING {
                return false;
            }
        }
        let since = locked(ended).as_ref().map(|(_, since)| *since);
        since.is_none_or(|since| now < since + *lease + SLACK)
    }

    /// What a process ends with that could not learn how the others fare: not because of anything
    /// that it did itself.
    pub(crate) fn why(&self) -> Option<AppError> {
        if let Err(stopped) = stop::check() {
            return Some(stopped);
        }
        let State { membership, group, .. } = &*self.state;
        let loss = loss::lost_lately(membership, group.parties());
        self.state.weigh(loss)
    }

    /// Whether a node died without which the run cannot go on. What that one held is still its own,
    /// so that nobody can give back all that it has.
    pub(crate) fn has_deaths(&self) -> bool {
        let State { membership, group, .. } = &*self.state;
        loss::lost(membership, group.parties()).is_some_and(|loss| loss.died)
    }

    /// What all end with that have learned how all fare.
    pub(crate) fn verdict(&self) -> Option<AppError> {
        let State { membership, group, .. } = &*self.state;
        self.state.weigh(loss::lost(membership, group.parties()))
    }

    /// Runs `body`, and tells `fail` why the run cannot go on if that happens meanwhile.
    pub(crate) fn over<T>(&self, fail: impl Fn(AppError) + Send, body: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let (done, ended) = channel::<()>();
            let look = move || {
                while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    if let Some(error) = self.ended() {
                        return fail(error);
                    }
                }
            };
            // Without a thread for it, it shows at the end of the phase.
            let _look = Builder::new().name("phase".into()).spawn_scoped(scope, look);
            let result = body();
            drop(done);
            result
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.end.take() {
            drop(sender);
            // A panic has been reported on standard error already.
            let _ = thread.join();
        }
    }
}

impl State {
    fn look(&self, told: &mut bool) {
        self.pass_signals_on(told);
        if locked(&self.ended).is_some() {
            return;
        }
        let (group, me) = (&self.group, self.membership.me().node);
        // Where the store does not answer, the lease tells soon.
        let heard = group.heard(FAILED).ok().flatten().and_then(|word| Failure::of_word(&word));
        let heard = heard.map(|failure| failure.error(me));
        let lost = || self.weigh(loss::lost(&self.membership, group.parties()));
        if let Some(error) = heard.or_else(lost) {
            tracing::info!(%error, "the run cannot go on");
            self.end(error);
        }
    }

    /// A signal to one is one to all.
    fn pass_signals_on(&self, told: &mut bool) {
        if *told {
            return;
        }
        let me = self.membership.me().node;
        let word = match stop::requested() {
            None => self.group.heard(STOPPED),
            Some(signal) => {
                *told = true;
                let word = format!("{} {me}", signal.name());
                self.group.tell(STOPPED, word.as_bytes()).map(Some)
            }
        };
        let Ok(Some(word)) = word else { return };
        let word = String::from_utf8_lossy(&word);
        if let Some((name, node)) = word.split_once(' ')
            && let Some(signal) = Signal::named(name)
        {
            *told = true;
            stop::told(signal, node);
        }
    }

    /// What a loss comes to: whoever is gone may have said why before it went.
    fn weigh(&self, loss: Option<Loss>) -> Option<AppError> {
        let told = || {
            let word = self.group.told(FAILED).ok().flatten()?;
            Failure::of_word(&word)
        };
        match loss {
            None => told().map(|failure| failure.error(self.membership.me().node)),
            Some(Loss { node: None, error, .. }) => Some(error),
            Some(Loss { node: Some(node), died, error }) => {
                let said = told().filter(|failure| failure.node == node || !died);
                let Some(said) = said else { return Some(error) };
                // It may have said so because of another that has died, and said nothing.
                let other = loss::died_besides(&self.membership, self.group.parties(), said.node);
                let me = self.membership.me().node;
                Some(other.map_or_else(|| said.error(me), |other| other.error))
            }
        }
    }

    fn end(&self, error: AppError) {
        let since = self.clock.now();
        locked(&self.ended).get_or_insert((error, since));
        stop::give_up();
    }
}

// Each change is one assignment.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_the_same_for_all_and_names_its_node_to_the_others() {
        let [c1, c2] = ["C1", "C2"].map(|name| name.parse::<NodeName>().expect("a name"));
        for (status, line) in [(1, "disk full: 3 of 4"), (2, "--x 1: use 2"), (143, "ended")] {
            let failure = Failure { node: c2, status, line: line.to_owned() };
            assert_eq!(Failure::of_word(&failure.to_word()).as_ref(), Some(&failure));
            let (own, other) = (failure.error(c2), failure.error(c1));
            assert_eq!((own.status(), other.status()), (status, status));
            assert!(other.to_string().contains("node C2"), "{other}");
            if status < 128 {
                assert_eq!(own.to_string(), line);
                assert_eq!(other.to_string(), format!("node C2: {line}"));
            }
        }
        for word in ["", "C2", "C2 1", "X 1 line", "C2 one line"] {
            assert_eq!(Failure::of_word(word.as_bytes()), None, "{word:?}");
        }
    }
}
