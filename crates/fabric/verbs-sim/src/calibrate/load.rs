//! [`Load`]: workers that keep a number of verbs of one kind in flight, and their measured rate.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use latchwork_runtime::{ExecutorConfig, Handle, Poller, Time, VirtualWorker};
use latchwork_simulation::{Kernel, RunEnd};
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{
    CHIP_BASE, ComputeNodeId, Endpoint as _, Extent, LocalBuffer, MemoryNodeId, RegionKey, Target,
    WorkRequest,
};

use super::world::{CalibrateError, LIMIT_SECONDS, config, zeroed};
use crate::endpoint::SimEndpoint;
use crate::fabric::SimFabric;
use crate::profile::{Measure, NicProfile};

/// The verb that each worker posts, with its length in bytes.
#[derive(Clone, Copy)]
pub(super) enum Verb {
    Read(u32),
    Write(u32),
    /// Fetch-and-add.
    Atomic(Spread),
}

/// The words on which atomics act. A bucket is a set of addresses whose atomics exclude each other
/// on the NIC.
#[derive(Clone, Copy)]
pub(super) enum Spread {
    OneAddress,
    OneBucket,
    All,
    /// The on-chip memory.
    Chip,
}

/// The smallest size of each memory node, in bytes. READs, WRITEs and atomics are spread over this
/// memory.
const MEMORY_BYTES: u64 = 2 << 20;

/// The number of distinct words of one bucket that atomics use.
const WORDS_OF_BUCKET: u64 = 64;

/// The largest size of a memory node in bytes, for words of one bucket. If the words of one bucket
/// are too far apart for this size, atomics use fewer words.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// The number of completions before the measurement starts, so that the queues are full.
const WARM_UP: u64 = 3_000;

/// The number of completions that are timed.
const TIMED: u64 = 8_000;

/// The number of timed completions of a load with one verb at a time. The warm-up of such a load is
/// one verb.
const ONE_BY_ONE: u64 = 1_000;

const _: () = assert!(
    MEMORY_BYTES <= MEMORY_BYTES_MAX && WORDS_OF_BUCKET > 1 && ONE_BY_ONE < TIMED,
    "a measurement has memory and rounds"
);
/// The workers, their verbs and their targets.
#[derive(Clone, Copy)]
pub(super) struct Load {
    verb: Verb,
    nodes: u8,
    workers: usize,
    targets: u16,
    /// The number of verbs that each worker keeps in flight.
    depth: u64,
    /// Whether the targets are the other compute nodes instead of memory nodes.
    swarm: bool,
}

/// The measured rate, in completions per microsecond, and latency. With `swarm`, the rate is that
/// of one node.
pub(super) struct Ran {
    pub(super) per_micro: f64,
    /// The average time in microseconds from the posting of a verb until its completion is polled.
    pub(super) micros_each: f64,
}

impl Load {
    /// A load with one worker, one target, and one verb at a time.
    pub(super) fn new(verb: Verb) -> Load {
        Load { verb, nodes: 1, workers: 1, targets: 1, depth: 1, swarm: false }
    }

    pub(super) fn inbound(self) -> Load {
        Load { nodes: 16, workers: 4, depth: 16, ..self }
    }

    pub(super) fn outbound(self) -> Load {
        Load { workers: 16, targets: 16, depth: 32, ..self }
    }

    pub(super) fn one_worker(self) -> Load {
        Load { depth: 128, ..self }
    }

    /// The load of `rc-swarm` in rdma_bench, the source of the published all-to-all figures.
    pub(super) fn swarm(self) -> Load {
        Load { nodes: 6, workers: 8, depth: 32, swarm: true, ..self }
    }

    pub(super) fn streaming(self) -> Load {
        Load { depth: 16, ..self }
    }

    pub(super) fn run(self, profile: &NicProfile, measure: Measure) -> Result<Ran, CalibrateError> {
        let kernel = Kernel::new(1);
        let fabric = SimFabric::new(&kernel, config(profile));
        let place = Place::new(profile, self.verb);
        for _ in 0..self.targets {
            fabric.add_memory_node(place.extent())?;
        }
        let tally = Rc::new(Tally::default());
        let executor = ExecutorConfig {
            sweep_cost: Duration::from_nanos(profile.cpu.sweep_ns),
            ..ExecutorConfig::default()
        };
        let nodes: Vec<_> = (1..=self.nodes).filter_map(ComputeNodeId::new).collect();
        let mut regions = Vec::new();
        for &node in &nodes {
            fabric.add_compute_node(node)?;
            let bytes = if self.swarm { place.memory } else { place.local };
            regions.push(fabric.register(node, zeroed(bytes)?)?);
        }
        let mut workers = Vec::new();
        for (&node, &region) in nodes.iter().zip(&regions) {
            let targets: Vec<_> = if self.swarm {
                let others = nodes.iter().filter(|&&other| other != node);
                others.map(|&other| Target::Compute(other, region.0)).collect()
            } else {
                (0..self.targets).map(|target| Target::Memory(MemoryNodeId(target))).collect()
            };
            for _ in 0..self.workers {
                let worker = VirtualWorker::spawn(&kernel, executor.clone());
                let handle = worker.handle();
                let poster = Rc::new(Poster {
                    endpoint: RefCell::new(fabric.endpoint(node, &handle)?),
                    handle: handle.clone(),
                    load: self,
                    place,
                    region,
                    targets: targets.clone(),
                    kernel: kernel.clone(),
                    posted: RefCell::default(),
                    tally: Rc::clone(&tally),
                });
                handle.add_poller(poster.clone());
                handle.spawn(async move { (0..self.depth).for_each(|_| poster.post()) });
                workers.push(worker);
            }
        }
        let one_by_one = self.depth == 1;
        strict_assert_eq!(
            workers.len(),
            nodes.len() * self.workers,
            "a worker of the load is missing"
        );
        let (before, timed) = if one_by_one { (1, ONE_BY_ONE) } else { (WARM_UP, TIMED) };
        let limit = Time::ZERO + Duration::from_secs(LIMIT_SECONDS);
        let run_to = |count: u64| match kernel.run_until(limit, || tally.count.get() >= count) {
            RunEnd::Done => Ok(()),
            end => Err(CalibrateError::World { measure, seconds: LIMIT_SECONDS, end }),
        };
        run_to(before)?;
        let (start, count, waited) = (kernel.now(), tally.count.get(), tally.waited.get());
        run_to(before + timed)?;
        let count = (tally.count.get() - count) as f64;
        let waited = tally.waited.get().saturating_sub(waited);
        strict_assert!(count > 0.0, "a measurement timed no operation");
        let micros = |time: Duration| time.as_nanos() as f64 / 1000.0;
        let of = if self.swarm { f64::from(self.nodes) } else { 1.0 };
        Ok(Ran {
            per_micro: count / micros(kernel.now() - start) / of,
            micros_each: micros(waited) / count,
        })
    }
}

/// The sizes of the memories in bytes, and the offsets that verbs use.
#[derive(Clone, Copy)]
struct Place {
    /// The first offset that verbs use.
    start: u64,
    memory: u64,
    local: u64,
    /// The distance in bytes between two used offsets.
    stride: u64,
    /// The number of used offsets.
    offsets: u64,
}

impl Place {
    fn new(profile: &NicProfile, verb: Verb) -> Place {
        match verb {
            Verb::Read(bytes) | Verb::Write(bytes) => {
                let bytes = u64::from(bytes);
                let memory = MEMORY_BYTES.max(bytes);
                Place { start: 0, memory, local: bytes, stride: bytes, offsets: memory / bytes }
            }
            Verb::Atomic(spread) => {
                let bucket = 1 << profile.atomic_bucket_bits.max(3);
                let (stride, offsets) = match spread {
                    Spread::OneAddress => (8, 1),
                    Spread::OneBucket => {
                        let fit = (MEMORY_BYTES_MAX / bucket).max(1);
                        (bucket, fit.min(WORDS_OF_BUCKET))
                    }
                    Spread::All => (8, MEMORY_BYTES / 8),
                    // A profile without on-chip memory has no word there, and the measurement is
                    // refused with its memory node.
                    Spread::Chip => (8, u64::from(profile.chip_bytes / 8).max(1)),
                };
                let start = if matches!(spread, Spread::Chip) { CHIP_BASE } else { 0 };
                let memory = MEMORY_BYTES.max(stride * (offsets - 1) + 8);
                Place { start, memory, local: 8, stride, offsets }
            }
        }
    }
}

impl Place {
    /// The lengths of the memory of a memory node.
    fn extent(&self) -> Extent {
        let chip_bytes = if self.start == 0 { 0 } else { self.stride * self.offsets };
        Extent { bytes: self.memory, chip_bytes }
    }
}

#[derive(Default)]
struct Tally {
    count: Cell<u64>,
    waited: Cell<Duration>,
}

/// One worker, which posts a new verb for each completed verb.
struct Poster {
    endpoint: RefCell<SimEndpoint>,
    handle: Handle,
    load: Load,
    place: Place,
    region: RegionKey,
    targets: Vec<Target>,
    kernel: Kernel,
    /// The time of posting of each verb; the token of the verb is the index.
    posted: RefCell<Vec<Time>>,
    tally: Rc<Tally>,
}

impl Poster {
    fn post(&self) {
        let token = self.posted.borrow().len();
        strict_assert!(
            (token as u64) < self.load.depth,
            "more requests are posted than the load has"
        );
        self.posted.borrow_mut().push(Time::ZERO);
        self.post_as(&mut self.endpoint.borrow_mut(), token as u64);
    }

    fn post_as(&self, endpoint: &mut SimEndpoint, token: u64) {
        let offset = self.kernel.random_below(self.place.offsets) * self.place.stride;
        strict_assert!(offset + 8 <= self.place.memory, "a request leaves the memory of the load");
        let remote = self.place.start + offset;
        let local = |len| LocalBuffer { region: self.region, offset: 0, len };
        let request = match self.load.verb {
            Verb::Read(len) => WorkRequest::Read { remote, local: local(len) },
            Verb::Write(8) => WorkRequest::WriteWord { remote, value: 1 },
            Verb::Write(len) => WorkRequest::Write { remote, local: local(len) },
            Verb::Atomic(_) => WorkRequest::FetchAdd { remote, add: 1 },
        };
        let target = self.targets[self.kernel.random_below(self.targets.len() as u64) as usize];
        self.posted.borrow_mut()[token as usize] = self.handle.now();
        let posted = endpoint.post(target, token, &[request]);
        debug_assert!(posted.is_ok(), "the place was made for it");
    }
}

impl Poller for Poster {
    fn poll(&self, _now: Time) -> bool {
        let mut tokens = Vec::new();
        let some = self.endpoint.borrow_mut().poll(&mut |completion| {
            let token = completion.token;
            strict_assert!(
                (token as usize) < self.posted.borrow().len(),
                "a completion of no request"
            );
            let waited = self.handle.now() - self.posted.borrow()[token as usize];
            self.tally.count.set(self.tally.count.get() + 1);
            self.tally.waited.set(self.tally.waited.get() + waited);
            tokens.push(token);
        });
        let mut endpoint = self.endpoint.borrow_mut();
        tokens.into_iter().for_each(|token| self.post_as(&mut endpoint, token));
        some
    }

    fn flush(&self) {
        self.endpoint.borrow_mut().ring();
    }

    fn may_park(&self) -> bool {
        self.endpoint.borrow().may_park()
    }
}
