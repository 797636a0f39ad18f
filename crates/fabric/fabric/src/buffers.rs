//! Registered buffers of a worker, for reads and writes that a future may abandon.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{LocalBuffer, Region, RegionKey, Words};

/// Registered memory of a worker, divided into buffers of one size. Clones are the same memory.
///
/// [`Port::buffers`](crate::Port::buffers) makes it.
#[derive(Clone)]
pub struct Buffers(Rc<Memory>);

struct Memory {
    region: Arc<Region>,
    key: RegionKey,
    /// The bytes of one buffer.
    size: usize,
    state: RefCell<State>,
}

struct State {
    free: Vec<u16>,
    waiting: Vec<Waker>,
}

impl Buffers {
    /// `region` is registered under `key` and has room for `count` buffers of `size` bytes.
    pub(crate) fn new(region: Arc<Region>, key: RegionKey, count: u16, size: usize) -> Self {
        strict_assert_eq!(region.len(), usize::from(count) * size, "room for all buffers");
        let state = State { free: (0..count).collect(), waiting: Vec::new() };
        Buffers(Rc::new(Memory { region, key, size, state: RefCell::new(state) }))
    }

    /// Waits for a free buffer. The wait ends when any buffer is dropped. The buffer of a batch is
    /// dropped at the latest after the completion, and the fabric completes every batch.
    pub async fn take(&self) -> Buffer {
        let index = std::future::poll_fn(|context| {
            let mut state = self.0.state.borrow_mut();
            match state.free.pop() {
                Some(index) => Poll::Ready(index),
                None => {
                    state.waiting.push(context.waker().clone());
                    Poll::Pending
                }
            }
        });
        let index = index.await;
        Buffer { memory: Rc::clone(&self.0), index }
    }

    /// The bytes of one buffer.
    pub fn size(&self) -> usize {
        self.0.size
    }
}

/// A buffer that no other code uses. Dropping it frees the buffer.
///
/// A posted batch owns its buffer until the completion, also when the future of the batch is
/// dropped (see [`Port::execute_in`](crate::Port::execute_in)).
pub struct Buffer {
    memory: Rc<Memory>,
    index: u16,
}

impl Buffer {
    fn range(&self, range: Range<usize>) -> Range<usize> {
        assert!(range.end <= self.memory.size, "longer than a buffer");
        let start = usize::from(self.index) * self.memory.size;
        start + range.start..start + range.end
    }

    /// A range of the buffer's bytes, as the source or the destination of a request. Both ends are
    /// multiples of 8.
    ///
    /// # Panics
    /// When the range reaches beyond the buffer.
    pub fn local(&self, range: Range<usize>) -> LocalBuffer {
        let range = self.range(range);
        let (offset, len) = (range.start as u64, range.len() as u32);
        LocalBuffer { region: self.memory.key, offset, len }
    }

    /// A range of the buffer's bytes.
    ///
    /// # Panics
    /// As [`local`](Buffer::local).
    pub fn words(&self, range: Range<usize>) -> Words<'_> {
        self.memory.region.words().slice(self.range(range))
    }

    /// Whether `local` is inside this buffer.
    pub(crate) fn contains(&self, local: LocalBuffer) -> bool {
        let (mine, start) = (self.range(0..self.memory.size), local.offset as usize);
        local.region == self.memory.key
            && mine.start <= start
            && start + local.len as usize <= mine.end
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer {} of region {}", self.index, self.memory.key.0)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.memory.state.borrow_mut();
            // While a thread unwinds, it drops its buffers, too, so the assertion does not hold
            // there.
            strict_assert!(
                !state.free.contains(&self.index) || std::thread::panicking(),
                "buffer {} is freed twice",
                self.index
            );
            state.free.push(self.index);
            std::mem::take(&mut state.waiting)
        };
        // All waiters are woken, because the future of a single woken waiter may have been dropped
        // before its poll.
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeded bug: two owners have one buffer, so two transfers would use the same bytes.
    #[test]
    #[should_panic(expected = "is freed twice")]
    fn a_buffer_that_is_freed_twice_is_found() {
        let region = Region::zeroed(1024).expect("memory");
        let buffers = Buffers::new(region, RegionKey(0), 2, 512);
        let taken = buffers.0.state.borrow_mut().free.pop().expect("all are free");
        let make = || Buffer { memory: Rc::clone(&buffers.0), index: taken };
        let (first, second) = (make(), make());
        drop(first);
        drop(second);
    }
}
