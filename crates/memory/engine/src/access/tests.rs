//! Tests that read the waiters of a record.

use std::task::{Context, Poll, Waker};

use latchwork_cache::Cache;
use latchwork_coherence::{AccessMode, Need};
use latchwork_fabric::{AnyFabric, Port};
use latchwork_memnode::{Epochs, Geometry, LineAllocator, Pool, PoolSettings};
use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
use latchwork_verbs::ComputeNodeId;

use super::Worker;
use super::waiting::Waiting;
use crate::lines::{Attempt, End, Node};
use crate::node::CoherenceNode;
use crate::testing::Alone;
use crate::waiters::LineAccess;
use crate::{NodeParts, NodeSettings};

/// Bug: an access that has ended removes the waiter of another access. Mechanism:
///
/// 1. The record of the access is over and removed.
/// 2. The next access makes a new record, which counts its waiters from zero again.
/// 3. The future of the first access is dropped. Another thread takes step 2 between the steps 1
///    and 3, which are a few instructions apart. No simulated world shows the bug, because a world
///    has one thread.
///
/// Fix: a waiter that has left its record has no number any more.
#[test]
fn an_access_that_has_ended_has_no_part_in_the_next_record() {
    let fabric = AnyFabric::from(latchwork_verbs_shm::ShmFabric::default());
    let bytes = 1 << 20;
    let memory = fabric.add_memory_node(bytes).expect("memory");
    let id = ComputeNodeId::new(1).expect("an id");
    fabric.add_compute_node(id).expect("the first");
    let cache = Cache::with_frames(8, 512).expect("memory");
    let arena = fabric.register(id, cache.arena().clone()).expect("the first region");
    let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
    let handle = executor.handle();
    executor.block_on(async {
        let port = Port::new(&fabric, id, &handle).expect("a port");
        let poller = port.poller();
        handle.add_poller(poller.clone());
        let geometry = Geometry::new(64 << 10, 512).expect("sizes");
        let pool = Pool::format(&port, &[(memory, bytes as u64)], geometry, 1).await.expect("new");
        let settings = PoolSettings::default();
        let epochs = Epochs::register(&pool, &port, id, settings).await.expect("the first");
        handle.remove_poller(&poller);
        let allocator = LineAllocator::new(&epochs);
        let settings = NodeSettings::default();
        let parts = NodeParts { id, cache, arena, geometry, allocator, epochs, settings };
        let node = CoherenceNode::new(parts, Alone);
        let inbox = fabric.inbox(id).expect("the node's");
        let worker = Worker::start(&Node::of(&node), port, inbox, &handle);
        let addr = node.allocator().allocate(worker.port(), &handle).await.expect("room");
        let asked = |mode| {
            let access = LineAccess::patient(Need { addr, mode });
            match worker.lines().attempt(access, true, Waker::noop()) {
                Ok(Attempt::Asked(id)) => id,
                _ => panic!("the line is not here in this mode"),
            }
        };

        let first = asked(AccessMode::Shared);
        let waiting = Waiting::new(&worker, addr, first);
        let mut context = Context::from_waker(Waker::noop());
        let frame = loop {
            match waiting.poll(&mut context) {
                Poll::Ready(Ok(End::Here(frame))) => break frame,
                Poll::Ready(_) => panic!("nobody else is there"),
                Poll::Pending => handle.yield_now().await,
            }
        };
        drop(worker.ticket(addr, frame));
        let records: usize = node.records.shards().map(|shard| shard.lock().len()).sum();
        assert_eq!(records, 0, "the record is over");
        let second = asked(AccessMode::Exclusive);
        assert_eq!(first, second, "the new record counts from zero, too");
        drop(waiting);
        let waiters = |addr| {
            let records = node.records.shard(addr).lock();
            records.get(&addr).map_or(0, |record| record.local.waiters.len())
        };
        assert_eq!(waiters(addr), 1, "the second access still waits");
        let waiting = Waiting::new(&worker, addr, second);
        while waiting.poll(&mut context).is_pending() {
            handle.yield_now().await;
        }
    });
}
