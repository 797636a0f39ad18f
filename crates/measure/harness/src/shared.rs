//! [`Shared`]: one process's part in a run of many processes. The process joins the cluster,
//! exchanges results, and leaves.

use std::cmp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, ClusterError, JoinError, Joined, Member, NodeRecovery};
use latchwork_membership::{ExchangePatience, MemberState, NodeIncarnation, Role, View};
use latchwork_report::result::RecoveryResult;
use latchwork_runtime::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use latchwork_runtime::{Clock, Time};
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::SetupError;
use latchwork_verbs_shm::MemoryRoom;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agree::difference;
use crate::stop::Signal;
use crate::waiting::Waits;
use crate::watch::Watch;
use crate::{AppError, ClusterFlags, Course, JoinChoice, LongAccesses, name_slot, stop};

/// How long a process waits at an exchange for slower processes. A failed process is noticed
/// earlier, and a dead process when its lease ends.
const LATE: Duration = Duration::from_secs(600);

/// A process that ends without a result waits at most this long for operations of other nodes that
/// may use its memory.
const HASTE: Duration = Duration::from_secs(1);

/// How long a process waits for the other processes to finish when the run has failed.
const TIDY: Duration = Duration::from_secs(5);

/// How long a process waits at the end of a run for the recovery of the lines of dead processes.
const RECOVERY: Duration = Duration::from_secs(30);

/// The interval between two checks of such a wait.
const LOOK: Duration = Duration::from_millis(10);

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
    /// Whether the run goes on when processes die.
    outlives: AtomicBool,
    /// Whether this process works along in a run of other processes.
    replaces: bool,
    /// The ranks of the processes that gave their results in the last exchange.
    living: Mutex<Vec<usize>>,
    lane: u64,
    /// The names of this run in the pool.
    names: Mutex<Vec<String>>,
    pub(crate) long_accesses: Arc<LongAccesses>,
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
        let replaces = join.replaces();
        if replaces {
            // It is a run of its own, with the names of the other.
            config.compute_nodes = 1;
        }
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
        let living = Mutex::new((0..node.group().nodes().len()).collect());
        let outlives = AtomicBool::new(false);
        let mut shared = Shared {
            watch,
            node,
            gathered,
            is_over,
            outlives,
            replaces,
            living,
            lane: 0,
            names,
            long_accesses: Arc::default(),
        };
        if replaces {
            shared.go_on();
            return match shared.lane_of_others() {
                Ok(lane) => Ok(Shared { lane, ..shared }),
                Err(error) => shared.end(Err(error)).map(|(shared, _)| shared),
            };
        }
        let lane = shared.is_first().then(|| name_slot::take(&shared.node)).transpose();
        match shared.gather(lane.map(|lane| lane.into_iter().collect())) {
            Ok(lanes) => {
                shared.lane = lanes.into_iter().next().unwrap_or(0);
                Ok(shared)
            }
            Err(error) => shared.end(Err(error)).map(|(shared, _)| shared),
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
        self.living.lock().first() == Some(&self.node.group().rank())
    }

    /// The ranks of the processes that gave their results in the last exchange. They are the same
    /// at all these processes.
    pub(crate) fn living(&self) -> Vec<usize> {
        self.living.lock().clone()
    }

    /// From now on the run goes on when processes die, if the nodes recover the lines of dead
    /// nodes. All processes call this when they have loaded the data, and wait here until no death
    /// takes what they have written so far.
    pub(crate) fn outlive(&self) -> Result<(), AppError> {
        let config = self.node.config();
        let interval = config.selcc.clean_interval;
        if !config.selcc.survive || config.protocol.has_homes() || interval.is_zero() {
            return Ok(());
        }
        // A line that is dirty now is in memory after two intervals of the cleaner.
        let clock = Clock::start();
        let end = clock.now() + 2 * interval + LOOK;
        while clock.now() < end && self.watch.ended().is_none() {
            stop::check()?;
            thread::park_timeout(LOOK);
        }
        // A process that replaces a dead one finds this in the view.
        let told = self.node.membership().contact(name_slot::LANE, &self.lane.to_string());
        let failed = |error| AppError::Failed(format!("the run cannot name itself: {error}"));
        self.gather(told.map(|()| vec![()]).map_err(failed))?;
        self.go_on();
        Ok(())
    }

    fn go_on(&self) {
        // Relaxed: the flag orders no other memory.
        self.outlives.store(true, Ordering::Relaxed);
        self.watch.outlive();
        tracing::info!("the run outlives its processes from now on");
    }

    /// The lane of the run of other processes in which this process works along.
    fn lane_of_others(&self) -> Result<u64, AppError> {
        let membership = self.node.membership();
        let (lane, me) = (self.find_lane()?, membership.me().party());
        let failed = |error| AppError::Failed(format!("no run can be joined: {error}"));
        membership.contact(name_slot::LANE, &lane.to_string()).map_err(failed)?;
        // A later run that takes over lanes sees this process from here on, if the run is still
        // there.
        let is_told = |view: &View| view.get(me.node).and_then(name_slot::works_in).is_some();
        membership.wait(LOOK * 500, is_told).map_err(failed)?;
        self.find_lane()
    }

    fn find_lane(&self) -> Result<u64, AppError> {
        let membership = self.node.membership();
        let (view, me) = (membership.view(), membership.me().node);
        let members = view.joined().filter(|one| one.node != me);
        let lanes: BTreeSet<u64> = members.filter_map(name_slot::works_in).collect();
        match lanes.len() {
            1 => Ok(lanes.into_iter().next().unwrap_or_default()),
            0 => Err(AppError::Failed(
                "no run of this cluster outlives its processes now: leave out --set replaces=on"
                    .to_owned(),
            )),
            runs => Err(AppError::Failed(format!(
                "{runs} runs of this cluster outlive their processes now, and --set replaces=on is for one"
            ))),
        }
    }

    /// The member epoch of a process that works along in a run of others.
    pub(crate) fn replaces(&self) -> Option<u64> {
        self.replaces.then(|| self.node.membership().me().epoch)
    }

    fn outlives(&self) -> bool {
        self.outlives.load(Ordering::Relaxed)
    }

    /// The processes of this run that have died, as this process knows it.
    fn dead(&self) -> impl Iterator<Item = NodeIncarnation> {
        let view = self.node.membership().view();
        let is_dead = move |party: &NodeIncarnation| {
            view.get(party.node).is_some_and(|now| match now.epoch.cmp(&party.epoch) {
                cmp::Ordering::Equal => now.state == MemberState::Dead,
                // A later node has the id of the dead one.
                cmp::Ordering::Greater => true,
                cmp::Ordering::Less => false,
            })
        };
        self.node.group().parties().iter().copied().filter(is_dead)
    }

    /// The longest access of this process that was in flight in the time of this recovery.
    fn longest_access(&self, recovery: &NodeRecovery) -> Option<Duration> {
        let known = self.node.began() + recovery.known;
        let swept = recovery.swept.map_or_else(|| self.node.clock().now(), |swept| known + swept);
        self.long_accesses.longest(known, swept)
    }

    /// The processes of this run that have died, and the recoveries of the cluster since the begin
    /// of the run. Waits until the lines of these processes are recovered, for at most
    /// [`RECOVERY`]. All processes call this.
    pub(crate) fn recoveries(&self) -> Result<(Vec<String>, Vec<RecoveryResult>), AppError> {
        if !self.outlives() {
            return Ok((Vec::new(), Vec::new()));
        }
        let clock = Clock::start();
        let is_recovered = |dead: NodeIncarnation| {
            let known = self.node.recoveries();
            known.iter().any(|recovery| recovery.dead == dead && recovery.swept.is_some())
        };
        while !self.dead().all(is_recovered)
            && clock.now() < Time::ZERO + RECOVERY
            && self.watch.ended().is_none()
        {
            thread::park_timeout(LOOK);
        }
        let dead: Vec<_> = self.dead().map(|party| party.node.to_string()).collect();
        let own = self.node.recoveries().into_iter();
        let own: Vec<_> =
            own.map(|recovery| told(self.longest_access(&recovery), recovery)).collect();
        let all = self.gather(Ok(vec![(dead, own)]))?;
        let mut dead = BTreeSet::new();
        let mut recoveries = BTreeMap::new();
        for (theirs, known) in all {
            dead.extend(theirs);
            for told in known {
                let (epoch, recovery) = result_of(told);
                // The node that sweeps knows the most.
                let rank = |it: &RecoveryResult| (it.claimed_ms.is_some(), it.lines_released);
                let best = recoveries.entry(epoch).or_insert_with(|| recovery.clone());
                let longest = best.longest_access_ms.into_iter().chain(recovery.longest_access_ms);
                let longest_access_ms = longest.reduce(f64::max);
                if rank(&recovery) > rank(best) {
                    *best = recovery;
                }
                best.longest_access_ms = longest_access_ms;
            }
        }
        let mut recoveries: Vec<RecoveryResult> = recoveries.into_values().collect();
        recoveries.sort_by(|a, b| a.known_ms.total_cmp(&b.known_ms));
        Ok((dead.into_iter().collect(), recoveries))
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
        Ok(self.gather_each(own)?.into_iter().flatten().flatten().collect())
    }

    /// As [`gather`](Shared::gather), with the results of each process by its index. A process that
    /// has died in a run that outlives it has none.
    pub(crate) fn gather_each<T: Serialize + DeserializeOwned>(
        &self,
        own: Result<Vec<T>, AppError>,
    ) -> Result<Vec<Option<Vec<T>>>, AppError> {
        let gathered = self.try_gather(own);
        match &gathered {
            // Relaxed: one thread writes and reads the flag.
            Err(_) => self.is_over.store(true, Ordering::Relaxed),
            Ok(all) => {
                let living = all.iter().enumerate().filter(|(_, one)| one.is_some());
                *self.living.lock() = living.map(|(rank, _)| rank).collect();
            }
        }
        gathered
    }

    /// Exchanges values with the other processes, those that live if the run outlives the others.
    fn exchange(
        &self,
        name: &str,
        value: &[u8],
        patience: ExchangePatience<'_>,
    ) -> Result<Vec<Option<Vec<u8>>>, JoinError> {
        let group = self.node.group();
        match self.outlives() {
            true => group.exchange_of_living(name, value, patience),
            false => {
                let all = group.exchange(name, value, patience)?;
                Ok(all.into_iter().map(Some).collect())
            }
        }
    }

    fn try_gather<T: Serialize + DeserializeOwned>(
        &self,
        own: Result<Vec<T>, AppError>,
    ) -> Result<Vec<Option<Vec<T>>>, AppError> {
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
        let all = match self.exchange(&format!("results-{number}"), &bytes, patience) {
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
            let Some(bytes) = bytes else {
                gathered.push(None);
                continue;
            };
            let (early, told): Parcel<T> =
                postcard::from_bytes(&bytes).map_err(|error| failed(&error))?;
            if let Some((status, node)) = early
                && let Some(signal) = Signal::of_status(status)
            {
                stop::ended_elsewhere(signal, &node);
            }
            match told {
                Ok(results) => gathered.push(Some(results)),
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
        let clock = self.node.clock();
        let goes_on = || self.watch.goes_on() && !stop::is_aborted();
        let patience = ExchangePatience { limit: LATE, goes_on: &goes_on };
        let now = clock.now().as_nanos().to_le_bytes();
        let all = self.exchange(&format!("warm-{number}"), &now, patience);
        let all = all.map_err(|error| {
            let text = format!("the other nodes are not warm: {error}");
            self.watch.why().unwrap_or(AppError::Failed(text))
        })?;
        let times = all
            .into_iter()
            .flatten()
            .filter_map(|time| Some(u64::from_le_bytes(time.try_into().ok()?)));
        Ok(times.map(Time::from_nanos).max().unwrap_or_else(|| clock.now()) + LEAD_TIME)
    }

    /// Ends this process's part of the run with `result`, and leaves the cluster. Returns the
    /// result, and whether this process is the first of those that live.
    pub(crate) fn end<T>(self, result: Result<T, AppError>) -> Result<(T, bool), AppError> {
        let result = match result {
            // The exchange makes all processes wait for each other: no process may leave while
            // another process needs its lines.
            Ok(result) => self.gather(Ok(vec![()])).map(|_| result),
            Err(error) if self.is_over.load(Ordering::Relaxed) => Err(error),
            // The exchange gives the error to the other processes.
            Err(error) => Err(self.gather::<()>(Err(error.clone())).err().unwrap_or(error)),
        };
        stop::leaving();
        let (is_first, is_whole) = (self.is_first(), self.dead().next().is_none());
        let Shared { watch, node, lane, names, replaces, .. } = self;
        let has_deaths = watch.has_deaths();
        drop(watch);
        if let (true, Err(why)) = (has_deaths, &result) {
            return Err(why.clone());
        }
        let config = node.config().clone();
        // The names are those of the other processes.
        let removes = is_first && !replaces;
        if removes && let Err(error) = name_slot::release_name(&node, lane, &names.into_inner()) {
            tracing::warn!(%error, "the names of this run stay taken");
        }
        let left = match result {
            _ if replaces => node.leave(),
            // The dead nodes do not come to the exchange of a release. So the memory of the run
            // stays claimed.
            Ok(_) if !is_whole => node.leave(),
            Ok(_) => node.release(LATE, config.pool.deadline),
            Err(_) => node.release(TIDY, HASTE),
        };
        match (result, left) {
            (Ok(result), Ok(())) => Ok((result, is_first)),
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

/// A recovery, as a process tells it to the others: the member epoch and the name of the dead node;
/// when the death was known; when the dead node was fenced, its lines claimed and its words swept;
/// the longest access in that time;
/// the lines that were released, and those that were reverted.
type Told = (u64, String, Duration, [Option<Duration>; 4], [u64; 2]);

fn told(longest: Option<Duration>, known: NodeRecovery) -> Told {
    let NodeRecovery { dead, fenced, claimed, swept, lines_released, lines_reverted, .. } = known;
    let lines = [lines_released, lines_reverted];
    let steps = [fenced, claimed, swept, longest];
    (dead.epoch, dead.node.to_string(), known.known, steps, lines)
}

/// A recovery for the result document, with the member epoch of the dead node.
fn result_of((epoch, node, known, steps, lines): Told) -> (u64, RecoveryResult) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let [fenced_ms, claimed_ms, swept_ms, longest_access_ms] = steps.map(|time| time.map(ms));
    // Only a node that sweeps knows the others to have claimed, and counts lines.
    let [lines_released, lines_reverted] = lines.map(|count| claimed_ms.map(|_| count));
    let known_ms = ms(known);
    let result = RecoveryResult {
        node,
        known_ms,
        fenced_ms,
        claimed_ms,
        swept_ms,
        longest_access_ms,
        lines_released,
        lines_reverted,
    };
    (epoch, result)
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
