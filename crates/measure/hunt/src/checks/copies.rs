//! [`Copies`]: tracks the lines in each node's cache, and what the protocol says of their owners,
//! after each event.

use std::collections::BTreeMap;
use std::sync::Arc;

use latchwork_cache::{FrameId, FrameState, Ownership};
use latchwork_cluster::{Node, Simulated};
use latchwork_engine::{Owners, Truth};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Region, Words};

/// One copy of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Copy {
    /// The index of the node in the cluster, from 0.
    pub(crate) node: usize,
    pub(crate) frame: FrameId,
    pub(crate) state: FrameState,
}

impl Copy {
    pub(crate) fn is(&self, ownership: Ownership) -> bool {
        self.state.ownership() == ownership
    }
}

/// A line that some cache has held.
pub(crate) struct Tracked {
    pub(crate) addr: GlobalAddr,
    /// The valid copies, in the order of the nodes.
    pub(crate) copies: Vec<Copy>,
    /// The owners that the protocol has recorded.
    pub(crate) owners: Owners,
    memory: Arc<Region>,
    /// The value that both ends of each copy must have, if the workload has reported one.
    pub(crate) notified: Option<u64>,
    /// Whether a copy, the owners or the reported value has changed since the last check.
    pub(crate) touched: bool,
}

/// The state of a frame at the last update.
#[derive(Clone, Copy)]
struct Seen {
    addr: GlobalAddr,
    state: FrameState,
    /// The index of the line in `lines`, or [`NO_LINE`].
    line: usize,
}

/// The frames of all nodes, and the lines in them.
pub(crate) struct Copies {
    nodes: Vec<Arc<Node>>,
    pub(crate) truth: Box<dyn Truth>,
    seen: Vec<Vec<Seen>>,
    pub(crate) lines: Vec<Tracked>,
    by_addr: BTreeMap<GlobalAddr, usize>,
}

const NO_LINE: usize = usize::MAX;

const NOTHING: Seen =
    Seen { addr: GlobalAddr::NULL, state: FrameState::from_bits(0), line: NO_LINE };

impl Copies {
    pub(crate) fn new(cluster: &Simulated) -> Copies {
        Copies {
            nodes: cluster.nodes().to_vec(),
            truth: cluster.truth(),
            seen: cluster.nodes().iter().map(|n| vec![NOTHING; n.cache().capacity()]).collect(),
            lines: Vec::new(),
            by_addr: BTreeMap::new(),
        }
    }

    /// Records that this node has the id of a dead one. The copies of the dead one count no more.
    pub(crate) fn replace(&mut self, at: usize, node: Arc<Node>) {
        self.nodes[at] = node;
        self.seen[at].fill(NOTHING);
        for line in &mut self.lines {
            line.copies.retain(|copy| copy.node != at);
            line.touched = true;
        }
    }

    pub(crate) fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    /// Whether the cluster has this node.
    pub(crate) fn has(&self, id: ComputeNodeId) -> bool {
        id.index() < self.nodes.len()
    }

    /// The bytes of a copy, with the header of the line.
    pub(crate) fn bytes(&self, copy: &Copy) -> Words<'_> {
        self.nodes[copy.node].cache().line(copy.frame)
    }

    /// The bytes of the line on its memory node.
    pub(crate) fn memory<'a>(&self, line: &'a Tracked) -> Words<'a> {
        let start = line.addr.offset() as usize;
        line.memory.words().slice(start..start + self.nodes[0].cache().line_size())
    }

    /// Records a value that the workload reported for a line.
    pub(crate) fn tell(&mut self, cluster: &Simulated, addr: GlobalAddr, told: Option<u64>) {
        let line = self.track(cluster, addr);
        self.lines[line].notified = told;
        self.lines[line].touched = true;
    }

    fn track(&mut self, cluster: &Simulated, addr: GlobalAddr) -> usize {
        let next = self.lines.len();
        let line = *self.by_addr.entry(addr).or_insert(next);
        if line == next {
            self.lines.push(Tracked {
                addr,
                copies: Vec::new(),
                owners: Owners::default(),
                memory: cluster.network().memory(addr.node()).expect("a line's memory node"),
                notified: None,
                touched: true,
            });
        }
        line
    }

    /// Reads all frames and the owners of all tracked lines again, and marks the changed lines.
    /// This method runs after every event, so the method must be fast.
    pub(crate) fn look(&mut self, cluster: &Simulated) {
        let outlives = self.truth.outlives_holders();
        for node in 0..self.nodes.len() {
            let is_void = outlives && !cluster.lives(node);
            for frame in 0..self.seen[node].len() {
                let id = FrameId(frame as u32);
                let header = self.nodes[node].cache().frame(id);
                let state = if is_void { FrameState::from_bits(0) } else { header.state() };
                let addr = header.addr();
                let seen = self.seen[node][frame];
                if (addr, state) != (seen.addr, seen.state) {
                    self.changed(cluster, Copy { node, frame: id, state }, addr, seen);
                }
            }
        }
        for line in &mut self.lines {
            let owners = self.truth.owners(line.addr);
            line.touched |= owners != line.owners;
            line.owners = owners;
        }
    }

    fn changed(&mut self, cluster: &Simulated, copy: Copy, addr: GlobalAddr, seen: Seen) {
        if seen.line != NO_LINE {
            let line = &mut self.lines[seen.line];
            line.copies.retain(|other| (other.node, other.frame) != (copy.node, copy.frame));
            line.touched = true;
        }
        let mut line = NO_LINE;
        if !addr.is_null() {
            line = if seen.addr == addr { seen.line } else { self.track(cluster, addr) };
            let tracked = &mut self.lines[line];
            tracked.touched = true;
            if !copy.is(Ownership::Invalid) {
                let at = tracked.copies.partition_point(|other| other.node < copy.node);
                tracked.copies.insert(at, copy);
            }
        }
        self.seen[copy.node][copy.frame.0 as usize] = Seen { addr, state: copy.state, line };
    }
}
