//! Alarms and handler cover: which worker serves them, and how the handler is notified. Also the
//! waits of `leave`.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_fabric::{AnyFabric, Port};
use latchwork_memnode::{Epochs, Geometry, LineAllocator, Pool, PoolSettings};
use latchwork_runtime::sync::{AtomicBool, Ordering};
use latchwork_runtime::{Executor, ExecutorConfig, Handle, Poller, RealDriver, Time};
use latchwork_verbs::{ComputeNodeId, GlobalAddr};

use super::Worker;
use crate::alarms::Alarm;
use crate::inner::{Inner, Kept};
use crate::lines::Node;
use crate::node::CoherenceNode;
use crate::poller::{COVER_INTERVAL, Pump};
use crate::testing::Alone;
use crate::worker_core::Role;
use crate::{NodeParts, NodeSettings, handler_cover};

/// Longer than any step takes here, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bug: a handler that woke once wakes again for every alarm of its node, and takes the core from
/// the workers that serve the alarms anyway. Fix: while one worker is awake, the handler only
/// covers for the workers.
#[test]
fn a_handler_leaves_alarms_to_workers_that_are_awake_and_no_longer() {
    on_a_node(quiet(), async |node, start, _| {
        let handler = start(true);
        let handle = handler.core.handle.clone();
        let look = || handler.next_alarm();
        assert_eq!(node.workers(), 0, "a handler is no worker");

        assert_eq!(look(), None);
        let at = handle.now();
        node.timers.set(at, GlobalAddr::from_bits(4096), Alarm::Protocol(0));
        assert_eq!(look(), Some(at), "nobody else is there");
        let worker = start(false);
        assert_eq!(look(), Some(at.max(handle.sweep_time() + COVER_INTERVAL)));
        assert_eq!(worker.next_alarm(), Some(at), "its own");

        let pump = pump_of(&worker);
        assert!(pump.may_park());
        assert_eq!(look(), Some(at), "it is parked");
        pump.unparked();
        assert!(look() > Some(at), "it is awake again");
        drop(worker);
        assert_eq!(look(), Some(at), "it is gone");
    });
}

/// Bug: a message wakes no thread while a worker of its node counts as awake. Beside busy programs
/// the message waits until the kernel gives that worker a core again. Fix: on contended cores the
/// handler polls, too.
#[test]
fn a_handler_polls_beside_workers_whose_cores_others_want_and_no_longer() {
    on_a_node(quiet(), async |node, start, _| {
        let handler = start(true);
        let pump = pump_of(&handler);
        let _worker = start(false);
        let now = handler.core.handle.sweep_time();
        assert_eq!(pump.next_deadline(), None, "the worker polls");
        node.cover(now, now + 5 * handler_cover::INTERVAL);
        assert!(!pump.may_park(), "the deadline that it gave is without the cover");
        assert_eq!(pump.next_deadline(), Some(now + handler_cover::INTERVAL));
        assert!(pump.may_park());
        pump.unparked();
        node.cover(now, now);
        assert_eq!(
            pump.next_deadline(),
            Some(now + handler_cover::INTERVAL),
            "an earlier end is none"
        );
        assert_eq!(node.cover.next(now + 5 * handler_cover::INTERVAL), None, "it is over");
    });
}

#[test]
fn an_alarm_that_is_set_after_the_handler_gave_its_deadline_keeps_it_from_parking() {
    on_a_node(quiet(), async |node, start, handle| {
        let handler = start(true);
        let pump = pump_of(&handler);
        assert_eq!(pump.next_deadline(), None);
        node.timers.set(handle.now(), GlobalAddr::from_bits(4096), Alarm::Protocol(0));
        assert!(!pump.may_park(), "the deadline that it gave is without the alarm");
        assert!(pump.next_deadline().is_some());
        assert!(pump.may_park(), "it sleeps until the alarm");
        pump.unparked();
    });
}

#[test]
fn a_worker_that_parks_on_a_contended_core_asks_for_cover() {
    on_a_node(quiet(), async |node, start, handle| {
        let worker = start(false);
        let pump = pump_of(&worker);
        assert!(pump.may_park());
        pump.unparked();
        assert_eq!(node.cover.next(handle.sweep_time()), None, "no other program wants the core");
    });
    // With a limit of zero, each yield takes too long.
    let contended =
        ExecutorConfig { spin_sweeps: 0, yield_limit: Duration::ZERO, ..Default::default() };
    on_a_node(contended, async |node, start, handle| {
        let give_up = handle.now() + PATIENCE;
        while handle.contended_until() <= handle.sweep_time() {
            assert!(handle.now() < give_up, "no yield takes any time");
            handle.sleep(Duration::from_micros(100)).await;
        }
        let now = handle.sweep_time();
        for (is_handler, cover) in [(true, None), (false, Some(now + handler_cover::INTERVAL))] {
            let worker = start(is_handler);
            let pump = pump_of(&worker);
            assert!(pump.may_park());
            pump.unparked();
            assert_eq!(node.cover.next(now), cover, "handler: {is_handler}");
        }
    });
}

/// Requests cover when its executor is about to park for the first time, and stops the executor
/// when the executor has woken.
struct AsksForCover {
    node: Arc<CoherenceNode<Alone>>,
    asked: Cell<bool>,
    stop: AtomicBool,
}

impl Poller for AsksForCover {
    fn poll(&self, _now: Time) -> bool {
        false
    }

    fn flush(&self) {}

    fn may_park(&self) -> bool {
        if !self.asked.replace(true) {
            self.node.cover(Time::from_nanos(1), Time::from_nanos(2));
        }
        true
    }

    fn unparked(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_handler_is_notified_when_cover_begins() {
    on_a_node(quiet(), async |node, _, _| {
        // In place of the handler: an executor that parks until it is notified.
        let mut executor = Executor::new(RealDriver::new(), quiet());
        let handle = executor.handle();
        *node.handler.lock() = Some(handle.notifier());
        let (asked, stop) = (Cell::new(false), AtomicBool::new(false));
        let poller = Rc::new(AsksForCover { node: node.clone(), asked, stop });
        handle.add_poller(poller.clone());
        let give_up = handle.now() + PATIENCE;
        // Without a notification, this timer ends the park.
        handle.spawn(handle.sleep_until(give_up));
        executor.run_until_stopped(&poller.stop);
        assert!(poller.asked.get() && handle.now() < give_up, "no notification came");
    });
}

#[test]
fn a_worker_that_leaves_waits_for_its_finishers() {
    on_a_node(quiet(), async |_, start, handle| {
        let ended = Rc::new(Cell::new(false));
        let (timer, ends) = (handle.sleep(Duration::from_millis(20)), ended.clone());
        drop(handle.spawn_finisher(async move {
            timer.await;
            ends.set(true);
        }));
        let inner = start(false);
        let worker = Worker { core: inner.core.clone() };
        worker.core.lines.replace(Some(inner));
        worker.leave().await.expect("nothing is in flight");
        assert!(ended.get(), "it left before its finisher had ended");
    });
}

/// An executor that never takes its core for contended.
fn quiet() -> ExecutorConfig {
    ExecutorConfig { yield_limit: Duration::MAX, ..ExecutorConfig::default() }
}

fn pump_of(worker: &Rc<Inner<Alone>>) -> Pump<Alone> {
    Pump { inner: Rc::downgrade(worker), kept: Rc::default() }
}

/// Runs `body` with a new node, a function that starts a handler (`true`) or a worker of the node,
/// and their executor.
fn on_a_node(
    config: ExecutorConfig,
    body: impl AsyncFnOnce(&Arc<CoherenceNode<Alone>>, &dyn Fn(bool) -> Rc<Inner<Alone>>, &Handle),
) {
    let fabric = AnyFabric::from(latchwork_verbs_shm::ShmFabric::default());
    let bytes = 1 << 20;
    let memory = fabric.add_memory_node(bytes).expect("memory");
    let id = ComputeNodeId::new(1).expect("an id");
    fabric.add_compute_node(id).expect("the first");
    let cache = Cache::with_frames(8, 512).expect("memory");
    let arena = fabric.register(id, cache.arena().clone()).expect("the first region");
    let mut executor = Executor::new(RealDriver::new(), config);
    let handle = executor.handle();
    executor.block_on(async {
        let port = Port::new(&fabric, id, &handle).expect("a port");
        handle.add_poller(port.poller());
        let geometry = Geometry::new(64 << 10, 512).expect("sizes");
        let pool = Pool::format(&port, &[(memory, bytes as u64)], geometry, 1).await.expect("new");
        let settings = PoolSettings::default();
        let epochs = Epochs::register(&pool, &port, id, settings).await.expect("the first");
        let allocator = LineAllocator::new(&epochs);
        let settings = NodeSettings::default();
        let parts = NodeParts { id, cache, arena, geometry, allocator, epochs, settings };
        let node = CoherenceNode::new(parts, Alone);
        let of = Node::of(&node);
        let start = |handles| {
            let port = Port::new(&fabric, id, &handle).expect("a port");
            let inbox = fabric.inbox(id).expect("the node's");
            let role = if handles { Role::Handler } else { Role::Worker };
            let kept = Rc::new(Kept::default());
            let inner = Inner::new(role, (&of, &node), port, inbox, &handle, &kept);
            handle.add_poller(Rc::new(Pump { inner: Rc::downgrade(&inner), kept }));
            inner
        };
        body(&node, &start, &handle).await;
    });
}
