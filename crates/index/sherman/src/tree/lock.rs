//! Locks of nodes: a local queue, then a word at the memory node; and the writes that end them.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use latchwork_fabric::Buffer;
use latchwork_runtime::Time;
use latchwork_strict::strict_assert;
use latchwork_verbs::{CHIP_BASE, ComputeNodeId, GlobalAddr, Target, VerbError, WorkRequest};
use smallvec::SmallVec;

use super::Inner;
use super::detached::Detached;
use crate::ShermanError;
use crate::config::{Flaw, LockMemory};
use crate::local::{Grant, Place};

/// The offset of the lock word in the header of a node's line.
const IN_HEADER: u64 = 24;
const _: () = assert!(IN_HEADER as usize + 8 <= latchwork_verbs::LINE_HEADER, "inside the header");

/// The repetitions of a batch whose connection failed.
const AGAIN_MAX: u32 = 16;

/// The times that a task finds a lock with one holder before it pauses between its tries: such a
/// holder is slow or dead, because each taking has a value of its own.
const SAME_HOLDER: u32 = 64;

/// The first pause. Each is twice as long as the one before, up to half a millisecond.
const LEAST_PAUSE: Duration = Duration::from_micros(1);

/// A lock that a task has. A drop releases it.
pub(super) struct Guard {
    inner: Rc<Inner>,
    lock: GlobalAddr,
    /// The value of the word at the memory node, while this node has it.
    word: Option<u64>,
    /// Whether the lock has come to its end.
    ended: bool,
}

/// Words of a node, to be written under its lock.
pub(super) struct Piece {
    pub(super) addr: GlobalAddr,
    pub(super) words: Vec<u64>,
}

fn target(addr: GlobalAddr) -> Target {
    Target::Memory(addr.node())
}

impl Inner {
    /// The lock word of a node.
    pub(super) fn lock_of(&self, node: GlobalAddr) -> GlobalAddr {
        let geometry = self.resources.lines.pool().geometry();
        let locks = self.config.locks.max(1);
        let offset = match self.config.lock_memory {
            LockMemory::Node => node.offset() + IN_HEADER,
            LockMemory::Host => {
                // The latch table of the node's chunk: no other code uses the words of these lines.
                let index = u64::from(geometry.line_index(node)) % locks;
                geometry.chunk_of(node).offset() + index * 8
            }
            LockMemory::Chip => {
                let line = node.offset() / u64::from(geometry.line_size());
                let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                CHIP_BASE + hash % locks * 8
            }
        };
        GlobalAddr::new(node.node(), offset)
    }

    /// A value for a lock word that no other taking of this process has: the compute node, and a
    /// count.
    fn new_word(&self) -> u64 {
        let node = u64::from(self.resources.port.node().get());
        let count = self.shared.takes.fetch_add(1, Relaxed) & ((1 << 56) - 1);
        node << 56 | count
    }

    /// Takes the lock of `node`. The future may be dropped.
    pub(super) fn lock(self: &Rc<Self>, node: GlobalAddr) -> Detached<Result<Guard, ShermanError>> {
        let lock = self.lock_of(node);
        Detached::new(&self.resources.handle, Rc::clone(self).take(lock))
    }

    async fn take(self: Rc<Self>, lock: GlobalAddr) -> Result<Guard, ShermanError> {
        let (handle, begun) = (self.resources.handle.clone(), self.resources.handle.now());
        let deadline = begun + self.config.deadline;
        if self.config.local_locks
            && let Some(place) = self.shared.locks.take(lock)
        {
            match Waiting::new(&self, lock, place).granted(deadline).await {
                None => {
                    let (holder, waited) = (Some(self.resources.port.node()), handle.now() - begun);
                    return Err(ShermanError::Locked { lock, holder, waited });
                }
                Some(Grant::WithWord(word)) => {
                    self.counters.count(|c| c.handed_over += 1);
                    return Ok(Guard { inner: self, lock, word: Some(word), ended: false });
                }
                Some(Grant::Alone) => {}
            }
        }
        let mut guard = Guard { inner: self, lock, word: None, ended: false };
        match guard.take_word(begun, deadline).await {
            Ok(word) => {
                guard.word = Some(word);
                Ok(guard)
            }
            Err(error) => Err(error),
        }
    }
}

/// A place in a local queue. A drop leaves the queue.
struct Waiting<'a> {
    inner: &'a Rc<Inner>,
    lock: GlobalAddr,
    place: Option<Place>,
}

impl<'a> Waiting<'a> {
    fn new(inner: &'a Rc<Inner>, lock: GlobalAddr, place: Place) -> Waiting<'a> {
        Waiting { inner, lock, place: Some(place) }
    }

    async fn granted(mut self, deadline: Time) -> Option<Grant> {
        let handle = &self.inner.resources.handle;
        let place = self.place.as_ref()?;
        let granted = std::future::poll_fn(|context| place.poll(context));
        let grant = handle.timeout(deadline, granted).await.ok()?;
        self.place = None;
        Some(grant)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(grant) = self.place.take().and_then(|place| place.leave()) {
            let word = match grant {
                Grant::Alone => None,
                Grant::WithWord(word) => Some(word),
            };
            let (inner, lock) = (Rc::clone(self.inner), self.lock);
            drop(Guard { inner, lock, word, ended: false });
        }
    }
}

impl Guard {
    /// Takes the word at the memory node.
    async fn take_word(&self, begun: Time, deadline: Time) -> Result<u64, ShermanError> {
        let (inner, lock) = (&self.inner, self.lock);
        let (port, handle) = (&inner.resources.port, &inner.resources.handle);
        let word = inner.new_word();
        // The last holder, and how often the lock was found with it.
        let (mut last, mut met) = (0, 0_u32);
        loop {
            inner.counters.count(|c| c.swaps += 1);
            let found = match port.compare_swap(lock, 0, word).await {
                Err(VerbError::Ambiguous { .. }) => match port.read_word(lock).await? {
                    found if found == word => 0,
                    0 => continue,
                    found => found,
                },
                ended => ended?,
            };
            if found == 0 {
                return Ok(word);
            }
            inner.counters.count(|c| c.swaps_failed += 1);
            if handle.now() >= deadline {
                let holder = ComputeNodeId::new((found >> 56) as u8);
                return Err(ShermanError::Locked { lock, holder, waited: handle.now() - begun });
            }
            met = if found == last { met + 1 } else { 0 };
            last = found;
            if met >= SAME_HOLDER {
                let pause = LEAST_PAUSE * (1 << (met - SAME_HOLDER).min(9));
                handle.sleep(pause).await;
            }
        }
    }

    fn release_request(&self, word: u64) -> WorkRequest {
        let remote = self.lock.offset();
        if self.inner.config.release_by_add {
            WorkRequest::FetchAdd { remote, add: word.wrapping_neg() }
        } else {
            WorkRequest::WriteWord { remote, value: 0 }
        }
    }

    /// Whether the word stays at this node, for a task in the queue.
    fn keeps_word(&self) -> bool {
        self.inner.config.local_locks
            && self.inner.shared.locks.wants(self.lock, self.inner.config.hand_overs)
    }

    /// Releases the lock, without a write. The future may be dropped.
    pub(super) fn release(self) -> Detached<Result<(), ShermanError>> {
        let handle = self.inner.resources.handle.clone();
        Detached::new(&handle, self.write(SmallVec::new()))
    }

    /// Writes the pieces in their order, all on the memory node of the lock, and releases the lock.
    /// The future may be dropped.
    pub(super) fn write_back(
        self,
        pieces: SmallVec<[Piece; 2]>,
    ) -> Detached<Result<(), ShermanError>> {
        let handle = self.inner.resources.handle.clone();
        Detached::new(&handle, self.write(pieces))
    }

    async fn write(mut self, pieces: SmallVec<[Piece; 2]>) -> Result<(), ShermanError> {
        let written = self.write_pieces(&pieces).await;
        let passed = self.pass_on().await;
        written.and(passed)
    }

    /// Writes the pieces. With combined commands the release of the word is in the same batch,
    /// unless the word stays.
    async fn write_pieces(&mut self, pieces: &[Piece]) -> Result<(), ShermanError> {
        if pieces.is_empty() {
            return Ok(());
        }
        let inner = Rc::clone(&self.inner);
        if inner.config.flaw == Some(Flaw::ReleasesFirst) {
            self.release_word(&inner).await?;
        }
        let combine = inner.config.combine;
        let release = self.word.filter(|_| combine && !self.keeps_word());
        if combine {
            self.post(&inner, pieces, release).await?;
        } else {
            for piece in pieces {
                self.post(&inner, std::slice::from_ref(piece), None).await?;
            }
        }
        if release.is_some() {
            self.word = None;
        }
        Ok(())
    }

    async fn post(
        &self,
        inner: &Inner,
        pieces: &[Piece],
        release: Option<u64>,
    ) -> Result<(), ShermanError> {
        let mut again = 0;
        loop {
            inner.counters.count(|c| c.writes += 1);
            let (buffer, mut requests) = inner.fill(pieces).await;
            requests.extend(release.map(|word| self.release_request(word)));
            let port = &inner.resources.port;
            match port.execute_in(target(self.lock), &requests, Some(buffer)).await {
                Ok(_) => return Ok(()),
                Err(VerbError::Ambiguous { .. }) if again < AGAIN_MAX => again += 1,
                Err(error) => return Err(error.into()),
            }
            // While the word has this taking's value, the batch may take effect again. Without it
            // the whole batch has taken effect, because the release is its last request.
            if let Some(word) = release
                && port.read_word(self.lock).await? != word
            {
                return Ok(());
            }
        }
    }

    /// Passes the lock to the next task of this node, or to all.
    async fn pass_on(&mut self) -> Result<(), ShermanError> {
        let inner = Rc::clone(&self.inner);
        if self.word.is_some() && self.keeps_word() {
            self.ended = inner.shared.locks.pass(self.lock, self.word);
            if self.ended {
                return Ok(());
            }
        }
        let released = self.release_word(&inner).await;
        self.ended = true;
        if inner.config.local_locks {
            inner.shared.locks.pass(self.lock, None);
        }
        released
    }

    async fn release_word(&mut self, inner: &Inner) -> Result<(), ShermanError> {
        let Some(word) = self.word.take() else { return Ok(()) };
        inner.counters.count(|c| c.releases += 1);
        let (port, request) = (&inner.resources.port, self.release_request(word));
        let mut again = 0;
        loop {
            match port.execute(target(self.lock), &[request]).await {
                Err(VerbError::Ambiguous { .. }) if again < AGAIN_MAX => again += 1,
                ended => return Ok(ended.map(drop)?),
            }
            if port.read_word(self.lock).await? != word {
                return Ok(());
            }
        }
    }
}

impl Inner {
    /// A buffer with the pieces, and the WRITEs of its parts.
    async fn fill(&self, pieces: &[Piece]) -> (Buffer, SmallVec<[WorkRequest; 4]>) {
        let buffer = self.buffers.take().await;
        let mut requests = SmallVec::new();
        let mut start = 0;
        for piece in pieces {
            let end = start + piece.words.len() * 8;
            let words = buffer.words(start..end);
            for (i, &word) in piece.words.iter().enumerate() {
                words.set_word(i, word);
            }
            let (remote, local) = (piece.addr.offset(), buffer.local(start..end));
            requests.push(WorkRequest::Write { remote, local });
            start = end;
        }
        strict_assert!(start <= self.buffers.size(), "the pieces fit into a buffer");
        (buffer, requests)
    }

    /// Writes a piece that no other operation can reach yet.
    pub(super) async fn write_new(&self, piece: &Piece) -> Result<(), ShermanError> {
        let mut again = 0;
        loop {
            self.counters.count(|c| c.writes += 1);
            let (buffer, requests) = self.fill(std::slice::from_ref(piece)).await;
            let port = &self.resources.port;
            match port.execute_in(target(piece.addr), &requests, Some(buffer)).await {
                Err(VerbError::Ambiguous { .. }) if again < AGAIN_MAX => again += 1,
                ended => return Ok(ended.map(drop)?),
            }
        }
    }

    /// Reads all words of a node.
    pub(super) async fn read_words(&self, node: GlobalAddr) -> Result<Vec<u64>, ShermanError> {
        let bytes = self.layout.words * 8;
        let mut again = 0;
        loop {
            self.counters.count(|c| c.reads += 1);
            let buffer = self.buffers.take().await;
            let remote = node.offset() + latchwork_verbs::LINE_HEADER as u64;
            let request = WorkRequest::Read { remote, local: buffer.local(0..bytes) };
            let port = &self.resources.port;
            match port.execute_in(target(node), &[request], Some(buffer)).await {
                Ok((_, buffer)) => {
                    let buffer = buffer.expect("a batch gives back its buffer");
                    let words = buffer.words(0..bytes);
                    return Ok((0..self.layout.words).map(|i| words.word(i)).collect());
                }
                Err(VerbError::Ambiguous { .. }) if again < AGAIN_MAX => again += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.ended || std::thread::panicking() {
            return;
        }
        self.ended = true;
        // The task's guard counts as ended until the task runs: an executor that is being dropped
        // drops the task at once.
        let mut guard =
            Guard { inner: Rc::clone(&self.inner), lock: self.lock, word: self.word, ended: true };
        let handle = guard.inner.resources.handle.clone();
        drop(handle.spawn_finisher(async move {
            // A failure has been or will be the result of an operation, too.
            let _ = guard.pass_on().await;
        }));
    }
}
