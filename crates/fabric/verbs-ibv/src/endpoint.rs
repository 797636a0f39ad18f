//! [`IbvEndpoint`]: one worker's send queues, and the completion queue that the worker polls.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork_runtime::{Clock, Notifier};
use latchwork_strict::{strict_assert, strict_assert_eq, strict_check};
use latchwork_verbs::{
    BATCH_MAX, Completion, ComputeNodeId, SetupError, Target, VerbError, WorkRequest, check_batch,
};

use crate::connection::Caller;
use crate::directory::Peer;
use crate::locals::Locals;
use crate::node::Node;
use crate::send_queue::{Common, Lane};
use crate::shared::Shared;
use crate::slots::Slots;
use crate::sys::ffi::{WC_SUCCESS, WorkCompletion};
use crate::sys::{Completions, Troubles, Watch};
use crate::wake::Wake;

/// One poll takes at most `STEPS_MAX` times `STEP` completions, so that a flood does not keep a
/// worker from its other work.
const STEP: usize = 32;
const STEPS_MAX: usize = 8;

/// The longest time for which the drop of an endpoint waits for its batches in flight.
const LINGER: Duration = Duration::from_millis(200);

/// One worker's endpoint on the RDMA fabric; see [`latchwork_verbs::Endpoint`].
///
/// The endpoint has its own queue pair for each peer to which it has posted, and one completion
/// queue for all of them. A peer that does not answer an offer of a connection in time counts as
/// disconnected: its batches end with an error. The next batch for the peer makes a new offer.
pub struct IbvEndpoint {
    // Fields are dropped in their order, and this order matters. The connections come first, then
    // the watch of the completion queue, then the completion queue and the registered memory.
    lanes: Vec<Lane>,
    _watch: Option<Watch>,
    common: Common,
    of_memory: Vec<Option<u16>>,
    of_compute: [Option<u16>; ComputeNodeId::MAX as usize],
    in_flight: usize,
    departed_nodes: u64,
    // The number of the device's failures up to which this endpoint has handled them.
    troubles: u64,
    clock: Clock,
    // Room for the completions of one step of a poll. The endpoint keeps this buffer, because the
    // buffer is large.
    buffer: Box<[WorkCompletion; STEP]>,
    // Completions that `has_news` found when the worker was about to park.
    found: RefCell<Vec<WorkCompletion>>,
    // Whether the queue will signal its next completion.
    armed: Cell<bool>,
}

impl IbvEndpoint {
    pub(crate) fn new(
        shared: Arc<Shared>,
        (id, own): (ComputeNodeId, Arc<Node>),
        notifier: Option<Notifier>,
    ) -> Result<IbvEndpoint, SetupError> {
        let device = Arc::clone(&own.device);
        let batches = shared.config.batches.clamp(1, 1 << 14);
        // When a connection fails, each of its requests completes. So the queue needs room for all
        // requests in all connections.
        let completions = Completions::new(&device, batches * BATCH_MAX as u32)?;
        let slots = Slots::new(&device, batches)?;
        let wake = Arc::new(Wake { fired: AtomicBool::new(false), notifier });
        let watch = match wake.notifier {
            Some(_) => {
                let wake = Arc::clone(&wake);
                Some(shared.watcher.watch(&completions, move || wake.fire())?)
            }
            None => None,
        };
        shared.wake_on_leave(&wake);
        let depth = shared.config.send_queue.min(device.limits.send_queue).max(BATCH_MAX as u32);
        let departures = shared.departed_nodes();
        Ok(IbvEndpoint {
            lanes: Vec::new(),
            _watch: watch,
            common: Common {
                from: Caller { peer: Peer::Compute(id), epoch: shared.config.epoch },
                shared,
                device,
                completions,
                locals: Locals::new(own),
                slots,
                wake,
                completed: VecDeque::new(),
                depth,
            },
            of_memory: Vec::new(),
            of_compute: [None; ComputeNodeId::MAX as usize],
            in_flight: 0,
            departed_nodes: departures,
            troubles: 0,
            clock: Clock::start(),
            buffer: Box::new([WorkCompletion::default(); STEP]),
            found: RefCell::default(),
            armed: Cell::new(false),
        })
    }

    /// The index of the send queue to the target's node. Makes the send queue if there is none.
    fn lane(&mut self, target: Target) -> Result<usize, VerbError> {
        let place = match target {
            Target::Memory(id) => {
                let index = usize::from(id.0);
                if self.of_memory.get(index).is_none() {
                    if !self.common.shared.knows(target.into()) {
                        return Err(VerbError::UnknownTarget { target });
                    }
                    self.of_memory.resize(index + 1, None);
                }
                &mut self.of_memory[index]
            }
            Target::Compute(id, _) => &mut self.of_compute[id.index()],
        };
        if let Some(lane) = *place {
            strict_assert!(usize::from(lane) < self.lanes.len(), "send queue {lane} was not made");
            return Ok(lane.into());
        }
        let peer = Peer::from(target);
        let index = u16::try_from(self.lanes.len()).ok().filter(|_| self.common.shared.knows(peer));
        let index = index.ok_or(VerbError::UnknownTarget { target })?;
        *place = Some(index);
        self.lanes.push(Lane::new(peer, index, &self.common));
        Ok(index.into())
    }

    /// Asserts that each batch in flight is on one send queue, or has ended and waits for its
    /// report.
    fn check(&self) {
        let unfinished: usize = self.lanes.iter().map(Lane::unfinished).sum();
        let unreported = self.common.completed.len();
        assert_eq!(
            self.in_flight,
            unfinished + unreported,
            "{unfinished} batches on send queues and {unreported} that ended"
        );
    }

    /// Handles the completions in the completion queue.
    #[inline]
    fn gather(&mut self) {
        let IbvEndpoint { lanes, common, clock, buffer, found, .. } = self;
        let mut handle = |common: &mut Common, completion: &WorkCompletion| {
            let id = completion.wr_id;
            if let Some(lane) = lanes.get_mut(Lane::of(id)) {
                lane.completed(common, id, completion.status == WC_SUCCESS, || clock.now());
            }
        };
        found.get_mut().drain(..).for_each(|completion| handle(common, &completion));
        for _ in 0..STEPS_MAX {
            let taken = common.completions.poll(&mut buffer[..]);
            buffer[..taken].iter().for_each(|completion| handle(common, completion));
            if taken < STEP {
                return;
            }
        }
    }

    /// Ends the batches to nodes that have left or died, if the count of such nodes has changed
    /// since the last call.
    fn look_for_departures(&mut self) {
        let departures = self.common.shared.departed_nodes();
        if std::mem::replace(&mut self.departed_nodes, departures) == departures {
            return;
        }
        for lane in &mut self.lanes {
            if lane.is_stale(&self.common.shared) {
                lane.mark_left(&mut self.common);
            }
        }
    }

    /// Replaces connections whose queue pair has failed, and ends all batches if the device has
    /// failed.
    fn look_for_troubles(&mut self) {
        let IbvEndpoint { lanes, common, clock, troubles, .. } = self;
        match common.device.health.look(troubles) {
            Troubles::None => {}
            Troubles::Pairs(failed) => {
                for lane in lanes.iter_mut().filter(|lane| lane.is_on(&failed)) {
                    lane.fail(common, clock.now());
                }
            }
            Troubles::Dead => lanes.iter_mut().for_each(|lane| lane.mark_left(common)),
        }
    }

    /// Whether the next completion will notify the worker, so that the worker may sleep. Arms the
    /// completion queue if it is not armed.
    fn has_news(&self) -> bool {
        if self.armed.get() {
            return !self.common.wake.fired.load(Ordering::Relaxed);
        }
        let Ok(()) = self.common.completions.arm() else { return false };
        self.armed.set(true);
        // A completion before the arming causes no signal, so the queue is polled once more.
        let mut completions = [WorkCompletion::default(); STEP];
        let taken = self.common.completions.poll(&mut completions);
        self.found.borrow_mut().extend_from_slice(&completions[..taken]);
        taken == 0 && !self.common.wake.fired.load(Ordering::Relaxed)
    }
}

impl latchwork_verbs::Endpoint for IbvEndpoint {
    fn post(
        &mut self,
        target: Target,
        token: u64,
        requests: &[WorkRequest],
    ) -> Result<(), VerbError> {
        let lane = self.lane(target)?;
        let IbvEndpoint { lanes, common, .. } = self;
        let lane = &mut lanes[lane];
        strict_assert_eq!(lane.peer, Peer::from(target), "the send queue of another node");
        lane.renew(&common.shared, &common.device);
        let extent = lane.learn(target, common);
        check_batch(target, requests, extent, |key| common.locals.learn(key))?;
        lane.post(common, target, token, requests);
        self.in_flight += 1;
        strict_check!(self);
        Ok(())
    }

    fn ring(&mut self) {
        // Batches to nodes that have left or died end here, before the others are sent.
        self.look_for_departures();
        for lane in &mut self.lanes {
            if lane.has_unposted() {
                lane.submit(&mut self.common, || self.clock.now());
            }
        }
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> bool {
        if self.in_flight == 0 {
            return false;
        }
        if self.common.wake.fired.load(Ordering::Relaxed) {
            // Acquire: the calls below see everything that was stored before the flag was set.
            self.common.wake.fired.swap(false, Ordering::Acquire);
            self.armed.set(false);
        }
        self.gather();
        self.look_for_departures();
        self.look_for_troubles();
        for lane in &mut self.lanes {
            if lane.is_asking() {
                lane.look_for_answer(&mut self.common, self.clock.now());
            }
            if lane.has_unposted() {
                lane.submit(&mut self.common, || self.clock.now());
            }
        }
        strict_check!(self);
        let some = !self.common.completed.is_empty();
        self.in_flight -= self.common.completed.len();
        self.common.completed.drain(..).for_each(sink);
        some
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn may_park(&self) -> bool {
        if self.in_flight == 0 {
            return true;
        }
        self.common.wake.notifier.is_some()
            && self.common.completed.is_empty()
            && self.found.borrow().is_empty()
            && !self.lanes.iter().any(|lane| lane.needs_worker(&self.common))
            && self.has_news()
    }
}

impl Drop for IbvEndpoint {
    fn drop(&mut self) {
        // Batches in a queue pair get up to `LINGER` to take effect. The outcome of a batch that is
        // in flight when the queue pair is destroyed is unknown.
        let until = self.clock.now() + LINGER;
        while self.lanes.iter().any(Lane::is_flying) && self.clock.now() < until {
            self.gather();
            std::thread::yield_now();
        }
        for lane in &mut self.lanes {
            lane.close(&self.common);
        }
    }
}
