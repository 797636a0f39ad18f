//! [`RunCluster`]: the cluster of a program, on any fabric, in one process or in many.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Embedded, Member, Node, Simulated};
use latchwork_engine::Counters;
use latchwork_fabric::Threaded;
use latchwork_report::result::RecoveryResult;
use latchwork_runtime::Time;
use latchwork_verbs::ComputeNodeId;
use latchwork_verbs_ibv as ibv;
use latchwork_verbs_sim::{NicProfile, SimConfig};
use latchwork_verbs_tcp as tcp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::progress::{self, Extent, Timekeeper, Title};
use crate::shared::Shared;
use crate::{
    AppError, ClusterFlags, Course, FabricChoice, LongAccesses, LoopTime, PhaseProgress, Went,
    agree,
};

/// Maximum virtual time of one body in a simulated world. A day is far longer than any deadline and
/// any run, so the limit ends only a world without an end.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// A cluster that a program runs on.
///
/// If the nodes are processes, each process runs the same program with the same flags. Some methods
/// exchange results between the processes: the doc of such a method says that all processes call
/// it. All processes call these methods in the same order, and each process gets the results of all
/// processes.
pub enum RunCluster {
    /// Threads of this process, on shared memory, over sockets or on RDMA devices.
    Embedded(Box<Embedded>),
    /// A simulated world.
    Simulated(Box<Simulated>),
    /// One node of a cluster of processes.
    Joined(Box<Shared>),
}

/// The workers of all living processes.
#[derive(Clone, Copy, Debug)]
pub struct LivingWorkers {
    /// The workers of dead processes before this one.
    gone_before: usize,
    count: usize,
}

impl LivingWorkers {
    /// The place of a worker among the workers of all living processes, from 0, and their number.
    pub fn place(&self, member: &Member) -> (usize, usize) {
        (member.index - self.gone_before, self.count)
    }
}

impl RunCluster {
    /// Starts the cluster. A process that joins a cluster waits until all nodes have joined.
    ///
    /// # Errors
    /// Fails when the configuration is invalid, when the machine has too few resources, or when the
    /// process cannot join.
    pub fn start(config: ClusterConfig, fabric: &FabricChoice) -> Result<RunCluster, AppError> {
        let failed = |error| ClusterFlags::cluster_error(&config, &error);
        Ok(match fabric {
            FabricChoice::Shm => {
                RunCluster::Embedded(Embedded::start(config.clone()).map_err(failed)?.into())
            }
            FabricChoice::Tcp => {
                let loopback = loopback().map_err(|error| AppError::Failed(error.to_string()))?;
                let cluster = Embedded::start_on(config.clone(), loopback);
                RunCluster::Embedded(cluster.map_err(failed)?.into())
            }
            FabricChoice::Ibverbs(devices) => {
                let devices = ibv::IbvFabric::open(ibv::IbvConfig::clone(devices));
                let devices = devices.map_err(|error| AppError::Failed(error.to_string()))?;
                let cluster = Embedded::start_on(config.clone(), Threaded::Ibv(devices));
                RunCluster::Embedded(cluster.map_err(failed)?.into())
            }
            FabricChoice::Sim(nic) => {
                let network = SimConfig::nic(NicProfile::clone(nic));
                let cluster = Simulated::start(config.clone(), network).map_err(failed)?;
                RunCluster::Simulated(cluster.into())
            }
            FabricChoice::Joined(join) => {
                RunCluster::Joined(Shared::join(config.clone(), join)?.into())
            }
        })
    }

    /// Runs `body` on every worker of every compute node, and returns the results in the order of
    /// the workers.
    ///
    /// In a simulated world all workers run on this thread. On every other fabric each worker is a
    /// thread. All processes of a cluster call this method: each process runs its own node's
    /// workers, and gets the results of all workers.
    ///
    /// # Errors
    /// As [`Embedded::run`] and [`Simulated::run`]. Also when another process failed, died or left.
    pub fn run<T, F, Fut>(&self, body: F) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Member) -> Fut + Sync + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let failed = |error| ClusterFlags::cluster_error(self.config(), &error);
        match self {
            RunCluster::Embedded(cluster) => cluster.run(body).map_err(failed),
            RunCluster::Simulated(cluster) => cluster.run(LIMIT, body).map_err(failed),
            RunCluster::Joined(shared) => shared.gather(shared.run(body)),
        }
    }

    /// As [`run`](RunCluster::run), for a phase of a program. Shows the progress, and fails with
    /// the first error of any worker. In a cluster of processes only the first process shows
    /// progress: the progress of its own workers. So `extent` counts their operations.
    ///
    /// # Errors
    /// The error of the phase; a worker without a result; as [`run`](RunCluster::run).
    pub fn run_phase<T, F, Fut>(
        &self,
        title: Title,
        extent: Extent,
        phase: &PhaseProgress,
        body: F,
    ) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Member) -> Fut + Sync + 'static,
        Fut: Future<Output = Option<T>> + 'static,
    {
        let time = match self {
            RunCluster::Embedded(cluster) => Timekeeper::Real(cluster.clock(), String::new()),
            RunCluster::Joined(shared) => {
                let part = self.own_part().map_or(String::new(), |part| format!(" {part}"));
                Timekeeper::Real(shared.node().clock(), part)
            }
            RunCluster::Simulated(_) => Timekeeper::Virtual(self.now()),
        };
        let workers = match self {
            RunCluster::Joined(shared) => {
                let run = || shared.run(body);
                let run = || shared.watch(|error| phase.fail(error), run);
                let ran = match shared.is_first() {
                    true => progress::show(title, extent, time, phase, run),
                    false => run(),
                };
                shared.gather(phase.end().and(ran))?
            }
            _ => {
                let ran = progress::show(title, extent, time, phase, || self.run(body));
                phase.end()?;
                ran?
            }
        };
        workers.into_iter().map(|worker| worker.ok_or_else(AppError::lost)).collect()
    }

    /// As [`run`](RunCluster::run), for workers that follow a [`Course`]. In a cluster of processes
    /// the measured parts of all processes are at the [same time](RunCluster::together). The course
    /// fails when another process cannot continue.
    ///
    /// # Errors
    /// As [`run`](RunCluster::run). With other processes, also the error that ended the course.
    pub fn run_course<T, F, Fut>(&self, course: &Course, body: F) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Member) -> Fut + Sync + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let RunCluster::Joined(shared) = self else { return self.run(body) };
        let fail = |error: AppError| course.fail(error.to_string());
        let run = || shared.watch(fail, || shared.run(body));
        let ran = self.together(course, run);
        shared.gather(course.failure().map_or(ran, Err))
    }

    /// The name in the catalogue of this run's object `base`.
    ///
    /// A cluster of processes outlives its runs, so each run there has its own names. The
    /// [`end`](RunCluster::end) of such a run removes the names and releases the memory of the run.
    pub fn name(&self, base: &str) -> String {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => base.to_owned(),
            RunCluster::Joined(shared) => shared.name(base),
        }
    }

    /// Whether this process prints the results. A single process does, and so does the first
    /// process of a cluster, of those that lived at the last exchange.
    pub fn is_first(&self) -> bool {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => true,
            RunCluster::Joined(shared) => shared.is_first(),
        }
    }

    /// This process's index in the cluster, from 0, and the number of processes.
    pub fn process(&self) -> (usize, usize) {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => (0, 1),
            RunCluster::Joined(shared) => shared.process(),
        }
    }

    /// Says in a line of progress that its operations are those of this process's node only.
    /// `None` if no other process has operations.
    pub fn own_part(&self) -> Option<String> {
        let RunCluster::Joined(shared) = self else { return None };
        let node = shared.node();
        (self.process().1 > 1).then(|| format!("at {} alone", node.membership().me().node))
    }

    /// The last of the ends of this process's workers. `ends` are those of all workers.
    pub fn own_end(&self, ends: impl IntoIterator<Item = Time>) -> Time {
        let own = self.nodes().len() * self.config().workers;
        let (living, process) = (self.living(), self.process().0);
        let before = own * living.iter().filter(|other| **other < process).count();
        let ends = ends.into_iter().skip(before).take(own);
        ends.max().unwrap_or_else(|| self.now())
    }

    /// The indexes of the processes that have taken part in the last exchange, in ascending order.
    /// The others have died, in a run that [outlives](RunCluster::outlive) them.
    pub fn living(&self) -> Vec<usize> {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => vec![0],
            RunCluster::Joined(shared) => shared.living(),
        }
    }

    /// The indexes of the other processes: those that have died.
    pub fn dead(&self) -> Vec<usize> {
        let living = self.living();
        (0..self.process().1).filter(|process| !living.contains(process)).collect()
    }

    /// Runs a step that the workers of all living processes share. When a process dies in the
    /// meantime, its part is missing, so the others do the step again. All processes call this
    /// method.
    ///
    /// # Errors
    /// Those of `step`.
    pub fn with_living<T>(
        &self,
        mut step: impl FnMut(LivingWorkers) -> Result<T, AppError>,
    ) -> Result<T, AppError> {
        loop {
            let (living, (process, of)) = (self.living(), self.process());
            let each = self.workers() / of;
            let before = living.iter().filter(|other| **other < process).count();
            let gone_before = (process - before) * each;
            let done = step(LivingWorkers { gone_before, count: living.len() * each })?;
            if self.living() == living {
                return Ok(done);
            }
        }
    }

    /// From now on the run goes on when other processes die, if the nodes recover the lines of dead
    /// nodes: with the setting `survive`, and a `clean-interval`. The results of dead processes are
    /// missing in all exchanges. All processes call this when the data are loaded. They wait until
    /// no death takes what they have written so far: for two clean intervals.
    ///
    /// # Errors
    /// When another process failed, died or left in the meantime.
    pub fn outlive(&self) -> Result<(), AppError> {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => Ok(()),
            RunCluster::Joined(shared) => shared.outlive(),
        }
    }

    /// The member epoch of this process, if it works along in a run of other processes, in the
    /// place of a dead one. Then it is a cluster of one process, with the names of that run: it
    /// loads nothing, and there are changes in the data that it does not know of.
    pub fn replaces(&self) -> Option<u64> {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => None,
            RunCluster::Joined(shared) => shared.replaces(),
        }
    }

    /// Where the workers of this process note their accesses, for the
    /// [recoveries](RunCluster::recoveries). `None` if there are none.
    pub fn long_accesses(&self) -> Option<Arc<LongAccesses>> {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => None,
            RunCluster::Joined(shared) => Some(shared.long_accesses.clone()),
        }
    }

    /// The compute nodes of this run that have died, and the recoveries of the cluster since the
    /// begin of the run. Waits for recoveries that have begun, for half a minute at most. All
    /// processes call this method.
    ///
    /// # Errors
    /// When another process failed or left.
    pub fn recoveries(&self) -> Result<(Vec<String>, Vec<RecoveryResult>), AppError> {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => Ok((Vec::new(), Vec::new())),
            RunCluster::Joined(shared) => shared.recoveries(),
        }
    }

    /// The number of items that this process takes, when all processes share `all` items evenly.
    pub fn share_of(&self, all: u64) -> u64 {
        let (process, of) = self.process();
        all / of as u64 + u64::from((process as u64) < all % of as u64)
    }

    /// The extent of a phase in which all workers share `all` operations evenly.
    pub fn part_of(&self, all: u64) -> Extent {
        Extent::Operations(self.share_of(all))
    }

    /// The outcome of a run on all processes, from the outcome on this process. The counters of a
    /// dead process are 0. All processes call this method.
    ///
    /// # Errors
    /// The error that ended the run, on any process; when another process died or left.
    pub fn all_went(&self, went: Result<Went, AppError>) -> Result<Went, AppError> {
        let RunCluster::Joined(shared) = self else { return went };
        let all = shared.gather_each(went.map(|went| vec![went]))?.into_iter();
        // A process of a cluster has one compute node.
        let counters = |one: &Option<Vec<Went>>| match one.iter().flatten().next() {
            Some(went) => went.counters.clone(),
            None => vec![Counters::default()],
        };
        let (counters, all): (Vec<_>, Vec<_>) = all.map(|one| (counters(&one), one)).unzip();
        let together = all.into_iter().flatten().flatten().reduce(Went::beside);
        let together = together.map(|went| Went { counters: counters.concat(), ..went });
        together.ok_or_else(|| AppError::Failed("the run went nowhere".to_owned()))
    }

    /// Whether the times of all workers come from one clock, so that times of two workers can be
    /// compared. This is false for processes on several machines.
    pub fn has_one_clock(&self) -> bool {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => true,
            RunCluster::Joined(shared) => shared.node().is_one_host(),
        }
    }

    /// The values of all processes, by process index. All processes call this method.
    ///
    /// # Errors
    /// When another process died or left.
    pub fn share<T>(&self, own: T) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned,
    {
        self.all(Ok(own))
    }

    /// The results of a step at all processes, by process index. All processes call this method.
    ///
    /// # Errors
    /// The error of this process; else the first error of any process; when another process died or
    /// left.
    pub fn all<T>(&self, own: Result<T, AppError>) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned,
    {
        let own = own.map(|own| vec![own]);
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => own,
            RunCluster::Joined(shared) => shared.gather(own),
        }
    }

    /// The ids of the compute nodes, by index. In a cluster of processes the nodes have any ids
    /// that were free.
    pub fn node_ids(&self) -> Vec<ComputeNodeId> {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => {
                self.nodes().iter().map(|node| node.id()).collect()
            }
            RunCluster::Joined(shared) => {
                shared.node().group().nodes().iter().filter_map(|node| node.compute()).collect()
            }
        }
    }

    /// Checks that all processes have the same program, version and settings. All processes call
    /// this method at the start.
    ///
    /// # Errors
    /// The first setting that differs between two processes; when another process died or left.
    pub fn agree(&self, program: &str, settings: BTreeMap<String, Value>) -> Result<(), AppError> {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => Ok(()),
            RunCluster::Joined(shared) => shared.agree(agree::as_text(program, settings)),
        }
    }

    /// Runs `body`, in which workers follow a course.
    ///
    /// In a cluster of processes, a warm-up without a time limit ends for all processes when the
    /// last process is warm. So the measured parts are at the same time.
    pub fn together<T>(&self, course: &Course, body: impl FnOnce() -> T) -> T {
        match self {
            RunCluster::Joined(shared) if course.waits_for_others() => {
                shared.together(course, body)
            }
            _ => body(),
        }
    }

    /// Ends the program with its result. In a cluster of processes, this process leaves the cluster
    /// gracefully, and an error here reaches the other processes. All processes call this method.
    /// Returns the result, and whether this process [is the first](RunCluster::is_first) at the
    /// end.
    ///
    /// # Errors
    /// The error of the program, here or at another process; an error of the node's release.
    pub fn end<T>(self, result: Result<T, AppError>) -> Result<(T, bool), AppError> {
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => {
                result.map(|result| (result, true))
            }
            RunCluster::Joined(shared) => shared.end(result),
        }
    }

    /// The configuration.
    pub fn config(&self) -> &ClusterConfig {
        match self {
            RunCluster::Embedded(cluster) => cluster.config(),
            RunCluster::Simulated(cluster) => cluster.config(),
            RunCluster::Joined(shared) => shared.node().config(),
        }
    }

    /// The compute nodes of this process.
    pub fn nodes(&self) -> &[Arc<Node>] {
        match self {
            RunCluster::Embedded(cluster) => cluster.nodes(),
            RunCluster::Simulated(cluster) => cluster.nodes(),
            RunCluster::Joined(shared) => shared.node().nodes(),
        }
    }

    /// The nodes of this process that count: the compute nodes, and behind them the agents of the
    /// memory nodes, if the protocol has homes.
    pub fn counting(&self) -> Vec<Arc<Node>> {
        let agents: Vec<_> = match self {
            RunCluster::Embedded(cluster) => cluster.agents().cloned().collect(),
            RunCluster::Simulated(cluster) => cluster.agents().cloned().collect(),
            // The agents are in the processes of the memory nodes.
            RunCluster::Joined(_) => Vec::new(),
        };
        self.nodes().iter().cloned().chain(agents).collect()
    }

    /// The counters of each compute node so far, by index, and behind them those of the agents.
    /// Those of a dead node are 0. All processes of a cluster call this method.
    ///
    /// # Errors
    /// When another process died or left.
    pub fn counters(&self) -> Result<Vec<Counters>, AppError> {
        let own: Vec<Counters> = self.counting().iter().map(|node| node.counters()).collect();
        match self {
            RunCluster::Embedded(_) | RunCluster::Simulated(_) => Ok(own),
            RunCluster::Joined(shared) => {
                // A process of a cluster has one compute node.
                let all = shared.gather_each(Ok(own))?.into_iter();
                let of_each = |one: Option<Vec<_>>| one.into_iter().flatten().next();
                Ok(all.map(|one| of_each(one).unwrap_or_default()).collect())
            }
        }
    }

    /// The present time on the workers' clocks.
    pub fn now(&self) -> Time {
        match self {
            RunCluster::Embedded(cluster) => cluster.clock().now(),
            RunCluster::Simulated(cluster) => cluster.kernel().now(),
            RunCluster::Joined(shared) => shared.node().clock().now(),
        }
    }

    /// The present time, the same at all processes as far as their clocks agree. All processes call
    /// this method.
    ///
    /// # Errors
    /// When another process died or left.
    pub fn now_of_all(&self) -> Result<Time, AppError> {
        let now = self.now();
        Ok(self.share(now)?.into_iter().max().unwrap_or(now))
    }

    /// Whether loops of operations on this cluster run in real or in virtual time.
    pub fn loop_time(&self) -> LoopTime {
        match self {
            RunCluster::Embedded(_) | RunCluster::Joined(_) => LoopTime::Real,
            RunCluster::Simulated(_) => LoopTime::Virtual,
        }
    }

    /// The event hash of a simulated world. The same flags give the same hash.
    pub fn event_hash(&self) -> Option<u64> {
        match self {
            RunCluster::Embedded(_) | RunCluster::Joined(_) => None,
            RunCluster::Simulated(cluster) => Some(cluster.kernel().event_hash()),
        }
    }
}

/// A fabric of sockets between the nodes of this process. Its secret is random, so no other process
/// can connect.
fn loopback() -> Result<Threaded, tcp::TcpError> {
    let security = tcp::Security::Secret(tcp::Secret::random()?);
    Ok(Threaded::Tcp(tcp::TcpFabric::new(tcp::TcpConfig::new(security))?))
}
