//! [`Watch`]: makes all processes of a run end together. When one process cannot continue, all
//! processes end. A signal to one process counts for all.
//!
//! ```text
//!   a process fails ─────► word "failed": node, status, line ─┐        ┌─► phases of all fail with that line
//!   a signal comes ──────► word "stopped": signal, node ──────┼────────┼─► the same signal, for all
//!   a node dies or leaves, memory dies ─────── the view ──────┘        └─► phases of all fail and name it
//! ```
//!
//! - A run that outlives its compute nodes goes on when one dies: [`Watch::outlive`].
//! - A *word* is a value in the membership store that all processes of the run read.
//! - Only the first writer of a word counts. So all processes end with one status, and their error
//!   lines name the same failure.
//! - A process may fail because another process has died. The other processes learn of the death
//!   only when the dead node's lease has ended.
//! - So a failed process waits at the exchange, for a little longer than a lease
//!   ([`Watch::goes_on`]). Living processes reach the exchange at once.
//! - If a death is known by then, the death is reported instead of the errors that follow from the
//!   death.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use latchwork_cluster::NodeGroup;
use latchwork_membership::{Membership, NodeIncarnation, NodeName};
use latchwork_runtime::sync::{AtomicBool, Ordering};
use latchwork_runtime::{Clock, Time};

use crate::AppError;
use crate::loss::{self, Loss};
use crate::stop::{self, Signal};

/// Interval between two checks for words of other processes.
const LOOK: Duration = Duration::from_millis(50);

/// How long a process waits for the other processes after a signal. The other processes end too,
/// and do not need this process.
const STOPPING: Duration = Duration::from_secs(1);

/// How much longer than a lease a failed process waits for processes that might have died.
const SLACK: Duration = Duration::from_secs(1);
const _: () =
    assert!(LOOK.as_millis() < STOPPING.as_millis(), "a signal reaches the others in time");

const FAILED: &str = "failed";
const STOPPED: &str = "stopped";

/// The watch over a run, with a thread that polls the membership store. Dropping the value ends the
/// watch.
pub(crate) struct Watch {
    state: Arc<State>,
    end: Option<(Sender<()>, JoinHandle<()>)>,
}

struct State {
    membership: Membership,
    group: NodeGroup,
    lease: Duration,
    clock: Clock,
    /// Whether the run goes on when compute nodes of the run die.
    outlives: AtomicBool,
    /// The reason why the run cannot continue, and the time at which this process learned of it.
    ended: Mutex<Option<(AppError, Time)>>,
    /// The time at which [`Watch::goes_on`] first found that a signal had aborted the program.
    stopped: Mutex<Option<Time>>,
}

/// The content of the word "failed".
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

    /// The error with which a process of the run ends.
    fn error(&self, me: NodeName) -> AppError {
        let Failure { node, status, line } = self;
        let signal = Signal::of_status(*status);
        let line = if *node == me { line.clone() } else { format!("node {node}: {line}") };
        match (status, signal) {
            (2, _) => AppError::Usage(line),
            (_, Some(signal)) => {
                // If this process knows of the signal, `stop` knows which node received it.
                // Otherwise the text names the failing node.
                let told = stop::error().filter(|error| error.status() == *status);
                told.unwrap_or_else(|| AppError::StoppedAt(signal, node.to_string()))
            }
            _ => AppError::Failed(line),
        }
    }
}

impl Watch {
    /// Starts the watch over the run of this group. `lease` is the length of the nodes' leases.
    pub(crate) fn start(membership: &Membership, group: &NodeGroup, lease: Duration) -> Watch {
        let state = Arc::new(State {
            membership: membership.clone(),
            group: group.clone(),
            lease,
            clock: Clock::start(),
            outlives: AtomicBool::new(false),
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
        // If the thread cannot start, the process learns of events only at its exchanges.
        Watch { state, end: thread.ok().map(|thread| (sender, thread)) }
    }

    /// From now on the run goes on when compute nodes of the run die.
    pub(crate) fn outlive(&self) {
        // Relaxed: the flag orders no other memory.
        self.state.outlives.store(true, Ordering::Relaxed);
    }

    /// Why the run cannot continue, if that is known.
    pub(crate) fn ended(&self) -> Option<AppError> {
        locked(&self.state.ended).as_ref().map(|(error, _)| error.clone())
    }

    /// Announces to all processes that the run cannot continue because of an error here. Returns
    /// the first announced error, of this or of another process. [`verdict`](Watch::verdict) may
    /// still replace it by a death.
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

    /// Ends the work of this process because of an error, without an announcement. The other
    /// processes learn of the error at the next exchange.
    pub(crate) fn alarm(&self, error: AppError) {
        self.state.end(error);
    }

    /// Whether to keep waiting for the other processes. After a signal that aborted the program,
    /// the wait ends after [`STOPPING`]. After the run has failed, the wait ends after a lease and
    /// [`SLACK`].
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

    /// The reason of a failed exchange: a signal, a loss, or the announced failure. Waits a little
    /// until the view shows a loss.
    pub(crate) fn why(&self) -> Option<AppError> {
        if let Err(stopped) = stop::check() {
            return Some(stopped);
        }
        let loss = loss::lost_lately(&self.state.membership, self.state.needed());
        self.state.weigh(loss)
    }

    /// Whether a node that the run needs or a memory node has died, or this node's lease has ended.
    /// In these cases the nodes do not release their lines.
    pub(crate) fn has_deaths(&self) -> bool {
        loss::lost(&self.state.membership, self.state.needed()).is_some_and(|loss| loss.died)
    }

    /// The error with which all processes end, after an exchange in which some process reported an
    /// error.
    pub(crate) fn verdict(&self) -> Option<AppError> {
        self.state.weigh(loss::lost(&self.state.membership, self.state.needed()))
    }

    /// Runs `body`. A second thread calls `fail` with the reason if the run ends before `body`
    /// does.
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
            // If the thread cannot start, the reason shows at the end of the phase.
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
            // The message of a panic is already on standard error.
            let _ = thread.join();
        }
    }
}

impl State {
    /// The compute nodes without which the run cannot go on.
    fn needed(&self) -> &[NodeIncarnation] {
        // A node that leaves before the end of the run has announced its failure.
        if self.outlives.load(Ordering::Relaxed) { &[] } else { self.group.parties() }
    }

    fn look(&self, told: &mut bool) {
        self.pass_signals_on(told);
        if locked(&self.ended).is_some() {
            return;
        }
        let (group, me) = (&self.group, self.membership.me().node);
        // An unreachable store is no error here: the lease of this node ends soon, and the watch
        // reports that.
        let heard = group.heard(FAILED).ok().flatten().and_then(|word| Failure::of_word(&word));
        let heard = heard.map(|failure| failure.error(me));
        let lost = || self.weigh(loss::lost(&self.membership, self.needed()));
        if let Some(error) = heard.or_else(lost) {
            tracing::info!(%error, "the run cannot go on");
            self.end(error);
        }
    }

    /// Announces a signal to this process, or handles a signal to another process. `told` becomes
    /// true when that is done.
    fn pass_signals_on(&self, told: &mut bool) {
        if *told {
            return;
        }
        let me = self.membership.me().node;
        let word = match stop::requested() {
            None => self.group.heard(STOPPED),
            Some(signal) => {
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

    /// The error to report, given a loss. If the lost node announced a failure before its end, the
    /// announced failure is reported.
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
                // The announcing node may have failed because another node died without an
                // announcement.
                let other = loss::died_besides(&self.membership, self.needed(), said.node);
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

// Locks a mutex, even a poisoned one: each change is one assignment, so no value is half written.
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
