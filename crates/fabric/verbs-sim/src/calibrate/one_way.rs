//! One-way times, which `ib_write_lat` and `ib_send_lat` measure as half of a ping-pong.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use latchwork_runtime::{ExecutorConfig, Handle, Poller, Time, VirtualWorker};
use latchwork_simulation::{Kernel, RunEnd};
use latchwork_verbs::{
    ComputeNodeId, Endpoint as _, Inbox as _, LocalBuffer, Message, Subscription as _, Target,
    WorkRequest,
};

use super::world::{CalibrateError, LIMIT_SECONDS, config, zeroed};
use crate::endpoint::SimEndpoint;
use crate::fabric::SimFabric;
use crate::inbox::{SimInbox, SimSubscription};
use crate::profile::{Measure, NicProfile};

/// The number of timed round trips.
const ROUNDS: u64 = 1_000;

/// The one-way time of messages in microseconds, between two workers with no other work. The model
/// assumes that taking a message out of the inbox costs as much as taking a completion.
pub(super) fn send(profile: &NicProfile) -> Result<f64, CalibrateError> {
    let kernel = Kernel::new(1);
    let fabric = SimFabric::new(&kernel, config(profile));
    let received = Rc::new(Cell::new(0));
    let mut players = Vec::new();
    let nodes: Vec<_> = (1..=2).filter_map(ComputeNodeId::new).collect();
    for &node in &nodes {
        fabric.add_compute_node(node)?;
    }
    for (&node, &other) in nodes.iter().zip(nodes.iter().rev()) {
        let worker = spawn(&kernel, profile);
        let handle = worker.handle();
        let inbox = fabric.inbox(node)?;
        let player = Rc::new(Player {
            endpoint: RefCell::new(fabric.endpoint(node, &handle)?),
            subscription: inbox.subscribe(handle.notifier()),
            inbox,
            receive: Duration::from_nanos(profile.cpu.poll_ns),
            handle: handle.clone(),
            message: Message { from: node, body: [0; Message::WORDS] },
            other,
            received: Rc::clone(&received),
        });
        handle.add_poller(player.clone());
        players.push((worker, player));
    }
    let (_, first) = &players[0];
    let serve = Rc::clone(first);
    first.handle.spawn(async move { serve.send() });
    let limit = Time::ZERO + Duration::from_secs(LIMIT_SECONDS);
    let end = kernel.run_until(limit, || received.get() >= 2 * ROUNDS);
    if end != RunEnd::Done {
        let measure = Measure::SendOneWay;
        return Err(CalibrateError::World { measure, seconds: LIMIT_SECONDS, end });
    }
    Ok(kernel.now().as_nanos() as f64 / 1000.0 / (2 * ROUNDS) as f64)
}

fn spawn(kernel: &Kernel, profile: &NicProfile) -> VirtualWorker {
    let sweep_cost = Duration::from_nanos(profile.cpu.sweep_ns);
    VirtualWorker::spawn(kernel, ExecutorConfig { sweep_cost, ..ExecutorConfig::default() })
}

/// One worker, which answers each message.
struct Player {
    endpoint: RefCell<SimEndpoint>,
    inbox: SimInbox,
    subscription: SimSubscription,
    receive: Duration,
    handle: Handle,
    message: Message,
    other: ComputeNodeId,
    received: Rc<Cell<u64>>,
}

impl Player {
    fn send(&self) {
        let target = Target::Compute(self.other, 0);
        let request = WorkRequest::Send(self.message);
        let posted = self.endpoint.borrow_mut().post(target, 0, &[request]);
        debug_assert!(posted.is_ok(), "both nodes were made");
    }
}

impl Poller for Player {
    fn poll(&self, _now: Time) -> bool {
        let mut some = self.endpoint.borrow_mut().poll(&mut |_| {});
        some |= self.inbox.receive(&mut |_| {
            self.handle.charge(self.receive);
            self.received.set(self.received.get() + 1);
            self.send();
        });
        some
    }

    fn flush(&self) {
        self.endpoint.borrow_mut().ring();
    }

    fn may_park(&self) -> bool {
        self.endpoint.borrow().may_park() && self.subscription.park()
    }

    fn unparked(&self) {
        self.subscription.unparked();
    }
}

/// The one-way time in microseconds of WRITEs of `bytes` bytes, one at a time, until the last byte
/// is in memory. The model assumes that a polling CPU needs the time of taking a completion to see
/// the WRITE.
pub(super) fn write(profile: &NicProfile, bytes: u32) -> Result<f64, CalibrateError> {
    let kernel = Kernel::new(1);
    let fabric = SimFabric::new(&kernel, config(profile));
    let memory = fabric.add_memory_node(bytes as usize)?;
    let there = fabric.memory(memory).expect("made above");
    let node = ComputeNodeId::new(1).expect("not 0");
    fabric.add_compute_node(node)?;
    let here = zeroed(bytes.into())?;
    let region = fabric.register(node, here.clone())?;
    let worker = spawn(&kernel, profile);
    let handle = worker.handle();
    let sender = Rc::new(Sender(RefCell::new(fabric.endpoint(node, &handle)?)));
    handle.add_poller(sender.clone());
    let mut total = Duration::ZERO;
    for round in 1..=ROUNDS {
        here.words().set_word(0, round);
        let local = LocalBuffer { region, offset: 0, len: bytes };
        let sender = Rc::clone(&sender);
        let start = kernel.now();
        handle.spawn(async move {
            let request = WorkRequest::Write { remote: 0, local };
            let posted = sender.0.borrow_mut().post(Target::Memory(memory), 0, &[request]);
            debug_assert!(posted.is_ok(), "the region was made for it");
        });
        let limit = start + Duration::from_secs(LIMIT_SECONDS);
        let end = kernel.run_until(limit, || there.words().word(0) == round);
        if end != RunEnd::Done {
            let measure = Measure::WriteOneWay;
            return Err(CalibrateError::World { measure, seconds: LIMIT_SECONDS, end });
        }
        total += kernel.now() - start;
        // Run all remaining events, so that the next WRITE finds all queues empty.
        kernel.run_until(limit, || false);
    }
    let each = total.as_nanos() as f64 / ROUNDS as f64;
    Ok((each + profile.cpu.poll_ns as f64) / 1000.0)
}

struct Sender(RefCell<SimEndpoint>);

impl Poller for Sender {
    fn poll(&self, _now: Time) -> bool {
        self.0.borrow_mut().poll(&mut |_| {})
    }

    fn flush(&self) {
        self.0.borrow_mut().ring();
    }

    fn may_park(&self) -> bool {
        self.0.borrow().may_park()
    }
}
