//! Tests of the queue with the model checker loom (`scripts/loom.sh`).

use latchwork_runtime::sync::{Arc, AtomicBool, yield_now};
use loom::thread;

use super::*;

fn message(value: u64) -> Message {
    Message { from: ComputeNodeId::new(7).unwrap(), body: [value; Message::WORDS] }
}

fn whole(message: &Message) -> u64 {
    assert!(message.body.iter().all(|word| *word == message.body[0]), "a torn message");
    message.body[0]
}

fn pop(queue: &Queue) -> u64 {
    loop {
        match queue.pop() {
            Some(message) => return whole(&message),
            None => yield_now(),
        }
    }
}

#[test]
fn every_message_arrives_whole_and_once() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(2));
        let senders = [1, 2].map(|value| {
            let queue = queue.clone();
            thread::spawn(move || assert!(queue.push(&message(value)), "there is room"))
        });
        let mut received = [pop(&queue), pop(&queue)];
        received.sort_unstable();
        assert_eq!(received, [1, 2]);
        assert_eq!(queue.pop(), None);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn two_receivers_share_the_messages() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(2));
        assert!(queue.push(&message(1)) && queue.push(&message(2)));
        let other = thread::spawn({
            let queue = queue.clone();
            move || pop(&queue)
        });
        let mut received = [pop(&queue), other.join().unwrap()];
        received.sort_unstable();
        assert_eq!(received, [1, 2]);
    });
}

#[test]
fn a_slot_is_filled_anew_only_when_its_message_was_taken() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(2));
        assert!(queue.push(&message(1)) && queue.push(&message(2)));
        // A short message overwrites a long message. The receiver must not get any word of the long
        // message.
        let mut short = message(0);
        short.body[..FIRST].fill(3);
        let sender = thread::spawn({
            let (queue, short) = (queue.clone(), short);
            move || {
                while !queue.push(&short) {
                    yield_now();
                }
            }
        });
        assert_eq!([pop(&queue), pop(&queue)], [1, 2]);
        let last = loop {
            match queue.pop() {
                Some(last) => break last,
                None => yield_now(),
            }
        };
        assert_eq!(last, short);
        sender.join().unwrap();
    });
}

#[test]
fn the_taker_of_a_message_sees_what_its_sender_did_before() {
    loom::model(|| {
        let queue = Arc::new(Queue::new(2));
        let done = Arc::new(AtomicBool::new(false));
        let sender = thread::spawn({
            let (queue, done) = (queue.clone(), done.clone());
            move || {
                done.store(true, Ordering::Relaxed);
                queue.push(&message(1));
            }
        });
        let ready = queue.has_ready();
        if queue.pop().is_some() {
            assert!(done.load(Ordering::Relaxed));
        } else {
            assert!(!ready, "a message that is ready can be taken by the only receiver");
        }
        sender.join().unwrap();
        assert!(!ready || queue.pop().is_none());
    });
}
