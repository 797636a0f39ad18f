//! [`Shared`]: one process's part in a run of many processes. The process joins the cluster,
//! exchanges results, and leaves.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, ClusterError, JoinError, Joined, Member};
use latchwork_membership::{ExchangePatience, Role};
use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::SetupError;
use latchwork_verbs_shm::MemoryRoom;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agree::difference;
use crate::stop::Signal;
use crate::waiting::Waits;
use crate::watch::Watch;
use crate::{AppError, ClusterFlags, Course, JoinChoice, name_slot, stop};

/// How long a process waits at an exchange for slower processes. A failed process is noticed
/// earlier, and a dead process when its lease ends.
const LATE: Duration = Duration::from_secs(600);

/// A process that ends without a result waits at most this long for operations of other nodes that
/// may use its memory.
const HASTE: Duration = Duration::from_secs(1);

/// How long a process waits for the other processes to finish when the run has failed.
const TIDY: Duration = Duration::from_secs(5);

/// Time from the moment when the last process is warm to the start of the measured part. In this
/// time, all processes learn of the start.
const LEAD_TIME: Duration = Duration::from_millis(50);

/// Interval between two checks whether this process is warm.
const WARM: Duration = Duration::from_millis(5);

/// A joined node, and the state of the run that all its processes share.
pub struct Shared {
    // Declared before `node`, so that the watch ends first and does not report this node's own end.
    watch: Watch,
    node: Joined,
    gathered: AtomicU64,
    /// Whether all processes know that the run has failed.
    is_over: AtomicBool,
    lane: u64,
    /// The names of this run in the pool.
    names: Mutex<Vec<String>>,
}

/// What a process gives to an exchange. First: the signal that ended the phase early, as an exit
/// status, and the node that received it. Second: the results, or the exit status and the error
/// line.
type Parcel<T> = (Option<(u8, String)>, Result<Vec<T>, (u8, String)>);

/// A guard of the worker of this name. When a panic drops the guard, the run ends.
struct Alarm<'a>(&'a Watch, String);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Alarm(watch, name) = self;
            let line = format!("{name} panicked; its message stands above");
            watch.alarm(AppError::Failed(line));
        }
    }
}

impl Shared {
    pub(crate) fn join(mut config: ClusterConfig, join: &JoinChoice) -> Result<Shared, AppError> {
        let (membership, transport) = match config.selcc.survive {
            true => join.join_surviving()?,
            false => join.join(Role::Compute)?,
        };
        // The memory nodes have published their sizes. The smallest size counts.
        let view = membership.view();
        let bytes = view.memory().filter_map(|member| match member.role {
            Role::Memory { bytes, .. } => Some(bytes),
            Role::Compute => None,
        });
        config.memory_bytes = bytes.min().unwrap_or(config.memory_bytes);
        let chip_bytes = view.memory().filter_map(|member| match member.role {
            Role::Memory { chip_bytes, .. } => Some(chip_bytes),
            Role::Compute => None,
        });
        config.chip_bytes = chip_bytes.min().unwrap_or(0);
        let told = config.clone();
        let waits = Waits::of(membership.me().node, join.wait());
        let goes_on = |waiting: &_| waits.tell(waiting);
        let patience = latchwork_cluster::StartPatience { limit: join.wait(), goes_on: &goes_on };
        let node = Joined::start(config, &transport, membership, patience);
        let node =
            node.map_err(|error| stop::check().err().unwrap_or_else(|| join_error(&told, &error)))?;
        let watch = Watch::start(node.membership(), node.group(), join.lease());
        waits.over(node.group());
        let (gathered, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let names = Mutex::default();
        let mut shared = Shared { watch, node, gathered, is_over, lane: 0, names };
        let lane = shared.is_first().then(|| name_slot::take(&shared.node)).transpose();
        match shared.gather(lane.map(|lane| lane.into_iter().collect())) {
            Ok(lanes) => {
                shared.lane = lanes.into_iter().next().unwrap_or(0);
                Ok(shared)
            }
            Err(error) => shared.end(Err(error)),
        }
    }

    /// This process's node.
    pub fn node(&self) -> &Joined {
        &self.node
    }

    /// The name in the pool of this run's object `base`.
    pub(crate) fn name(&self, base: &str) -> String {
        let (name, mut names) = (name_slot::name(base, self.lane), self.names.lock());
        if !names.contains(&name) {
            names.push(name.clone());
        }
        name
    }

    /// Runs `body` on this process's workers, and returns their results.
    pub(crate) fn run<T, F, Fut>(&self, body: F) -> Result<Vec<T>, AppError>
    where
        T: Send,
        F: Fn(Member) -> Fut + Sync,
        Fut: Future<Output = T>,
    {
        let body = |member: Member| {
            let (alarm, future) = (Alarm(&self.watch, member.name()), body(member));
            async move {
                let _alarm = alarm;
                future.await
            }
        };
        self.node.run(body).map_err(|error| join_error(self.node.config(), &error))
    }

    pub(crate) fn is_first(&self) -> bool {
        self.node.group().rank() == 0
    }

    pub(crate) fn process(&self) -> (usize, usize) {
        let (rank, nodes) = (self.node.group().rank(), self.node.group().nodes().len());
        strict_assert!(rank < nodes, "process {rank} of {nodes}");
        (rank, nodes)
    }

    /// Runs `body`. Calls `fail` if another process or a loss ends the run before `body` ends.
    pub(crate) fn watch<T>(&self, fail: impl Fn(AppError) + Send, body: impl FnOnce() -> T) -> T {
        self.watch.over(fail, body)
    }

    /// Sends this process's outcome to the other processes, and waits for their outcomes. Returns
    /// all results by process index, or the error that ends the run.
    pub(crate) fn gather<T: Serialize + DeserializeOwned>(
        &self,
        own: Result<Vec<T>, AppError>,
    ) -> Result<Vec<T>, AppError> {
        let gathered = self.try_gather(own);
        if gathered.is_err() {
            // Relaxed: one thread writes and reads the flag.
            self.is_over.store(true, Ordering::Relaxed);
        }
        gathered
    }

    fn try_gather<T: Serialize + DeserializeOwned>(
        &self,
        own: Result<Vec<T>, AppError>,
    ) -> Result<Vec<T>, AppError> {
        let number = self.gathered.fetch_add(1, Ordering::Relaxed);
        let group = self.node.group();
        // If the run has ended, the results of this phase are incomplete, so the error counts.
        let own = own.and_then(|results| self.watch.ended().map_or(Ok(results), Err));
        // Announces the error: the other processes then end their current work and join the
        // exchange.
        let own = own.map_err(|error| self.watch.fail(error));
        let me = || self.node.membership().me().node.to_string();
        let early = stop::ended_early();
        let early = early.map(|signal| (signal.status(), stop::came_to().unwrap_or_else(me)));
        let told = own.as_ref().map_err(|error| (error.status(), error.to_string()));
        let failed = |error: &dyn std::fmt::Display| {
            AppError::Failed(format!("the results of other nodes cannot be had: {error}"))
        };
        let bytes = postcard::to_stdvec(&(early, told)).map_err(|error| failed(&error))?;
        let goes_on = || self.watch.goes_on();
        let patience = ExchangePatience { limit: LATE, goes_on: &goes_on };
        let all = match group.exchange(&format!("results-{number}"), &bytes, patience) {
            Ok(all) => all,
            // The reason why the run ended explains more than the failed exchange.
            Err(error) => {
                let why = self.watch.why();
                return Err(why.or(own.err()).unwrap_or_else(|| failed(&error)));
            }
        };
        strict_assert_eq!(all.len(), group.nodes().len(), "each node gives its results");
        let mut gathered = Vec::new();
        let mut wrong = own.err();
        for (node, bytes) in group.nodes().iter().zip(all) {
            let (early, told): Parcel<T> =
                postcard::from_bytes(&bytes).map_err(|error| failed(&error))?;
            if let Some((status, node)) = early
                && let Some(signal) = Signal::of_status(status)
            {
                stop::ended_elsewhere(signal, &node);
            }
            match told {
                Ok(results) => gathered.extend(results),
                Err((_, error)) => {
                    wrong.get_or_insert_with(|| AppError::Failed(format!("node {node}: {error}")));
                }
            }
        }
        match wrong {
            None => Ok(gathered),
            // The watch knows which error comes first, so all processes end with the same error.
            Some(error) => Err(self.watch.verdict().unwrap_or(error)),
        }
    }

    /// Checks that all processes were started with the same settings.
    pub(crate) fn agree(&self, own: BTreeMap<String, String>) -> Result<(), AppError> {
        let all = self.gather(Ok(vec![own]))?;
        match difference(self.node.group().nodes(), &all) {
            None => Ok(()),
            Some(line) => {
                // Every process finds the same difference, so no exchange is needed.
                self.is_over.store(true, Ordering::Relaxed);
                Err(AppError::Usage(line))
            }
        }
    }

    /// Runs `body`, in which workers follow a course. A second thread starts the measured part when
    /// all processes are warm.
    pub(crate) fn together<T>(&self, course: &Course, body: impl FnOnce() -> T) -> T {
        use std::sync::mpsc::{RecvTimeoutError, channel};
        let is_warm = || course.is_warm();
        let number = self.gathered.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            let (done, ended) = channel::<()>();
            let wait = move || {
                while ended.recv_timeout(WARM) == Err(RecvTimeoutError::Timeout) {
                    if is_warm() {
                        return course.begin(self.all_are_warm(number));
                    }
                }
            };
            let wait = std::thread::Builder::new().name("warm".into()).spawn_scoped(scope, wait);
            if let Err(error) = wait {
                course.fail(format!("no thread can be started: {error}"));
            }
            let result = body();
            drop(done);
            result
        })
    }

    /// Waits until all processes are warm. Returns the start of the measured part, which is the
    /// same for all processes.
    fn all_are_warm(&self, number: u64) -> Result<Time, AppError> {
        let (group, clock) = (self.node.group(), self.node.clock());
        let goes_on = || self.watch.goes_on() && !stop::is_aborted();
        let patience = ExchangePatience { limit: LATE, goes_on: &goes_on };
        let now = clock.now().as_nanos().to_le_bytes();
        let all = group.exchange(&format!("warm-{number}"), &now, patience);
        let all = all.map_err(|error| {
            let text = format!("the other nodes are not warm: {error}");
            self.watch.why().unwrap_or(AppError::Failed(text))
        })?;
        let times =
            all.into_iter().filter_map(|time| Some(u64::from_le_bytes(time.try_into().ok()?)));
        Ok(times.map(Time::from_nanos).max().unwrap_or_else(|| clock.now()) + LEAD_TIME)
    }

    /// Ends this process's part of the run with `result`, and leaves the cluster.
    pub(crate) fn end<T>(self, result: Result<T, AppError>) -> Result<T, AppError> {
        let result = match result {
            // The exchange makes all processes wait for each other: no process may leave while
            // another process needs its lines.
            Ok(result) => self.gather(Ok(vec![()])).map(|_| result),
            Err(error) if self.is_over.load(Ordering::Relaxed) => Err(error),
            // The exchange gives the error to the other processes.
            Err(error) => Err(self.gather::<()>(Err(error.clone())).err().unwrap_or(error)),
        };
        stop::leaving();
        let Shared { watch, node, lane, names, .. } = self;
        let has_deaths = watch.has_deaths();
        drop(watch);
        if let (true, Err(why)) = (has_deaths, &result) {
            return Err(why.clone());
        }
        let config = node.config().clone();
        if node.group().rank() == 0
            && let Err(error) = name_slot::release_name(&node, lane, &names.into_inner())
        {
            tracing::warn!(%error, "the names of this run stay taken");
        }
        let left = match result {
            Ok(_) => node.release(LATE, config.pool.deadline),
            Err(_) => node.release(TIDY, HASTE),
        };
        match (result, left) {
            (Ok(result), Ok(())) => Ok(result),
            (Ok(_), Err(error)) => Err(AppError::Failed(format!(
                "the node could not leave in order: {}",
                join_error(&config, &error)
            ))),
            (Err(why), left) => {
                if let Err(error) = left {
                    tracing::warn!(%error, "the node could not leave in order");
                }
                Err(why)
            }
        }
    }
}

/// The end of an error about memory: a control group may limit it, or files of killed processes may
/// take the shared memory.
pub fn no_room_hint() -> String {
    let limit = MemoryRoom::now().filter(MemoryRoom::is_of_group);
    let limit = limit.map_or(String::new(), |room| format!("; {room}"));
    format!("{limit}; `cluster clean` removes what killed processes have left")
}

/// The error of a process that cannot join, with the flag that may help.
pub(crate) fn join_error(config: &ClusterConfig, error: &JoinError) -> AppError {
    match error {
        // This process allocates only its cache, so the text names only `--cache-mb`.
        JoinError::Cluster(ClusterError::Setup(
            error @ (SetupError::Region(_) | SetupError::NoRoom { .. }),
        )) => {
            let cache_mb = config.cache_bytes >> 20;
            let is_full = matches!(error, SetupError::NoRoom { .. });
            let hint = if is_full { no_room_hint() } else { String::new() };
            AppError::Failed(format!("{error}; use less than --cache-mb {cache_mb}{hint}"))
        }
        JoinError::Cluster(error) => ClusterFlags::cluster_error(config, error),
        error => AppError::Failed(error.to_string()),
    }
}
