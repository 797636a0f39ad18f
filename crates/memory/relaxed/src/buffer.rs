//! [`WriteBuffer`]: a worker's reads and writes at the chosen consistency level.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_cache::WriteGuard;
use latchwork_coherence::CoherentMemory;
use latchwork_runtime::{Elapsed, JoinHandle};
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use crate::counts::WriteBufferCounts;
use crate::queue::Write;
use crate::shared::Shared;
use crate::{LostWrites, RelaxedError, WriteBufferSettings, WriteBufferSettingsError, drain};

/// One worker's access to coherent memory through a buffer of writes. The crate's page lists its
/// guarantees.
///
/// Clones share one buffer. In the sense of TSO and PSO, the tasks that share a buffer are one
/// processor. Its program order is the order in which the calls of these tasks took effect. When
/// the last clone is dropped, the buffer carries out its writes at once. Lost writes are reported
/// to the function given to [`new`](WriteBuffer::new).
pub struct WriteBuffer<M: CoherentMemory> {
    owner: Rc<Owner<M>>,
}

/// Ends the buffer's tasks when the last handle is dropped.
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
    /// Every lost write is reported exactly once: by the next call that can fail, or by `on_loss`
    /// after the buffer was dropped or left. A write that is still in the buffer when the executor
    /// ends is lost, and reported then. `on_loss` must not panic.
    ///
    /// # Errors
    /// The error in the settings.
    pub fn new(
        memory: M,
        settings: WriteBufferSettings,
        on_loss: impl Fn(LostWrites) + 'static,
    ) -> Result<Self, WriteBufferSettingsError> {
        settings.check(memory.payload_len())?;
        let shared = Rc::new(Shared::new(memory, settings, Box::new(on_loss)));
        let mut tasks = Vec::new();
        if shared.settings.consistency.buffers() {
            let handle = &shared.handle;
            let lanes = 0..shared.settings.batch;
            tasks.extend(
                lanes.map(|k| handle.spawn_service(drain::drain_task(Rc::clone(&shared), k))),
            );
            tasks.push(handle.spawn_service(drain::clock(Rc::clone(&shared))));
        }
        Ok(WriteBuffer { owner: Rc::new(Owner { shared, tasks: RefCell::new(tasks) }) })
    }

    fn shared(&self) -> &Shared<M> {
        &self.owner.shared
    }

    /// The memory. A reader that uses the memory directly does not see the writes in the buffer.
    pub fn memory(&self) -> &M {
        &self.shared().memory
    }

    /// The settings.
    pub fn settings(&self) -> &WriteBufferSettings {
        &self.shared().settings
    }

    /// The counters so far.
    pub fn counts(&self) -> WriteBufferCounts {
        *self.shared().counts.borrow()
    }

    /// The number of accesses in the buffer.
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

    /// Writes bytes of a line's payload without reading them. Returns when the write is in the
    /// buffer: at once, unless the buffer is full or an [`update`](WriteBuffer::update) is in
    /// progress.
    ///
    /// Room appears as earlier writes become visible, or are lost at their deadlines. The write
    /// waits only for updates that are in progress, and at most for one deadline. A write to an
    /// address without a line is detected later, as a lost write. At
    /// [`Consistency::Sequential`](crate::Consistency::Sequential) the call returns when the write
    /// is visible.
    ///
    /// If the future is dropped before it returns, the write was not issued. At `Sequential` the
    /// write may have taken effect.
    ///
    /// # Errors
    /// [`RelaxedError::OutOfLine`], [`RelaxedError::Lost`] for earlier writes,
    /// [`RelaxedError::Closed`], [`RelaxedError::HeldBack`] when an update did not end within
    /// [`WriteBufferSettings::deadline`], and failures of the memory. In all cases this write was
    /// not issued, except that at `Sequential` a failure of the memory is the failure of the write
    /// itself.
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
        strict_assert!(
            offset + bytes.len() <= shared.memory.payload_len(),
            "a write that was checked ends behind its line"
        );
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
                // From here on the write waits for room only. Updates may begin, because they take
                // no room.
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

    /// Puts a write into the buffer. Returns `false` when there is no room.
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
        strict_assert!(
            shared.queue.borrow().len() <= shared.settings.entries,
            "more writes wait than the bound"
        );
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
        strict_assert!(!shared.updates.go_on(), "a write joins the buffer beside an update");
        Ok(true)
    }

    /// Reads bytes of a line's payload: the bytes of this buffer's writes, visible or not, and
    /// otherwise the visible bytes. All bytes are of one instant.
    ///
    /// # Errors
    /// [`RelaxedError::OutOfLine`], [`RelaxedError::Lost`] for earlier writes, and failures of the
    /// memory.
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
        // No await lies between the last validated read and the overlay. So each own write is in
        // the buffer, or was visible to that read.
        self.check_lost()?;
        shared.queue.borrow().overlay(addr, offset, to);
        Ok(())
    }

    /// Changes a line under its latch, after all earlier writes of the buffer are visible. An
    /// update is an atomic read-modify-write that no write passes in either direction.
    ///
    /// Until the update has ended, no task that shares the buffer writes: such writes are held
    /// back. Before an update begins, it waits until no write is held back, at most until the
    /// deadline of these writes. So a write waits only for updates that are in progress, however
    /// many updates there are.
    ///
    /// Await the future or drop it: a future that was polled once and is then kept holds writes
    /// back until they fail.
    ///
    /// # Errors
    /// [`RelaxedError::Lost`] for earlier writes, after which the line is not changed; failures of
    /// the memory.
    pub async fn update<R>(
        &self,
        addr: GlobalAddr,
        change: impl FnOnce(&mut WriteGuard<'_>) -> R,
    ) -> Result<R, RelaxedError> {
        let shared = self.shared();
        if let Some(by) = shared.updates.waits_until() {
            let gone = || shared.updates.waits_until().is_none().then_some(());
            // After a timeout the held-back writes have had their time.
            let _: Result<(), Elapsed> = shared.handle.timeout(by, shared.room.wait(gone)).await;
        }
        // A task that shares the buffer must not write between the flush and the change. Such a
        // write is issued before the change, and would become visible after the change.
        let _update = shared.updates.begin(&shared.room);
        self.flush().await?;
        Ok(shared.memory.write(addr, change).await?)
    }

    /// A full memory fence: waits until every earlier write is visible or lost.
    ///
    /// # Errors
    /// The writes that were lost; every other write is visible then.
    pub async fn flush(&self) -> Result<(), RelaxedError> {
        let shared = self.shared();
        let end = shared.queue.borrow().next();
        shared.start_all();
        let settled = || shared.queue.borrow().is_settled_below(end).then_some(());
        shared.room.wait(settled).await;
        strict_assert!(
            shared.queue.borrow().is_settled_below(end),
            "a flush ends before the writes that it waits for"
        );
        self.check_lost()
    }

    /// Makes all writes visible and takes no more writes, from no clone either. Returns when none
    /// of the buffer's tasks uses the memory any more.
    ///
    /// Await this before the worker leaves the memory: no other worker can take the completions of
    /// the verbs that the buffer's tasks posted. If the future is dropped before it returns, the
    /// effect is that of a dropped [`flush`](WriteBuffer::flush) or of a dropped buffer.
    ///
    /// # Errors
    /// As [`flush`](WriteBuffer::flush).
    pub async fn leave(self) -> Result<(), RelaxedError> {
        let flushed = self.flush().await;
        // Writes that another task has issued since are carried out too.
        self.shared().close();
        let tasks = self.owner.tasks.take();
        for task in tasks {
            // No caller aborts this task.
            let _ = task.await;
        }
        flushed
    }
}
