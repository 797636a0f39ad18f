//! Messages between the workers of two nodes. The coherent memory carries *user messages*
//! ([`UserMessage`]) of a fixed length. A longer message is cut into pieces, one in each user
//! message.
//!
//! ```text
//!  word 0: to worker 8 | from worker 8 | piece 16 | length of the message in bytes 32   (bits)
//!  word 1: number of the message, counted by the worker that sends it
//!  words 2 to 12: the 88 bytes of this piece
//! ```
//!
//! User messages may arrive in any order, twice or not at all. A message is delivered when all of
//! its pieces have arrived. If its pieces arrive twice, the message may be delivered twice:
//! requests have numbers, and the receiver ignores a repeated request. A message that lacks a piece
//! is never delivered, and is dropped when newer messages need the room.

use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Poll, Waker};

use latchwork_coherence::{USER_MESSAGE_WORDS, UserMessage};
use latchwork_runtime::sync::Mutex;
use latchwork_strict::strict_assert;
use latchwork_verbs::ComputeNodeId;

/// Words of a user message before the bytes of the message.
const HEAD: usize = 2;
/// The number of bytes of a message in one user message.
pub(crate) const PIECE: usize = (USER_MESSAGE_WORDS - HEAD) * 8;
/// The maximum length of a message in bytes. The limit follows from the 16 bits for the number of a
/// piece. Senders refuse a longer message before they cut it.
pub(crate) const MESSAGE_MAX: usize = PIECE * (u16::MAX as usize);
/// The maximum number of incomplete messages of a receiving worker.
const PARTIAL_MAX: usize = 256;
const _: () = assert!(
    HEAD < USER_MESSAGE_WORDS && PIECE > 0 && PARTIAL_MAX > 0,
    "a piece has room for bytes"
);
const _: () =
    assert!(MESSAGE_MAX <= u32::MAX as usize, "the length of a message fits into its head");

/// A worker of the cluster, as sender or receiver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub(crate) node: ComputeNodeId,
    pub(crate) worker: u8,
}

/// Cuts a message into user messages.
pub(crate) fn messages(from: u8, to: u8, number: u64, message: &[u8]) -> Vec<UserMessage> {
    strict_assert!(
        !message.is_empty() && message.len() <= MESSAGE_MAX,
        "a message of {} bytes",
        message.len()
    );
    let head = u64::from(to) | u64::from(from) << 8 | (message.len() as u64) << 32;
    let letter = |(piece, bytes): (usize, &[u8])| {
        let mut letter = [0; USER_MESSAGE_WORDS];
        (letter[0], letter[1]) = (head | (piece as u64) << 16, number);
        for (word, bytes) in letter[HEAD..].iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        letter
    };
    message.chunks(PIECE).enumerate().map(letter).collect()
}

/// The worker that a user message is for.
pub(crate) fn worker_of(letter: &UserMessage) -> u8 {
    letter[0] as u8
}

/// An incomplete message.
struct Partial {
    bytes: Vec<u8>,
    missing: Vec<bool>,
}

/// Assembles messages from their pieces.
#[derive(Default)]
pub(crate) struct Assembly {
    partial: BTreeMap<(Place, u64), Partial>,
    /// The incomplete messages, oldest first.
    begun: VecDeque<(Place, u64)>,
}

impl Assembly {
    /// Takes a user message. If it completes a message, returns the sender and the message.
    pub(crate) fn take(
        &mut self,
        from: ComputeNodeId,
        letter: &UserMessage,
    ) -> Option<(Place, Vec<u8>)> {
        let (worker, piece) = ((letter[0] >> 8) as u8, (letter[0] >> 16) as u16);
        let (len, piece) = ((letter[0] >> 32) as usize, usize::from(piece));
        let pieces = len.div_ceil(PIECE);
        if piece >= pieces || len > MESSAGE_MAX {
            return None;
        }
        let from = Place { node: from, worker };
        let key = (from, letter[1]);
        let partial = self.partial.entry(key).or_insert_with(|| {
            self.begun.push_back(key);
            Partial { bytes: vec![0; len], missing: vec![true; pieces] }
        });
        if partial.bytes.len() != len {
            return None;
        }
        strict_assert!(partial.missing.len() == pieces, "a message has another number of pieces");
        let to = &mut partial.bytes[piece * PIECE..len.min((piece + 1) * PIECE)];
        for (bytes, word) in to.chunks_mut(8).zip(&letter[HEAD..]) {
            bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
        }
        partial.missing[piece] = false;
        let whole = if partial.missing.contains(&true) {
            None
        } else {
            self.begun.retain(|begun| *begun != key);
            self.partial.remove(&key).map(|partial| (from, partial.bytes))
        };
        if self.begun.len() > PARTIAL_MAX
            && let Some(oldest) = self.begun.pop_front()
        {
            self.partial.remove(&oldest);
        }
        strict_assert!(self.begun.len() == self.partial.len(), "a message in pieces is forgotten");
        strict_assert!(self.begun.len() <= PARTIAL_MAX, "more messages in pieces than the bound");
        whole
    }
}

/// The queue of user messages for one worker. Any worker of the node may receive them and push them
/// here.
///
/// The waiter misses no user message, because it checks the queue and leaves its waker under one
/// lock, and a push takes the same lock.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Queued>);

#[derive(Default)]
struct Queued {
    messages: VecDeque<(ComputeNodeId, UserMessage)>,
    waker: Option<Waker>,
    closed: bool,
}

impl Queue {
    pub(crate) fn push(&self, from: ComputeNodeId, letter: &UserMessage) {
        let waker = {
            let mut queued = self.0.lock();
            if queued.closed {
                return;
            }
            queued.messages.push_back((from, *letter));
            queued.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Closes the queue: user messages in the queue and later ones are dropped.
    pub(crate) fn close(&self) {
        let waker = {
            let mut queued = self.0.lock();
            queued.closed = true;
            queued.messages.clear();
            strict_assert!(
                queued.messages.is_empty() && queued.closed,
                "a closed queue takes letters"
            );
            queued.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// The next user message; `None` when the queue is closed.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Option<(ComputeNodeId, UserMessage)>> {
        let mut queued = self.0.lock();
        if let Some(letter) = queued.messages.pop_front() {
            return Poll::Ready(Some(letter));
        }
        if queued.closed {
            return Poll::Ready(None);
        }
        queued.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> ComputeNodeId {
        ComputeNodeId::new(2).expect("an id")
    }

    #[test]
    fn messages_come_whole_in_any_order_of_their_letters() {
        for len in [1_usize, 8, 87, 88, 89, 176, 1000, 5000] {
            let message: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
            let mut letters = messages(3, 4, 77, &message);
            assert_eq!(letters.len(), len.div_ceil(PIECE));
            letters.reverse();
            let mut assembly = Assembly::default();
            let last = letters.pop().expect("one at least");
            for letter in &letters {
                assert_eq!(worker_of(letter), 4);
                assert_eq!(assembly.take(node(), letter), None);
                // A duplicate changes nothing.
                assert_eq!(assembly.take(node(), letter), None);
            }
            let from = Place { node: node(), worker: 3 };
            assert_eq!(assembly.take(node(), &last), Some((from, message)), "{len}");
            assert!(assembly.partial.is_empty() && assembly.begun.is_empty());
        }
    }

    #[test]
    fn messages_that_miss_pieces_take_a_bounded_room() {
        let mut assembly = Assembly::default();
        for number in 0..10_000 {
            let letters = messages(0, 0, number, &[1; 200]);
            assert_eq!(assembly.take(node(), &letters[0]), None);
        }
        assert!(assembly.partial.len() <= PARTIAL_MAX && assembly.begun.len() <= PARTIAL_MAX);
        // The latest message can still be completed.
        let letters = messages(0, 0, 9_999, &[1; 200]);
        assert_eq!(assembly.take(node(), &letters[1]), None);
        assert!(assembly.take(node(), &letters[2]).is_some());
    }

    #[test]
    fn letters_that_make_no_sense_are_no_message() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.take(node(), &[u64::MAX; USER_MESSAGE_WORDS]), None);
        assert_eq!(assembly.take(node(), &[0; USER_MESSAGE_WORDS]), None);
        let mut letter = messages(0, 0, 1, &[1; 200])[0];
        assert_eq!(assembly.take(node(), &letter), None);
        // Another length under the same message number.
        letter[0] ^= 1 << 40;
        assert_eq!(assembly.take(node(), &letter), None);
    }
}
