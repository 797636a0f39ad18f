//! [`CoherentMemory`]: lines that every compute node reads and writes as if they were local.

use std::future::Future;
use std::ops::Range;

use latchwork_cache::{Hint, OptimisticRead, ReadVersion, WriteGuard};
use latchwork_runtime::{Handle, Time};
use latchwork_verbs::{GlobalAddr, Words};

use crate::error::MemoryError;
use crate::mode::AccessMode;

/// The number of the life of an allocated line: 1 until the line is freed for the first time.
/// `line` is the whole line, whose first word counts.
pub fn life(line: Words<'_>) -> u32 {
    line.u32(0)
}

/// A line without which an operation cannot continue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Need {
    /// The line.
    pub addr: GlobalAddr,
    /// The needed mode.
    pub mode: AccessMode,
}

/// The outcome of [`CoherentMemory::upgrade`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Upgrade {
    /// This node owns the line exclusively, and the bytes are the ones that the reader saw.
    Kept,
    /// This node owns the line exclusively, but the bytes may differ from those that the reader
    /// saw: read again.
    Changed,
    /// Not obtained: the copy had changed before, or this node gave way to another node's request.
    /// Read again, or give up.
    Busy,
}

/// Memory of cache lines, coherent between compute nodes (SELCC 6.1), as one worker sees it.
///
/// Accesses to one line are sequentially consistent across the cluster: a read that validates saw
/// the latest write. Handles are cheap to clone and stay on their worker's thread.
pub trait CoherentMemory: Clone + 'static {
    /// Keeps a line here for one local access. Drop the ticket directly after that access. A
    /// request of another node waits for a ticket only for a bounded time.
    type Ticket;

    /// An operation in progress. A line that is freed during the operation is not reused before the
    /// operation ends.
    type Operation;

    /// Starts an optimistic read (SELCC_SLock without the latch). A plain function that does not
    /// wait. Most calls write no shared memory, except under exact LRU replacement.
    ///
    /// # Errors
    /// The need for [`ensure`](CoherentMemory::ensure).
    fn try_read(&self, addr: GlobalAddr) -> Result<OptimisticRead<'_>, Need>;

    /// Takes the local latch for writing (SELCC_XLock).
    ///
    /// # Errors
    /// The need for [`ensure`](CoherentMemory::ensure).
    fn try_write(&self, addr: GlobalAddr) -> Result<WriteGuard<'_>, Need>;

    /// Like [`try_read`](CoherentMemory::try_read), for a line that is probably in the frame of
    /// `hint`. A right hint saves the lookup by address. A wrong hint is corrected.
    ///
    /// # Errors
    /// As [`try_read`](CoherentMemory::try_read).
    fn try_read_at(&self, addr: GlobalAddr, hint: &Hint) -> Result<OptimisticRead<'_>, Need>;

    /// Like [`try_write`](CoherentMemory::try_write), for a line that is probably in the frame of
    /// `hint`.
    ///
    /// # Errors
    /// As [`try_write`](CoherentMemory::try_write).
    fn try_write_at(&self, addr: GlobalAddr, _hint: &Hint) -> Result<WriteGuard<'_>, Need> {
        self.try_write(addr)
    }

    /// Takes the local latch of a line that is unchanged since `seen`. Success proves that the read
    /// was consistent. So a writer can search before it takes the latch, while other tasks read and
    /// write.
    ///
    /// # Errors
    /// The need for [`ensure`](CoherentMemory::ensure), also when the line has changed.
    fn try_latch<'a>(&'a self, seen: OptimisticRead<'a>) -> Result<WriteGuard<'a>, Need>;

    /// Hints for the lines whose addresses are in the line of `read`, such as the children of a
    /// tree page. Hint `i` is for the line to which the user gives the number `i`. The hints belong
    /// to this node. There may be fewer hints than lines.
    fn hints(&self, read: &OptimisticRead<'_>) -> &[Hint];

    /// Prefetches the byte range `payload` of the line that is probably in the frame of `hint`, and
    /// the other bytes that a read needs. A plain function that does not wait: call it when there
    /// is other work to do before the read.
    fn prefetch(&self, hint: &Hint, payload: Range<usize>);

    /// A hint with the frame of the line, if the line is in this node's cache. Otherwise, or when
    /// the implementation has no guess, an empty hint.
    fn guess(&self, _addr: GlobalAddr) -> Hint {
        Hint::default()
    }

    /// Prefetches the bytes that [`guess`](CoherentMemory::guess) reads.
    fn prefetch_guess(&self, _addr: GlobalAddr) {}

    /// Prefetches the bytes that a lock needs, for a line that is probably in the frame of `hint`.
    fn prefetch_lock(&self, _hint: &Hint) {}

    /// The word at byte `offset` of the payload of the line that is probably in the frame of
    /// `hint`. The word may be torn or may belong to another line. So use it only to decide what to
    /// [`prefetch`](CoherentMemory::prefetch).
    fn peek(&self, _hint: &Hint, _offset: usize) -> u64 {
        0
    }

    /// Obtains a line, and keeps it here for one access.
    ///
    /// # Errors
    /// [`MemoryError::Timeout`] after the configured deadline, [`MemoryError::BadAddress`], and
    /// failures of the fabric.
    fn ensure(&self, need: Need) -> impl Future<Output = Result<Self::Ticket, MemoryError>>;

    /// Like [`ensure`](CoherentMemory::ensure), for an address that may belong to another user by
    /// now. `None` as soon as another node answers that a transaction has locked the line: the
    /// caller's own transaction must not wait for that one.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn ensure_stale(
        &self,
        need: Need,
    ) -> impl Future<Output = Result<Option<Self::Ticket>, MemoryError>> {
        async move { self.ensure(need).await.map(Some) }
    }

    /// Like [`ensure`](CoherentMemory::ensure), for an access whose result is useless after `by`.
    ///
    /// `by` has an effect only in a protocol without requests to the holder (SEL). There a refused
    /// node tries again after longer and longer back-offs. A back-off that begins during this
    /// access is short against the time that is left until `by`. A back-off that began earlier is
    /// not shortened. The caller itself must stop waiting at `by`.
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

    /// Whether a line usually stays here after its access, until another node requests it. With
    /// adaptive release some lines are released earlier. `false`: each line is released with its
    /// ticket.
    fn keeps_lines(&self) -> bool {
        true
    }

    /// Obtains exclusive ownership of the line that a reader saw. The call waits for the transfer,
    /// but gives way to another node's request and returns [`Upgrade::Busy`]. Pass the reader's
    /// `ticket`, if there is one: the ticket keeps the copy until the request for the line is sent.
    /// Under SEL, an earlier drop of the ticket would release the copy.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn upgrade(
        &self,
        seen: ReadVersion,
        ticket: Option<Self::Ticket>,
    ) -> impl Future<Output = Result<(Upgrade, Option<Self::Ticket>), MemoryError>>;

    /// Writes this node's changes of a line to memory, and keeps the line. Ends when memory has
    /// what this node had written to the line when the call began. So the death of this node does
    /// not take it. Returns at once for a line without such changes, and where a death takes no
    /// such changes or nothing saves them: see [`persists`](CoherentMemory::persists).
    ///
    /// A structure persists a line before it links to the line from another one. Otherwise the
    /// death of this node may leave the link without its target.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn persist(&self, _addr: GlobalAddr) -> impl Future<Output = Result<(), MemoryError>> {
        async { Ok(()) }
    }

    /// Whether [`persist`](CoherentMemory::persist) does anything.
    fn persists(&self) -> bool {
        false
    }

    /// The signature of this node: a number that no other node has, also no later holder of its
    /// id. A user leaves the signature where only this node may finish what it has begun. 0 where
    /// no node recovers from the death of another one: such users can only be restarted.
    fn signature(&self) -> u64 {
        0
    }

    /// Whether the node with this signature has ended, as far as this node knows: it is dead or
    /// has left, nothing of it can have an effect any more, and its lines are recovered. Never true
    /// for 0. A plain function that costs a load.
    fn has_ended(&self, _signature: u64) -> bool {
        false
    }

    /// Allocates a line, which begins its next [`life`]. Its payload is unspecified: initialise all
    /// of it.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] when the pool is full, [`MemoryError::Pool`] for all other
    /// failures of the pool, and those of [`ensure`](CoherentMemory::ensure).
    fn allocate(&self) -> impl Future<Output = Result<GlobalAddr, MemoryError>>;

    /// Frees a line. The line is reused only when no [operation](CoherentMemory::Operation) of any
    /// node can still see the line.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure), [`MemoryError::NotAllocated`] and
    /// [`MemoryError::Pool`].
    fn free(&self, addr: GlobalAddr) -> impl Future<Output = Result<(), MemoryError>>;

    /// Counts pages that have left an index, and lines of such pages that were freed. For reports
    /// only.
    fn count_leaves(&self, _unlinked: u64, _freed: u64) {}

    /// Prepares a line that this worker has allocated for atomics. From then on no copy in a cache
    /// of this node can be written back over the payload.
    ///
    /// # Errors
    /// [`MemoryError::BadAddress`], and [`MemoryError::Timeout`] when the line does not leave the
    /// cache by the deadline.
    fn leave_to_atomics(&self, _addr: GlobalAddr) -> impl Future<Output = Result<(), MemoryError>> {
        std::future::ready(Ok(()))
    }

    /// Adds `add`, modulo 2^64, to an 8-byte word of a line on its memory node, and returns the old
    /// value. No cached copy learns of the change. So use the line only for this function and
    /// [`compare_swap`](CoherentMemory::compare_swap), and call
    /// [`leave_to_atomics`](CoherentMemory::leave_to_atomics) first. `offset` is a byte offset in
    /// the payload, a multiple of 8.
    ///
    /// # Errors
    /// [`MemoryError::BadAddress`], and failures of the fabric. After `VerbError::Ambiguous` the
    /// addition may or may not have taken effect.
    fn fetch_add(
        &self,
        addr: GlobalAddr,
        offset: usize,
        add: u64,
    ) -> impl Future<Output = Result<u64, MemoryError>>;

    /// Compares and swaps an 8-byte word of a line on its memory node, and returns the old value.
    /// The conditions are those of [`fetch_add`](CoherentMemory::fetch_add).
    ///
    /// # Errors
    /// As [`fetch_add`](CoherentMemory::fetch_add).
    fn compare_swap(
        &self,
        addr: GlobalAddr,
        offset: usize,
        expected: u64,
        desired: u64,
    ) -> impl Future<Output = Result<u64, MemoryError>>;

    /// The number of bytes of a line that belong to its user.
    fn payload_len(&self) -> usize;

    /// The worker's runtime.
    fn handle(&self) -> &Handle;

    /// Begins an operation without waiting. Returns `None` when this node was idle and must publish
    /// a reclamation epoch first. Then call [`enter`](CoherentMemory::enter), which publishes it.
    fn try_enter(&self) -> Option<Self::Operation>;

    /// Begins an operation. Publishes a reclamation epoch first if the node was idle.
    ///
    /// # Errors
    /// [`MemoryError::Pool`], also for failures of the fabric.
    fn enter(&self) -> impl Future<Output = Result<Self::Operation, MemoryError>>;

    /// A mark in the order of operations: each operation of any node that has begun before this
    /// call is before the mark. Costs one verb, on a word that all nodes share. So callers use one
    /// mark for many things.
    ///
    /// # Errors
    /// [`MemoryError::Pool`], also for failures of the fabric.
    fn mark(&self) -> impl Future<Output = Result<u64, MemoryError>>;

    /// A bound: the operations before a mark have ended if the mark is below the bound. Costs one
    /// verb.
    ///
    /// # Errors
    /// As [`mark`](CoherentMemory::mark).
    fn ended(&self) -> impl Future<Output = Result<u64, MemoryError>>;

    /// Reads a line: runs `read` on the words in the frame until a run saw consistent words. So
    /// `read` must tolerate inconsistent bytes, and must have no effect except its result.
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
