//! [`CoherentMemory`]: lines that every compute node reads and writes as if they were local.

use std::future::Future;
use std::ops::Range;

use latchwork_cache::{Hint, OptimisticRead, ReadVersion, WriteGuard};
use latchwork_runtime::{Handle, Time};
use latchwork_verbs::{GlobalAddr, Words};

use crate::MemoryError;

/// How a line is needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// To read it.
    Shared,
    /// To write it.
    Exclusive,
}

/// A line that an operation cannot go on without.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Need {
    /// The line.
    pub addr: GlobalAddr,
    /// How it is needed.
    pub mode: Mode,
}

/// What became of the copy that a reader saw, once it asked to write it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Upgrade {
    /// Owned exclusively, and the bytes are the ones that the reader saw.
    Kept,
    /// Owned exclusively, but somebody wrote in between: read again.
    Changed,
    /// Not owned: another node's claim came first, and this one gave way. Read again, or give up.
    Busy,
}

/// Memory of cache lines, coherent between compute nodes (SELCC 6.1), as seen by one worker.
///
/// Accesses to one line are sequentially consistent across the cluster: a read that validates saw
/// the latest write. Handles are cheap to clone and stay on their worker's thread.
pub trait CoherentMemory: Clone + 'static {
    /// Keeps a line here for one local access; drop it right after that access. Its effect lapses
    /// after a bounded time in any case.
    type Ticket;

    /// Held by an operation: lines that it sees are not handed out anew, even if they are freed.
    type Operation;

    /// Starts an optimistic read (SELCC_SLock without the latch). A plain function that writes no
    /// shared memory.
    ///
    /// # Errors
    /// The need to pass to [`ensure`](CoherentMemory::ensure).
    fn try_read(&self, addr: GlobalAddr) -> Result<OptimisticRead<'_>, Need>;

    /// Takes the local latch for writing (SELCC_XLock).
    ///
    /// # Errors
    /// The need to pass to [`ensure`](CoherentMemory::ensure).
    fn try_write(&self, addr: GlobalAddr) -> Result<WriteGuard<'_>, Need>;

    /// As [`try_read`](CoherentMemory::try_read), of a line that is probably where `hint` says:
    /// what is saved is the lookup by address. A wrong hint is corrected.
    ///
    /// # Errors
    /// As [`try_read`](CoherentMemory::try_read).
    fn try_read_at(&self, addr: GlobalAddr, hint: &Hint) -> Result<OptimisticRead<'_>, Need>;

    /// As [`try_write`](CoherentMemory::try_write), of a line that is probably where `hint` says.
    ///
    /// # Errors
    /// As [`try_write`](CoherentMemory::try_write).
    fn try_write_at(&self, addr: GlobalAddr, _hint: &Hint) -> Result<WriteGuard<'_>, Need> {
        self.try_write(addr)
    }

    /// Takes the local latch of a line that is still as `seen` saw it, which therefore was
    /// consistent. What a writer has to look up it can do before, while others read and write.
    ///
    /// # Errors
    /// The need to pass to [`ensure`](CoherentMemory::ensure); also when the line has changed.
    fn try_latch<'a>(&'a self, seen: OptimisticRead<'a>) -> Result<WriteGuard<'a>, Need>;

    /// Hints for the lines that the line of `read` leads to, in the order that its user numbers
    /// them in. They are this node's, and may be fewer than the line leads to.
    fn hints(&self, read: &OptimisticRead<'_>) -> &[Hint];

    /// Asks the processor for the byte range `payload` of the line that is probably where `hint`
    /// says, and for what else reading it takes. A plain function that waits for nothing: for
    /// whoever has other work to do before the read.
    fn prefetch(&self, hint: &Hint, payload: Range<usize>);

    /// Where the line is, if it is here: a hint for whoever will read it soon, and again.
    fn guess(&self, _addr: GlobalAddr) -> Hint {
        Hint::default()
    }

    /// Asks the processor for what [`guess`](CoherentMemory::guess) reads.
    fn prefetch_guess(&self, _addr: GlobalAddr) {}

    /// Asks the processor for what a lock of the line that is probably where `hint` says takes.
    fn prefetch_lock(&self, _hint: &Hint) {}

    /// The word at byte `offset` of the payload of the line that is probably where `hint` says:
    /// perhaps torn, or another line's, so for guesses at what to
    /// [`prefetch`](CoherentMemory::prefetch) alone.
    fn peek(&self, _hint: &Hint, _offset: usize) -> u64 {
        0
    }

    /// Obtains a line, and keeps it here for one access.
    ///
    /// # Errors
    /// [`MemoryError::Timeout`] after the configured deadline, and failures of the fabric.
    fn ensure(&self, need: Need) -> impl Future<Output = Result<Self::Ticket, MemoryError>>;

    /// As [`ensure`](CoherentMemory::ensure), for an access that is of no use after `by`. A hint:
    /// where no holder is asked for a line, and a node that was refused tries again after ever
    /// longer pauses (SEL), a pause that begins while the access waits is short against the time
    /// that is left. One that has begun is not made shorter, and where holders are asked `by`
    /// changes nothing. Whoever asks stops waiting by itself.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn ensure_by(
        &self,
        need: Need,
        _by: Time,
    ) -> impl Future<Output = Result<Self::Ticket, MemoryError>> {
        self.ensure(need)
    }

    /// Whether a line as a rule stays here after its access, until another node asks for it (with
    /// adaptive release some lines are given back before). Otherwise each is given back with its
    /// ticket.
    fn keeps_lines(&self) -> bool {
        true
    }

    /// Asks to write what a reader saw. Waits for the transfer, but gives way to another node's
    /// claim instead of waiting for its turn. The reader's `ticket`, if it has one, keeps the copy
    /// until the line is asked for: dropped before, a protocol without a cache has given the copy
    /// back.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn upgrade(
        &self,
        seen: ReadVersion,
        ticket: Option<Self::Ticket>,
    ) -> impl Future<Output = Result<(Upgrade, Option<Self::Ticket>), MemoryError>>;

    /// Allocates a line. Its payload is unspecified: initialise all of it.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when the pool is full.
    fn allocate(&self) -> impl Future<Output = Result<GlobalAddr, MemoryError>>;

    /// Frees a line. It is handed out again only when no operation of any node can still see it.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn free(&self, addr: GlobalAddr) -> impl Future<Output = Result<(), MemoryError>>;

    /// Adds to an 8-byte word of a line that is used for nothing but global atomics, and returns
    /// what was there. `offset` is in the payload, a multiple of 8.
    ///
    /// # Errors
    /// Failures of the fabric.
    fn fetch_add(
        &self,
        addr: GlobalAddr,
        offset: usize,
        add: u64,
    ) -> impl Future<Output = Result<u64, MemoryError>>;

    /// Compares and swaps an 8-byte word of a line that is used for nothing but global atomics, and
    /// returns what was there. `offset` is in the payload, a multiple of 8.
    ///
    /// # Errors
    /// Failures of the fabric.
    fn compare_swap(
        &self,
        addr: GlobalAddr,
        offset: usize,
        expected: u64,
        desired: u64,
    ) -> impl Future<Output = Result<u64, MemoryError>>;

    /// Bytes of a line that belong to its user.
    fn payload_len(&self) -> usize;

    /// The worker's runtime.
    fn handle(&self) -> &Handle;

    /// Begins an operation without waiting; `None` when this node has to announce first that it is
    /// at work again, which [`enter`](CoherentMemory::enter) does.
    fn try_enter(&self) -> Option<Self::Operation>;

    /// Begins an operation.
    ///
    /// # Errors
    /// Failures of the fabric.
    fn enter(&self) -> impl Future<Output = Result<Self::Operation, MemoryError>>;

    /// Reads a line: runs `read` on a copy, again and again until it was consistent. `read` must
    /// therefore bear garbage and have no effect but its result.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn read<R>(
        &self,
        addr: GlobalAddr,
        mut read: impl FnMut(Words<'_>) -> R,
    ) -> impl Future<Output = Result<R, MemoryError>> {
        async move {
            let mut ticket = None;
            loop {
                match self.try_read(addr) {
                    Ok(seen) => {
                        let result = read(seen.words());
                        if seen.validate() {
                            return Ok(result);
                        }
                    }
                    Err(need) => {
                        drop(ticket.take());
                        ticket = Some(self.ensure(need).await?);
                    }
                }
            }
        }
    }

    /// Writes a line: runs `write` once, under the local latch.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn write<R>(
        &self,
        addr: GlobalAddr,
        write: impl FnOnce(&mut WriteGuard<'_>) -> R,
    ) -> impl Future<Output = Result<R, MemoryError>> {
        async move {
            let mut ticket = None;
            loop {
                match self.try_write(addr) {
                    Ok(mut guard) => return Ok(write(&mut guard)),
                    Err(need) => {
                        drop(ticket.take());
                        ticket = Some(self.ensure(need).await?);
                    }
                }
            }
        }
    }
}
