//! Checks that no operation, frame or line is leaked when all work is over.
//!
//! | the world had | promised at the end |
//! | --- | --- |
//! | no loss | no operation is in progress, no frame is reserved, locked or latched; the protocol's records name exactly what the caches hold; every frame is free or in use; the lines in use are those that the workload's structures reach |
//! | lost messages, failing connections, lost nodes | on live nodes: no batch in flight, no frame latched or reserved, none locked except by a transaction over a table that could not be finished, every frame accounted for. Such a transaction may keep its worker from leaving. An invalidation request whose answer was lost stays open, a line with a dead holder stays owned, and lines that were being allocated may be lost |

use std::collections::BTreeMap;
use std::sync::Arc;

use latchwork_cache::FrameId;
use latchwork_cluster::{Member, Node, Simulated};
use latchwork_engine::Owners;
use latchwork_verbs::{GlobalAddr, MemoryNodeId};

use super::Verdict;
use crate::WorldCheck;

fn leak(text: String) -> Verdict {
    Err((WorldCheck::Leak, text))
}

/// Checks the frames of a live node. These promises hold in every world. `keeps_locks`: some
/// transactions of the node could not be finished, and a restart would have to end their locks.
pub(crate) fn check_node(node: &Node, keeps_locks: bool) -> Verdict {
    let (id, cache) = (node.id(), node.cache());
    let mut in_use = 0;
    for frame in (0..cache.capacity() as u32).map(|frame| cache.frame(FrameId(frame))) {
        let addr = frame.addr();
        in_use += usize::from(!addr.is_null());
        if frame.state().is_latched() {
            return leak(format!("{id:?}: the frame of {addr} is latched, and nobody works"));
        }
        if frame.is_kept() && !keeps_locks {
            return leak(format!("{id:?}: the frame of {addr} is locked, and nobody works"));
        }
        if frame.is_reserved() {
            return leak(format!("{id:?}: the frame of {addr} is reserved, and nobody works"));
        }
    }
    let locked = node.locked_lines();
    if locked > 0 && !keeps_locks {
        return leak(format!("{id:?}: {locked} lines count as locked, and nobody works"));
    }
    let (free, all) = (cache.free_frames(), cache.capacity());
    if in_use + free != all {
        return leak(format!("{id:?}: {in_use} frames hold lines and {free} are free, of {all}"));
    }
    Ok(())
}

/// Checks that a worker has no open operation and keeps no copy of an evicted line.
pub(crate) fn check_worker(member: &Member) -> Verdict {
    let (node, worker) = (member.node + 1, member.worker);
    let operations = member.memory.port().operations();
    if operations > 0 {
        return leak(format!("node {node} worker {worker}: {operations} operations are not over"));
    }
    let copies = member.memory.write_backs();
    if copies > 0 {
        return leak(format!(
            "node {node} worker {worker}: {copies} copies of evicted lines are kept"
        ));
    }
    Ok(())
}

/// Checks that no line record is open, and that the protocol names exactly the nodes whose caches
/// own each line.
pub(crate) fn check_owners(cluster: &Simulated) -> Verdict {
    let mut held = BTreeMap::<GlobalAddr, Owners>::new();
    let living = (0..cluster.nodes().len()).filter(|at| cluster.lives(*at));
    for node in living.map(|at| cluster.node(at)) {
        let under_way = node.lines_in_flight();
        if under_way > 0 {
            return leak(format!(
                "{:?}: {under_way} lines are under way, and nobody works",
                node.id()
            ));
        }
        for (addr, state) in node.cache().lines() {
            let owners = held.entry(addr).or_default();
            *owners = owners.with(node.id(), state.ownership());
        }
    }
    let truth = cluster.truth();
    let pool = cluster.nodes()[0].allocator().pool();
    let geometry = pool.geometry();
    for id in (0..pool.memory_nodes()).map(|id| MemoryNodeId(id as u16)) {
        for chunk in (0..pool.chunks(id)).map(|chunk| geometry.chunk_addr(id, chunk)) {
            for line in (0..geometry.lines_per_chunk()).map(|at| geometry.line_addr(chunk, at)) {
                let owners = truth.owners(line);
                let held = held.get(&line).copied().unwrap_or_default();
                if owners != held {
                    let record = truth.name();
                    return leak(format!(
                        "the {record} of {line} says {owners:?}, and the caches {held:?}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Checks that as many lines are allocated as the workload uses.
pub(crate) fn check_lines(nodes: &[Arc<Node>], known: u64) -> Verdict {
    let in_use: i64 = nodes.iter().map(|node| lines_in_use(node)).sum();
    if in_use == known as i64 {
        return Ok(());
    }
    leak(format!("{in_use} lines are in use, and the workload knows of {known}"))
}

/// The number of lines that a node allocated minus the lines that it freed. The number is negative
/// if the node freed more lines of other nodes than it has allocated.
fn lines_in_use(node: &Node) -> i64 {
    let lines = node.allocator();
    let chunk = u64::from(lines.pool().geometry().lines_per_chunk());
    // The number is unknown only while a task claims chunks. A node at rest has no such task.
    let taken = lines.chunks_taken().unwrap_or(0) * chunk;
    taken as i64 - (lines.available() + lines.resting()) as i64
}
