//! [`NicWork`]: the time for which each part of a NIC has worked. These times show which part
//! limits a run.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use latchwork_simulation::Time;
use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

use super::queues::{NicQueues, Queue};
use super::times::{PS_PER_NS, Ps, ps};
use crate::fabric::SimFabric;
use crate::node::Node;

/// The node to which a NIC belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NicOwner {
    /// A memory node.
    Memory(MemoryNodeId),
    /// A compute node.
    Compute(ComputeNodeId),
}

impl fmt::Display for NicOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NicOwner::Memory(id) => write!(f, "M{}", id.0),
            NicOwner::Compute(id) => write!(f, "C{}", id.get()),
        }
    }
}

/// A part of a NIC that works on one thing at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NicPart {
    /// The engine that issues requests. On a NIC with one engine, this engine also serves.
    Issuing,
    /// The engine that serves requests.
    Serving,
    /// The wire to other nodes.
    Outgoing,
    /// The wire from other nodes.
    Incoming,
}

impl fmt::Display for NicPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NicPart::Issuing => "issuing",
            NicPart::Serving => "serving",
            NicPart::Outgoing => "bytes out",
            NicPart::Incoming => "bytes in",
        })
    }
}

/// The time for which the atomics of one bucket have occupied the bucket. Atomics of one bucket
/// exclude each other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AtomicWork {
    /// The time of all atomics.
    pub all: Duration,
    /// The time of atomics on the same word as the atomic before.
    pub same_word: Duration,
}

/// The time for which each part of a NIC has worked since the world began. With
/// [drawn](crate::Timing::Drawn) times all values are zero.
#[derive(Clone, Debug)]
pub struct NicWork {
    /// The node of the NIC.
    pub owner: NicOwner,
    /// The parts of the NIC.
    pub parts: [(NicPart, Duration); 4],
    /// The work of atomics, by bucket.
    pub atomics: BTreeMap<u64, AtomicWork>,
}

impl NicWork {
    fn of(owner: NicOwner, nic: &NicQueues, now: Ps) -> NicWork {
        let worked = |queue: &Queue| duration(queue.worked(now));
        let buckets = nic.buckets.borrow();
        let atomics = buckets.iter().map(|(number, bucket)| {
            let work = AtomicWork { all: worked(&bucket.queue), same_word: duration(bucket.same) };
            (*number, work)
        });
        NicWork {
            owner,
            parts: [
                (NicPart::Issuing, worked(&nic.issuing)),
                (NicPart::Serving, worked(&nic.serving)),
                (NicPart::Outgoing, worked(&nic.outgoing)),
                (NicPart::Incoming, worked(&nic.incoming)),
            ],
            atomics: atomics.collect(),
        }
    }
}

fn duration(work: Ps) -> Duration {
    Duration::from_nanos(work / PS_PER_NS)
}

impl SimFabric {
    /// The work of all NICs so far: those of memory nodes first, each kind in the order of ids. A
    /// NIC that a compute node shares with a memory node counts as that of the memory node.
    pub fn nic_work(&self) -> Vec<NicWork> {
        let now: Time = self.kernel().now();
        let hosts = self.world.memory_hosts();
        let memory = hosts
            .iter()
            .zip(0..)
            .map(|(host, id)| NicWork::of(NicOwner::Memory(MemoryNodeId(id)), &host.nic, ps(now)));
        let compute = self.world.compute_nodes();
        let is_own = |node: &&Rc<Node>| !hosts.iter().any(|host| Rc::ptr_eq(host, &node.host));
        let compute = compute
            .iter()
            .filter(is_own)
            .map(|node| NicWork::of(NicOwner::Compute(node.id), &node.host.nic, ps(now)));
        memory.chain(compute).collect()
    }
}
