//! How buffered writes become visible: drain tasks (*lanes* in the code), each of which obtains one
//! line at a time, and a clock task for the batch delay.
//!
//! ```text
//!   a batch is full, the first write's batch delay has passed, a flush, no room
//!        │ due
//!   lane 0   ensure(line of write 1) ───────────► here ─► apply
//!   lane 1   ensure(line of write 2) ────► here ─► pso: apply      tso: apply behind write 1
//!   lane 2   ensure(line of write 3) ──────────► here ─► ...            (SEL: keep the line for a while)
//! ```
//!
//! Lines are obtained in parallel at every level; the levels differ in when the lines are written.
//! With partial store order, a line is written as soon as it is here. With total store order, a
//! group of the first writes whose lines are here is applied at one instant: all latches are held
//! together before the first latch is released. No reader can see one write of the group without
//! the others. So within the group any two writes to one line are one access, even with writes to
//! other lines between them.
//!
//! A line that arrives before its turn is a prefetched line (Gharachorloo, Gupta and Hennessy, "Two
//! Techniques to Enhance the Performance of Memory Consistency Models", 1991). Where a node keeps
//! lines until another node requests them, no reservation keeps this line. Other nodes can take the
//! line, and its drain task obtains the line again when its turn has come. With reservations, a
//! node would hold lines while it waits for another line. Contended lines would then stay at nodes
//! that wait for other contended lines.
//!
//! Where a line is released with its ticket (SEL), the early line would have been obtained in vain.
//! So its drain task keeps the line for a short time: until no write has become visible for as long
//! as lines take to arrive (see [`WriteBufferSettings::hold`](crate::WriteBufferSettings::hold)).
//! After that time, two nodes that keep lines for which the other one waits release their lines.
//! The drain task of the first write keeps no line while it waits for its own, so that drain task
//! gets its line. Then the other drain tasks obtain their lines again in parallel.
//!
//! Every line is obtained with its write's deadline (`CoherentMemory::ensure_by`). So a node that
//! SEL refuses again and again begins no long back-off shortly before the deadline.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use arrayvec::ArrayVec;
use latchwork_cache::WriteGuard;
use latchwork_coherence::{AccessMode, CoherentMemory, Need};
use latchwork_runtime::{Elapsed, Time};
use latchwork_strict::strict_assert;

use crate::queue::{Entry, Queue};
use crate::shared::{Job, Shared};
use crate::{Consistency, LossCause};

/// The maximum number of lines that become visible at one instant: their latches are held together.
const GROUP_MAX: usize = 32;

/// The weight of the last line in the mean of the times that lines take to arrive is 1/N (N is this
/// number).
const OBTAINING_SHARE: u32 = 8;

/// Without progress, a line is kept for at most this many times
/// [`WriteBufferSettings::hold`](crate::WriteBufferSettings::hold).
const HOLD_TIMES: u32 = 8;
const _: () = assert!(GROUP_MAX > 0 && OBTAINING_SHARE > 1 && HOLD_TIMES > 1);

type Guards<'a> = ArrayVec<WriteGuard<'a>, GROUP_MAX>;

/// Writes an entry's bytes, and marks the changed bytes dirty.
fn store<O>(entry: &Entry<O>, guard: &mut WriteGuard<'_>) {
    entry.pieces.store(guard.words(), |changed| guard.mark_dirty(changed));
}

/// A drain task: takes due entries one after another, and works on each until it is visible or
/// lost.
pub(crate) async fn drain_task<M: CoherentMemory>(shared: Rc<Shared<M>>, lane: usize) {
    while let Some(job) = poll_fn(|cx| shared.poll_job(lane, cx)).await {
        shared.carry_out(lane, job).await;
    }
}

/// Starts all entries when the batch delay of the oldest entry that is not due has passed.
pub(crate) async fn clock<M: CoherentMemory>(shared: Rc<Shared<M>>) {
    let next = || match shared.is_closed() {
        true => Some(None),
        false => shared.queue.borrow().lingers_until().map(Some),
    };
    while let Some(at) = shared.clock.wait(next).await {
        let end = shared.clock.wait(|| shared.is_closed().then_some(()));
        if shared.handle.timeout(at, end).await.is_ok() {
            return;
        }
        // The write that set this time may have become due in the meantime. Then a later write
        // decides when its own batch delay ends.
        let first = shared.queue.borrow().lingers_until();
        if first.is_some_and(|first| first <= shared.handle.now()) {
            shared.start_all();
        }
    }
}

impl<M: CoherentMemory> Shared<M> {
    /// Runs until an entry is visible or lost.
    async fn carry_out(&self, lane: usize, Job { seq, addr, by }: Job) {
        while !self.try_apply(seq) {
            let asked = self.handle.now();
            let line = self.memory.ensure_by(Need { addr, mode: AccessMode::Exclusive }, by);
            let in_time = pin!(self.handle.timeout(by, line));
            // Another drain task may make the entry visible in the meantime, in one group with its
            // own entry. Then this wait ends.
            let Some(end) = self.unless_settled(lane, seq, in_time).await else { return };
            let cause = match end {
                Ok(Ok(ticket)) => {
                    self.note_obtaining(self.handle.now() - asked);
                    if self.try_apply(seq) {
                        return;
                    }
                    if !self.memory.keeps_lines() {
                        self.keep(lane, seq).await;
                    }
                    drop(ticket);
                    None
                }
                Ok(Err(error)) => Some(LossCause::Memory(error)),
                Err(Elapsed) => Some(LossCause::Deadline(self.settings.deadline)),
            };
            if self.queue.borrow().is_turn(seq)
                && let Some(cause) = cause
            {
                self.fail(seq, cause);
            }
            self.next_move(seq).await;
        }
    }

    /// Notes how long a line took to arrive, in a mean of the last few.
    fn note_obtaining(&self, took: Duration) {
        let mean = self.obtaining.get();
        self.obtaining.set(mean - mean / OBTAINING_SHARE + took / OBTAINING_SHARE);
    }

    /// How long a line is kept from other nodes while no write becomes visible: as long as lines
    /// take to arrive. A line that is released sooner was mostly obtained in vain. The time is
    /// bounded, because the measured times contain the times for which other nodes keep their
    /// lines.
    fn hold(&self) -> Duration {
        let hold = self.settings.hold;
        self.obtaining.get().clamp(hold, hold * HOLD_TIMES)
    }

    /// Waits until it is an entry's turn, or the entry is settled (visible or lost). The wait also
    /// ends when no write has become visible for a while. Other nodes may wait for this line, while
    /// the first entry waits for a line of theirs.
    async fn keep(&self, lane: usize, seq: u64) {
        let mut since = self.handle.now();
        loop {
            let turn = pin!(self.turn(lane, seq));
            let moved = match self.handle.timeout(since + self.hold(), turn).await {
                Ok(()) => return,
                Err(Elapsed) => self.moved.get(),
            };
            if moved <= since {
                return;
            }
            since = moved;
        }
    }

    /// Waits until it is useful to obtain an entry's line again: it is the entry's turn, or the
    /// entry is settled. Where lines are released with every access, the wait also ends when the
    /// first entry has changed.
    async fn next_move(&self, seq: u64) {
        let first = || self.queue.borrow().entries().next().map(|first| first.seq);
        let (before, keeps) = (first(), self.memory.keeps_lines());
        let ready = || {
            let queue = self.queue.borrow();
            let over = queue.get(seq).is_none() || queue.is_turn(seq);
            (over || !keeps && first() != before).then_some(())
        };
        self.progress.wait(ready).await;
    }

    /// The output of the future; `None` when the entry was settled first.
    async fn unless_settled<T>(
        &self,
        lane: usize,
        seq: u64,
        mut future: std::pin::Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        poll_fn(|cx| {
            if self.queue.borrow().get(seq).is_none() {
                return Poll::Ready(None);
            }
            self.register(lane, cx);
            future.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Waits until it is an entry's turn, or the entry is settled.
    async fn turn(&self, lane: usize, seq: u64) {
        poll_fn(|cx| {
            let queue = self.queue.borrow();
            if queue.get(seq).is_none() || queue.is_turn(seq) {
                return Poll::Ready(());
            }
            self.register(lane, cx);
            Poll::Pending
        })
        .await;
    }

    /// Makes an entry visible, if its line and all entries that must come before it are ready.
    /// Returns whether the entry is settled: visible, or lost.
    fn try_apply(&self, seq: u64) -> bool {
        match self.settings.consistency {
            Consistency::Pso => self.apply_one(seq),
            _ => self.apply_first(),
        }
        self.queue.borrow().get(seq).is_none()
    }

    /// Partial store order: one line.
    fn apply_one(&self, seq: u64) {
        let at = {
            let queue = self.queue.borrow();
            let Some(entry) = queue.get(seq) else { return };
            let guard = self.memory.try_write(entry.addr);
            let now = self.handle.now();
            match guard {
                Ok(mut guard) if now <= entry.by => {
                    store(entry, &mut guard);
                    strict_assert!(now >= entry.issued, "a write is applied before it was made");
                    strict_assert!(entry.addr == guard.addr(), "a write reaches another line");
                    Some(now)
                }
                // This check also ends the attempts of a task that obtains the line again and again
                // and loses it each time.
                Err(_) if now <= entry.by => return,
                _ => None,
            }
        };
        let Some(now) = at else {
            return self.fail(seq, LossCause::Deadline(self.settings.deadline));
        };
        self.counts.borrow_mut().lines += 1;
        let entry = self.queue.borrow_mut().remove(seq);
        self.applied(entry, now);
    }

    /// Total store order: applies the first entries whose latches [`Shared::latch_first`] takes.
    /// Loses the next entry, and all after it, if its deadline has passed.
    fn apply_first(&self) {
        let mut applied = 0;
        let (late, now) = {
            let queue = self.queue.borrow();
            // All latches are taken before `now` is read. So all writes below take effect at one
            // instant, which is `now`.
            let (group, mut guards) = self.latch_first(&queue);
            let now = self.handle.now();
            for (entry, at) in queue.entries().zip(&group).take_while(|(entry, _)| now <= entry.by)
            {
                store(entry, &mut guards[*at]);
                strict_assert!(guards[*at].addr() == entry.addr, "a write reaches another line");
                applied += 1;
            }
            self.counts.borrow_mut().lines += guards.len() as u64;
            strict_assert!(applied <= group.len(), "a write is applied without its latch");
            // Later entries have later deadlines.
            let next = queue.entries().nth(applied).filter(|next| now > next.by);
            (next.map(|next| next.seq), now)
        };
        for _ in 0..applied {
            let entry = self.queue.borrow_mut().pop();
            strict_assert!(entry.is_some(), "an applied write is gone from the queue");
            self.applied(entry, now);
        }
        if applied > 0 {
            self.moved.set(now);
            self.progress.wake();
        }
        if let Some(seq) = late {
            return self.fail(seq, LossCause::Deadline(self.settings.deadline));
        }
        if applied > 0
            && let Some(lane) = self.queue.borrow().entries().next().and_then(|first| first.lane)
        {
            self.wake_drain_task(lane);
        }
    }

    /// Latches the lines of the first entries. Ends at the first entry that needs a further latch,
    /// if that entry is not due, if its latch is not free, or if [`GROUP_MAX`] latches are held.
    /// Returns the latches, and for each entry before that the index of its line's latch.
    fn latch_first(&self, queue: &Queue<M::Operation>) -> (Vec<usize>, Guards<'_>) {
        let (mut group, mut guards) = (Vec::new(), Guards::new());
        for entry in queue.entries() {
            let held = guards.iter().position(|guard| guard.addr() == entry.addr);
            let at = match held {
                Some(at) => at,
                None if !queue.is_due(entry) || guards.is_full() => break,
                None => match self.memory.try_write(entry.addr) {
                    Ok(guard) => {
                        guards.push(guard);
                        guards.len() - 1
                    }
                    Err(_) => break,
                },
            };
            group.push(at);
        }
        strict_assert!(
            group.len() <= queue.len() && guards.len() <= GROUP_MAX,
            "more lines are latched than the bound"
        );
        (group, guards)
    }

    fn applied(&self, entry: Option<Entry<M::Operation>>, now: Time) {
        let Some(entry) = entry else { return };
        strict_assert!(now >= entry.issued, "a write is applied before it was made");
        if let Some(lane) = entry.lane {
            self.wake_drain_task(lane);
        }
        {
            let counts = &mut *self.counts.borrow_mut();
            counts.applied += 1;
            counts.longest = counts.longest.max(now - entry.issued);
        }
        self.room.wake();
    }

    /// Loses an entry. With total store order, also loses all entries after it, which must not be
    /// visible without it.
    fn fail(&self, seq: u64, cause: LossCause) {
        let mut lost = Vec::new();
        {
            let mut queue = self.queue.borrow_mut();
            lost.extend(queue.remove(seq).map(|entry| (entry, cause)));
            if self.settings.consistency == Consistency::Tso {
                while let Some(entry) = queue.pop() {
                    lost.push((entry, LossCause::Order));
                }
                strict_assert!(queue.len() == 0, "a write behind a lost one is kept");
            }
        }
        self.lose(lost);
    }
}
