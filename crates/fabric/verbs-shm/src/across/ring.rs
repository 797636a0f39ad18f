//! [`Ring`]: messages from one compute node to a compute node of another process.

use std::sync::Arc;

use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, Message, Region, WORD};

use crate::queue::{LONG, SLOT_WORDS, read_message, write_message};

/// A bounded ring between two processes. One process fills the ring and the other process empties
/// the ring. Each process may use any number of threads.
///
/// ```text
///   word 0      1         2, 3          4, 5         32      512                528
///   magic   capacity   receiver's    sender's       head    slot 0             slot 1      ...
///                      incarnation, id                       turn, message
///
///   slot of position p (p modulo capacity):  turn == p + 1   it holds the message of p
///                                            turn <= p       not yet
/// ```
///
/// `tail`, the next position to be filled, is private to the sender and in no file. The sender's
/// threads claim positions by compare-and-swap, as in [`Queue`](crate::queue::Queue). `head` is the
/// next position to be taken.
///
/// Why no receiver takes a torn message:
///
/// 1. A receiver copies the message first, and then moves `head` by a compare-and-swap.
/// 2. A sender refills the slot of position p only for position p + `capacity`, and only after
///    `head` has passed p.
/// 3. `head` only grows. So if the compare-and-swap from p succeeds, `head` was not beyond p during
///    the copy, and no sender refilled the slot.
/// 4. `head` moves only after the copy. So `head` alone shows a sender that a slot is free, and the
///    sender need not read the slot.
///
/// After the ring is made, the receiver's process alone writes `head`, and the sender's process
/// alone writes the slots. The [parent module](super) argues why the death of one process does not
/// block the other.
pub(crate) struct Ring {
    region: Arc<Region>,
    mask: u64,
    tail: Tail,
}

/// State of the sending process, in private memory and on a CPU cache line of its own.
#[repr(align(128))]
struct Tail {
    next: AtomicU64,
    /// The last value of `head` that a sender read. While this value shows room, a send need not
    /// load `head` itself, which the receiver changes.
    head: AtomicU64,
}

/// The two ends of a ring. Each end is the incarnation of a process and a node of that process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ends {
    pub(crate) receiver: (u64, ComputeNodeId),
    pub(crate) sender: (u64, ComputeNodeId),
}

impl Ends {
    fn words(&self) -> [u64; 4] {
        let Ends { receiver, sender } = self;
        [receiver.0, receiver.1.get().into(), sender.0, sender.1.get().into()]
    }
}

#[cfg(not(loom))]
const MAGIC: u64 = u64::from_le_bytes(*b"latchrg1");
#[cfg(loom)]
const MAGIC: u64 = 2;
// Indices of words in the file of a ring: the layout in the documentation of `Ring`.
const CAPACITY: usize = 1;
const ENDS: usize = 2;
#[cfg(not(loom))]
const HEAD: usize = 32;
#[cfg(not(loom))]
const SLOTS: usize = 512;
/// A small layout for the model checker, which tracks every word.
#[cfg(loom)]
const HEAD: usize = 6;
#[cfg(loom)]
const SLOTS: usize = 8;

/// The largest capacity of a ring, in messages. Its slots take 128 MiB.
const CAPACITY_MAX: usize = 1 << 20;
const _: () = assert!(CAPACITY_MAX.is_power_of_two(), "a mask leads to the slots");
#[cfg(not(loom))]
const _: () = assert!(ENDS + 4 <= HEAD && HEAD < SLOTS, "the head of a ring is before its slots");

impl Ring {
    /// The number of messages that a ring holds when `capacity` is requested.
    pub(crate) fn capacity(capacity: usize) -> usize {
        capacity.clamp(2, CAPACITY_MAX).next_power_of_two()
    }

    /// The length in bytes of the file of a ring with this capacity.
    pub(crate) fn bytes(capacity: usize) -> usize {
        (SLOTS + Self::capacity(capacity) * SLOT_WORDS) * WORD
    }

    /// Makes a ring of a region of zeros.
    pub(crate) fn create(region: &Region, capacity: usize, ends: Ends) {
        strict_assert!(region.len() >= Self::bytes(capacity), "the memory of a ring is too small");
        let words = region.words();
        words.set_word(CAPACITY, Self::capacity(capacity) as u64);
        for (word, value) in ends.words().into_iter().enumerate() {
            words.set_word(ENDS + word, value);
        }
        words.set_word(0, MAGIC);
    }

    /// Opens an existing ring; `None` when the region is no ring between these two nodes.
    pub(crate) fn open(region: Arc<Region>, ends: Ends) -> Option<Ring> {
        let words = region.words();
        let capacity = words.word(CAPACITY) as usize;
        let fits = words.word(0) == MAGIC
            && std::array::from_fn(|word| words.word(ENDS + word)) == ends.words()
            && capacity == Self::capacity(capacity)
            && region.len() >= Self::bytes(capacity);
        let tail = Tail { next: AtomicU64::new(0), head: AtomicU64::new(0) };
        fits.then(|| Ring { mask: capacity as u64 - 1, region, tail })
    }

    fn head(&self) -> &AtomicU64 {
        &self.region.atomics()[HEAD]
    }

    /// The slot of a position: the turn, the head word of the slot, and the message.
    #[inline]
    fn slot(&self, position: u64) -> &[AtomicU64; SLOT_WORDS] {
        let first = SLOTS + (position & self.mask) as usize * SLOT_WORDS;
        strict_assert!(
            first + SLOT_WORDS <= self.region.atomics().len(),
            "the mask leads beyond the region"
        );
        let slot = self.region.atomics()[first..].first_chunk();
        slot.expect("checked when opened: the mask leads to no slot beyond the region")
    }

    /// Appends `message`; false when there is no room. Only the sending process may call this. Has
    /// release order; see [`Ring::pop`].
    #[inline]
    pub(crate) fn push(&self, message: &Message) -> bool {
        let mut position = self.tail.next.load(Ordering::Relaxed);
        loop {
            // Acquire: the receiver read the slot's last message before it moved `head`, so this
            // thread's writes to the slot come after that read. The order also holds when another
            // thread of this process read `head` and stored the value in `tail`.
            let room = |head: u64| position.wrapping_sub(head) <= self.mask;
            if !room(self.tail.head.load(Ordering::Acquire)) {
                let head = self.head().load(Ordering::Acquire);
                self.tail.head.store(head, Ordering::Release);
                if !room(head) {
                    let now = self.tail.next.load(Ordering::Relaxed);
                    if now == position {
                        return false;
                    }
                    position = now;
                    continue;
                }
            }
            let claimed = self.tail.next.compare_exchange_weak(
                position,
                position + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match claimed {
                Ok(_) => {
                    let [turn, head, words @ ..] = self.slot(position);
                    write_message(head, words, message);
                    turn.store(position + 1, Ordering::Release);
                    return true;
                }
                Err(now) => position = now,
            }
        }
    }

    /// Takes the oldest message, if the message is complete. Only the receiving process may call
    /// this. Has acquire order: the receiver sees everything that the sender did before the push.
    #[inline]
    pub(crate) fn pop(&self, sender: ComputeNodeId) -> Option<Message> {
        loop {
            let position = self.head().load(Ordering::Relaxed);
            let [turn, head, words @ ..] = self.slot(position);
            let found = turn.load(Ordering::Acquire);
            if found <= position {
                return None;
            }
            // Any other value is usually larger. Then other threads took so many messages since the
            // load of `head` that a sender filled the slot again.
            if found == position.wrapping_add(1) {
                let message = read_message(head, words, sender);
                // Release: the copy ends before the sender can see that there is room.
                let taken = self.head().compare_exchange(
                    position,
                    position + 1,
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    return Some(message);
                }
            } else if self.head().load(Ordering::Relaxed) == position {
                // `head` has not moved, so no correct sender wrote this value.
                return None;
            }
        }
    }

    /// Whether the oldest position may hold a message. To be called after a full memory fence:
    /// false means that no complete message was at the oldest position before the fence. True may
    /// be wrong. The call itself gives no memory order.
    pub(crate) fn has_ready(&self) -> bool {
        let position = self.head().load(Ordering::Relaxed);
        self.slot(position)[0].load(Ordering::Relaxed) > position
    }
}

const _: () = assert!(LONG > u8::MAX as u64, "beside the sender's id");

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;

    fn ends() -> Ends {
        let node = |id| ComputeNodeId::new(id).unwrap();
        Ends { receiver: (11, node(1)), sender: (22, node(2)) }
    }

    /// The ring as its sender and as its receiver see it.
    fn ring(capacity: usize) -> (Ring, Ring) {
        let region = Region::zeroed(Ring::bytes(capacity)).unwrap();
        Ring::create(&region, capacity, ends());
        let open = || Ring::open(region.clone(), ends()).unwrap();
        (open(), open())
    }

    fn message(value: u64) -> Message {
        let mut body = [0; Message::WORDS];
        body[0] = value;
        body[Message::WORDS - 1] = !value;
        Message { from: ends().sender.1, body }
    }

    fn pop(ring: &Ring) -> Option<Message> {
        ring.pop(ends().sender.1)
    }

    #[test]
    fn messages_leave_in_the_order_of_their_arrival_and_a_full_ring_refuses() {
        let (sender, receiver) = ring(4);
        for round in 0..10 {
            assert!(!receiver.has_ready());
            for i in 0..4 {
                assert!(sender.push(&message(round + i)));
            }
            assert!(!sender.push(&message(99)));
            assert!(receiver.has_ready());
            for i in 0..4 {
                assert_eq!(pop(&receiver), Some(message(round + i)));
            }
            assert_eq!(pop(&receiver), None);
        }
    }

    #[test]
    fn a_ring_is_opened_between_its_own_ends_and_at_its_own_length_alone() {
        let region = Region::zeroed(Ring::bytes(4)).unwrap();
        assert!(Ring::open(region.clone(), ends()).is_none(), "not made yet");
        Ring::create(&region, 4, ends());
        assert!(Ring::open(region.clone(), ends()).is_some());
        let others = Ends { receiver: ends().sender, sender: ends().receiver };
        assert!(Ring::open(region.clone(), others).is_none());
        for capacity in [0, 3, 8, u64::MAX] {
            region.words().set_word(CAPACITY, capacity);
            assert!(Ring::open(region.clone(), ends()).is_none(), "capacity {capacity}");
        }
    }

    #[test]
    fn nonsense_in_a_ring_ends_no_process_and_no_call() {
        let (sender, receiver) = ring(4);
        for nonsense in [1, 2, 7, 1 << 40, u64::MAX - 1, u64::MAX] {
            assert!(sender.push(&message(1)) || nonsense > 1);
            for word in (0..4).map(|slot| SLOTS + slot * SLOT_WORDS) {
                sender.region.words().set_word(word, nonsense);
                sender.region.words().set_word(word + 1, nonsense);
            }
            for head in [0, nonsense] {
                receiver.region.words().set_word(HEAD, head);
                for _ in 0..3 {
                    let _ = (receiver.has_ready(), pop(&receiver));
                    sender.push(&message(2));
                }
            }
        }
    }

    #[test]
    fn every_message_arrives_whole_and_once_and_in_the_order_of_its_thread() {
        const EACH: u64 = 20_000;
        let (sender, receiver) = ring(8);
        let received: Vec<u64> = thread::scope(|scope| {
            for thread in 0..2 {
                let sender = &sender;
                scope.spawn(move || {
                    for i in 0..EACH {
                        while !sender.push(&message(thread * EACH + i)) {
                            thread::yield_now();
                        }
                    }
                });
            }
            let take = || {
                let mut last = [None; 2];
                let mut received = Vec::new();
                while received.len() < EACH as usize {
                    let Some(got) = pop(&receiver) else {
                        thread::yield_now();
                        continue;
                    };
                    let value = got.body[0];
                    assert_eq!(got, message(value));
                    let last = &mut last[(value / EACH) as usize];
                    assert!(last.replace(value).is_none_or(|last| last < value), "out of order");
                    received.push(value);
                }
                received
            };
            let receivers: Vec<_> = (0..2).map(|_| scope.spawn(take)).collect();
            receivers.into_iter().flat_map(|receiver| receiver.join().unwrap()).collect()
        });
        let mut sorted = received;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..2 * EACH));
    }
}
