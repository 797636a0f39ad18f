//! Who looks at the node's alarms.

use std::rc::Rc;

use latchwork_cache::Cache;
use latchwork_fabric::{Fabric, Port};
use latchwork_memnode::{Epochs, Geometry, LineAllocator, Pool, PoolSettings};
use latchwork_runtime::{Executor, ExecutorConfig, Poller, RealDriver};
use latchwork_verbs::{ComputeNodeId, GlobalAddr};

use super::{COVER_INTERVAL, Pump, Worker};
use crate::timers::Alarm;
use crate::{Node, NodeParts, Settings, cover};

/// Bug: a handler that once woke goes on waking for every alarm of its node, and takes the core from the
/// workers that look at the alarms anyway. Fix: while one of them is awake, it only covers for them.
#[test]
fn a_handler_leaves_alarms_to_workers_that_are_awake_and_no_longer() {
    on_a_node(|node, start| {
        let handler = start(true);
        let handle = handler.inner.handle.clone();
        let look = || handler.inner.next_alarm();

        assert_eq!(look(), None);
        let at = handle.now();
        node.timers.set(at, GlobalAddr::from_bits(4096), Alarm::Retry);
        assert_eq!(look(), Some(at), "nobody else is there");
        let worker = start(false);
        assert_eq!(look(), Some(at.max(handle.sweep_time() + COVER_INTERVAL)));
        assert_eq!(worker.inner.next_alarm(), Some(at), "its own");

        let pump = Pump { inner: Rc::downgrade(&worker.inner), kept: Rc::default() };
        assert!(pump.may_park());
        assert_eq!(look(), Some(at), "it is parked");
        pump.unparked();
        assert!(look() > Some(at), "it is awake again");
        drop(worker);
        assert_eq!(look(), Some(at), "it is gone");
    });
}

/// Bug: a message wakes no thread while a worker of its node counts as awake, so beside busy programs it waits until
/// the kernel gives that worker a core again. Fix: on contended cores the handler looks for itself.
#[test]
fn a_handler_polls_beside_workers_whose_cores_others_want_and_no_longer() {
    on_a_node(|node, start| {
        let handler = start(true);
        let pump = Pump { inner: Rc::downgrade(&handler.inner), kept: Rc::default() };
        let _worker = start(false);
        let now = handler.inner.handle.sweep_time();
        assert_eq!(pump.next_deadline(), None, "the worker polls");
        node.cover(now, now + 5 * cover::INTERVAL);
        assert!(!pump.may_park(), "the deadline that it gave is without the cover");
        assert_eq!(pump.next_deadline(), Some(now + cover::INTERVAL));
        assert!(pump.may_park());
        pump.unparked();
        node.cover(now, now);
        assert_eq!(pump.next_deadline(), Some(now + cover::INTERVAL), "an earlier end is none");
        assert_eq!(node.cover.next(now + 5 * cover::INTERVAL), None, "it is over");
    });
}

/// Runs `body` with a node of its own, and with what starts a handler (`true`) or a worker of it.
fn on_a_node(body: impl FnOnce(&Node, &dyn Fn(bool) -> Worker)) {
    let fabric = Fabric::from(latchwork_verbs_shm::Fabric::default());
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
        handle.add_poller(port.poller());
        let geometry = Geometry::new(64 << 10, 512).expect("sizes");
        let pool = Pool::format(&port, &[(memory, bytes as u64)], geometry, 1).await.expect("new");
        let settings = PoolSettings::default();
        let epochs = Epochs::register(&pool, &port, id, settings).await.expect("the first");
        let allocator = LineAllocator::new(&epochs);
        let settings = Settings::default();
        let node = Node::new(NodeParts { id, cache, arena, geometry, allocator, epochs, settings });
        let start = |handles| {
            let port = Port::new(&fabric, id, &handle).expect("a port");
            let inbox = fabric.inbox(id).expect("the node's");
            match handles {
                true => Worker::start_handler(&node, port, inbox, &handle),
                false => Worker::start(&node, port, inbox, &handle),
            }
        };
        body(&node, &start);
    });
}
