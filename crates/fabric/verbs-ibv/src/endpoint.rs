//! [`Endpoint`]: one worker's connections, and the completion queue that it polls.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork_runtime::{Clock, Notifier};
use latchwork_verbs::{
    BATCH_MAX, Completion, ComputeNodeId, Request, SetupError, Target, VerbError, check_batch,
};

use crate::connection::Caller;
use crate::directory::Peer;
use crate::fabric::Shared;
use crate::lane::{Common, Lane};
use crate::locals::Locals;
use crate::node::Node;
use crate::slots::Slots;
use crate::sys::ffi::{WC_SUCCESS, WorkCompletion};
use crate::sys::{Completions, Troubles, Watch};

/// Completions that one poll takes at most, in steps, so that a flood does not keep a worker from
/// its other work.
const STEP: usize = 32;
const STEPS_MAX: usize = 8;

/// How long an endpoint that is dropped waits for what is in its connections to take effect.
const LINGER: Duration = Duration::from_millis(200);

/// One worker's endpoint on the RDMA fabric; see [`latchwork_verbs::Endpoint`].
///
/// It has a queue pair of its own for each peer that it has posted to, and one completion queue for
/// all of them. A peer that leaves an offer of a connection unanswered for too long counts as
/// disconnected until the next batch for it asks again.
pub struct Endpoint {
    // In the order in which they must go: connections, then what is told of completions, then the
    // queue and the memory.
    lanes: Vec<Lane>,
    _watch: Option<Watch>,
    common: Common,
    of_memory: Vec<Option<u16>>,
    of_compute: [Option<u16>; ComputeNodeId::MAX as usize],
    in_flight: usize,
    departures: u64,
    // Troubles of the device that were looked at.
    troubles: u64,
    clock: Clock,
    // What a poll takes at once; kept, because it is large.
    buffer: Box<[WorkCompletion; STEP]>,
    // Completions that were found when the worker wanted to park.
    found: RefCell<Vec<WorkCompletion>>,
    // The queue will tell of its next completion.
    armed: Cell<bool>,
}

/// What wakes an endpoint's worker.
pub(crate) struct Wake {
    // Set before the worker is notified; cleared by its next poll.
    fired: AtomicBool,
    notifier: Option<Notifier>,
}

impl Wake {
    /// Something has happened that the worker must look at.
    pub(crate) fn fire(&self) {
        // Published before the notification, which is a full fence: a worker that is about to park
        // finds either it or this (`Notifier` has the argument, and `may_park` is what looks
        // there).
        self.fired.store(true, Ordering::Release);
        if let Some(notifier) = &self.notifier {
            notifier.notify();
        }
    }
}

impl Endpoint {
    pub(crate) fn new(
        shared: Arc<Shared>,
        (id, own): (ComputeNodeId, Arc<Node>),
        notifier: Option<Notifier>,
    ) -> Result<Endpoint, SetupError> {
        let device = Arc::clone(&own.device);
        let batches = shared.config.batches.clamp(1, 1 << 14);
        // Each request of a connection that breaks completes, and so many are in all connections at
        // most.
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
        shared.wake_on_departure(&wake);
        let depth = shared.config.send_queue.min(device.limits.send_queue).max(BATCH_MAX as u32);
        let departures = shared.departures();
        Ok(Endpoint {
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
            departures,
            troubles: 0,
            clock: Clock::start(),
            buffer: Box::new([WorkCompletion::default(); STEP]),
            found: RefCell::default(),
            armed: Cell::new(false),
        })
    }

    /// The lane to the target's node, a new one if need be.
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
            return Ok(lane.into());
        }
        let peer = Peer::from(target);
        let index = u16::try_from(self.lanes.len()).ok().filter(|_| self.common.shared.knows(peer));
        let index = index.ok_or(VerbError::UnknownTarget { target })?;
        *place = Some(index);
        self.lanes.push(Lane::new(peer, index, &self.common));
        Ok(index.into())
    }

    /// Takes what is in the completion queue.
    #[inline]
    fn gather(&mut self) {
        let Endpoint { lanes, common, clock, buffer, found, .. } = self;
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

    /// Gives up what is for nodes that have gone since.
    fn look_for_departures(&mut self) {
        let departures = self.common.shared.departures();
        if std::mem::replace(&mut self.departures, departures) == departures {
            return;
        }
        for lane in &mut self.lanes {
            if lane.is_stale(&self.common.shared) {
                lane.depart(&mut self.common);
            }
        }
    }

    /// Gives up what is on a device, or on a queue pair, that has failed.
    fn look_for_troubles(&mut self) {
        let Endpoint { lanes, common, clock, troubles, .. } = self;
        match common.device.health.look(troubles) {
            Troubles::None => {}
            Troubles::Pairs(failed) => {
                for lane in lanes.iter_mut().filter(|lane| lane.is_on(&failed)) {
                    lane.fail(common, clock.now());
                }
            }
            Troubles::Dead => lanes.iter_mut().for_each(|lane| lane.depart(common)),
        }
    }

    /// Whether the worker may sleep until the completion queue tells of something; has it do that.
    fn is_told(&self) -> bool {
        if self.armed.get() {
            return !self.common.wake.fired.load(Ordering::Relaxed);
        }
        let Ok(()) = self.common.completions.arm() else { return false };
        self.armed.set(true);
        // What came before the queue was armed is not told of.
        let mut completions = [WorkCompletion::default(); STEP];
        let taken = self.common.completions.poll(&mut completions);
        self.found.borrow_mut().extend_from_slice(&completions[..taken]);
        taken == 0 && !self.common.wake.fired.load(Ordering::Relaxed)
    }
}

impl latchwork_verbs::Endpoint for Endpoint {
    fn post(&mut self, target: Target, token: u64, requests: &[Request]) -> Result<(), VerbError> {
        let lane = self.lane(target)?;
        let Endpoint { lanes, common, .. } = self;
        let lane = &mut lanes[lane];
        lane.renew(&common.shared, &common.device);
        let remote_len = lane.learn(target, common);
        check_batch(target, requests, remote_len, |key| common.locals.learn(key))?;
        lane.post(common, target, token, requests);
        self.in_flight += 1;
        Ok(())
    }

    fn ring(&mut self) {
        // Nothing goes to a node that was known to be gone when it was posted.
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
            // Acquire: what was published before is seen below.
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
            && self.is_told()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // What is in the connections takes effect as far as peers are there to let it; a queue pair
        // that is destroyed takes it along.
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
