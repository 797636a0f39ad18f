//! Computes the times of batches as on a NIC: sums of the times of parts, and waits in queues.
//!
//! ```text
//!   post, doorbell     requester's NIC    wire     responder's NIC                      wire
//!   (CPU time)       ► gathers, sends ──► one way ► serves, atomics wait for their    ► one way ► completion
//!                      max(rate, bytes)             bucket, READs for the way back
//! ```
//!
//! The requester is the NIC that sends a batch, and the responder the NIC that serves it. On a NIC
//! with one engine, issuing and serving share the time of the engine. Bytes occupy the wires of
//! both NICs at the same time (cut through). But each NIC stores a whole packet before it passes
//! the packet on.
//!
//! A batch that waits in no queue makes two events: the effect of its requests, and the visible
//! completion. The time of the first event assumes that the responder's queues are empty. If they
//! are not, the effect gets a third event of its own. Each new attempt at a full inbox is one more
//! event. With a limit of waiting atomics, the first event is the arrival. Unless an inbox is full,
//! all requests of a batch take effect together, at the time of the last request.

mod flight;
mod queues;
mod times;
mod work;

use std::time::Duration;

use latchwork_simulation::Time;
use latchwork_strict::strict_assert;
use latchwork_verbs::{WorkRequest, WorkRequestKind};

use crate::event::Event;
use crate::flight::{Begin, Fate, Flight};
use crate::world::World;
use queues::{Bucket, behind};
use times::{PS_PER_NS, Ps, is_on_chip, outgoing_bytes, ps, response_bytes, time};

pub(crate) use flight::NicFlight;
pub(crate) use queues::{NicQueues, QueuePairs};
pub(crate) use times::NicTimes;
pub use work::{AtomicWork, NicOwner, NicPart, NicWork};

/// The times of one batch at the responder, in picoseconds.
struct Service {
    /// The time at which all requests so far have taken effect.
    effective: Ps,
    /// The time at which all requests so far that come before a later READ
    /// ([`WorkRequestKind::before`]) have taken effect.
    changed: Ps,
    /// The time at which the responses of all requests so far have left.
    responded: Ps,
}

impl Service {
    /// Computes the service of `requests`, which arrive at `at`. With `nic`, the requests wait in
    /// its queues and occupy them. Without `nic`, the queues count as empty.
    fn new(times: &NicTimes, nic: Option<&NicQueues>, at: Ps, requests: &[WorkRequest]) -> Service {
        let mut service = Service { effective: at, changed: at, responded: at };
        for request in requests {
            let (sent, answered) = (outgoing_bytes(request), response_bytes(request));
            let is_on_chip = is_on_chip(request);
            // On-chip memory takes none of the times of host memory.
            let of_host = |time: Ps| if is_on_chip { 0 } else { time };
            let ready = match nic {
                Some(nic) => {
                    let here = nic.incoming.pass_on(at, times.wire(sent));
                    let taken_in = nic.places.take_in(times.places, here);
                    nic.serving(times).pass(taken_in, times.serve(request))
                }
                None => at + times.serve(request),
            };
            match request.kind() {
                WorkRequestKind::Write | WorkRequestKind::Send => {
                    let effective = ready + times.packet(sent) + of_host(times.write);
                    service.effective = service.effective.max(effective);
                    service.changed = service.effective;
                }
                WorkRequestKind::Atomic => {
                    let ready = service.effective.max(ready + of_host(times.atomic_fetch));
                    let takes = if is_on_chip { times.chip_atomic } else { times.atomic };
                    let word = request.remote().map_or(0, |(offset, _)| offset);
                    let bucket = word & times.bucket_mask;
                    service.effective = match nic {
                        Some(nic) => {
                            let mut buckets = nic.buckets.borrow_mut();
                            let Bucket { queue, last, same } = buckets.entry(bucket).or_default();
                            let warm = last.replace(word) == Some(word);
                            let cold = if warm { 0 } else { of_host(times.atomic_cold) };
                            *same += if warm { takes } else { 0 };
                            let done = queue.pass(ready, takes + cold);
                            let begins = done - takes - cold;
                            if begins > ready {
                                nic.places.keep_until(times.places, begins);
                            }
                            done
                        }
                        None => ready + takes,
                    };
                    service.changed = service.effective;
                }
                WorkRequestKind::Read => {
                    let begins = service.changed.max(ready);
                    let fetched = begins + of_host(times.read) + times.packet(answered);
                    service.effective = service.effective.max(fetched);
                }
            }
            let response = times.wire(answered);
            if response > 0 {
                service.responded = match nic {
                    Some(nic) => nic.outgoing.pass(service.effective, response),
                    None => service.effective + response,
                };
            }
        }
        service.responded = service.responded.max(service.effective);
        strict_assert!(
            service.effective >= at && service.responded >= service.effective,
            "an answer leaves before its request arrives"
        );
        service
    }
}

impl World {
    fn jitter(&self, times: &NicTimes) -> Ps {
        if times.jitter == 0 { 0 } else { self.kernel.random_below(times.jitter + 1) }
    }

    /// Sends a batch at the time `from` of its worker's clock.
    pub(crate) fn submit_nic(&self, times: &NicTimes, key: u32, from: Time, delay: Duration) {
        let jitter = self.jitter(times);
        let at = self.with(key, |flight| {
            let times = times.slowed(flight.slowness());
            let requests = flight.batch.requests();
            let (mut sent, mut gathered) = (ps(from), 0);
            let nic = &flight.lane.own.host.nic;
            for request in requests {
                let begun = nic.issuing.pass(ps(from), times.send(request));
                let leaves = nic.outgoing.pass(begun, times.wire(outgoing_bytes(request)));
                sent = leaves.max(sent);
                gathered = times.gather(request).max(gathered);
            }
            let arrived = sent + gathered + times.one_way + jitter + ps(Time::ZERO + delay);
            strict_assert!(arrived >= sent, "a batch arrives before it is sent");
            let pairs = &flight.lane.queue_pairs;
            let pair = pairs.take_turn(times.queue_pairs);
            flight.nic.queue_pair = pair;
            pairs.with(pair, |pair| {
                let arrived = behind(arrived, &mut pair.arrived);
                flight.nic.arrived = Some(arrived);
                if times.places > 0 {
                    // The places are taken in the order of arrival, so the event is the arrival.
                    return arrived;
                }
                let service = Service::new(&times, None, arrived, requests);
                behind(service.effective, &mut pair.expected)
            })
        });
        self.schedule_at(time(at), key, Event::Arrive);
    }

    /// Serves a batch that has arrived. If the batch need not wait at the responder, it takes
    /// effect at the current time.
    pub(crate) fn arrive_nic(&self, times: &NicTimes, key: u32) {
        let effective = self.with(key, |flight| {
            let times = times.slowed(flight.slowness());
            // A batch that a gate held at `Leg::There` has no arrival time, so it arrives at the
            // current time.
            let at = flight.nic.arrived.unwrap_or(ps(self.kernel.now()));
            let nic = &flight.lane.there.host.nic;
            let service = Service::new(&times, Some(nic), at, flight.batch.requests());
            let pairs = &flight.lane.queue_pairs;
            pairs.with(flight.nic.queue_pair, |pair| {
                let effective = behind(service.effective, &mut pair.effective);
                flight.nic.responded = service.responded.max(effective);
                effective
            })
        });
        if time(effective) > self.kernel.now() {
            self.schedule_at(time(effective), key, Event::Apply);
        } else {
            self.apply(key);
        }
    }

    /// Applies all requests that have not taken effect, in order.
    pub(crate) fn apply(&self, key: u32) {
        loop {
            let next = self.with(key, |flight| {
                let request = flight.first_open()?;
                let begin = match flight.decide(request, self.config.whole_write) {
                    Fate::Whole => Some(flight.begin(request, 1, &self.kernel)),
                    Fate::Partly => {
                        flight.begin_partly(request, 1, &self.kernel);
                        None
                    }
                    Fate::Torn => {
                        flight.tear_at_random(request, &self.kernel);
                        None
                    }
                    Fate::Never => None,
                };
                Some((request, begin))
            });
            let Some((request, begin)) = next else { break };
            if let Some(begin) = begin {
                if let Begin::Deliver(message) = begin
                    && !self.deliver(key, message)
                {
                    let again = self.kernel.now() + self.config.inbox_retry;
                    return self.schedule_at(again, key, Event::Apply);
                }
                self.took_effect(key, request);
            }
            self.with(key, |flight| flight.done(request));
        }
        self.leave_target(key);
    }

    /// The time at which the CPU can see the completion of a batch that has taken effect.
    pub(crate) fn completion_nic(&self, times: &NicTimes, key: u32) -> Time {
        let jitter = self.jitter(times);
        let now = ps(self.kernel.now());
        self.with(key, |flight: &mut Flight| {
            let times = times.slowed(flight.slowness());
            // The response of a batch leaves later than its service ended, if a gate held the batch
            // or an inbox was full.
            let responded = flight.nic.responded.max(now.saturating_sub(PS_PER_NS));
            let arrived = responded + times.one_way + jitter;
            let bytes: u64 = flight.batch.requests().iter().map(response_bytes).sum();
            let wire = times.wire(bytes);
            let incoming = &flight.lane.own.host.nic.incoming;
            let done = incoming.pass_on(arrived, wire);
            let done = done + times.packet(bytes) + times.completion;
            strict_assert!(done >= arrived, "a completion comes before its answer");
            let pairs = &flight.lane.queue_pairs;
            pairs.with(flight.nic.queue_pair, |pair| {
                pair.completed = pair.completed.max(done);
                time(pair.completed)
            })
        })
    }
}
