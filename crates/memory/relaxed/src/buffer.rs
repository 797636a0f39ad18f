//! [`WriteBuffer`]: a worker's reads and writes, at the level of consistency that it asks for.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_coherence::CoherentMemory;
use latchwork_runtime::{Elapsed, JoinHandle};
use latchwork_verbs::GlobalAddr;

use crate::queue::Write;
use crate::shared::Shared;
use crate::{LostWrites, RelaxedError, Settings, SettingsError, drain};

/// What a write buffer did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Writes that were taken.
    pub writes: u64,
    /// Writes that were put into an access that was there already.
    pub merged: u64,
    /// Accesses that became visible.
    pub applied: u64,
    /// Lines that were latched for them: fewer where accesses became visible together.
    pub lines: u64,
    /// Reads of which the buffer had every byte.
    pub forwarded: u64,
    /// Times that a write had to wait for room, or for an update.
    pub waits: u64,
    /// Pieces of lines that were lost.
    pub lost: u64,
    /// The longest time from a write to when it became visible.
    pub longest: Duration,
}

/// One worker's way to coherent memory through a buffer of writes. See the crate's page for what it
/// promises.
///
/// Clones are the same buffer: the tasks that share it are one processor, whose program order is
/// the order in which their calls took effect. When the last one is dropped, what is in the buffer
/// is carried out at once; what fails then is told to the function given to
/// [`new`](WriteBuffer::new).
pub struct WriteBuffer<M: CoherentMemory> {
    owner: Rc<Owner<M>>,
}

/// Ends the buffer's tasks when the last handle is gone.
struct Owner<M: CoherentMemory> {
    shared: Rc<Shared<M>>,
    tasks: RefCell<Vec<JoinHandle<()>>>,
}

impl<M: CoherentMemory> Drop for Owner<M> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl<M: CoherentMemory> Clone for WriteBuffer<M> {
    fn clone(&self) -> Self {
        WriteBuffer { owner: Rc::clone(&self.owner) }
    }
}

impl<M: CoherentMemory> WriteBuffer<M> {
    /// A buffer over `memory`, with its tasks on the worker's executor.
    ///
    /// Every write that is lost is told exactly once: by the next call that can fail, or, when
    /// there is none any more because the buffer was dropped, by `on_loss`, at the latest when the
    /// executor ends. It must not panic.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(
        memory: M,
        settings: Settings,
        on_loss: impl Fn(LostWrites) + 'static,
    ) -> Result<Self, SettingsError> {
        settings.check(memory.payload_len())?;
        let shared = Rc::new(Shared::new(memory, settings, Box::new(on_loss)));
        let mut tasks = Vec::new();
        if shared.settings.consistency.buffers() {
            let handle = &shared.handle;
            let lanes = 0..shared.settings.batch;
            tasks.extend(lanes.map(|k| handle.spawn_service(drain::lane(Rc::clone(&shared), k))));
            tasks.push(handle.spawn_service(drain::clock(Rc::clone(&shared))));
        }
        Ok(WriteBuffer { owner: Rc::new(Owner { shared, tasks: RefCell::new(tasks) }) })
    }

    fn shared(&self) -> &Shared<M> {
        &self.owner.shared
    }

    /// The memory. Whoever reads it past the buffer does not see what is in the buffer.
    pub fn memory(&self) -> &M {
        &self.shared().memory
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.shared().settings
    }

    /// What it did so far.
    pub fn counts(&self) -> Counts {
        *self.shared().counts.borrow()
    }

    /// Accesses in the buffer.
    pub fn pending(&self) -> usize {
        self.shared().queue.borrow().len()
    }

    fn check(&self, addr: GlobalAddr, offset: usize, len: usize) -> Result<(), RelaxedError> {
        let shared = self.shared();
        let payload = shared.memory.payload_len();
        if offset.checked_add(len).is_none_or(|end| end > payload) {
            return Err(RelaxedError::OutOfLine { addr, offset, len, payload });
        }
        self.check_lost()
    }

    fn check_lost(&self) -> Result<(), RelaxedError> {
        self.shared().take_lost().map_or(Ok(()), |lost| Err(RelaxedError::Lost(lost)))
    }

    /// Writes bytes of a line's payload, whatever is there. Returns when the write is in the
    /// buffer: at once, unless that is full or an [`update`](WriteBuffer::update) is under way.
    /// Room comes as earlier writes become visible, or are lost at their deadlines; of updates it
    /// waits for those under way only, and not longer than a deadline. A write to no line is found
    /// out later, as one that is lost. At
    /// [`Consistency::Sequential`](crate::Consistency::Sequential) it returns when the write is
    /// visible.
    ///
    /// Dropped before it returns, the write was not issued (it may have been, at `Sequential`).
    ///
    /// # Errors
    /// Earlier writes that were lost, or an update that did not end within
    /// [`Settings::deadline`](crate::Settings::deadline); in either case this one was not issued.
    pub async fn write(
        &self,
        addr: GlobalAddr,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), RelaxedError> {
        self.check(addr, offset, bytes.len())?;
        let shared = self.shared();
        if shared.is_closed() {
            return Err(RelaxedError::Closed);
        }
        if !shared.settings.consistency.buffers() {
            shared.counts.borrow_mut().writes += 1;
            let write = |guard: &mut WriteGuard<'_>| {
                guard.words().write_bytes(offset, bytes);
                guard.mark_dirty(offset..offset + bytes.len());
            };
            return Ok(shared.memory.write(addr, write).await?);
        }
        let write = Write { addr, offset, bytes };
        let mut held_back = None;
        loop {
            let operation = match shared.memory.try_enter() {
                Some(operation) => operation,
                None => shared.memory.enter().await?,
            };
            if self.put(write, operation)? {
                return Ok(());
            }
            shared.counts.borrow_mut().waits += 1;
            shared.start_all();
            if !shared.updates.go_on() {
                // From here on it waits for room, which updates do not take.
                held_back = None;
                let room = || (shared.is_closed() || shared.has_room(write)).then_some(());
                shared.room.wait(room).await;
                continue;
            }
            let deadline = shared.settings.deadline;
            let (by, _) = held_back.get_or_insert_with(|| {
                let by = shared.handle.now() + deadline;
                (by, shared.updates.hold_back(by, &shared.room))
            });
            let ended = || (shared.is_closed() || !shared.updates.go_on()).then_some(());
            let wait = shared.room.wait(ended);
            shared.handle.timeout(*by, wait).await.map_err(|_| RelaxedError::HeldBack(deadline))?;
        }
    }

    /// Puts a write into the buffer. False when there is no room.
    fn put(&self, write: Write<'_>, operation: M::Operation) -> Result<bool, RelaxedError> {
        let shared = self.shared();
        self.check_lost()?;
        if shared.is_closed() {
            return Err(RelaxedError::Closed);
        }
        if !shared.has_room(write) {
            return Ok(false);
        }
        let taken = shared.queue.borrow_mut().put(write, operation, shared.handle.now());
        let Some(merged) = taken else { return Ok(false) };
        {
            let counts = &mut *shared.counts.borrow_mut();
            counts.writes += 1;
            counts.merged += u64::from(merged);
        }
        shared.handle.charge(shared.settings.cost);
        if shared.queue.borrow().has_batch() {
            shared.start_all();
        } else if !merged {
            shared.clock.wake();
        }
        Ok(true)
    }

    /// Reads bytes of a line's payload: what this buffer's writes put there, visible or not, and
    /// otherwise what all see. The bytes are of one instant.
    ///
    /// # Errors
    /// Earlier writes that were lost; failures of the memory.
    pub async fn read(
        &self,
        addr: GlobalAddr,
        offset: usize,
        to: &mut [u8],
    ) -> Result<(), RelaxedError> {
        self.check(addr, offset, to.len())?;
        let shared = self.shared();
        if !to.is_empty() && shared.queue.borrow().forward(addr, offset, to) {
            shared.counts.borrow_mut().forwarded += 1;
            shared.handle.charge(shared.settings.cost);
            return Ok(());
        }
        shared.memory.read(addr, |words| words.read_bytes(offset, to)).await?;
        // No await between that and this: a write is in the buffer, or it was visible to that read.
        self.check_lost()?;
        shared.queue.borrow().overlay(addr, offset, to);
        Ok(())
    }

    /// Changes a line under its latch, when all that was written before is visible: an atomic
    /// read-modify-write, which no write passes in either direction. Until it has ended, no task
    /// that shares the buffer writes: those that want to are held back. It lets those go first that
    /// other updates hold back when it is called, so however many updates there are, a write waits
    /// for those under way only.
    ///
    /// Await it or drop it: a future of it that was polled and is kept holds writes back, until
    /// they fail.
    ///
    /// # Errors
    /// Earlier writes that were lost, in which case nothing was changed; failures of the memory.
    pub async fn update<R>(
        &self,
        addr: GlobalAddr,
        change: impl FnOnce(&mut WriteGuard<'_>) -> R,
    ) -> Result<R, RelaxedError> {
        let shared = self.shared();
        if let Some(by) = shared.updates.waits_until() {
            let gone = || shared.updates.waits_until().is_none().then_some(());
            // They had their time, if it ends so.
            let _: Result<(), Elapsed> = shared.handle.timeout(by, shared.room.wait(gone)).await;
        }
        // A task that shares the buffer must not write between the fence and the change: what it
        // writes before the change would become visible after it.
        let _update = shared.updates.begin(&shared.room);
        self.flush().await?;
        Ok(shared.memory.write(addr, change).await?)
    }

    /// A fence: waits until everything that was written before is visible, or lost.
    ///
    /// # Errors
    /// The writes that were lost; everything else is visible then.
    pub async fn flush(&self) -> Result<(), RelaxedError> {
        let shared = self.shared();
        let end = shared.queue.borrow().next();
        shared.start_all();
        let settled = || shared.queue.borrow().is_settled_below(end).then_some(());
        shared.room.wait(settled).await;
        self.check_lost()
    }

    /// Makes everything visible and takes no more writes, from no clone either; returns when none
    /// of the buffer's tasks uses the memory any more. To be awaited before the worker leaves that:
    /// nobody else can take the completions of what its tasks posted. Dropped before it returns, it
    /// is as a [`flush`](WriteBuffer::flush) that was dropped, or as a buffer that was.
    ///
    /// # Errors
    /// As [`flush`](WriteBuffer::flush).
    pub async fn leave(self) -> Result<(), RelaxedError> {
        let flushed = self.flush().await;
        // What another task wrote since is carried out all the same.
        self.shared().close();
        let tasks = self.owner.tasks.take();
        for task in tasks {
            // Nobody aborts it.
            let _ = task.await;
        }
        flushed
    }
}
