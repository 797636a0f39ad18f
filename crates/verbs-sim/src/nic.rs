//! Times as NICs take: queues of a NIC are counters that say when it is free again.
//!
//! ```text
//!   post, doorbell     requester's NIC    wire     responder's NIC                      wire
//!   (CPU time)       ► gathers, sends ──► one way ► serves, atomics wait for their    ► one way ► completion
//!                      max(rate, bytes)             bucket, READs for the way back
//! ```
//!
//! On a NIC of one engine what it issues and what it serves share its time. Bytes occupy the wires of both NICs at the same time (cut through), but each NIC has a whole packet in its own
//! memory before it passes it on.
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
    send_read: Ps,
    serve: Ps,
    serve_read: Ps,
    serve_atomic: Ps,
    /// Of 1024 bytes on the wire: a whole number for all bandwidths.
    kib: Ps,
    /// Of 1024 bytes of a packet, between wire and memory.
    packet_kib: Ps,
    packet: u64,
    inline_max: u64,
    gather: Ps,
    one_way: Ps,
    jitter: Ps,
    write: Ps,
    read: Ps,
    atomic_fetch: Ps,
    atomic: Ps,
    atomic_cold: Ps,
    bucket_mask: u64,
    completion: Ps,
    queue_pairs: usize,
    shared_engine: bool,
    pub(crate) post: Duration,
    pub(crate) doorbell: Duration,
    pub(crate) poll: Duration,
}

impl NicTimes {
    pub(crate) fn new(profile: &NicProfile) -> NicTimes {
        let per_million = |rate: f64| (1e6 / rate) as Ps;
        let ns = |ns: u64| ns.saturating_mul(PS_PER_NS);
        // 1024 bytes of 8 bits at so many bits per nanosecond.
        let per_kib = |gbit_s: f64| (1024.0 * 8.0 / gbit_s * PS_PER_NS as f64) as Ps;
        NicTimes {
            send: per_million(profile.send_rate_mops),
            send_read: per_million(profile.send_read_rate_mops),
            serve: per_million(profile.serve_rate_mops),
            serve_read: per_million(profile.serve_read_rate_mops),
            serve_atomic: per_million(profile.serve_atomic_rate_mops),
            kib: per_kib(profile.bandwidth_gbit_s),
            packet_kib: per_kib(profile.packet_gbit_s),
            packet: u64::from(profile.packet_bytes),
            inline_max: u64::from(profile.inline_max_bytes),
            gather: ns(profile.gather_ns),
            one_way: ns(profile.one_way_ns),
            jitter: ns(profile.jitter_ns),
            write: ns(profile.write_ns),
            read: ns(profile.read_ns),
            atomic_fetch: ns(profile.atomic_fetch_ns),
            atomic: ns(profile.atomic_ns),
            atomic_cold: ns(profile.atomic_cold_ns),
            bucket_mask: (1 << profile.atomic_bucket_bits.min(63)) - 1,
            completion: ns(profile.completion_ns),
            queue_pairs: profile.queue_pairs.max(1) as usize,
            shared_engine: profile.engines == 1,
            post: Duration::from_nanos(profile.cpu.post_ns),
            doorbell: Duration::from_nanos(profile.cpu.doorbell_ns),
            poll: Duration::from_nanos(profile.cpu.poll_ns),
        }
    }

    fn wire(&self, bytes: u64) -> Ps {
        bytes * self.kib / 1024
    }

    /// What passing `bytes` on between memory and wire delays them: the time of the first packet.
    fn packet(&self, bytes: u64) -> Ps {
        bytes.min(self.packet) * self.packet_kib / 1024
    }

    /// What a requester's NIC does before the first byte of a request can leave.
    fn gather(&self, request: &Request) -> Ps {
        let bytes = outgoing_bytes(request);
        let fetched = if bytes <= self.inline_max { 0 } else { self.gather };
        fetched + self.packet(bytes)
    }

    /// What issuing a request costs the engine, with whatever becomes of it.
    fn send(&self, request: &Request) -> Ps {
        match request.kind() {
            Kind::Write | Kind::Send => self.send,
            Kind::Read | Kind::Atomic => self.send_read,
        }
    }

    /// What serving a request costs the engine.
    fn serve(&self, request: &Request) -> Ps {
        match request.kind() {
            Kind::Write | Kind::Send => self.serve,
            Kind::Read => self.serve_read,
            Kind::Atomic => self.serve_atomic,
        }
    }

    /// The same NIC, so many times slower.
    fn slowed(mut self, slowness: u32) -> NicTimes {
        let slowness = Ps::from(slowness.max(1));
        let times = [
            &mut self.send,
            &mut self.send_read,
            &mut self.serve,
            &mut self.serve_read,
            &mut self.serve_atomic,
            &mut self.kib,
            &mut self.packet_kib,
            &mut self.gather,
            &mut self.one_way,
            &mut self.write,
            &mut self.read,
            &mut self.atomic_fetch,
            &mut self.atomic,
            &mut self.atomic_cold,
            &mut self.completion,
        ];
        times.into_iter().for_each(|time| *time *= slowness);
        self
    }
}

/// The queues of one NIC.
#[derive(Default)]
pub(crate) struct NicQueues {
    issuing: Queue,
    /// Of a second engine.
    serving: Queue,
    /// The wire, each way.
    outgoing: Queue,
    incoming: Queue,
    /// Of atomics, by the low bits of the address (Sherman 3.2.2); those that were ever used.
    buckets: RefCell<BTreeMap<u64, Bucket>>,
}

/// Atomics that exclude each other.
#[derive(Default)]
struct Bucket {
    queue: Queue,
    /// The word of the last one, which is in the CPU's cache.
    last: Option<u64>,
}

impl NicQueues {
    /// What waits for the engine that serves.
    fn serving(&self, times: &NicTimes) -> &Queue {
        if times.shared_engine { &self.issuing } else { &self.serving }
    }
}

/// What waits for something that does one thing after the other.
///
/// Events come in the order of their times, but what they let pass is later by the one's wire and the
/// other's memory. A counter that says when the queue is free again would make whatever is early wait
/// for what is late, and idle until then; so this is the work in front of what comes next, which time
/// takes away.
#[derive(Default)]
struct Queue {
    backlog: Cell<Ps>,
    /// The latest time up to which the backlog was worked off.
    at: Cell<Ps>,
}

impl Queue {
    /// Something comes at `at` that takes so long. When it is through.
    fn pass(&self, at: Ps, takes: Ps) -> Ps {
        let passed = at.saturating_sub(self.at.get());
        let backlog = self.backlog.get().saturating_sub(passed);
        self.at.set(self.at.get().max(at));
        self.backlog.set(backlog + takes);
        at + backlog + takes
    }

    /// The same for bytes whose last comes at `at`, having taken so long: while they came, what was
    /// in front of them went.
    fn pass_on(&self, at: Ps, takes: Ps) -> Ps {
        if takes == 0 { at } else { self.pass(at.saturating_sub(takes), takes).max(at) }
    }
}

/// The queue pairs of one endpoint to one target, used in turn.
#[derive(Default)]
pub(crate) struct QueuePairs {
    next: Cell<usize>,
    pairs: RefCell<Vec<QueuePair>>,
}

/// On one queue pair nothing overtakes: when the last batch arrived, should take effect, took effect,
/// and completed.
#[derive(Clone, Copy, Default)]
struct QueuePair {
    arrived: Ps,
    expected: Ps,
    effective: Ps,
    completed: Ps,
}

/// `at`, or as soon after `last` as an event can be.
fn behind(at: Ps, last: &mut Ps) -> Ps {
    *last = at.max(*last + PS_PER_NS);
    *last
}

impl QueuePairs {
    fn take_turn(&self, count: usize) -> usize {
        let turn = self.next.get() % count;
        self.next.set(turn + 1);
        turn
    }

    fn with<T>(&self, pair: usize, act: impl FnOnce(&mut QueuePair) -> T) -> T {
        let mut pairs = self.pairs.borrow_mut();
        if pairs.len() <= pair {
            pairs.resize(pair + 1, QueuePair::default());
        }
        act(&mut pairs[pair])
    }
}

/// What a flight remembers of its times.
#[derive(Clone, Copy, Default)]
pub(crate) struct NicFlight {
    queue_pair: usize,
    /// When it arrives at the responder's NIC, once that is known.
    arrived: Option<Ps>,
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
    /// Serves `requests`, which arrive at `at`, by a NIC with these queues, or with empty ones.
    fn new(times: &NicTimes, nic: Option<&NicQueues>, at: Ps, requests: &[Request]) -> Service {
        let mut service = Service { effective: at, responded: at };
        for request in requests {
            let (sent, answered) = (outgoing_bytes(request), response_bytes(request));
            let ready = match nic {
                Some(nic) => {
                    let here = nic.incoming.pass_on(at, times.wire(sent));
                    nic.serving(times).pass(here, times.serve(request))
                }
                None => at + times.serve(request),
            };
            match request.kind() {
                Kind::Write | Kind::Send => {
                    let effective = ready + times.packet(sent) + times.write;
                    service.effective = service.effective.max(effective);
                }
                Kind::Atomic => {
                    let ready = service.effective.max(ready + times.atomic_fetch);
                    let word = request.remote().map_or(0, |(offset, _)| offset);
                    let bucket = word & times.bucket_mask;
                    service.effective = match nic {
                        Some(nic) => {
                            let mut buckets = nic.buckets.borrow_mut();
                            let Bucket { queue, last } = buckets.entry(bucket).or_default();
                            let warm = last.replace(word) == Some(word);
                            let cold = if warm { 0 } else { times.atomic_cold };
                            queue.pass(ready, times.atomic + cold)
                        }
                        None => ready + times.atomic,
                    };
                }
                Kind::Read => {
                    let fetched = ready + times.read + times.packet(answered);
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
            let requests = flight.batch.requests();
            let (mut sent, mut gathered) = (ps(from), 0);
            let nic = &flight.own.host.nic;
            for request in requests {
                let begun = nic.issuing.pass(ps(from), times.send(request));
                let leaves = nic.outgoing.pass(begun, times.wire(outgoing_bytes(request)));
                sent = leaves.max(sent);
                gathered = times.gather(request).max(gathered);
            }
            let arrived = sent + gathered + times.one_way + jitter + ps(Time::ZERO + delay);
            let pairs = &flight.lane.queue_pairs;
            let pair = pairs.take_turn(times.queue_pairs);
            flight.nic.queue_pair = pair;
            pairs.with(pair, |pair| {
                let arrived = behind(arrived, &mut pair.arrived);
                flight.nic.arrived = Some(arrived);
                let service = Service::new(&times, None, arrived, requests);
                behind(service.effective, &mut pair.expected)
            })
        });
        self.schedule_at(time(at), key, Event::Arrive);
    }

    /// The batch has arrived, and without a queue it would take effect now.
    pub(crate) fn arrive_nic(&self, times: &NicTimes, key: u32) {
        let effective = self.with(key, |flight| {
            let times = times.slowed(flight.slowness());
            // A batch that a gate held back at the start has no such time: it arrives now.
            let at = flight.nic.arrived.unwrap_or(ps(self.kernel.now()));
            let nic = &flight.there.host.nic;
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
                self.took_effect(key, request);
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
            let done = incoming.pass_on(arrived, wire);
            let done = done + times.packet(bytes) + times.completion;
            let pairs = &flight.lane.queue_pairs;
            pairs.with(flight.nic.queue_pair, |pair| {
                pair.completed = pair.completed.max(done);
                time(pair.completed)
            })
        })
    }
}
