//! Edges between a range read and all earlier (or all later) writes in its range, without an edge
//! for each key.
//!
//! The keys are the leaves of a tree. The nodes of the tree are helper nodes of the graph. A write
//! of a key has an edge to the key's leaf, and edges lead from the leaf to the root. A reader
//! *takes* the few nodes that cover its range: it gets an edge from each of them. A write that is
//! inserted later must not reach that reader. So such a write gets new helper nodes on its path to
//! the root, and the taken helper nodes stay unchanged.
//!
//! ```text
//!         ┌───────o───────┐             delete of b ──► leaf b ──► ab ──► root
//!     ┌── ab ──┐      ┌── cd ──┐        scan of a..=b takes ab
//!     a        b      c        d        delete of a ──► leaf a ──► ab' ──► root'    (b ──► ab' too)
//! ```

use latchwork_strict::strict_assert;

use super::graph::{Builder, NO_KEY, kind};

const NONE: u32 = u32::MAX;

/// The direction of the edges. With `FromReaders`, writes are inserted and readers take in reverse
/// order of time, and each edge is turned around.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// From earlier writes to readers.
    ToReaders,
    /// From readers to later writes.
    FromReaders,
}

pub(crate) struct Snapshots {
    way: Way,
    leaves: usize,
    /// The current helper node of each tree node. Tree node `n` has the children `2n` and `2n + 1`;
    /// the root is 1.
    current: Vec<u32>,
    /// For each tree node, when its helper node was made and when a reader last took it. The unit
    /// is one call of [`take`](Snapshots::take).
    made: Vec<u32>,
    taken: Vec<u32>,
    clock: u32,
}

impl Snapshots {
    pub(crate) fn new(keys: usize, way: Way) -> Snapshots {
        let leaves = keys.next_power_of_two();
        Snapshots {
            way,
            leaves,
            current: vec![NONE; 2 * leaves],
            made: vec![0; 2 * leaves],
            taken: vec![0; 2 * leaves],
            clock: 1,
        }
    }

    fn kind(&self) -> u8 {
        match self.way {
            Way::ToReaders => kind::WR_RANGE,
            Way::FromReaders => kind::RW_RANGE,
        }
    }

    /// Adds an edge between the writers' side and the readers' side, in the direction of `way`.
    fn edge(&self, graph: &mut Builder, writers: u32, readers: u32, key: u32) {
        match self.way {
            Way::ToReaders => graph.edge(writers, readers, self.kind(), key),
            Way::FromReaders => graph.edge(readers, writers, self.kind(), key),
        }
    }

    /// Adds a write of a key. A new helper node of a leaf needs no edges of the key's earlier
    /// writes. The earlier writes reach the helper node through the ww edges between the versions
    /// of the key.
    pub(crate) fn insert(&mut self, graph: &mut Builder, leaf: usize, writer: u32, key: u32) {
        let (mut node, mut from, mut label) = (self.leaves + leaf, writer, key);
        strict_assert!(leaf < self.leaves, "no key has leaf {leaf}");
        while node > 0 {
            let taken =
                std::iter::successors(Some(node), |node| Some(node / 2).filter(|up| *up > 0))
                    .map(|above| self.taken[above])
                    .max();
            if self.current[node] != NONE && taken.is_none_or(|taken| self.made[node] > taken) {
                // Since the helper node was made, no reader has taken this node or a node above it.
                // So the helper node may get one more edge. The nodes above are already its
                // parents.
                self.edge(graph, from, self.current[node], label);
                return;
            }
            let helper = graph.helper();
            (self.current[node], self.made[node]) = (helper, self.clock);
            if node >= self.leaves {
                self.edge(graph, from, helper, label);
            } else {
                for child in [2 * node, 2 * node + 1] {
                    if self.current[child] != NONE {
                        self.edge(graph, self.current[child], helper, NO_KEY);
                    }
                }
            }
            (node, from, label) = (node / 2, helper, NO_KEY);
        }
    }

    /// Connects `reader` with all writes so far at the keys `from..to`.
    pub(crate) fn take(&mut self, graph: &mut Builder, from: usize, to: usize, reader: u32) {
        strict_assert!(from <= to && to <= self.leaves, "a range of keys that are not there");
        let (mut low, mut high) = (self.leaves + from, self.leaves + to);
        while low < high {
            if low % 2 == 1 {
                self.take_node(graph, low, reader);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                self.take_node(graph, high, reader);
            }
            (low, high) = (low / 2, high / 2);
        }
        self.clock += 1;
    }

    fn take_node(&mut self, graph: &mut Builder, node: usize, reader: u32) {
        if self.current[node] != NONE {
            self.taken[node] = self.clock;
            self.edge(graph, self.current[node], reader, NO_KEY);
        }
    }
}

/// The set of keys that exist, as a tree of counts: a search skips parts without such keys.
pub(crate) struct Present {
    leaves: usize,
    count: Vec<u32>,
}

impl Present {
    pub(crate) fn new(keys: usize) -> Present {
        let leaves = keys.next_power_of_two();
        Present { leaves, count: vec![0; 2 * leaves] }
    }

    pub(crate) fn set(&mut self, leaf: usize, is_there: bool) {
        let mut node = self.leaves + leaf;
        strict_assert!(leaf < self.leaves, "no key has leaf {leaf}");
        let (old, new) = (self.count[node], u32::from(is_there));
        while node > 0 && old != new {
            self.count[node] = self.count[node] + new - old;
            node /= 2;
        }
    }

    /// Appends the keys of `from..to` that exist.
    pub(crate) fn find(&self, from: usize, to: usize, found: &mut Vec<usize>) {
        let mut stack = vec![(1, 0, self.leaves)];
        while let Some((node, start, width)) = stack.pop() {
            if self.count[node] == 0 || start >= to || start + width <= from {
            } else if width == 1 {
                found.push(start);
            } else {
                let half = width / 2;
                stack.push((2 * node, start, half));
                stack.push((2 * node + 1, start + half, half));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    /// The transactions that a node reaches.
    fn reached(graph: &Builder, from: u32) -> Vec<u32> {
        let built = graph.build();
        let (mut seen, mut stack) = (vec![false; graph.nodes as usize], vec![from]);
        while let Some(node) = stack.pop() {
            if !std::mem::replace(&mut seen[node as usize], true) {
                stack.extend(built.of(node).iter().map(|edge| edge.to));
            }
        }
        (0..graph.transactions).filter(|node| *node != from && seen[*node as usize]).collect()
    }

    #[test]
    fn readers_depend_on_what_happened_before_in_their_range_and_on_nothing_else() {
        const NODES: usize = 60;
        for seed in 0..300 {
            let mut rng = rand::rngs::SmallRng::seed_from_u64(seed);
            let keys = rng.random_range(1..20usize);
            for way in [Way::ToReaders, Way::FromReaders] {
                let mut graph = Builder::new(NODES);
                let mut tree = Snapshots::new(keys, way);
                let mut last: Vec<Option<u32>> = vec![None; keys];
                let mut expected: Vec<(u32, u32)> = Vec::new();
                for node in 0..NODES as u32 {
                    if rng.random_bool(0.6) {
                        let key = rng.random_range(0..keys);
                        tree.insert(&mut graph, key, node, key as u32);
                        // Versions of a key are in order without the tree.
                        if let Some(before) = last[key].replace(node) {
                            tree.edge(&mut graph, before, node, NO_KEY);
                            expected.push((before, node));
                        }
                    } else {
                        let from = rng.random_range(0..keys);
                        let to = rng.random_range(from..=keys);
                        tree.take(&mut graph, from, to, node);
                        expected
                            .extend(last[from..to].iter().flatten().map(|writer| (*writer, node)));
                    }
                }
                let mut plain = Builder::new(NODES);
                expected
                    .iter()
                    .for_each(|(writer, reader)| tree.edge(&mut plain, *writer, *reader, 0));
                for node in 0..NODES as u32 {
                    assert_eq!(
                        reached(&graph, node),
                        reached(&plain, node),
                        "seed {seed}, {way:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn those_that_are_there_are_found() {
        let mut rng = rand::rngs::SmallRng::seed_from_u64(1);
        let mut present = Present::new(13);
        let mut plain = [false; 13];
        for _ in 0..500 {
            let (key, is_there) = (rng.random_range(0..13usize), rng.random());
            present.set(key, is_there);
            plain[key] = is_there;
            let (from, mut found) = (rng.random_range(0..13usize), Vec::new());
            let to = rng.random_range(from..=13);
            present.find(from, to, &mut found);
            found.sort_unstable();
            let expected: Vec<usize> = (from..to).filter(|key| plain[*key]).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    #[should_panic(expected = "no key has leaf 4")]
    fn a_key_beyond_the_last_is_found() {
        Present::new(4).set(4, true);
    }
}
