//! [`Shared`]: what a write buffer's handles and its tasks have in common.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use latchwork_coherence::CoherentMemory;
use latchwork_runtime::{Handle, Time};
use latchwork_verbs::GlobalAddr;

use crate::queue::{Entry, Queue, Write};
use crate::signal::Signal;
use crate::updates::Updates;
use crate::{Counts, LossCause, LostWrite, LostWrites, Settings};

/// Called with losses that no call can report any more.
pub(crate) type OnLoss = Box<dyn Fn(LostWrites)>;

pub(crate) struct Shared<M: CoherentMemory> {
    pub(crate) memory: M,
    pub(crate) handle: Handle,
    pub(crate) settings: Settings,
    pub(crate) queue: RefCell<Queue<M::Operation>>,
    /// Lost, and not reported yet.
    lost: RefCell<Vec<LostWrite>>,
    on_loss: OnLoss,
    /// The lanes' wakers.
    lanes: RefCell<Vec<Option<Waker>>>,
    /// Lanes that wait for a job, the last one first.
    idle: RefCell<Vec<usize>>,
    /// The clock waits for a write that lingers.
    pub(crate) clock: Signal,
    /// Writers that wait for room, those that wait for updates, updates that let them go first, and
    /// fences.
    pub(crate) room: Signal,
    /// Total store order: when something became visible the last time.
    pub(crate) moved: Cell<Time>,
    /// The mean time that lines took to come lately.
    pub(crate) obtaining: Cell<Duration>,
    /// Lanes that gave their line up before its turn.
    pub(crate) progress: Signal,
    /// Updates under way: no write is taken meanwhile, since an update follows all writes before
    /// it.
    pub(crate) updates: Updates,
    /// No write is taken any more.
    closed: Cell<bool>,
    pub(crate) counts: RefCell<Counts>,
}

/// What a lane has to do.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) seq: u64,
    pub(crate) addr: GlobalAddr,
    pub(crate) by: Time,
}

impl<M: CoherentMemory> Shared<M> {
    pub(crate) fn new(memory: M, settings: Settings, on_loss: OnLoss) -> Shared<M> {
        let lanes = if settings.consistency.buffers() { settings.batch } else { 0 };
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

    /// Whether a write can be taken now.
    pub(crate) fn has_room(&self, write: Write<'_>) -> bool {
        !self.updates.go_on() && self.queue.borrow().has_room(write)
    }

    /// Takes no more writes, and carries out what is here; then the tasks end.
    pub(crate) fn close(&self) {
        if self.closed.replace(true) {
            return;
        }
        self.start_all();
        // Also those that find nothing to do: they end.
        self.lanes.borrow().iter().flatten().for_each(Waker::wake_by_ref);
        self.clock.wake();
        self.room.wake();
        self.report();
    }

    /// Begins all that is in the buffer.
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
            jobs -= 1;
            lanes[lane].as_ref().expect("an idle lane was polled").wake_by_ref();
        }
    }

    /// Looks again at what a lane waits for.
    pub(crate) fn wake_lane(&self, lane: usize) {
        if let Some(waker) = &self.lanes.borrow()[lane] {
            waker.wake_by_ref();
        }
    }

    /// Has the lane woken by [`wake_lane`](Shared::wake_lane) from now on.
    pub(crate) fn register(&self, lane: usize, cx: &Context<'_>) {
        let place = &mut self.lanes.borrow_mut()[lane];
        if !place.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *place = Some(cx.waker().clone());
        }
    }

    /// The lane's next job; `None` when there will be none.
    pub(crate) fn poll_job(&self, lane: usize, cx: &Context<'_>) -> Poll<Option<Job>> {
        let mut queue = self.queue.borrow_mut();
        if let Some(&Entry { seq, addr, by, .. }) = queue.take_job(lane) {
            // It may have been woken by something else than a job.
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
        Poll::Pending
    }

    // ---- losses ----------------------------------------------------------------------------------

    /// Notes writes that will never be visible.
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
                self.wake_lane(lane);
            }
        }
        if self.closed.get() {
            self.report();
        }
        self.room.wake();
        self.progress.wake();
    }

    /// What was lost since it was asked last.
    pub(crate) fn take_lost(&self) -> Option<LostWrites> {
        let mut lost = self.lost.take();
        // Where lines have no order, failures have none either.
        lost.sort_by_key(|write| write.issued);
        (!lost.is_empty()).then_some(LostWrites(lost))
    }

    /// Tells of losses whoever was named for them, when nobody will call.
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
