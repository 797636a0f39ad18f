//! What all tests use.

use std::ops::ControlFlow;

pub(crate) use latchwork_coherence::testing::executor;
use latchwork_coherence::testing::{LocalMemory, LocalNode, Settings};
use latchwork_rtree::{Entry, RTree, RTreeConfig, Rect};
use latchwork_runtime::Handle;

pub(crate) const WORLDS: [Settings; 3] = [Settings::CALM, Settings::TINY, Settings::WITHOUT_CACHE];

/// Runs `test` in every kind of memory with several seeds.
pub(crate) fn in_worlds<F>(seeds: u64, test: impl Fn(LocalNode, Handle, LocalMemory) -> F)
where
    F: Future<Output = ()>,
{
    for (seed, settings) in (0..seeds).flat_map(|seed| WORLDS.map(|settings| (seed, settings))) {
        let mut executor = executor(seed);
        let node = LocalNode::new(settings);
        let memory = node.worker(executor.handle());
        executor.block_on(test(node, executor.handle(), memory));
    }
}

/// Small pages: splits and empty pages all the time.
pub(crate) fn fan_out_3(payload_len: usize) -> RTreeConfig {
    RTreeConfig {
        payload_len,
        max_entries_leaf: Some(3),
        max_entries_inner: Some(3),
        ..RTreeConfig::DEFAULT
    }
}

/// Random numbers that depend on the seed alone.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let mixed = (self.0 ^ self.0 >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ mixed >> 29
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A whole number as a coordinate, so that boxes touch and coincide.
    fn at(&mut self, limit: u64) -> f64 {
        self.below(limit) as f64 - (limit / 2) as f64
    }

    pub(crate) fn rect<const D: usize>(&mut self, space: u64, size: u64) -> Rect<D> {
        let low: [f64; D] = std::array::from_fn(|_| self.at(space));
        let high = low.map(|at| at + self.below(size) as f64);
        Rect::new(low, high).expect("a box")
    }
}

/// Whether the boxes are at most `distance` apart.
pub(crate) fn are_near(one: &Rect<2>, two: &Rect<2>, distance: f64) -> bool {
    let gap = |d: usize| (one.low()[d] - two.high()[d]).max(two.low()[d] - one.high()[d]).max(0.0);
    gap(0) * gap(0) + gap(1) * gap(1) <= distance * distance
}

/// The pairs of near entries of two trees, by id.
pub(crate) async fn joined(
    one: &RTree<LocalMemory, 2>,
    two: &RTree<LocalMemory, 2>,
    distance: f64,
) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let visit = |one: Entry<'_, 2>, two: Entry<'_, 2>| {
        found.push((one.id, two.id));
        ControlFlow::Continue(())
    };
    one.join(two, distance, visit).await.expect("memory is in order");
    found.sort_unstable();
    found
}

/// The entries that intersect a window, by id.
pub(crate) async fn intersecting<const D: usize>(
    tree: &RTree<LocalMemory, D>,
    window: &Rect<D>,
) -> Vec<u64> {
    let mut found = Vec::new();
    let visit = |entry: Entry<'_, D>| {
        found.push(entry.id);
        ControlFlow::Continue(())
    };
    tree.intersecting(window, visit).await.expect("memory is in order");
    found.sort_unstable();
    found
}

/// The tree is whole, and no line is lost.
pub(crate) async fn check<const D: usize>(
    tree: &RTree<LocalMemory, D>,
    node: &LocalNode,
    entries: usize,
) {
    tree.release_spares().await.expect("freed");
    let statistics = tree.validate().await.expect("whole");
    assert_eq!(statistics.entries, entries as u64);
    assert_eq!(statistics.pages(), node.live_lines() as u64, "{statistics:?}");
}
