//! Times as NICs take: queues of a NIC are counters that say when it is free again.
//!
//! ```text
//!   post, doorbell     requester's NIC    wire     responder's NIC                      wire
//!   (CPU time)       ► sends ───────────► one way ► serves, atomics wait for their    ► one way ► completion
//!                      max(rate, bytes)             bucket, READs for the way back
//! ```
//!
//! A batch that meets no queue makes two events: one when its requests take effect, one when its
//! completion can be seen. The first is scheduled for when the effects would be there without a queue
//! at the responder; if there is one, a third event follows. Requests take effect together, at the time
//! of the last of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_simulation::Time;
use latchwork_verbs::{Kind, Message, Request, WORD};

use crate::event::Event;
use crate::fabric::World;
use crate::flight::{Begin, Fate, Flight};
use crate::profile::NicProfile;

/// Picoseconds: a word takes less than a nanosecond on a fast wire.
type Ps = u64;

const PS_PER_NS: Ps = 1_000;

fn ps(time: Time) -> Ps {
    time.as_nanos().saturating_mul(PS_PER_NS)
}

/// The first nanosecond by which `at` has come.
fn time(at: Ps) -> Time {
    Time::from_nanos(at.div_ceil(PS_PER_NS))
}

/// A profile's figures, as they are added up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NicTimes {
    send: Ps,
    serve: Ps,
    /// Of 1024 bytes on the wire: a whole number for all bandwidths.
    kib: Ps,
    one_way: Ps,
    jitter: Ps,
    write: Ps,
    read: Ps,
    atomic: Ps,
    bucket_mask: u64,
    completion: Ps,
    queue_pairs: usize,
    pub(crate) post: Duration,
    pub(crate) doorbell: Duration,
    pub(crate) poll: Duration,
}

impl NicTimes {
    pub(crate) fn new(profile: &NicProfile) -> NicTimes {
        let per_million = |rate: f64| (1e6 / rate) as Ps;
        let ns = |ns: u64| ns.saturating_mul(PS_PER_NS);
        NicTimes {
            send: per_million(profile.send_rate_mops),
            serve: per_million(profile.serve_rate_mops),
            // 1024 bytes of 8 bits at so many bits per nanosecond.
            kib: (1024.0 * 8.0 / profile.bandwidth_gbit_s * PS_PER_NS as f64) as Ps,
            one_way: ns(profile.one_way_ns),
            jitter: ns(profile.jitter_ns),
            write: ns(profile.write_ns),
            read: ns(profile.read_ns),
            atomic: ns(profile.atomic_ns),
            bucket_mask: (1 << profile.atomic_bucket_bits.min(63)) - 1,
            completion: ns(profile.completion_ns),
            queue_pairs: profile.queue_pairs.max(1) as usize,
            post: Duration::from_nanos(profile.cpu.post_ns),
            doorbell: Duration::from_nanos(profile.cpu.doorbell_ns),
            poll: Duration::from_nanos(profile.cpu.poll_ns),
        }
    }

    fn wire(&self, bytes: u64) -> Ps {
        bytes * self.kib / 1024
    }

    /// The same NIC, so many times slower.
    fn slowed(mut self, slowness: u32) -> NicTimes {
        let slowness = Ps::from(slowness.max(1));
        let times = [
            &mut self.send,
            &mut self.serve,
            &mut self.kib,
            &mut self.one_way,
            &mut self.write,
            &mut self.read,
            &mut self.atomic,
            &mut self.completion,
        ];
        times.into_iter().for_each(|time| *time *= slowness);
        self
    }
}

/// When the queues of one NIC are free again.
#[derive(Default)]
pub(crate) struct NicQueues {
    outgoing: Cell<Ps>,
    incoming: Cell<Ps>,
    /// Of atomics, by the low bits of the address (Sherman 3.2.2); those that were ever used.
    buckets: RefCell<BTreeMap<u64, Ps>>,
}

/// The queue pairs of one endpoint to one target, used in turn.
#[derive(Default)]
pub(crate) struct QueuePairs {
    next: Cell<usize>,
    pairs: RefCell<Vec<QueuePair>>,
}

/// On one queue pair nothing overtakes: when the last batch arrived, took effect, and completed.
#[derive(Clone, Copy, Default)]
struct QueuePair {
    arrived: Ps,
    effective: Ps,
    completed: Ps,
}

impl QueuePairs {
    fn take_turn(&self, count: usize) -> usize {
        let mut pairs = self.pairs.borrow_mut();
        if pairs.len() < count {
            pairs.resize(count, QueuePair::default());
        }
        let turn = self.next.get() % count;
        self.next.set(turn + 1);
        turn
    }

    fn with<T>(&self, pair: usize, act: impl FnOnce(&mut QueuePair) -> T) -> T {
        act(&mut self.pairs.borrow_mut()[pair])
    }
}

/// What a flight remembers of its times.
#[derive(Clone, Copy, Default)]
pub(crate) struct NicFlight {
    queue_pair: usize,
    /// When it arrives at the responder's NIC.
    arrived: Ps,
    /// When the last byte of the response leaves it.
    responded: Ps,
}

fn outgoing_bytes(request: &Request) -> u64 {
    match request {
        Request::Write { local, .. } => u64::from(local.len),
        Request::WriteWord { .. } => WORD as u64,
        Request::Send(_) => (Message::WORDS * WORD) as u64,
        // The summand, or what is expected and desired.
        Request::FetchAdd { .. } => WORD as u64,
        Request::CompareSwap { .. } => 2 * WORD as u64,
        Request::Read { .. } => 0,
    }
}

fn response_bytes(request: &Request) -> u64 {
    match request {
        Request::Read { local, .. } => u64::from(local.len),
        Request::FetchAdd { .. } | Request::CompareSwap { .. } => WORD as u64,
        _ => 0,
    }
}

/// One batch at the responder.
struct Service {
    /// When the requests so far have taken effect.
    effective: Ps,
    /// When what they answer has left.
    responded: Ps,
}

impl Service {
    /// Serves `requests`, which arrive at `at`, by a NIC with these queues.
    fn new(times: &NicTimes, nic: &NicQueues, at: Ps, requests: &[Request]) -> Service {
        let mut service = Service { effective: at, responded: at };
        for request in requests {
            // Cut through: the bytes came while the request before was served, if it took long.
            let bytes = times.wire(outgoing_bytes(request));
            let incoming =
                nic.incoming.get().max(at.saturating_sub(bytes)) + times.serve.max(bytes);
            nic.incoming.set(incoming);
            let ready = incoming.max(at);
            match request.kind() {
                Kind::Write | Kind::Send => {
                    service.effective = service.effective.max(ready + times.write);
                }
                Kind::Atomic => {
                    let word = request.remote().map_or(0, |(offset, _)| offset);
                    let bucket = word & times.bucket_mask;
                    let mut buckets = nic.buckets.borrow_mut();
                    let free = buckets.entry(bucket).or_default();
                    *free = (*free).max(ready).max(service.effective) + times.atomic;
                    service.effective = *free;
                }
                Kind::Read => service.effective = service.effective.max(ready) + times.read,
            }
            let response = times.wire(response_bytes(request));
            if response > 0 {
                let outgoing = nic.outgoing.get().max(service.effective) + response;
                nic.outgoing.set(outgoing);
                service.responded = outgoing;
            }
        }
        service.responded = service.responded.max(service.effective);
        service
    }
}

impl World {
    fn jitter(&self, times: &NicTimes) -> Ps {
        if times.jitter == 0 { 0 } else { self.kernel.random_below(times.jitter + 1) }
    }

    /// Sends a batch on its way, at `from` of its worker's clock.
    pub(crate) fn submit_nic(&self, times: &NicTimes, key: u32, from: Time, delay: Duration) {
        let jitter = self.jitter(times);
        let at = self.with(key, |flight| {
            let times = times.slowed(flight.slowness());
            let outgoing = &flight.own.host.nic.outgoing;
            let mut free = outgoing.get().max(ps(from));
            let requests = flight.batch.requests();
            for request in requests {
                free += times.send.max(times.wire(outgoing_bytes(request)));
            }
            outgoing.set(free);
            let arrived = free + times.one_way + jitter + ps(Time::ZERO + delay);
            let pairs = &flight.lane.queue_pairs;
            let pair = pairs.take_turn(times.queue_pairs);
            let arrived = pairs.with(pair, |pair| {
                pair.arrived = pair.arrived.max(arrived);
                pair.arrived
            });
            flight.nic.queue_pair = pair;
            flight.nic.arrived = arrived;
            Service::new(&times, &NicQueues::default(), arrived, flight.batch.requests()).effective
        });
        self.schedule_at(time(at), key, Event::Arrive);
    }

    /// The batch has arrived, and without a queue it would take effect now.
    pub(crate) fn arrive_nic(&self, times: &NicTimes, key: u32) {
        let effective = self.with(key, |flight| {
            let times = times.slowed(flight.slowness());
            let pairs = &flight.lane.queue_pairs;
            pairs.with(flight.nic.queue_pair, |pair| {
                let at = flight.nic.arrived.max(pair.effective);
                let nic = &flight.there.host.nic;
                let service = Service::new(&times, nic, at, flight.batch.requests());
                pair.effective = service.effective;
                flight.nic.responded = service.responded;
                service.effective
            })
        });
        if time(effective) > self.kernel.now() {
            self.schedule_at(time(effective), key, Event::Apply);
        } else {
            self.apply(key);
        }
    }

    /// All requests that have not yet take effect, in order.
    pub(crate) fn apply(&self, key: u32) {
        while let Some(request) = self.with(key, |flight| flight.first_open()) {
            if self.with(key, |flight| flight.decide(request)) == Fate::Whole {
                match self.with(key, |flight| flight.begin(request, 1, &self.kernel)) {
                    Begin::Deliver(message) => {
                        if !self.deliver(key, message) {
                            let again = self.kernel.now() + self.config.inbox_retry;
                            return self.schedule_at(again, key, Event::Apply);
                        }
                    }
                    Begin::Done | Begin::Pieces(_) => {}
                }
                self.count_verb();
            }
            self.with(key, |flight| flight.done(request));
        }
        self.leave_target(key);
    }

    /// When the completion of a batch that has taken effect can be seen.
    pub(crate) fn completion_nic(&self, times: &NicTimes, key: u32) -> Time {
        let jitter = self.jitter(times);
        let now = ps(self.kernel.now());
        self.with(key, |flight: &mut Flight| {
            let times = times.slowed(flight.slowness());
            // A batch that was held back, or met a full inbox, answers later than it was served.
            let responded = flight.nic.responded.max(now.saturating_sub(PS_PER_NS));
            let arrived = responded + times.one_way + jitter;
            let bytes: u64 = flight.batch.requests().iter().map(response_bytes).sum();
            let wire = times.wire(bytes);
            let incoming = &flight.own.host.nic.incoming;
            let free = incoming.get().max(arrived.saturating_sub(wire)) + times.serve.max(wire);
            incoming.set(free);
            let done = free.max(arrived) + times.completion;
            let pairs = &flight.lane.queue_pairs;
            pairs.with(flight.nic.queue_pair, |pair| {
                pair.completed = pair.completed.max(done);
                time(pair.completed)
            })
        })
    }
}
