//! Simulated worlds under load: how many verbs one second of real time simulates, and how much
//! memory a world takes.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use latchwork_blink::{Tree, TreeConfig};
use latchwork_cluster::{ClusterConfig, Member, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_runtime::{Clock, JoinHandle};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{NicProfile, SimConfig};

use crate::{Draws, key};

/// A limit for virtual time that no world here reaches.
const LIMIT: Duration = Duration::from_secs(10_000);

/// The data that the workers access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Single lines, drawn evenly.
    Lines,
    /// A B-link tree of 8 + 8 bytes, keys drawn evenly.
    Tree,
}

/// A world, and the load of its workers.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The data.
    pub load: Load,
    /// Compute nodes.
    pub compute_nodes: usize,
    /// Memory nodes.
    pub memory_nodes: usize,
    /// Workers of each compute node.
    pub workers: usize,
    /// Operations that each worker has in flight.
    pub tasks: usize,
    /// Lines, or keys of the tree.
    pub items: usize,
    /// Frames of each compute node's cache.
    pub frames: usize,
    /// Bytes of a line.
    pub line_size: u32,
    /// Writes per hundred operations.
    pub writes: u64,
    /// The seed of the world and of the draws.
    pub seed: u64,
    /// The network.
    pub network: SimConfig,
}

impl Shape {
    /// Single lines of 1 KiB over ConnectX-5 NICs, on four nodes with two workers each. Each node
    /// caches one line in eight, and one access in five is a write. The simulator does not copy
    /// bytes that no code reads.
    ///
    /// # Panics
    /// When the profile that comes with the simulator is missing.
    pub fn lines() -> Shape {
        let nic = NicProfile::named("connectx5").expect("a profile that comes with the simulator");
        Shape {
            load: Load::Lines,
            compute_nodes: 4,
            memory_nodes: 2,
            workers: 2,
            tasks: 4,
            items: 8192,
            frames: 1024,
            line_size: 1024,
            writes: 20,
            seed: 1,
            network: SimConfig { payload_max: Some(64), ..SimConfig::nic(nic) },
        }
    }

    /// A tree of 100 000 keys on the same nodes, in pages of 1 KiB. Each node caches about half of
    /// the pages.
    pub fn tree() -> Shape {
        let lines = Shape::lines();
        let network = SimConfig { payload_max: None, ..lines.network };
        Shape { load: Load::Tree, items: 100_000, frames: 2048, network, ..lines }
    }

    /// Sixteen nodes with sixteen workers each, and eight memory nodes: a world that must fit in
    /// memory.
    pub fn large() -> Shape {
        Shape {
            compute_nodes: 16,
            memory_nodes: 8,
            workers: 16,
            items: 64 << 10,
            frames: 8 << 10,
            ..Shape::lines()
        }
    }

    fn config(&self) -> ClusterConfig {
        ClusterConfig {
            compute_nodes: self.compute_nodes,
            memory_nodes: self.memory_nodes,
            workers: self.workers,
            inflight: self.tasks,
            cache_bytes: latchwork_cache::Cache::footprint(self.frames, self.line_size as usize),
            line_size: self.line_size,
            seed: self.seed,
            ..ClusterConfig::default()
        }
    }
}

/// The figures of one run.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Operations of the load.
    pub operations: u64,
    /// Requests that took effect.
    pub verbs: u64,
    /// Events of the kernel.
    pub events: u64,
    /// Accesses that had to obtain the line.
    pub misses: u64,
    /// Virtual time.
    pub virtual_time: Duration,
    /// Real time.
    pub real_time: Duration,
    /// The hash of all events up to the end of the run.
    pub hash: u64,
}

impl Figures {
    /// Verbs per second of real time.
    pub(crate) fn verbs_per_second(&self) -> f64 {
        self.verbs as f64 / self.real_time.as_secs_f64()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        let seconds = self.real_time.as_secs_f64();
        write!(
            f,
            "{:.0} verbs/s, {:.0} events/s ({:.2} per verb), {:.0} operations/s ({:.2} verbs each, {:.2} missed), \
             {:?} virtual in {:.2} s, hash {:016x}",
            self.verbs_per_second(),
            self.events as f64 / seconds,
            per(self.events, self.verbs),
            self.operations as f64 / seconds,
            per(self.verbs, self.operations),
            per(self.misses, self.operations),
            self.virtual_time,
            seconds,
            self.hash,
        )
    }
}

/// A world with its lines or its tree.
pub struct BenchWorld {
    shape: Shape,
    cluster: Simulated,
    items: Items,
}

#[derive(Clone)]
enum Items {
    Lines(Rc<[GlobalAddr]>),
    Tree(GlobalAddr),
}

impl BenchWorld {
    /// Builds the world and fills it.
    ///
    /// # Panics
    /// When the machine refuses memory, or the shape is impossible.
    pub fn new(shape: Shape) -> BenchWorld {
        let cluster = Simulated::start(shape.config(), shape.network.clone())
            .expect("a possible shape, and memory for it");
        let items = match shape.load {
            Load::Lines => Items::Lines(make_lines(&cluster, shape.items)),
            Load::Tree => Items::Tree(make_tree(&cluster, shape.items)),
        };
        BenchWorld { shape, cluster, items }
    }

    /// The cluster.
    pub fn cluster(&self) -> &Simulated {
        &self.cluster
    }

    /// Runs `operations` operations in each task of each worker.
    ///
    /// # Panics
    /// When an operation fails.
    pub fn run(&self, operations: u64) -> Figures {
        let clock = Clock::start();
        let kernel = self.cluster.kernel();
        let (events, began) = (kernel.events(), kernel.now());
        let (verbs, counters) = (self.verbs(), self.cluster.counters());
        let Shape { tasks, writes, items, .. } = self.shape;
        let seed = self.shape.seed ^ events;
        let target = self.items.clone();
        let body = move |member: Member| {
            let target = target.clone();
            async move {
                let tasks: Vec<_> = (0..tasks as u64)
                    .map(|task| {
                        let seed = seed ^ (member.index as u64) << 32 ^ task << 20;
                        let draws = Draws::new(u64::MAX, key_bits(seed));
                        let load = Task { member: member.clone(), draws, operations, writes };
                        member.handle.spawn(load.run(target.clone(), items as u64))
                    })
                    .collect();
                join(tasks).await;
            }
        };
        self.cluster.run(LIMIT, body).expect("a world that ends in order");
        let real_time = clock.now() - latchwork_runtime::Time::ZERO;
        let after = self.cluster.counters();
        Figures {
            operations: operations
                * (self.cluster.nodes().len() * self.shape.workers * tasks) as u64,
            verbs: self.verbs() - verbs,
            events: kernel.events() - events,
            misses: after.cache_misses - counters.cache_misses,
            virtual_time: kernel.now() - began,
            real_time,
            hash: kernel.event_hash(),
        }
    }

    fn verbs(&self) -> u64 {
        self.cluster.network().verbs()
    }
}

async fn join(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.await.expect("a task that ends in order");
    }
}

fn key_bits(i: u64) -> u64 {
    u64::from_be_bytes(key(i))
}

struct Task {
    member: Member,
    draws: Draws,
    operations: u64,
    writes: u64,
}

impl Task {
    async fn run(mut self, items: Items, count: u64) {
        match items {
            Items::Lines(lines) => {
                for _ in 0..self.operations {
                    let (line, writes) = self.draw(count);
                    self.access(lines[line as usize], writes).await;
                }
            }
            Items::Tree(root) => {
                let memory = self.member.memory.clone();
                let tree = Tree::open(memory, root, TreeConfig::default()).await.expect("the tree");
                for _ in 0..self.operations {
                    let (item, writes) = self.draw(count);
                    if writes {
                        tree.update(&key(item), &item.to_be_bytes()).await.expect("a known key");
                    } else {
                        let found = tree.get_with(&key(item), |value| value.u64(0)).await;
                        assert!(found.expect("a tree").is_some(), "all keys are there");
                    }
                }
            }
        }
    }

    /// Draws an item, and whether the operation writes the item.
    fn draw(&mut self, count: u64) -> (u64, bool) {
        let drawn = self.draws.draw();
        let item = (u128::from(drawn) * u128::from(count)) >> 64;
        let writes = key_bits(drawn) % 100 < self.writes;
        (item as u64, writes)
    }

    async fn access(&self, line: GlobalAddr, writes: bool) {
        let memory = &self.member.memory;
        let done = if writes {
            memory
                .write(line, |guard| {
                    guard.words().set_u64(0, guard.words().u64(0) + 1);
                    guard.mark_dirty(0..8);
                })
                .await
        } else {
            memory.read(line, |words| std::hint::black_box(words.u64(0))).await.map(drop)
        };
        done.expect("a line");
    }
}

fn make_lines(cluster: &Simulated, count: usize) -> Rc<[GlobalAddr]> {
    let made = cluster.run_on(1, LIMIT, move |member| async move {
        let mut lines = Vec::new();
        for _ in 0..if member.index == 0 { count } else { 0 } {
            lines.push(member.memory.allocate().await.expect("a pool with room"));
        }
        lines
    });
    made.expect("a world that ends in order").concat().into()
}

fn make_tree(cluster: &Simulated, keys: usize) -> GlobalAddr {
    let made = cluster.run_on(1, LIMIT, move |member| async move {
        if member.index != 0 {
            return None;
        }
        let tree = Tree::create(member.memory.clone(), TreeConfig::default()).await;
        let tree = tree.expect("a new tree");
        for i in 0..keys as u64 {
            tree.insert(&key(i), &i.to_be_bytes()).await.expect("a new key");
        }
        Some(tree.root())
    });
    let made = made.expect("a world that ends in order");
    made.into_iter().flatten().next().expect("the first worker's tree")
}

/// The highest memory use of this process so far, in bytes; `None` if the system does not report
/// it.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}
