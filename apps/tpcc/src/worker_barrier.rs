//! [`WorkerBarrier`]: barriers for the workers of all compute nodes, within one phase.
//!
//! A waiting worker keeps polling, because other nodes may need an answer of its node. Workers of
//! one process count their arrivals in that process's memory. Workers of many processes count in a
//! line of the memory pool.

use std::time::Duration;

use latchwork_cluster::Member;
use latchwork_coherence::{CoherentMemory as _, MemoryError};
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_verbs::GlobalAddr;

/// The longest wait of a worker at a barrier without an error. It allows for a checkpoint, which
/// another worker may write.
pub(crate) const WAIT: Duration = Duration::from_secs(120);
/// The intervals between two checks: of the process's memory, and of a line.
const LOOK: Duration = Duration::from_micros(100);
const LOOK_AT_LINE: Duration = Duration::from_millis(1);

/// The barriers, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    /// All workers take messages.
    Begin,
    /// All workers have ended their transactions.
    End,
    /// The participants' parts of distributed transactions have ended on all workers.
    Quiet,
}

impl Point {
    const COUNT: usize = 3;

    pub(crate) fn what(self) -> &'static str {
        match self {
            Point::Begin => "begin",
            Point::End => "end",
            Point::Quiet => "settle their last transactions",
        }
    }

    /// The offset of the barrier's count in the line, in bytes.
    fn offset(self) -> usize {
        8 * self as usize
    }
}

/// The barriers, with the number of workers that have arrived at each.
pub(crate) struct WorkerBarrier {
    workers: u64,
    here: [AtomicU64; Point::COUNT],
    /// The line with the counts, for workers of many processes.
    line: Option<GlobalAddr>,
}

impl WorkerBarrier {
    /// Barriers for `workers` workers of all nodes.
    pub(crate) fn new(workers: usize, line: Option<GlobalAddr>) -> WorkerBarrier {
        WorkerBarrier { workers: workers as u64, here: Default::default(), line }
    }

    /// A line with all counts zero.
    pub(crate) async fn line(member: &Member) -> Result<GlobalAddr, AppError> {
        let made = async {
            let line = member.memory.allocate().await?;
            let zero = member.memory.write(line, |guard| {
                let words = guard.words();
                (0..Point::COUNT).for_each(|at| words.set_u64(8 * at, 0));
                guard.mark_dirty(0..8 * Point::COUNT);
            });
            zero.await.map(|()| line)
        };
        made.await.map_err(|error| failed(&error))
    }

    /// Arrives at a barrier, and waits until all workers have arrived. The wait ends early if the
    /// phase has failed.
    pub(crate) async fn come(
        &self,
        point: Point,
        phase: &PhaseProgress,
        member: &Member,
    ) -> Result<(), AppError> {
        let (here, handle) = (&self.here[point as usize], &member.handle);
        // Release: a worker that sees the full count also sees everything that the others did
        // before.
        here.fetch_add(1, Ordering::Release);
        let Some(line) = self.line else {
            let all = || here.load(Ordering::Acquire) >= self.workers;
            return wait(all, point.what(), phase, member).await;
        };
        let (offset, memory) = (point.offset(), &member.memory);
        let count = memory.write(line, |guard| {
            let words = guard.words();
            words.set_u64(offset, words.u64(offset) + 1);
            guard.mark_dirty(offset..offset + 8);
        });
        count.await.map_err(|error| failed(&error))?;
        let deadline = handle.now() + WAIT;
        while !phase.stopped() {
            let read = memory.read(line, |words| words.u64(offset)).await;
            if read.map_err(|error| failed(&error))? >= self.workers {
                break;
            }
            if handle.now() >= deadline {
                return Err(late(point.what()));
            }
            handle.sleep(LOOK_AT_LINE).await;
        }
        Ok(())
    }
}

/// Waits until `until` holds, or until the phase fails.
pub(crate) async fn wait(
    until: impl Fn() -> bool,
    what: &str,
    phase: &PhaseProgress,
    member: &Member,
) -> Result<(), AppError> {
    let deadline = member.handle.now() + WAIT;
    while !until() && !phase.stopped() {
        if member.handle.now() >= deadline {
            return Err(late(what));
        }
        member.handle.sleep(LOOK).await;
    }
    Ok(())
}

fn late(what: &str) -> AppError {
    AppError::Failed(format!("the partitions did not all {what} within {WAIT:?}"))
}

fn failed(error: &MemoryError) -> AppError {
    AppError::Failed(format!("the nodes cannot meet: {error}"))
}
