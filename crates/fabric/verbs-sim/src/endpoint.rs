//! [`SimEndpoint`]: the endpoint of a simulated world.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_runtime::Handle;
use latchwork_strict::strict_assert;
use latchwork_verbs::{Completion, RegionKey, Target, VerbError, WorkRequest, check_batch};

use crate::completions::Completions;
use crate::flight::Flight;
use crate::nic::NicTimes;
use crate::node::Node;
use crate::send_queue::Lanes;
use crate::world::World;

/// One worker's endpoint in a simulated world; see [`latchwork_verbs::Endpoint`].
///
/// Posted batches take effect at later events. Each completion notifies the worker.
pub struct SimEndpoint {
    world: Rc<World>,
    own: Rc<Node>,
    /// The worker's executor. With the times of a NIC, its clock is charged for posting and
    /// polling.
    handle: Handle,
    completions: Rc<Completions>,
    #[allow(clippy::vec_box, reason = "a flight is handed on, and large")]
    posted: Vec<Box<Flight>>,
    lanes: Lanes,
    /// The number of batches that wait for room on their send queues.
    pushed_back: usize,
    in_flight: usize,
}

impl SimEndpoint {
    pub(crate) fn new(world: Rc<World>, own: Rc<Node>, handle: &Handle) -> Self {
        let (notifier, handle) = (handle.notifier(), handle.clone());
        let completions = Rc::new(Completions { notifier, arrived: RefCell::default() });
        let (posted, lanes) = (Vec::new(), Lanes::default());
        SimEndpoint { world, own, handle, completions, posted, lanes, pushed_back: 0, in_flight: 0 }
    }

    /// The number of doorbells for the posted batches: one for each target.
    fn doorbells(&self) -> u32 {
        let target = |flight: &Flight| flight.batch.target;
        let is_first = |at: usize| {
            self.posted[..at].iter().all(|before| target(before) != target(&self.posted[at]))
        };
        (0..self.posted.len()).filter(|&at| is_first(at)).count() as u32
    }

    /// Charges the worker for the CPU time of writing the posted requests into send queues, and of
    /// the doorbells.
    fn charge_posted(&self, times: &NicTimes, doorbells: u32) {
        let requests: usize = self.posted.iter().map(|f| f.batch.requests().len()).sum();
        self.handle.charge(times.post * requests as u32 + times.doorbell * doorbells);
    }
}

impl Drop for SimEndpoint {
    fn drop(&mut self) {
        self.world.abandon(&self.completions);
    }
}

impl latchwork_verbs::Endpoint for SimEndpoint {
    fn post(
        &mut self,
        target: Target,
        token: u64,
        requests: &[WorkRequest],
    ) -> Result<(), VerbError> {
        let SimEndpoint { world, own, lanes, completions, .. } = self;
        let lane = lanes.to(target, (world, own), completions);
        let lane = lane.ok_or(VerbError::UnknownTarget { target })?;
        let extent = lane.there.memory.get().map(|(_, extent)| *extent);
        let regions = own.regions.borrow();
        let local_len =
            |key: RegionKey| regions.get(usize::from(key.0)).map(|region| region.len() as u64);
        check_batch(target, requests, extent, local_len)?;
        strict_assert!(
            !requests.is_empty() && requests.len() <= latchwork_verbs::BATCH_MAX,
            "a bad batch was accepted"
        );
        self.posted.push(world.flight(lane, (target, token), requests));
        self.in_flight += 1;
        Ok(())
    }

    fn ring(&mut self) {
        if self.posted.is_empty() {
            strict_assert!(self.in_flight >= self.posted.len(), "a posted batch is not in flight");
            return;
        }
        let doorbells = self.doorbells();
        strict_assert!(
            doorbells > 0 && doorbells as usize <= self.posted.len(),
            "a doorbell without a batch"
        );
        self.world.doorbells.set(self.world.doorbells.get() + u64::from(doorbells));
        if let Some(times) = &self.world.nic {
            self.charge_posted(times, doorbells);
        }
        let from = self.handle.now();
        for flight in self.posted.drain(..) {
            let lane = Rc::clone(&flight.lane);
            self.pushed_back += usize::from(!lane.send(flight, &self.world, from));
        }
        strict_assert!(self.pushed_back <= self.in_flight, "more batches wait than are in flight");
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> bool {
        let mut some = 0;
        loop {
            let Some(completion) = self.completions.arrived.borrow_mut().pop_front() else { break };
            some += 1;
            strict_assert!(self.in_flight > 0, "more batches complete than were posted");
            self.in_flight -= 1;
            sink(completion);
        }
        if some == 0 {
            return false;
        }
        if let Some(times) = &self.world.nic {
            self.handle.charge(times.poll * some);
        }
        if self.pushed_back > 0 {
            let from = self.handle.now();
            strict_assert!(
                self.pushed_back <= self.in_flight,
                "more batches wait than are in flight"
            );
            for lane in self.lanes.iter() {
                self.pushed_back -= lane.send_waiting(&self.world, from);
            }
        }
        true
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn may_park(&self) -> bool {
        // Every batch in flight notifies the worker by its completion. Batches that wait for room
        // are submitted when the worker polls a completion, so they need no wake of their own.
        self.posted.is_empty() && self.completions.arrived.borrow().is_empty()
    }
}
