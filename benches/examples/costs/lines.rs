//! One node and its lines: hits, upgrades, misses with the eviction for their frames.

use std::cell::OnceCell;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use latchwork_benches::access::{
    LINE, copy_read, copy_write, lock_exclusive, lock_shared, touch_read, touch_write,
};
use latchwork_benches::ring::Ring;
use latchwork_benches::{Draws, cluster, lines, on_first};
use latchwork_cluster::{ClusterConfig, Embedded, Member};
use latchwork_coherence::AccessMode;
use latchwork_verbs::GlobalAddr;

use crate::measure::{HOT_LINES, Measure, Sizes, counted};

pub(crate) const COPY_HOT: &str = "cached read, whole line, hot";
pub(crate) const COPY_FAR: &str = "cached read, whole line, far";
pub(crate) const MISS_FAR: &str = "miss, shared, evicting clean, far";

pub(crate) fn all(sizes: Sizes) -> Vec<Measure> {
    let mut all = Vec::new();
    for (place, count) in [("hot", HOT_LINES), ("far", sizes.far_lines)] {
        let held = Rc::new(OnceCell::new());
        let mut add = |what: &str, access: fn(&Member, GlobalAddr) -> u64| {
            let held = held.clone();
            all.push(Measure::new(format!("{what}, {place}"), move |iters| {
                held.get_or_init(|| Held::new(count, sizes.nodes())).time(iters, access)
            }));
        };
        add("cached read, 8 bytes", touch_read);
        add("cached read, whole line", copy_read);
        add("cached write, 8 bytes", touch_write);
        add("cached write, whole line", copy_write);
        add("lock to read and unlock", lock_shared);
        add("lock to write and unlock", lock_exclusive);
    }
    let near = Rc::new(OnceCell::new());
    let upgraded = near.clone();
    all.push(Measure::new("upgrade of a shared line, near", move |iters| {
        upgraded.get_or_init(|| Ring::new(HOT_LINES, 8 * HOT_LINES).shuffled()).upgrades(iters)
    }));
    let far = Rc::new(OnceCell::new());
    let rings = [
        ("near", near, HOT_LINES, 8 * HOT_LINES),
        ("far", far, sizes.far_lines / 8, sizes.far_lines),
    ];
    for (place, ring, frames, count) in rings {
        let mut add = |what: &str, mode: AccessMode, dirty: usize| {
            let ring = ring.clone();
            all.push(Measure::new(format!("miss, {what}, {place}"), move |iters| {
                ring.get_or_init(|| Ring::new(frames, count).shuffled()).misses(iters, mode, dirty)
            }));
        };
        add("shared, evicting clean", AccessMode::Shared, 0);
        add("exclusive, evicting clean", AccessMode::Exclusive, 0);
        add("exclusive, evicting dirty", AccessMode::Exclusive, LINE - 32);
    }
    all
}

/// Lines that are all cached, owned exclusively.
struct Held {
    cluster: Embedded,
    lines: Vec<GlobalAddr>,
}

impl Held {
    fn new(count: usize, compute_nodes: usize) -> Held {
        let cluster = cluster(ClusterConfig {
            compute_nodes,
            cache_bytes: (count + 64) * LINE * 5 / 4,
            memory_bytes: ((count * LINE) as u64 * 9 / 8).max(32 << 20),
            ..ClusterConfig::default()
        });
        let lines = lines(&cluster, count);
        Held { cluster, lines }
    }

    fn time(&self, iters: u64, access: fn(&Member, GlobalAddr) -> u64) -> Duration {
        on_first(&self.cluster, async |member| {
            let accesses = async {
                let mut draws = Draws::new(self.lines.len() as u64, iters);
                let start = member.handle.now();
                for _ in 0..iters {
                    black_box(access(&member, self.lines[draws.draw() as usize]));
                }
                member.handle.now() - start
            };
            counted(accesses).await
        })
    }
}
