//! The skeleton of a protocol keeps what it claims: two nodes share lines.

mod one_owner;

use std::rc::Rc;

use latchwork_cache::Cache;
use latchwork_coherence::CoherentMemory;
use latchwork_engine::{Node, NodeParts, NodeSettings, Worker};
use latchwork_fabric::{AnyFabric, Port};
use latchwork_memnode::{Epochs, Geometry, LineAllocator, Pool, PoolSettings};
use latchwork_runtime::{Executor, ExecutorConfig, Handle, RealDriver};
use latchwork_verbs::{ComputeNodeId, GlobalAddr};

use crate::one_owner::OneOwner;

const LINE: usize = 512;
const ROUNDS: u64 = 500;

/// Starts a node with one worker. The first node formats the pool.
async fn start(
    fabric: &AnyFabric,
    id: u8,
    pool: &mut Option<Pool>,
    memory: (latchwork_verbs::MemoryNodeId, u64),
    handle: &Handle,
) -> Worker {
    let id = ComputeNodeId::new(id).expect("an id");
    let cache = Cache::with_frames(8, LINE).expect("memory");
    fabric.add_compute_node(id).expect("a new node");
    let arena = fabric.register(id, cache.arena().clone()).expect("the first region");
    let port = Port::new(fabric, id, handle).expect("a port");
    let poller = port.poller();
    handle.add_poller(poller.clone());
    let geometry = Geometry::new(64 << 10, LINE as u32).expect("sizes");
    if pool.is_none() {
        *pool = Some(Pool::format(&port, &[memory], geometry, 1).await.expect("empty memory"));
    }
    let pool = pool.as_ref().expect("formatted");
    let epochs = Epochs::register(pool, &port, id, PoolSettings::default()).await.expect("room");
    handle.remove_poller(&poller);
    let (allocator, settings) = (LineAllocator::new(&epochs), NodeSettings::default());
    let parts = NodeParts { id, cache, arena, geometry, allocator, epochs, settings };
    Worker::start(&Node::new(parts, OneOwner), port, fabric.inbox(id).expect("the node's"), handle)
}

/// Runs `body` with the memory of two nodes, which one thread polls.
fn with_two_nodes(body: impl AsyncFnOnce(&Handle, [Worker; 2])) {
    let fabric = AnyFabric::from(latchwork_verbs_shm::ShmFabric::default());
    let bytes = 1 << 20;
    let memory = (fabric.add_memory_node(bytes).expect("memory"), bytes as u64);
    let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
    let handle = executor.handle();
    executor.block_on(async {
        let pool = &mut None;
        let one = start(&fabric, 1, pool, memory, &handle).await;
        let two = start(&fabric, 2, pool, memory, &handle).await;
        body(&handle, [one.clone(), two.clone()]).await;
        for memory in [one, two] {
            memory.give_back().await.expect("lines at rest");
            assert_eq!(memory.node().lines_in_flight(), 0, "a record is left");
            memory.leave().await.expect("nothing in flight");
        }
    });
}

async fn set(memory: &Worker, line: GlobalAddr, value: u64) {
    let write = memory.write(line, |guard| {
        guard.words().set_u64(0, value);
        guard.mark_dirty(0..8);
    });
    write.await.expect("no faults");
}

async fn get(memory: &Worker, line: GlobalAddr) -> u64 {
    memory.read(line, |words| words.u64(0)).await.expect("no faults")
}

#[test]
fn a_node_reads_what_the_other_has_written_last() {
    with_two_nodes(async |_, [one, two]| {
        let line = one.allocate().await.expect("room");
        for round in 0..ROUNDS {
            set(&one, line, 2 * round).await;
            assert_eq!(get(&two, line).await, 2 * round);
            set(&two, line, 2 * round + 1).await;
            assert_eq!(get(&one, line).await, 2 * round + 1);
        }
    });
}

/// More lines than frames, so that lines are evicted, too.
#[test]
fn no_addition_is_lost_when_both_nodes_add_to_the_same_lines() {
    with_two_nodes(async |handle, nodes| {
        let mut lines = Vec::new();
        for _ in 0..20 {
            let line = nodes[0].allocate().await.expect("room");
            set(&nodes[0], line, 0).await;
            lines.push(line);
        }
        let lines = Rc::new(lines);
        let add = |memory: Worker, lines: Rc<Vec<GlobalAddr>>| async move {
            for round in 0..ROUNDS as usize {
                let write = memory.write(lines[round % lines.len()], |guard| {
                    guard.words().set_u64(0, guard.words().u64(0) + 1);
                    guard.mark_dirty(0..8);
                });
                write.await.expect("no faults");
            }
        };
        let tasks = nodes.clone().map(|memory| handle.spawn(add(memory, lines.clone())));
        for task in tasks {
            task.await.expect("no panic");
        }
        let mut sum = 0;
        for line in lines.iter() {
            sum += get(&nodes[1], *line).await;
        }
        assert_eq!(sum, 2 * ROUNDS);
    });
}
