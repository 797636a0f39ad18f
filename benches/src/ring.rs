//! Lines that have left the cache before their next turn: misses with the eviction for their
//! frames, and upgrades.

use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Embedded};
use latchwork_coherence::{AccessMode, CoherentMemory, Need};
use latchwork_verbs::GlobalAddr;

use crate::access::{LINE, touch_read, upgrade_each};
use crate::{Draws, cluster, lines, on_first};

/// A cache with few frames, and so many lines that each line leaves the cache before its next turn.
pub struct Ring {
    cluster: Embedded,
    lines: Vec<GlobalAddr>,
    next: Cell<usize>,
}

impl Ring {
    /// A ring of `frames` frames and `count` lines, which are visited in order.
    ///
    /// # Panics
    /// When the machine refuses memory or threads.
    pub fn new(frames: usize, count: usize) -> Ring {
        let cluster = cluster(ClusterConfig {
            cache_bytes: frames * LINE * 11 / 10,
            memory_bytes: ((count * LINE) as u64 * 9 / 8).max(64 << 20),
            ..ClusterConfig::default()
        });
        let lines = lines(&cluster, count);
        Ring { cluster, lines, next: Cell::new(0) }
    }

    /// The same lines in an order that no prefetcher predicts.
    #[must_use]
    pub fn shuffled(mut self) -> Ring {
        let mut draws = Draws::new(1 << 32, 5);
        for i in (1..self.lines.len()).rev() {
            self.lines.swap(i, draws.draw() as usize % (i + 1));
        }
        self
    }

    /// The addresses of the next `iters` lines. The ring is repeated as often as needed.
    fn take(&self, iters: u64) -> Vec<GlobalAddr> {
        let (start, len) = (self.next.get(), self.lines.len());
        self.next.set((start + iters as usize) % len);
        (0..iters as usize).map(|i| self.lines[(start + i) % len]).collect()
    }

    /// The time of `iters` misses, together. Each exclusive miss leaves `dirty` dirty bytes behind.
    /// A line that the random replacement kept in the cache is no miss, and is not counted.
    ///
    /// # Panics
    /// When an access fails.
    pub fn misses(&self, iters: u64, mode: AccessMode, dirty: usize) -> Duration {
        let before = self.cluster.counters();
        let lines = &self.take(iters);
        let time = on_first(&self.cluster, async |member| {
            let start = member.handle.now();
            for &addr in lines {
                let ticket = member.memory.ensure(Need { addr, mode }).await.expect("obtained");
                if mode == AccessMode::Exclusive {
                    let mut guard = member.memory.try_write(addr).expect("reserved");
                    guard.mark_dirty(0..dirty);
                } else {
                    black_box(touch_read(&member, addr));
                }
                drop(ticket);
            }
            member.handle.now() - start
        });
        let missed = (self.cluster.counters() - before).cache_misses;
        time.mul_f64(iters as f64 / missed.max(1) as f64)
    }

    /// The time of `iters` upgrades, together, of lines that were just read.
    ///
    /// # Panics
    /// When an access fails.
    pub fn upgrades(&self, iters: u64) -> Duration {
        let (mut left, mut time) = (iters, Duration::ZERO);
        while left > 0 {
            let lines = &self.take(left);
            let (kept, spent) = upgrade_each(&self.cluster, lines);
            left -= kept.min(left);
            time += spent;
        }
        time
    }
}
