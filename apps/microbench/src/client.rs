//! One worker's part of the run: several clients, each with one access at a time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use latchwork_cluster::{Member, Worker};
use latchwork_coherence::CoherentMemory as _;
use latchwork_harness::driver::{MeasuredRun, tasks};
use latchwork_harness::{AppError, Course, RunPart, Share};
use latchwork_history::calls::RegisterOperation;
use latchwork_relaxed::{LossCause, LostWrite, RelaxedError, WriteBuffer};
use latchwork_report::histogram::{Latencies, OperationFailure};
use latchwork_runtime::{Handle, Time};
use latchwork_workload::micro::{
    AccessStream, ClientIndex, Garbage, ItemTag, MicroAccess, MicroKind, WriteKind,
};
use serde::{Deserialize, Serialize};

use crate::lines::{Lines, Place};
use crate::sample_history::{History, Sample};
use crate::settings::Settings;

/// The shared state of all workers.
pub(crate) struct Run {
    pub(crate) settings: Arc<Settings>,
    pub(crate) lines: Arc<Lines>,
    /// No access begins before this time.
    pub(crate) begin: Time,
    pub(crate) course: Course,
    pub(crate) sample: Sample,
}

impl MeasuredRun for Run {
    fn course(&self) -> Option<&Course> {
        Some(&self.course)
    }
}

/// The results of one worker.
#[derive(Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) node: usize,
    /// Latencies in the measured part.
    pub(crate) latencies: Latencies<MicroKind>,
    /// Measured operations in each interval, if a series was requested.
    pub(crate) series: Vec<u64>,
    /// Writes of each client, warm-up included.
    pub(crate) writes: Vec<(usize, u64)>,
    /// The first item with contents that no write has produced.
    pub(crate) garbage: Option<String>,
    /// The number of items that were checked during the run.
    pub(crate) looked_at: u64,
    /// The worker's history of the sample.
    pub(crate) history: History,
    /// The end of its last measured access.
    pub(crate) end: Time,
}

/// The results of an access.
struct Ended {
    /// The stamp in the item, if the access read the item.
    found: Option<Result<ItemTag, Garbage>>,
    /// The stamp that the access wrote.
    wrote: Option<ItemTag>,
}

/// A running worker.
struct Runner {
    run: Arc<Run>,
    memory: Worker,
    /// The write buffer, if writes do not take effect at once.
    buffer: Option<WriteBuffer<Worker>>,
    handle: Handle,
    place: Place,
    node: usize,
    share: Share,
    from: Cell<Option<Time>>,
    done: RefCell<Done>,
}

/// Runs one worker.
pub(crate) async fn run(run: Arc<Run>, member: Member) -> Result<Done, AppError> {
    let inflight = run.settings.common.cluster.inflight;
    let runner = Rc::new(Runner {
        memory: member.memory.clone(),
        buffer: buffer(&run, &member)?,
        handle: member.handle.clone(),
        place: Place::of(&run.settings),
        node: member.node,
        share: Share::default(),
        from: Cell::new(None),
        done: RefCell::new(Done {
            node: member.node,
            latencies: Latencies::new(),
            series: Vec::new(),
            writes: Vec::new(),
            garbage: None,
            looked_at: 0,
            history: History::default(),
            end: run.begin,
        }),
        run,
    });
    if runner.run.begin > member.handle.now() {
        member.handle.sleep_until(runner.run.begin).await;
    }
    let first = member.index * inflight;
    let runner = tasks(&member.handle, runner, first..first + inflight, Runner::client).await?;
    let Runner { run, buffer, done, .. } = runner;
    if let Some(buffer) = buffer {
        buffer.leave().await.map_err(|error| why(&run.settings, &error))?;
    }
    Ok(done.into_inner())
}

/// The worker's write buffer, if its writes do not take effect at once.
fn buffer(run: &Arc<Run>, member: &Member) -> Result<Option<WriteBuffer<Worker>>, AppError> {
    let settings = run.settings.relaxed.clone();
    if !settings.consistency.buffers() {
        return Ok(None);
    }
    let on_loss = {
        let run = run.clone();
        move |lost| run.fail(&RelaxedError::Lost(lost))
    };
    let made = WriteBuffer::new(member.memory.clone(), settings, on_loss);
    made.map(Some).map_err(|error| AppError::Failed(error.to_string()))
}

impl Run {
    fn fail(&self, error: &RelaxedError) {
        self.course.fail(why(&self.settings, error).to_string());
    }
}

fn why(settings: &Settings, error: &RelaxedError) -> AppError {
    AppError::Failed(match error {
        RelaxedError::Memory(error) => return settings.memory_error(error),
        RelaxedError::Lost(lost) if lost.0.iter().any(is_late) => format!(
            "memory failed: {lost}; a longer write-deadline (--set) than {:?} lets writers of popular lines wait longer",
            settings.relaxed.deadline
        ),
        error => format!("memory failed: {error}"),
    })
}

fn is_late(lost: &LostWrite) -> bool {
    matches!(lost.cause, LossCause::Deadline(_))
}

impl Runner {
    async fn client(self: Rc<Self>, client: usize) {
        let settings = &self.run.settings;
        let index = ClientIndex { node: self.node as u64, client: client as u64 };
        let mut stream = AccessStream::new(&settings.workload, index, settings.common.cluster.seed);
        let clients = settings.clients() as u64;
        let mut writes = 0;
        let mut begin = self.handle.now();
        loop {
            // Other tasks run between two accesses, even if all accesses hit. In virtual time an
            // access takes effect at its own time.
            self.handle.coop().await;
            self.handle.catch_up().await;
            let Some(part) = self.run.course.next(&self.share, begin) else { break };
            let access = stream.draw();
            // The stamp belongs to this client: no two blind writes have the same stamp.
            let stamp = ItemTag(1 + client as u64 + clients * writes);
            // A buffered write takes effect after its return, so it is not recorded. Other tests
            // check when it becomes visible.
            let sampled = self.buffer.is_none() && self.run.sample.has(access.line);
            let invoked = if sampled { self.handle.instant() } else { begin };
            let ended = self.access(access, stamp).await;
            let end = self.handle.now();
            match ended {
                Ok(ended) => {
                    if sampled {
                        self.witness(access, &ended, (invoked, self.handle.instant()));
                    }
                    self.note(part, access, ended.found, begin, end);
                }
                Err(error) => {
                    self.run.fail(&error);
                    break;
                }
            }
            writes += u64::from(access.kind == MicroKind::Write);
            // One clock reading is both the end of this operation and the begin of the next.
            begin = end;
        }
        self.done.borrow_mut().writes.push((client, writes));
    }

    async fn access(&self, access: MicroAccess, own: ItemTag) -> Result<Ended, RelaxedError> {
        let line = self.run.lines.all[access.line as usize];
        let Place { layout, .. } = self.place;
        let offset = self.place.offset(access.item);
        let number = self.place.number(line, access.item);
        if let Some(buffer) = &self.buffer {
            let mut bytes = vec![0; layout.bytes()];
            if access.kind == MicroKind::Read {
                buffer.read(line, offset, &mut bytes).await?;
                let word =
                    |at: usize| bytes[8 * at..].first_chunk().copied().map(u64::from_le_bytes);
                let found = layout.read(number, |at| word(at).unwrap_or(0));
                return Ok(Ended { found: Some(found), wrote: None });
            }
            let set =
                |at: usize, word: u64| bytes[8 * at..][..8].copy_from_slice(&word.to_le_bytes());
            layout.write(number, own, set);
            buffer.write(line, offset, &bytes).await?;
            return Ok(Ended { found: None, wrote: Some(own) });
        }
        if access.kind == MicroKind::Read {
            let read = |words: latchwork_verbs::Words<'_>| {
                layout.read(number, |at| words.u64(offset + 8 * at))
            };
            let found = self.memory.read(line, read).await?;
            return Ok(Ended { found: Some(found), wrote: None });
        }
        let locked = self.run.settings.workload.config().writes == WriteKind::Locked;
        let write = self.memory.write(line, |guard| {
            let words = guard.words();
            let found = locked.then(|| layout.read(number, |at| words.u64(offset + 8 * at)));
            let stamp = match found {
                None => own,
                Some(Ok(ItemTag(found))) => ItemTag(found + 1),
                // The item stays unchanged, so that its contents can help to find the cause.
                Some(Err(_)) => return Ended { found, wrote: None },
            };
            layout.write(number, stamp, |at, word| words.set_u64(offset + 8 * at, word));
            guard.mark_dirty(offset..offset + layout.bytes());
            Ended { found, wrote: Some(stamp) }
        });
        Ok(write.await?)
    }

    fn witness(&self, access: MicroAccess, ended: &Ended, span: (Time, Time)) {
        let operation = match (ended.wrote, ended.found) {
            (Some(stamp), _) => RegisterOperation::Write(stamp),
            (None, Some(Ok(stamp))) => RegisterOperation::Read(stamp),
            // The check of contents reports this case.
            (None, _) => return,
        };
        let item = (access.line, access.item);
        self.run.sample.note(&mut self.done.borrow_mut().history, item, span, operation);
    }

    fn note(
        &self,
        part: RunPart,
        access: MicroAccess,
        seen: Option<Result<ItemTag, Garbage>>,
        begin: Time,
        end: Time,
    ) {
        let mut done = self.done.borrow_mut();
        let garbage = seen.and_then(Result::err);
        done.looked_at += u64::from(seen.is_some());
        if let Some(garbage) = garbage {
            let line = self.run.lines.all[access.line as usize];
            done.garbage.get_or_insert_with(|| {
                format!("item {} of line {line}, word {}", access.item, garbage.word)
            });
        }
        if part == RunPart::WarmUp {
            return;
        }
        done.end = done.end.max(end);
        match garbage {
            None => done.latencies.record(access.kind, end - begin, None),
            Some(_) => {
                done.latencies.record_failure(access.kind, OperationFailure::UnexpectedState)
            }
        }
        if let Some(step) = self.run.settings.series {
            let from = self.from.get().unwrap_or_else(|| self.run.course.from());
            self.from.set(Some(from));
            let at = (end - from).as_nanos() / step.as_nanos().max(1);
            let at = at as usize;
            if done.series.len() <= at {
                done.series.resize(at + 1, 0);
            }
            done.series[at] += 1;
        }
    }
}
