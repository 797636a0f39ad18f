//! The measured run. Every worker has terminals and runs their transactions. A transaction that
//! meets a conflict runs again.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::{Member, Worker};
use latchwork_harness::driver::{MeasuredRun, tasks};
use latchwork_harness::{AppError, Course, LoopTime, PhaseProgress, RunPart, Share};
use latchwork_partition::Partitioned;
use latchwork_runtime::sync::{AtomicU32, Mutex, Ordering};
use latchwork_runtime::{Handle, Time};
use latchwork_txn::{Conflict, Retry, TxnError};
use latchwork_workload::tpcc::{Home, Terminal, TpccTransaction, key, think_time};
use serde::{Deserialize, Serialize};

use crate::about::About;
use crate::intervals::Progress;
use crate::log::Logs;
use crate::partitions::Partitions;
use crate::record::Recorded;
use crate::recover;
use crate::session::{Logged, Session, is_out_of_memory};
use crate::settings::Settings;
use crate::tables::{Store, Tables};
use crate::tally::Tally;
use crate::transactions::{Buffers, Ended, Failure, attempt};
use crate::worker_barrier::{self, WorkerBarrier};

/// The interval at which a waiting terminal checks whether the run is over.
const LOOK: Duration = Duration::from_millis(100);

/// The longest time that workers wait for the first worker to count the run.
const NOTE_WAIT: Duration = Duration::from_secs(30);

/// How long a worker of a run that has failed waits for the others.
const ENDING: Duration = Duration::from_secs(2);

/// A bit above the 16 bits of a run's number. It says that the number is known.
const NOTED: u32 = 1 << 16;

/// The shared state of all workers of a run.
pub(crate) struct Run {
    pub(crate) session: Arc<Session>,
    pub(crate) phase: Arc<PhaseProgress>,
    pub(crate) course: Course,
    pub(crate) begin: Time,
    /// How the run reads the time and waits: real or virtual.
    pub(crate) time: LoopTime,
    pub(crate) intervals: Option<Progress>,
    /// The recording, which ends when all workers have ended.
    pub(crate) recorded: Mutex<Option<Recorded>>,
    pub(crate) partitions: Option<Partitions>,
    /// The run's number on this database, for rows of HISTORY, with [`NOTED`]. It is 0 until the
    /// first worker has counted the run.
    pub(crate) number: AtomicU32,
    /// Workers of this process whose terminals have ended.
    pub(crate) ended: AtomicU32,
}

/// The common data of a run of many processes, which the first worker prepares.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// The run's number.
    pub(crate) number: u16,
    /// The address of the line for the workers' [barriers](crate::worker_barrier).
    pub(crate) line: u64,
}

/// Prepares a run of many processes, on the first worker.
pub(crate) async fn begin(
    session: Arc<Session>,
    phase: Arc<PhaseProgress>,
    member: Member,
) -> Result<Option<Begun>, AppError> {
    let (store, _) = session.open(&phase, &member, Logged::Yes).await?;
    if member.index > 0 {
        return Ok(None);
    }
    let number = begin_run(&session, &store).await?;
    let line = WorkerBarrier::line(&member).await?.bits();
    Ok(Some(Begun { number, line }))
}

/// Counts another run in the database, and returns its number.
async fn begin_run(session: &Session, store: &Store) -> Result<u16, AppError> {
    let begun = About::begin_run(store).await.map_err(|error| session.txn_error(&error))?;
    let full = || {
        let most = key::RUN_MAX;
        format!("the database has had {most} runs, and can have no more: load a new database")
    };
    begun.ok_or_else(|| AppError::Failed(full()))
}

/// The results of one worker.
#[derive(Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) tally: Tally,
    /// The end of its last transaction.
    pub(crate) end: Time,
}

/// A running worker.
struct Runner {
    run: Arc<Run>,
    store: Store,
    /// The worker's partition, if each node has one.
    partitioned: Option<Partitioned<Worker>>,
    tables: Tables,
    handle: Handle,
    index: usize,
    share: Share,
    /// The run's number.
    number: u16,
    /// The number of the next row of HISTORY.
    sequence: Cell<u32>,
    done: RefCell<Done>,
}

/// Runs one worker.
pub(crate) async fn run(run: Arc<Run>, member: Member) -> Result<Done, AppError> {
    let (store, tables) = run.session.open(&run.phase, &member, Logged::Yes).await?;
    let settings = &run.session.settings;
    let places = settings.terminals.of_worker(member.index as u32);
    let done = RefCell::new(Done { tally: Tally::default(), end: run.begin });
    let handle = member.handle.clone();
    let number = run.number(&store, &member).await?;
    let recorder = Recorded::recorder(run.recorded.lock().as_ref());
    let partitioned = match &run.partitions {
        None => None,
        Some(all) => {
            let (session, phase, of) = (&run.session, &run.phase, (&store, &tables));
            Some(all.start(session, phase, &member, of, recorder.clone()).await?)
        }
    };
    store.record(recorder, member.index as u16);
    let ended = Rc::new(Cell::new(false));
    let writing = {
        let (session, phase, store) = (run.session.clone(), run.phase.clone(), store.clone());
        let (run, member_of) = (run.clone(), member.clone());
        let ended = ended.clone();
        let over = move || ended.get() || run.course.is_over() || run.phase.stopped();
        let files = session.settings.logs.as_ref().is_some_and(Logs::are_files);
        // Without files the task of the first worker ends at once. It is one of the events of a
        // simulated world.
        let writes = member.index == 0 || member.worker == 0 && files;
        writes.then(|| {
            handle.spawn_service(recover::keep_logs(session, phase, store, member_of, over))
        })
    };
    let runner = Rc::new(Runner {
        number,
        store,
        partitioned,
        tables,
        handle: handle.clone(),
        index: member.index,
        share: Share::default(),
        sequence: Cell::new(0),
        done,
        run: run.clone(),
    });
    handle.sleep_until(run.begin).await;
    let terminal = |runner: Rc<Runner>, (number, home)| runner.terminal(number, home);
    let runner = tasks(&handle, runner, places, terminal).await?;
    run.let_others_end(&member).await;
    if let Some(writing) = writing.filter(|_| member.index == 0) {
        // The writer of checkpoints checks itself whether the run is over.
        let _ = writing.await;
    }
    if let (Some(all), Some(partitioned)) = (&run.partitions, &runner.partitioned) {
        runner.stay().await;
        all.leave(&run.session, partitioned, &run.phase, &member).await?;
    }
    ended.set(true);
    run.session.end_phase(&run.phase, &member).await?;
    let log = runner.store.node().log().cloned();
    let mut done = runner.done.into_inner();
    if let Some(log) = log.filter(|_| member.worker == 0) {
        done.tally.still_refused = log.trouble().map(|error| error.to_string());
    }
    Ok(done)
}

impl MeasuredRun for Run {
    fn course(&self) -> Option<&Course> {
        Some(&self.course)
    }
}

impl Run {
    /// Counts a worker whose terminals have ended. In a run that has failed it stays until all are
    /// counted: an access of another node to a line that this node has needs an answer, and would
    /// otherwise end at its deadline only.
    async fn let_others_end(&self, member: &Member) {
        // Relaxed: no other memory depends on the count.
        self.ended.fetch_add(1, Ordering::Relaxed);
        let settings = &self.session.settings;
        let all = settings.common.workers() as u32;
        let deadline = member.handle.now() + ENDING;
        while self.phase.stopped()
            && !settings.is_joined()
            && self.ended.load(Ordering::Relaxed) < all
            && member.handle.now() < deadline
        {
            member.handle.sleep(Duration::from_millis(1)).await;
        }
    }

    /// Ends the run on all workers if the memory pool is full. The transactions so far count,
    /// unless the run is still in its warm-up.
    fn ends_short(&self, error: &TxnError) -> bool {
        let ends = is_out_of_memory(error)
            && !self.session.settings.is_joined()
            && self.course.end_early(None);
        if ends {
            let when = format!(" after {} transactions", self.phase.done());
            self.phase.end_short(self.session.out_of_memory(&when));
        }
        ends
    }

    /// The run's number in the form of `Run::number`; 0 while it is not known.
    pub(crate) fn noted(number: Option<u16>) -> AtomicU32 {
        AtomicU32::new(number.map_or(0, |number| NOTED | u32::from(number)))
    }

    /// The run's number. The first worker counts the run in the database, unless the run is counted
    /// already.
    async fn number(&self, store: &Store, member: &Member) -> Result<u16, AppError> {
        if member.index == 0 && self.number.load(Ordering::Acquire) == 0 {
            let number = begin_run(&self.session, store).await?;
            self.number.store(NOTED | u32::from(number), Ordering::Release);
            return Ok(number);
        }
        let deadline = member.handle.now() + NOTE_WAIT;
        loop {
            match self.number.load(Ordering::Acquire) {
                0 if self.phase.stopped() || member.handle.now() >= deadline => {
                    return Err(AppError::Failed(format!(
                        "the first worker did not begin the run within {NOTE_WAIT:?}"
                    )));
                }
                0 => member.handle.sleep(Duration::from_micros(100)).await,
                noted => return Ok(noted as u16),
            }
        }
    }
}

impl Runner {
    fn settings(&self) -> &Settings {
        &self.run.session.settings
    }

    /// One terminal from the begin to the end of the run.
    async fn terminal(self: Rc<Self>, number: u32, home: Home) {
        if let Err(error) = self.carry_out_all(number, home).await {
            self.run.phase.fail(error);
        }
    }

    async fn carry_out_all(&self, number: u32, home: Home) -> Result<(), AppError> {
        let settings = self.settings();
        let (wait, seed) = (settings.terminals.wait(), settings.common.cluster.seed);
        let mut terminal = Terminal::new(settings.inputs, home, seed, number)?;
        let mut buffers = Buffers::default();
        if wait && !self.pause(settings.terminals.begins_after(number)).await {
            return Ok(());
        }
        let mut last = self.handle.now();
        loop {
            let input = terminal.next_transaction();
            if wait {
                if !self.pause(input.kind().keying_time()).await {
                    return Ok(());
                }
                last = self.handle.now();
            }
            let begin = last;
            if self.run.phase.stopped() {
                return Ok(());
            }
            let Some(part) = self.run.course.next(&self.share, begin) else { return Ok(()) };
            let measured = part == RunPart::Measured;
            last = self.carry_out(&input, begin, measured, &mut buffers).await?;
            self.run.time.end_operation(&self.handle, &self.run.phase, last).await;
            if wait && !self.pause(think_time(input.kind(), terminal.random())).await {
                return Ok(());
            }
        }
    }

    /// Waits for a terminal's keying or think time. Returns whether the run continues.
    async fn pause(&self, duration: Duration) -> bool {
        let until = self.handle.now() + duration;
        loop {
            let now = self.handle.now();
            self.run.course.look(now);
            if self.run.phase.stopped() || self.run.course.is_over() {
                return false;
            }
            if now >= until {
                return true;
            }
            self.handle.sleep_until(until.min(now + LOOK)).await;
        }
    }

    /// Stays until the run is over, so that the time of the barriers begins then: a worker may have
    /// no terminals. A run without a time is given up when no worker gets on.
    async fn stay(&self) {
        let mut done = self.run.phase.done();
        while self.pause(worker_barrier::WAIT).await {
            let before = std::mem::replace(&mut done, self.run.phase.done());
            if done == before && !self.run.course.is_timed() {
                return;
            }
        }
    }

    /// Runs a transaction until it has committed, or until its time for retries is over. Returns
    /// the time of its end.
    async fn carry_out(
        &self,
        input: &TpccTransaction,
        begin: Time,
        measured: bool,
        buffers: &mut Buffers,
    ) -> Result<Time, AppError> {
        let kind = input.kind();
        let mut retry = self.store.retry();
        loop {
            retry.turn().await;
            let tried = self.attempt(input, begin, &retry, buffers).await;
            let conflict = match tried {
                Ok(ended) => {
                    let end = self.handle.now();
                    self.completed(input, ended, (begin, end), measured);
                    retry.end().await;
                    return Ok(end);
                }
                Err(Failure::Txn(TxnError::Conflict(conflict))) => conflict,
                // The transaction has left no change. Later transactions may succeed, because the
                // disk may have room again.
                Err(Failure::Txn(
                    error @ (TxnError::NotLogged(_) | TxnError::NotPrepared { .. }),
                )) => {
                    return Ok(self.refused(input, error.to_string(), measured));
                }
                Err(Failure::Txn(error)) if self.run.ends_short(&error) => {
                    return Ok(self.handle.now());
                }
                Err(failure) => return Err(self.run.session.failure(&failure)),
            };
            if self.run.phase.stopped() {
                // The conflict may last for ever: a log that failed leaves rows locked.
                return Ok(self.handle.now());
            }
            if measured {
                self.aborted(input, conflict);
            }
            if let Err(error) = retry.met(conflict).await {
                return Ok(self.given_up(input, error.to_string(), measured));
            }
            if measured {
                self.done.borrow_mut().tally.statistics.retried(kind);
                self.note(self.handle.now(), |statistics| statistics.retried(kind));
            }
        }
    }

    async fn attempt(
        &self,
        input: &TpccTransaction,
        begin: Time,
        retry: &Retry<Worker>,
        buffers: &mut Buffers,
    ) -> Result<Ended, Failure> {
        let (tables, stamps) = (&self.tables, self.stamps(begin));
        match &self.partitioned {
            None => attempt(retry.begin().await?, tables, input, buffers, stamps).await,
            Some(all) => attempt(all.begin().await?, tables, input, buffers, stamps).await,
        }
    }

    /// The time of a transaction that began at `begin`, and the number for its row of HISTORY.
    fn stamps(&self, begin: Time) -> (NonZeroU64, u64) {
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        let now_us = NonZeroU64::new(begin.as_nanos() / 1_000);
        // The number of workers of a cluster fits into 16 bits.
        let number = key::history_number(self.number, self.index as u16, sequence);
        (now_us.unwrap_or(NonZeroU64::MIN), number)
    }

    fn completed(
        &self,
        input: &TpccTransaction,
        ended: Ended,
        (begin, end): (Time, Time),
        measured: bool,
    ) {
        let kind = input.kind();
        // The compiler must not drop the computation of the result.
        std::hint::black_box(ended.shown);
        let mut done = self.done.borrow_mut();
        done.end = done.end.max(end);
        if !ended.rolled_back {
            done.tally.committed(kind);
        }
        if !measured {
            return;
        }
        let latency = end - begin;
        match ended.rolled_back {
            true => done.tally.statistics.rolled_back(kind, latency),
            false => done.tally.statistics.completed(kind, latency),
        }
        done.tally.skipped += u64::from(ended.skipped);
        drop(done);
        self.run.phase.count(self.index);
        self.note(end, |statistics| match ended.rolled_back {
            true => statistics.rolled_back(kind, latency),
            false => statistics.completed(kind, latency),
        });
    }

    fn aborted(&self, input: &TpccTransaction, conflict: Conflict) {
        let mut done = self.done.borrow_mut();
        done.tally.met(conflict);
        done.tally.statistics.aborted(input.kind());
        drop(done);
        self.note(self.handle.now(), |statistics| statistics.aborted(input.kind()));
    }

    fn given_up(&self, input: &TpccTransaction, why: String, measured: bool) -> Time {
        self.failed(input, measured, |tally| tally.given_up.note(why))
    }

    fn refused(&self, input: &TpccTransaction, why: String, measured: bool) -> Time {
        self.failed(input, measured, |tally| tally.refused.note(why))
    }

    fn failed(
        &self,
        input: &TpccTransaction,
        measured: bool,
        note: impl FnOnce(&mut Tally),
    ) -> Time {
        let end = self.handle.now();
        let mut done = self.done.borrow_mut();
        done.end = done.end.max(end);
        note(&mut done.tally);
        if measured {
            done.tally.statistics.failed(input.kind());
        }
        end
    }

    /// Records a transaction into the interval of this time.
    fn note(&self, now: Time, note: impl FnOnce(&mut latchwork_workload::tpcc::Statistics)) {
        if let Some(intervals) = &self.run.intervals {
            intervals.note(self.index, now, note);
        }
    }
}
