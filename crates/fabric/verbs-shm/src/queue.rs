//! A bounded queue of messages with many senders and many receivers, made of atomic words only.

use std::slice;

use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_verbs::{ComputeNodeId, Message, Words};

/// A bounded ring with a turn number per slot (the scheme of Vyukov's bounded MPMC queue).
///
/// ```text
///   slot i:  turn == p        free for the sender at position p   (p ≡ i modulo the capacity)
///            turn == p + 1    holds the message of position p
///            turn == p + cap  free again: p + cap is the next position of this slot
/// ```
///
/// A sender owns position p from its successful compare-and-swap of `tail` to its store of `turn`.
/// A receiver owns a position in the same way, with `head`. While a thread owns a position, no
/// other thread uses the slot's words, except that all threads read `turn`. Positions are 64 bits
/// wide and do not wrap in practice.
///
/// Senders and receivers do not wait for each other. While a sender has claimed a slot and not yet
/// stored `turn`, the slot reads as "empty". While a receiver has claimed a slot and not yet stored
/// `turn`, the slot reads as "full".
pub(crate) struct Queue {
    slots: Box<[Slot]>,
    head: Padded,
    tail: Padded,
}

/// The number of message words in the slot's first CPU cache line, behind the turn and the head
/// word. If all later words of a message are zero, sender and receiver touch only this cache line.
const FIRST: usize = 6;

/// A bit in the head word of a slot: the message has words behind the first cache line that are not
/// zero.
pub(crate) const LONG: u64 = 1 << 8;

/// The substitute for a missing sender. Not used in this queue, because [`write_message`] stores a
/// sender in every slot.
const NOBODY: ComputeNodeId = ComputeNodeId::new(1).expect("an id");

/// A slot of two CPU cache lines. So neighbouring slots share neither a cache line nor a pair of
/// cache lines that the processor prefetches together.
#[repr(C, align(128))]
struct Slot {
    turn: AtomicU64,
    /// The sender's id, and the bit of a long message.
    head: AtomicU64,
    words: [AtomicU64; Message::WORDS],
}

#[repr(align(128))]
struct Padded(AtomicU64);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 128);

/// The number of words of a slot: the turn, the head word, and the message.
pub(crate) const SLOT_WORDS: usize = 2 + Message::WORDS;

/// Writes a message into a slot. The sender must own the slot.
#[inline]
pub(crate) fn write_message(
    head: &AtomicU64,
    words: &[AtomicU64; Message::WORDS],
    message: &Message,
) {
    let (first, rest) = message.body.split_at(FIRST);
    let long = rest.iter().any(|&word| word != 0);
    let count = if long { Message::WORDS } else { first.len() };
    head.store(u64::from(message.from.get()) | if long { LONG } else { 0 }, Ordering::Relaxed);
    for (word, &value) in words.iter().zip(&message.body[..count]) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Reads the message in a slot. If the slot has no valid sender, because a faulty process wrote it,
/// the message counts as sent by `otherwise`.
#[inline]
pub(crate) fn read_message(
    head: &AtomicU64,
    words: &[AtomicU64; Message::WORDS],
    otherwise: ComputeNodeId,
) -> Message {
    let head = head.load(Ordering::Relaxed);
    let count = if head & LONG == 0 { FIRST } else { Message::WORDS };
    let mut body = [0; Message::WORDS];
    for (value, word) in body[..count].iter_mut().zip(words) {
        *value = word.load(Ordering::Relaxed);
    }
    Message { from: ComputeNodeId::new(head as u8).unwrap_or(otherwise), body }
}

impl Queue {
    /// Makes a queue for `capacity` messages, rounded up to a power of two, at least 2.
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(2).next_power_of_two();
        let slot = |i| Slot {
            turn: AtomicU64::new(i as u64),
            head: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Queue {
            slots: (0..capacity).map(slot).collect(),
            head: Padded(AtomicU64::new(0)),
            tail: Padded(AtomicU64::new(0)),
        }
    }

    fn slot(&self, position: u64) -> &Slot {
        &self.slots[position as usize & (self.slots.len() - 1)]
    }

    /// Appends `message`; false when there is no room. Has release order; see [`Queue::pop`].
    pub(crate) fn push(&self, message: &Message) -> bool {
        let mut position = self.tail.0.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(position);
            let turn = slot.turn.load(Ordering::Acquire);
            if turn < position {
                return false;
            }
            if turn > position {
                position = self.tail.0.load(Ordering::Relaxed);
                continue;
            }
            let taken = self.tail.0.compare_exchange_weak(
                position,
                position + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => {
                    write_message(&slot.head, &slot.words, message);
                    slot.turn.store(position + 1, Ordering::Release);
                    // The next message goes to the next slot, and a receiver usually wrote that
                    // slot last. So its turn is prefetched: for reading and not for writing,
                    // because receivers read the turn all the time.
                    Words::new(slice::from_ref(&self.slot(position + 1).turn)).prefetch(0..8);
                    return true;
                }
                Err(now) => position = now,
            }
        }
    }

    /// Takes the oldest message, if the message is complete. Has acquire order: the receiver sees
    /// everything that the sender did before the push.
    pub(crate) fn pop(&self) -> Option<Message> {
        let mut position = self.head.0.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(position);
            let turn = slot.turn.load(Ordering::Acquire);
            if turn <= position {
                return None;
            }
            if turn > position + 1 {
                position = self.head.0.load(Ordering::Relaxed);
                continue;
            }
            let taken = self.head.0.compare_exchange_weak(
                position,
                position + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => {
                    let message = read_message(&slot.head, &slot.words, NOBODY);
                    slot.turn.store(position + self.slots.len() as u64, Ordering::Release);
                    return Some(message);
                }
                Err(now) => position = now,
            }
        }
    }

    /// Whether the oldest position may hold a message. To be called after a full memory fence:
    /// false means that no complete message was at the oldest position before the fence. True may
    /// be wrong. The call itself gives no memory order.
    pub(crate) fn has_ready(&self) -> bool {
        let position = self.head.0.load(Ordering::Relaxed);
        self.slot(position).turn.load(Ordering::Relaxed) > position
    }
}

#[cfg(all(test, loom))]
mod interleavings;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;

    fn message(value: u64) -> Message {
        let mut body = [0; Message::WORDS];
        body[0] = value;
        body[Message::WORDS - 1] = !value;
        Message { from: ComputeNodeId::new(7).unwrap(), body }
    }

    #[test]
    fn messages_leave_in_the_order_of_their_arrival_and_a_full_queue_refuses() {
        let queue = Queue::new(4);
        for round in 0..10 {
            assert!(!queue.has_ready());
            for i in 0..4 {
                assert!(queue.push(&message(round + i)));
            }
            assert!(!queue.push(&message(99)));
            assert!(queue.has_ready());
            for i in 0..4 {
                assert_eq!(queue.pop(), Some(message(round + i)));
            }
            assert_eq!(queue.pop(), None);
        }
    }

    #[test]
    fn a_short_message_behind_a_long_one_has_nothing_of_it() {
        let queue = Queue::new(2);
        for used in [Message::WORDS, FIRST, 0, FIRST + 1, 1, FIRST + 1] {
            for _ in 0..2 {
                let mut sent = Message { from: ComputeNodeId::new(58).unwrap(), body: [0; 14] };
                sent.body[..used].fill(u64::MAX);
                assert!(queue.push(&sent));
                assert_eq!(queue.pop(), Some(sent), "{used} words");
            }
        }
    }

    #[test]
    fn every_message_arrives_whole_and_once_with_many_senders_and_receivers() {
        const EACH: u64 = 2_000;
        let queue = Queue::new(8);
        let sums: u64 = thread::scope(|scope| {
            for sender in 0..2 {
                let queue = &queue;
                scope.spawn(move || {
                    for i in 0..EACH {
                        while !queue.push(&message(sender * EACH + i)) {
                            thread::yield_now();
                        }
                    }
                });
            }
            let receivers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut sum = 0;
                        for _ in 0..EACH {
                            let got = loop {
                                match queue.pop() {
                                    Some(message) => break message,
                                    None => thread::yield_now(),
                                }
                            };
                            assert_eq!(got, message(got.body[0]));
                            sum += got.body[0];
                        }
                        sum
                    })
                })
                .collect();
            receivers.into_iter().map(|r| r.join().unwrap()).sum()
        });
        assert_eq!(sums, 2 * EACH * (2 * EACH - 1) / 2);
    }
}
