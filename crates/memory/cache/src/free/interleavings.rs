//! The free list under every interleaving; `scripts/loom.sh` runs this.

use latchwork_runtime::sync::{Arc, AtomicU64, Ordering};
use loom::thread;

use super::*;

/// The ABA problem. One thread takes two frames and puts the first one back, while another thread
/// takes a frame. So the first frame is the head again, above another frame than before. Without
/// the count in the head, the other thread would put a frame into the list that is in use.
#[test]
fn no_frame_is_in_two_hands_while_an_old_top_returns() {
    loom::model(|| {
        let free = Arc::new(FreeFrames::all(3));
        let other = thread::spawn({
            let free = free.clone();
            move || {
                let (first, second) = (free.pop(), free.pop());
                first.into_iter().for_each(|frame| free.push(frame));
                second
            }
        });
        let mine = free.pop();
        let theirs = other.join().unwrap();
        let rest = std::iter::from_fn(|| free.pop());
        let mut all: Vec<_> = mine.into_iter().chain(theirs).chain(rest).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        assert_eq!(free.len(), 0);
    });
}

/// A thread that takes a frame sees everything that was done to the frame, however deep in the
/// stack the frame was.
#[test]
fn what_was_done_to_a_frame_is_visible_to_its_taker() {
    loom::model(|| {
        let free = Arc::new(FreeFrames::all(2));
        let (first, second) = (free.pop(), free.pop());
        let word = Arc::new(AtomicU64::new(0));
        let other = thread::spawn({
            let (free, word) = (free.clone(), word.clone());
            move || {
                word.store(1, Ordering::Relaxed);
                first.into_iter().for_each(|frame| free.push(frame));
            }
        });
        second.into_iter().for_each(|frame| free.push(frame));
        for frame in std::iter::from_fn(|| free.pop()) {
            assert!(frame == 1 || word.load(Ordering::Relaxed) == 1);
        }
        other.join().unwrap();
    });
}
