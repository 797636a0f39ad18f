//! [`Cluster`]: a cluster on any fabric, in this process or of many.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Embedded, Member, Node, Simulated};
use latchwork_engine::Counters;
use latchwork_fabric::Threaded;
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
use crate::{AppError, ClusterFlags, Course, FabricChoice, Phase, Went, agree};

/// Virtual time that one body may take: beyond every deadline, and out of reach of any real run.
const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// A cluster that a program runs on.
///
/// Where its nodes are processes, each of them runs the same program with the same flags, and every
/// method that says so is called by all of them, in the same order: what one knows of its own node
/// goes to all, so that each has all results.
pub enum Cluster {
    /// Threads of this process, on shared memory, over sockets or on RDMA devices.
    Embedded(Box<Embedded>),
    /// A simulated world.
    Simulated(Box<Simulated>),
    /// One node of a cluster of processes.
    Joined(Box<Shared>),
}

impl Cluster {
    /// Starts the cluster; or joins it, and waits until all nodes are there.
    ///
    /// # Errors
    /// What is wrong with the configuration, or what the machine, membership or another node
    /// refused.
    pub fn start(config: ClusterConfig, fabric: &FabricChoice) -> Result<Cluster, AppError> {
        let failed = |error| ClusterFlags::cluster_error(&config, &error);
        Ok(match fabric {
            FabricChoice::Shm => {
                Cluster::Embedded(Embedded::start(config.clone()).map_err(failed)?.into())
            }
            FabricChoice::Tcp => {
                let loopback = loopback().map_err(|error| AppError::Failed(error.to_string()))?;
                let cluster = Embedded::start_on(config.clone(), loopback);
                Cluster::Embedded(cluster.map_err(failed)?.into())
            }
            FabricChoice::Ibverbs(devices) => {
                let devices = ibv::Fabric::open(ibv::Config::clone(devices));
                let devices = devices.map_err(|error| AppError::Failed(error.to_string()))?;
                let cluster = Embedded::start_on(config.clone(), Threaded::Ibv(devices));
                Cluster::Embedded(cluster.map_err(failed)?.into())
            }
            FabricChoice::Sim(nic) => {
                let network = SimConfig::nic(NicProfile::clone(nic));
                let cluster = Simulated::start(config.clone(), network).map_err(failed)?;
                Cluster::Simulated(cluster.into())
            }
            FabricChoice::Joined(join) => {
                Cluster::Joined(Shared::join(config.clone(), join)?.into())
            }
        })
    }

    /// Runs `body` on every worker of every compute node, and returns the results in the order of
    /// the workers. On shared memory and over sockets each worker is a thread; in a simulated world
    /// all run on this one. Called by all processes of a cluster: each runs its own node's workers,
    /// and all of them get all results.
    ///
    /// # Errors
    /// As [`Embedded::run`] and [`Simulated::run`]; when another process failed or is gone.
    pub fn run<T, F, Fut>(&self, body: F) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Member) -> Fut + Sync + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let failed = |error| ClusterFlags::cluster_error(self.config(), &error);
        match self {
            Cluster::Embedded(cluster) => cluster.run(body).map_err(failed),
            Cluster::Simulated(cluster) => cluster.run(LIMIT, body).map_err(failed),
            Cluster::Joined(shared) => shared.gather(shared.run(body)),
        }
    }

    /// As [`run`](Cluster::run), of a phase of a program: shows how far it is, and fails with the
    /// first error of any worker. Of a cluster of processes only the first shows it, as far as it
    /// goes for itself.
    ///
    /// # Errors
    /// That of the phase; a worker without a result; as [`run`](Cluster::run).
    pub fn run_phase<T, F, Fut>(
        &self,
        title: Title,
        extent: Extent,
        phase: &Phase,
        body: F,
    ) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Member) -> Fut + Sync + 'static,
        Fut: Future<Output = Option<T>> + 'static,
    {
        let time = match self {
            Cluster::Embedded(cluster) => Timekeeper::Real(cluster.clock()),
            Cluster::Joined(shared) => Timekeeper::Real(shared.node().clock()),
            Cluster::Simulated(_) => Timekeeper::Virtual(self.now()),
        };
        let workers = match self {
            Cluster::Joined(shared) => {
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
        let lost = || AppError::Failed("a worker ended without a result".to_owned());
        workers.into_iter().map(|worker| worker.ok_or_else(lost)).collect()
    }

    /// As [`run`](Cluster::run), of what may fail: fails with the first error of any worker.
    ///
    /// # Errors
    /// That of a worker; as [`run`](Cluster::run).
    pub fn try_run<T, F, Fut>(&self, body: F) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Member) -> Fut + Sync + 'static,
        Fut: Future<Output = Result<T, AppError>> + 'static,
    {
        let failed = |error| ClusterFlags::cluster_error(self.config(), &error);
        let all = |results: Vec<_>| results.into_iter().collect::<Result<Vec<T>, AppError>>();
        match self {
            Cluster::Embedded(cluster) => cluster.run(body).map_err(failed).and_then(all),
            Cluster::Simulated(cluster) => cluster.run(LIMIT, body).map_err(failed).and_then(all),
            Cluster::Joined(shared) => shared.gather(shared.run(body).and_then(all)),
        }
    }

    /// As [`run`](Cluster::run), of workers that follow a course. Of many processes their measured
    /// parts are at the [same time](Cluster::together); when the run cannot go on, the course
    /// fails.
    ///
    /// # Errors
    /// As [`run`](Cluster::run); what ended the course, where there are other processes to tell of
    /// it.
    pub fn run_course<T, F, Fut>(&self, course: &Course, body: F) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Member) -> Fut + Sync + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let Cluster::Joined(shared) = self else { return self.run(body) };
        let fail = |error: AppError| course.fail(error.to_string());
        let run = || shared.watch(fail, || shared.run(body));
        let ran = self.together(course, run);
        shared.gather(course.failure().map_or(ran, Err))
    }

    /// The name in the catalogue of what belongs to this run, and is called so. A cluster of
    /// processes outlasts its runs, and each has its own while it lasts: at the
    /// [`end`](Cluster::end) what is called so is gone, with all memory of the run.
    pub fn name(&self, base: &str) -> String {
        match self {
            Cluster::Embedded(_) | Cluster::Simulated(_) => base.to_owned(),
            Cluster::Joined(shared) => shared.name(base),
        }
    }

    /// Whether this process tells the results: the only one does, and of those of a cluster the
    /// first.
    pub fn is_first(&self) -> bool {
        match self {
            Cluster::Embedded(_) | Cluster::Simulated(_) => true,
            Cluster::Joined(shared) => shared.is_first(),
        }
    }

    /// This process's place among those of the cluster, from 0, and how many there are.
    pub fn process(&self) -> (usize, usize) {
        match self {
            Cluster::Embedded(_) | Cluster::Simulated(_) => (0, 1),
            Cluster::Joined(shared) => shared.process(),
        }
    }

    /// This process's part of so many things.
    pub fn share_of(&self, all: u64) -> u64 {
        let (process, of) = self.process();
        all / of as u64 + u64::from((process as u64) < all % of as u64)
    }

    /// How a run went on all processes, by how it went here. Called by all of them.
    ///
    /// # Errors
    /// The error that ended it, on whatever process; when another process is gone.
    pub fn all_went(&self, went: Result<Went, AppError>) -> Result<Went, AppError> {
        let all = self.all(went)?;
        let together = all.into_iter().reduce(Went::beside);
        together.ok_or_else(|| AppError::Failed("the run went nowhere".to_owned()))
    }

    /// Whether the times of all workers are of one clock, so that what happened at one can be told
    /// to be before what happened at another. Those of several machines are not.
    pub fn has_one_clock(&self) -> bool {
        match self {
            Cluster::Embedded(_) | Cluster::Simulated(_) => true,
            Cluster::Joined(shared) => shared.node().is_one_host(),
        }
    }

    /// What all processes have to say, by their places. Called by all of them.
    ///
    /// # Errors
    /// When another process is gone.
    pub fn share<T>(&self, own: T) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned,
    {
        self.all(Ok(own))
    }

    /// What came of something at all processes, by their places. Called by all of them.
    ///
    /// # Errors
    /// That of this one; else the first of any; when another process is gone.
    pub fn all<T>(&self, own: Result<T, AppError>) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned,
    {
        let own = own.map(|own| vec![own]);
        match self {
            Cluster::Embedded(_) | Cluster::Simulated(_) => own,
            Cluster::Joined(shared) => shared.gather(own),
        }
    }

    /// The compute nodes, by their places: of those of a cluster of processes, whatever ids were
    /// free.
    pub fn node_ids(&self) -> Vec<ComputeNodeId> {
        match self {
            Cluster::Embedded(_) | Cluster::Simulated(_) => {
                self.nodes().iter().map(|node| node.id()).collect()
            }
            Cluster::Joined(shared) => {
                shared.node().group().nodes().iter().filter_map(|node| node.compute()).collect()
            }
        }
    }

    /// Sees to it that all processes were started with the same settings, as documents tell them,
    /// or more. Called by all of them, at the begin.
    ///
    /// # Errors
    /// The first setting that two do not agree on; when another process is gone.
    pub fn agree(&self, program: &str, settings: BTreeMap<String, Value>) -> Result<(), AppError> {
        match self {
            Cluster::Embedded(_) | Cluster::Simulated(_) => Ok(()),
            Cluster::Joined(shared) => shared.agree(agree::as_text(program, settings)),
        }
    }

    /// Runs `body`, in which workers follow a course. Where they are of many processes, warm-ups
    /// that are not limited by time end for all when the last is warm, so that their measured parts
    /// are at the same time.
    pub fn together<T>(&self, course: &Course, body: impl FnOnce() -> T) -> T {
        match self {
            Cluster::Joined(shared) if course.waits_for_others() => shared.together(course, body),
            _ => body(),
        }
    }

    /// The end in order, with what came of the program: of a cluster of processes this one leaves,
    /// and where the program failed the others hear why. Called by all of them.
    ///
    /// # Errors
    /// That of the program, here or at another process; what the node could not give back.
    pub fn end<T>(self, result: Result<T, AppError>) -> Result<T, AppError> {
        match self {
            Cluster::Embedded(_) | Cluster::Simulated(_) => result,
            Cluster::Joined(shared) => shared.end(result),
        }
    }

    /// The configuration.
    pub fn config(&self) -> &ClusterConfig {
        match self {
            Cluster::Embedded(cluster) => cluster.config(),
            Cluster::Simulated(cluster) => cluster.config(),
            Cluster::Joined(shared) => shared.node().config(),
        }
    }

    /// The compute nodes of this process.
    pub fn nodes(&self) -> &[Arc<Node>] {
        match self {
            Cluster::Embedded(cluster) => cluster.nodes(),
            Cluster::Simulated(cluster) => cluster.nodes(),
            Cluster::Joined(shared) => shared.node().nodes(),
        }
    }

    /// What each compute node has counted so far, by its place. Called by all processes of a
    /// cluster.
    ///
    /// # Errors
    /// When another process is gone.
    pub fn counters(&self) -> Result<Vec<Counters>, AppError> {
        let own: Vec<Counters> = self.nodes().iter().map(|node| node.counters()).collect();
        Ok(self.share(own)?.into_iter().flatten().collect())
    }

    /// The time now: what the workers' clocks show.
    pub fn now(&self) -> Time {
        match self {
            Cluster::Embedded(cluster) => cluster.clock().now(),
            Cluster::Simulated(cluster) => cluster.kernel().now(),
            Cluster::Joined(shared) => shared.node().clock().now(),
        }
    }

    /// The time now, the same at all processes as far as their clocks are. Called by all of them.
    ///
    /// # Errors
    /// When another process is gone.
    pub fn now_of_all(&self) -> Result<Time, AppError> {
        let now = self.now();
        Ok(self.share(now)?.into_iter().max().unwrap_or(now))
    }

    /// The hash of all that has happened in a simulated world: the same flags give the same again.
    pub fn event_hash(&self) -> Option<u64> {
        match self {
            Cluster::Embedded(_) | Cluster::Joined(_) => None,
            Cluster::Simulated(cluster) => Some(cluster.kernel().event_hash()),
        }
    }
}

/// A fabric of sockets for nodes of this process alone.
fn loopback() -> Result<Threaded, tcp::TcpError> {
    let security = tcp::Security::Secret(tcp::Secret::random()?);
    Ok(Threaded::Tcp(tcp::Fabric::new(tcp::Config::new(security))?))
}
