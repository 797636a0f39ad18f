//! The common parts of the benchmarks: clusters that serve all samples, lines, keys.
//!
//! ```text
//!   benches/words   latch words, and atomics and READs as verbs    no cluster
//!   benches/lines   one line, one node: hits, misses, upgrades     ┐
//!   benches/nodes   one line, two nodes take it in turn            ├ Embedded, shared memory
//!   benches/trees   B-link tree, all cached                        ┘
//!   examples/remote two nodes, beside the cost of memory itself    Embedded, shared memory
//!   benches/worlds  worlds under load; also an example             Simulated, virtual time
//! ```
//!
//! Criterion asks for the time of a number of iterations. Each answer is one [`on_first`] or one
//! [`Embedded::run`]: threads start, work, read the cluster's clock before and after the work, and
//! end. The caches keep their contents between samples, so only the first sample is cold.
//!
//! `cargo bench -p latchwork-benches` runs all benchmarks. `-- --quick` takes a tenth of the time.
//! `--bench lines -- miss` runs the benchmarks of one file whose names contain a word.

#![forbid(unsafe_code)]

pub mod access;
pub mod ring;
pub mod turns;
pub mod worlds;

use std::future::Future;
use std::time::Duration;

use criterion::Criterion;
use latchwork_cluster::{ClusterConfig, Embedded, Member};
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

/// The settings of criterion: 20 samples, which together take this number of seconds.
pub fn samples(seconds: u64) -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(seconds))
}

/// A cluster of two compute nodes with one worker each.
///
/// # Panics
/// When the machine refuses memory or threads.
pub fn cluster(config: ClusterConfig) -> Embedded {
    Embedded::start(config).expect("a machine with enough memory for the benchmark")
}

/// Runs `body` on the worker of the first compute node. The other nodes run, and are idle.
///
/// # Panics
/// When `body` panics.
pub fn on_first<T, F, Fut>(cluster: &Embedded, body: F) -> T
where
    T: Send,
    F: Fn(Member) -> Fut + Sync,
    Fut: Future<Output = T>,
{
    let results = cluster.run(|member| {
        let work = (member.index == 0).then(|| body(member));
        async {
            match work {
                Some(work) => Some(work.await),
                None => None,
            }
        }
    });
    let first = results.expect("workers that end in order").into_iter().next();
    first.flatten().expect("a result of the first worker")
}

/// Allocates `count` lines with zeros in them.
///
/// # Panics
/// When the pool is full.
pub fn lines(cluster: &Embedded, count: usize) -> Vec<GlobalAddr> {
    on_first(cluster, async |member| {
        let memory = &member.memory;
        let mut lines = Vec::new();
        for _ in 0..count {
            let line = memory.allocate().await.expect("a pool with room");
            memory
                .write(line, |guard| {
                    let end = guard.words().len();
                    guard.words().clear(0..end);
                    guard.mark_dirty(0..end);
                })
                .await
                .expect("a new line");
            lines.push(line);
        }
        lines
    })
}

/// The `i`-th key. All keys differ, and are spread like random numbers (the finaliser of
/// splitmix64, which is a bijection).
#[inline]
pub fn key(i: u64) -> [u8; 8] {
    let x = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31).to_be_bytes()
}

/// Random numbers from 0 to `n - 1`. A draw is cheap enough for use inside a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    state: u64,
    n: u64,
}

impl Draws {
    /// Numbers below `n`; the same seed gives the same numbers.
    pub fn new(n: u64, seed: u64) -> Draws {
        Draws { state: seed, n }
    }

    /// The next number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((u128::from(self.state) * u128::from(self.n)) >> 64) as u64
    }
}
