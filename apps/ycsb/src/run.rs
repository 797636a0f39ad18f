//! The measured run: every worker draws operations and executes several at the same time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork_cluster::{Member, Worker};
use latchwork_engine::Counters;
use latchwork_harness::driver::{MeasuredRun, tasks};
use latchwork_harness::stop::Signal;
use latchwork_harness::{
    AppError, Course, FabricChoice, LongAccesses, LoopTime, PhaseProgress, RunPart, Share,
};
use latchwork_index::IndexError;
use latchwork_report::histogram::Latencies;
use latchwork_runtime::{Handle, Time};
use latchwork_workload::pacing::Pacer;
use latchwork_workload::ycsb::{
    InsertCounter, OperationKind, OperationStream, Versions, WorkerIndex, YcsbOperation,
};
use serde::{Deserialize, Serialize};

use crate::index::TableIndex;
use crate::sample_history::{History, Sample};
use crate::settings::{Settings, is_out_of_memory};
use crate::status::Status;
use crate::store::{Buffers, Ended, Store};

/// The times of a run, which are the same for all workers.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) begin: Time,
    pub(crate) measured_from: Time,
    /// No operation begins at or after this time.
    pub(crate) until: Time,
}

/// The shared state of all workers of a run.
pub(crate) struct Run {
    pub(crate) settings: Arc<Settings>,
    pub(crate) phase: Arc<PhaseProgress>,
    pub(crate) plan: Plan,
    pub(crate) inserts: Arc<InsertCounter>,
    /// The records with a recorded history, if any.
    pub(crate) sample: Option<Sample>,
    /// The course, for a run that warms up until the hit ratio is steady.
    pub(crate) course: Option<Course>,
    /// Whether a worker has begun the measured part. Only used without a course.
    pub(crate) is_measured: AtomicBool,
    /// The status lines, if any.
    pub(crate) status: Option<Arc<Status>>,
    /// How the run reads the time and waits: real or virtual.
    pub(crate) time: LoopTime,
    /// The member epoch of a process that works along in a run of others.
    pub(crate) replaces: Option<u64>,
    /// Where long accesses are noted, if there can be recoveries.
    pub(crate) long_accesses: Option<Arc<LongAccesses>>,
}

/// The results of one worker.
#[derive(Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) latencies: Latencies<OperationKind>,
    pub(crate) wrote: Wrote,
    /// The end of its last operation.
    pub(crate) end: Time,
    /// The counters of its node at the start of the measured part, if that began.
    pub(crate) counters: Option<Counters>,
}

/// What the checks at the end need to know of one worker, warm-up included.
#[derive(Serialize, Deserialize)]
pub(crate) struct Wrote {
    /// The worker's compute node, by index.
    pub(crate) node: usize,
    /// Records that the worker inserted.
    pub(crate) records: u64,
    /// The sum of their keys' hashes.
    pub(crate) digest: u64,
    /// Fields that its read-modify-writes wrote.
    pub(crate) fields_modified: u64,
    /// The worker's history of the sample.
    pub(crate) history: History,
}

/// A running worker.
struct Runner<I: TableIndex> {
    run: Arc<Run>,
    store: Store<I>,
    memory: Worker,
    handle: Handle,
    index: usize,
    stream: RefCell<OperationStream>,
    versions: RefCell<Versions>,
    pacer: Option<RefCell<Pacer>>,
    /// The number of operations that may still begin.
    left: Cell<u64>,
    share: Share,
    done: RefCell<Done>,
    measuring: Cell<bool>,
}

/// Runs one worker.
pub(crate) async fn run<I: TableIndex>(run: Arc<Run>, member: Member) -> Result<Done, AppError> {
    let runner = Rc::new(Runner::<I>::new(run, &member).await?);
    runner.handle.sleep_until(runner.run.plan.begin).await;
    let inflight = runner.run.settings.common.cluster.inflight;
    let runner = tasks(&member.handle, runner, 0..inflight, |runner, _| runner.work()).await?;
    Ok(runner.done.into_inner())
}

impl<I: TableIndex> Runner<I> {
    async fn new(run: Arc<Run>, member: &Member) -> Result<Runner<I>, AppError> {
        let settings = &run.settings;
        let store = Store::new(I::open(settings, member).await?, &settings.workload);
        let (index, count) = (member.index as u64, settings.common.workers() as u64);
        let worker = WorkerIndex { index, count };
        let seed = settings.common.cluster.seed;
        // Processes that replace dead ones do other operations than each other and than the run.
        let seed = seed.wrapping_add(run.replaces.unwrap_or(0));
        let stream = OperationStream::new(&settings.workload, &run.inserts, worker, seed)?;
        let versions = match run.replaces {
            None => Versions::of_worker(member.index as u16),
            Some(epoch) => Versions::of_replacement(epoch, index, count),
        };
        let pacer = settings.target_ops_s;
        let pacer = pacer.map(|target| Pacer::new(target, index, count, run.plan.begin).into());
        // If the operations cannot be shared evenly, each of the first workers does one more.
        let left = settings.operations.map_or(u64::MAX, |operations| {
            operations / count + u64::from(index < operations % count)
        });
        let done = Done {
            latencies: Latencies::new(),
            wrote: Wrote {
                node: member.node,
                records: 0,
                digest: 0,
                fields_modified: 0,
                history: History::new(),
            },
            end: run.plan.begin,
            counters: None,
        };
        Ok(Runner {
            store,
            memory: member.memory.clone(),
            handle: member.handle.clone(),
            index: member.index,
            stream: RefCell::new(stream),
            versions: RefCell::new(versions),
            pacer,
            left: Cell::new(left),
            share: Share::default(),
            done: RefCell::new(done),
            measuring: Cell::new(false),
            run,
        })
    }

    async fn work(self: Rc<Self>) {
        let mut buffers = Buffers::new();
        let mut last = self.handle.now();
        while let Some((begin, intended, counts)) = self.next_begin(last).await {
            let time = self.run.time;
            let invoked = time.instant(&self.handle, begin);
            // The draw counts as a part of the operation, because it takes less time than a clock
            // reading.
            let operation = self.stream.borrow_mut().draw();
            let version = self.versions.borrow_mut().take();
            let ended = self.store.execute(&operation, version, &mut buffers).await;
            let end = self.handle.now();
            if let Some(record) = operation.claimed() {
                self.run.inserts.acknowledge(record);
            }
            let effect = (invoked, time.instant(&self.handle, end));
            match ended {
                Ok(ended) => {
                    self.note(&operation, ended, (begin, end), intended, counts);
                    self.keep(&operation, ended, effect, &mut buffers);
                }
                Err(error) => return self.run.fail(&error),
            }
            last = end;
            time.end_operation(&self.handle, &self.run.phase, end).await;
        }
    }

    /// The begin of the next operation, its intended begin, and whether it is measured. `None` if
    /// the worker begins no more operations.
    async fn next_begin(&self, last: Time) -> Option<(Time, Option<Time>, bool)> {
        let plan = &self.run.plan;
        let (begin, intended) = match &self.pacer {
            // Without a target one clock reading is the end of one operation and the begin of the
            // next.
            None => (last, None),
            Some(pacer) => {
                let intended = pacer.borrow_mut().next_start();
                if intended >= plan.until {
                    // The measured time is over at its end, also when no operation is left for it.
                    self.wait_for(plan.until).await;
                    return None;
                }
                if intended > last && !self.wait_for(intended).await {
                    return None;
                }
                (self.handle.now(), Some(intended))
            }
        };
        if begin >= plan.until || self.run.is_over() {
            return None;
        }
        if let Some(course) = &self.run.course {
            let part = course.next(&self.share, begin)?;
            return Some((begin, intended, part == RunPart::Measured));
        }
        let counts = intended.unwrap_or(begin) >= plan.measured_from;
        if counts {
            if !self.measuring.replace(true) {
                let counters = self.memory.node().counters();
                self.done.borrow_mut().counters = Some(counters);
                // Relaxed: no other memory depends on this flag.
                self.run.is_measured.store(true, Ordering::Relaxed);
            }
            self.left.set(self.left.get().checked_sub(1)?);
        }
        Some((begin, intended, counts))
    }

    /// Waits for the intended begin of an operation. Returns whether the run continues.
    async fn wait_for(&self, intended: Time) -> bool {
        loop {
            let look = self.run.time.next_look(&self.handle, intended);
            self.handle.sleep_until(look).await;
            let now = self.handle.now();
            if self.run.is_over() || self.run.has_run_its_course(now) {
                return false;
            }
            if now >= intended {
                return true;
            }
        }
    }

    fn note(
        &self,
        operation: &YcsbOperation,
        ended: Ended,
        (begin, end): (Time, Time),
        intended: Option<Time>,
        counts: bool,
    ) {
        let mut done = self.done.borrow_mut();
        done.end = done.end.max(end);
        if let Some(accesses) = &self.run.long_accesses {
            accesses.note(begin, end);
        }
        if counts {
            let kind = operation.kind();
            let record = |latencies: &mut Latencies<OperationKind>| match ended {
                Ok(()) => latencies.record(kind, end - begin, intended.map(|at| end - at)),
                Err(failure) => latencies.record_failure(kind, failure),
            };
            record(&mut done.latencies);
            self.run.phase.count(self.index);
            if let Some(status) = &self.run.status {
                status.note(self.index, || self.run.measured_from(), end, record);
            }
        }
    }

    /// Keeps what the checks at the end need to know of an operation, measured or not.
    fn keep(
        &self,
        operation: &YcsbOperation,
        ended: Ended,
        effect: (Time, Time),
        buffers: &mut Buffers,
    ) {
        let wrote = &mut self.done.borrow_mut().wrote;
        if let Some(record) = operation.claimed().filter(|_| ended.is_ok()) {
            let content = self.store.content_key(record, buffers);
            wrote.records += 1;
            wrote.digest = wrote.digest.wrapping_add(content.number());
        }
        if let (YcsbOperation::ReadModifyWrite { write, .. }, true) = (operation, ended.is_ok()) {
            wrote.fields_modified += self.store.count(*write);
        }
        if let Some(sample) = &self.run.sample {
            sample.note(&mut wrote.history, (operation, ended), effect, &buffers.seen);
        }
    }
}

impl MeasuredRun for Run {
    fn course(&self) -> Option<&Course> {
        self.course.as_ref()
    }

    fn stop(&self, signal: Signal) -> bool {
        match &self.course {
            Some(course) => course.stop(signal),
            None => {
                self.phase.end_early();
                self.is_measured.load(Ordering::Relaxed)
            }
        }
    }

    fn part(&self, now: Time) -> Option<RunPart> {
        match &self.course {
            Some(course) => course.part(),
            None if now < self.plan.measured_from => Some(RunPart::WarmUp),
            None => (now < self.plan.until).then_some(RunPart::Measured),
        }
    }
}

impl Run {
    /// Ends the run on all workers. When the memory pool is full, the operations so far count.
    fn fail(&self, error: &impl IndexError) {
        let (settings, phase) = (&self.settings, &self.phase);
        let told = settings.run_error(error, phase);
        let is_alone = !matches!(settings.common.fabric, FabricChoice::Joined(_));
        match is_out_of_memory(error) && is_alone && self.course.is_none() {
            true => phase.end_short(told),
            false => phase.fail(told),
        }
    }

    /// The begin of the measured part. Not valid before it.
    fn measured_from(&self) -> Time {
        self.course.as_ref().map_or(self.plan.measured_from, Course::from)
    }

    fn is_over(&self) -> bool {
        self.phase.stopped() || self.phase.ended_early()
    }

    /// Whether the course, if the run has one, is over. Waiting workers call this.
    fn has_run_its_course(&self, now: Time) -> bool {
        let Some(course) = &self.course else { return false };
        course.look(now);
        course.is_over()
    }
}

impl Plan {
    /// A run that begins at this time.
    pub(crate) fn new(begin: Time, warmup: Duration, time: Option<Duration>) -> Plan {
        let measured_from = begin + warmup;
        let until = time.map_or(Time::MAX, |time| measured_from + time);
        Plan { begin, measured_from, until }
    }
}
