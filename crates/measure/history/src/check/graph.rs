//! The dependency graph of a history: its nodes are transactions and helper nodes, and each edge
//! has a kind. The module finds the graph's cyclic parts and an order of its nodes.

use latchwork_strict::strict_assert;

/// The kind of an edge, as a bit. The kinds follow Adya, Liskov, O'Neil, "Generalized isolation
/// level definitions" (ICDE 2000), section 4.4.
pub(crate) mod kind {
    /// The source wrote a version, and the target wrote the next version of the key.
    pub(crate) const WW: u8 = 1;
    /// The source wrote a version, and the target read that version.
    pub(crate) const WR: u8 = 2;
    /// The source read a version, and the target wrote the next version of the key.
    pub(crate) const RW: u8 = 4;
    /// The source deleted a row that the target's range read did not find, or put an entry that the
    /// range read found.
    pub(crate) const WR_RANGE: u8 = 8;
    /// The target put a row that the source's range read did not find, or deleted an entry that the
    /// range read found.
    pub(crate) const RW_RANGE: u8 = 16;
    /// The source ended before the target began.
    pub(crate) const REAL_TIME: u8 = 32;
    /// All kinds.
    pub(crate) const ALL: u8 = 63;
}
const _: () = {
    use kind::{ALL, REAL_TIME, RW, RW_RANGE, WR, WR_RANGE, WW};
    assert!(WW | WR | RW | WR_RANGE | RW_RANGE | REAL_TIME == ALL, "a kind is missing");
    assert!(ALL.count_ones() == 6, "two kinds share a bit");
};

/// The key of an edge without a key. Such an edge is part of a path through helper nodes.
pub(crate) const NO_KEY: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) key: u32,
    pub(crate) kind: u8,
}

/// A graph that still grows. Nodes below `transactions` are transactions, and all other nodes are
/// helper nodes. A path through helper nodes stands for one edge from the first transaction of the
/// path to the last.
pub(crate) struct Builder {
    pub(crate) transactions: u32,
    pub(crate) nodes: u32,
    pub(crate) edges: Vec<Edge>,
}

impl Builder {
    pub(crate) fn new(transactions: usize) -> Builder {
        let transactions = u32::try_from(transactions).expect("fewer than 4 billion transactions");
        Builder { transactions, nodes: transactions, edges: Vec::new() }
    }

    pub(crate) fn helper(&mut self) -> u32 {
        self.nodes = self.nodes.checked_add(1).expect("fewer than 4 billion nodes");
        strict_assert!(self.nodes > self.transactions, "a helper is a transaction");
        self.nodes - 1
    }

    /// Adds an edge, unless it leads back to its source: no transaction depends on itself.
    pub(crate) fn edge(&mut self, from: u32, to: u32, kind: u8, key: u32) {
        if from != to {
            strict_assert!(from < self.nodes && to < self.nodes, "an edge of no node");
            self.edges.push(Edge { from, to, key, kind });
        }
    }

    pub(crate) fn build(&self) -> Graph {
        Graph::new(self.nodes, &self.edges)
    }
}

/// A finished graph: the edges, ordered by source.
pub(crate) struct Graph {
    first: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    pub(crate) fn new(nodes: u32, edges: &[Edge]) -> Graph {
        let mut first = vec![0u32; nodes as usize + 1];
        for edge in edges {
            first[edge.from as usize + 1] += 1;
        }
        for node in 0..nodes as usize {
            first[node + 1] += first[node];
        }
        strict_assert!(first[nodes as usize] as usize == edges.len(), "an edge has no place");
        let mut at = first.clone();
        let mut sorted = vec![Edge { from: 0, to: 0, key: 0, kind: 0 }; edges.len()];
        for edge in edges {
            let place = &mut at[edge.from as usize];
            sorted[*place as usize] = *edge;
            *place += 1;
        }
        strict_assert!(
            sorted.windows(2).all(|pair| pair[0].from <= pair[1].from),
            "edges are out of order"
        );
        strict_assert!(
            at.iter().zip(&first[1..]).all(|(at, end)| at == end),
            "an edge has no place"
        );
        Graph { first, edges: sorted }
    }

    pub(crate) fn nodes(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    pub(crate) fn of(&self, node: u32) -> &[Edge] {
        let node = node as usize;
        strict_assert!(node + 1 < self.first.len(), "no node has number {node}");
        &self.edges[self.first[node] as usize..self.first[node + 1] as usize]
    }

    /// The strongly connected components of more than one node, over edges of these kinds only. The
    /// code is Tarjan's algorithm with an explicit stack, because recursion could be as deep as the
    /// history is long.
    pub(crate) fn cyclic(&self, kinds: u8) -> Vec<Vec<u32>> {
        const NEW: u32 = u32::MAX;
        let nodes = self.nodes() as usize;
        let (mut number, mut low) = (vec![NEW; nodes], vec![0u32; nodes]);
        let mut on_stack = vec![false; nodes];
        let (mut stack, mut path): (Vec<u32>, Vec<(u32, u32)>) = (Vec::new(), Vec::new());
        let (mut found, mut count) = (Vec::new(), 0);
        for root in 0..nodes as u32 {
            if number[root as usize] != NEW {
                continue;
            }
            path.push((root, self.first[root as usize]));
            while let Some((node, next)) = path.last_mut() {
                let at = *node as usize;
                if number[at] == NEW {
                    (number[at], low[at]) = (count, count);
                    count += 1;
                    stack.push(*node);
                    on_stack[at] = true;
                }
                if *next < self.first[at + 1] {
                    let edge = &self.edges[*next as usize];
                    *next += 1;
                    let to = edge.to as usize;
                    if edge.kind & kinds == 0 {
                    } else if number[to] == NEW {
                        path.push((edge.to, self.first[to]));
                    } else if on_stack[to] {
                        low[at] = low[at].min(number[to]);
                    }
                    continue;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    low[*parent as usize] = low[*parent as usize].min(low[at]);
                }
                if low[at] == number[at] {
                    let start = stack.iter().rposition(|member| *member as usize == at);
                    strict_assert!(low[at] <= number[at], "a node reaches less than itself");
                    let members = stack.split_off(start.expect("a node is above its root"));
                    members.iter().for_each(|member| on_stack[*member as usize] = false);
                    if members.len() > 1 {
                        found.push(members);
                    }
                }
            }
        }
        strict_assert!(stack.is_empty() && path.is_empty(), "a part is left open");
        found
    }

    /// The position of each node in an order in which each edge leads forward. Among nodes that may
    /// come next, the node of the lowest `rank` does. `None` if the graph has a cycle.
    pub(crate) fn order(&self, rank: impl Fn(u32) -> u64) -> Option<Vec<u32>> {
        use std::cmp::Reverse;
        let mut waits = vec![0u32; self.nodes() as usize];
        self.edges.iter().for_each(|edge| waits[edge.to as usize] += 1);
        let free = (0..self.nodes()).filter(|node| waits[*node as usize] == 0);
        let mut ready: std::collections::BinaryHeap<_> =
            free.map(|node| Reverse((rank(node), node))).collect();
        let mut place = vec![0; self.nodes() as usize];
        let mut placed = 0;
        while let Some(Reverse((_, node))) = ready.pop() {
            place[node as usize] = placed;
            placed += 1;
            strict_assert!(placed <= self.nodes(), "a node is placed twice");
            for edge in self.of(node) {
                let waits = &mut waits[edge.to as usize];
                *waits -= 1;
                if *waits == 0 {
                    ready.push(Reverse((rank(edge.to), edge.to)));
                }
            }
        }
        (placed == self.nodes()).then_some(place)
    }
}
