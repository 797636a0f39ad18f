//! [`Shared`]: the state that the handles and the tasks of a write buffer share.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use latchwork_coherence::CoherentMemory;
use latchwork_runtime::{Handle, Time};
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use crate::queue::{Entry, Queue, Write};
use crate::signal::Signal;
use crate::updates::Updates;
use crate::{LossCause, LostWrite, LostWrites, WriteBufferCounts, WriteBufferSettings};

/// Called with the losses that no call has reported when the buffer closes, and with later losses.
pub(crate) type OnLoss = Box<dyn Fn(LostWrites)>;

pub(crate) struct Shared<M: CoherentMemory> {
    pub(crate) memory: M,
    pub(crate) handle: Handle,
    pub(crate) settings: WriteBufferSettings,
    pub(crate) queue: RefCell<Queue<M::Operation>>,
    /// Lost writes that are not reported yet.
    lost: RefCell<Vec<LostWrite>>,
    on_loss: OnLoss,
    /// The wakers of the drain tasks.
    lanes: RefCell<Vec<Option<Waker>>>,
    /// Drain tasks without a job. The task that became idle last gets the next job.
    idle: RefCell<Vec<usize>>,
    /// The clock task waits here for a write whose batch delay runs, and for the close.
    pub(crate) clock: Signal,
    /// Four kinds of tasks wait here: writes that wait for room, writes that wait for updates,
    /// updates that let writes go first, and flushes.
    pub(crate) room: Signal,
    /// Total store order: the last time at which an entry became visible.
    pub(crate) moved: Cell<Time>,
    /// A running mean of the time that a drain task took to obtain its line.
    pub(crate) obtaining: Cell<Duration>,
    /// Drain tasks that do not have their line wait here for the turn of their entry.
    pub(crate) progress: Signal,
    /// Updates in progress. The buffer takes no write during an update: the write would be issued
    /// before the update's change, and would become visible after that change.
    pub(crate) updates: Updates,
    /// The buffer takes no more writes.
    closed: Cell<bool>,
    pub(crate) counts: RefCell<WriteBufferCounts>,
}

/// The job of a drain task.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) seq: u64,
    pub(crate) addr: GlobalAddr,
    pub(crate) by: Time,
}

impl<M: CoherentMemory> Shared<M> {
    pub(crate) fn new(memory: M, settings: WriteBufferSettings, on_loss: OnLoss) -> Shared<M> {
        let lanes = if settings.consistency.buffers() { settings.batch } else { 0 };
        strict_assert!(
            lanes <= WriteBufferSettings::BATCH_MAX,
            "more lanes than a batch has writes"
        );
        Shared {
            handle: memory.handle().clone(),
            memory,
            queue: RefCell::new(Queue::new(settings.clone())),
            settings,
            lost: RefCell::default(),
            on_loss,
            lanes: RefCell::new(vec![None; lanes]),
            idle: RefCell::default(),
            clock: Signal::default(),
            room: Signal::default(),
            moved: Cell::new(Time::ZERO),
            obtaining: Cell::new(Duration::ZERO),
            progress: Signal::default(),
            updates: Updates::default(),
            closed: Cell::new(false),
            counts: RefCell::default(),
        }
    }
}

impl<M: CoherentMemory> Shared<M> {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Whether the queue has room for the write, and no update is in progress.
    pub(crate) fn has_room(&self, write: Write<'_>) -> bool {
        !self.updates.go_on() && self.queue.borrow().has_room(write)
    }

    /// Takes no more writes, and carries out the writes in the buffer. Then the tasks end.
    pub(crate) fn close(&self) {
        if self.closed.replace(true) {
            return;
        }
        self.start_all();
        // Drain tasks without a job are woken too: they end.
        self.lanes.borrow().iter().flatten().for_each(Waker::wake_by_ref);
        self.clock.wake();
        self.room.wake();
        self.report();
    }

    /// Starts all entries of the buffer.
    pub(crate) fn start_all(&self) {
        if !self.queue.borrow_mut().make_all_due() {
            return;
        }
        let mut jobs = self.queue.borrow().jobs();
        let lanes = self.lanes.borrow();
        let mut idle = self.idle.borrow_mut();
        while jobs > 0
            && let Some(lane) = idle.pop()
        {
            strict_assert!(lane < lanes.len(), "a lane that is not there is idle");
            jobs -= 1;
            lanes[lane].as_ref().expect("an idle lane was polled").wake_by_ref();
        }
    }

    /// Wakes a drain task, so that it checks its condition again.
    pub(crate) fn wake_drain_task(&self, lane: usize) {
        if let Some(waker) = &self.lanes.borrow()[lane] {
            waker.wake_by_ref();
        }
    }

    /// Registers the drain task, so that [`wake_drain_task`](Shared::wake_drain_task) wakes it from
    /// now on.
    pub(crate) fn register(&self, lane: usize, cx: &Context<'_>) {
        let place = &mut self.lanes.borrow_mut()[lane];
        if !place.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *place = Some(cx.waker().clone());
        }
    }

    /// The drain task's next job; `None` when no job can follow.
    pub(crate) fn poll_job(&self, lane: usize, cx: &Context<'_>) -> Poll<Option<Job>> {
        let mut queue = self.queue.borrow_mut();
        if let Some(&Entry { seq, addr, by, .. }) = queue.take_job(lane) {
            strict_assert!(lane < self.lanes.borrow().len(), "a job for a lane that is not there");
            // The drain task may have been woken for another reason and still be in the list.
            self.idle.borrow_mut().retain(|idle| *idle != lane);
            return Poll::Ready(Some(Job { seq, addr, by }));
        }
        if self.closed.get() {
            return Poll::Ready(None);
        }
        self.register(lane, cx);
        let mut idle = self.idle.borrow_mut();
        if !idle.contains(&lane) {
            idle.push(lane);
        }
        strict_assert!(idle.len() <= self.lanes.borrow().len(), "a lane is idle twice");
        Poll::Pending
    }

    // ---- losses ---------------------------------------------------------------------------------

    /// Notes writes that never become visible.
    pub(crate) fn lose(&self, entries: impl IntoIterator<Item = (Entry<M::Operation>, LossCause)>) {
        for (entry, cause) in entries {
            let lane = entry.lane;
            {
                let mut lost = self.lost.borrow_mut();
                let before = lost.len();
                lost.extend(entry.lose(&cause));
                self.counts.borrow_mut().lost += (lost.len() - before) as u64;
            }
            if let Some(lane) = lane {
                self.wake_drain_task(lane);
            }
        }
        if self.closed.get() {
            self.report();
        }
        self.room.wake();
        self.progress.wake();
    }

    /// The losses since the last call.
    pub(crate) fn take_lost(&self) -> Option<LostWrites> {
        let mut lost = self.lost.take();
        // With partial store order, entries fail in any order. The report has the order in which
        // the writes were issued.
        lost.sort_by_key(|write| write.issued);
        (!lost.is_empty()).then_some(LostWrites(lost))
    }

    /// Passes the losses that no call has reported to the `on_loss` function of a closed buffer.
    fn report(&self) {
        if let Some(lost) = self.take_lost() {
            (self.on_loss)(lost);
        }
    }
}

impl<M: CoherentMemory> Drop for Shared<M> {
    fn drop(&mut self) {
        let queue = self.queue.get_mut();
        let lost = self.lost.get_mut();
        while let Some(entry) = queue.pop() {
            lost.extend(entry.lose(&LossCause::Abandoned));
        }
        self.report();
    }
}
