//! [`Cleaner`]: writes lines back in place that have been dirty for long, so that the death of the
//! node takes no old changes.
//!
//! ```text
//!   frames   [ ][ ][ ][ ][ ][ ][ ][ ]     the hand comes to each frame twice per interval
//!                     ▲
//!   a frame that is dirty at three visits in a row: its line is written back
//! ```
//!
//! A line that is written once and left alone is so written back after one to one and a half
//! intervals. Accesses pay nothing: the hand reads the dirty bounds that the write-back needs
//! anyway. The line of a frame may change between two visits. Then it is written back too early,
//! which only costs its write-back.
//!
//! The hand moves by an alarm of the node, which any worker serves that polls, and otherwise the
//! handler. Each alarm visits [`FRAMES`] frames at most and writes back [`LINES`] lines at most, so
//! that no sweep takes long.

use std::time::Duration;

use latchwork_cache::FrameId;
use latchwork_runtime::Time;
use latchwork_runtime::sync::Mutex;
use latchwork_verbs::GlobalAddr;

use crate::alarms::Alarm;
use crate::inner::Inner;
use crate::persist::Attempt;
use crate::protocol::CoherenceProtocol;

/// The frames that one step visits at most.
const FRAMES: usize = 1024;
/// The lines that one step writes back at most.
const LINES: usize = 8;
/// The shortest time between two steps.
const STEP_MIN: Duration = Duration::from_micros(50);
/// The visits at which a frame was dirty before its line is written back.
const VISITS: u8 = 2;

/// The state of the hand.
pub(crate) struct Cleaner {
    interval: Duration,
    hand: Mutex<Hand>,
}

struct Hand {
    /// The next frame.
    at: usize,
    /// For each frame, at how many visits in a row it was dirty, at most [`VISITS`].
    visits: Vec<u8>,
    /// The time at which the last step was due.
    due: Time,
}

impl Cleaner {
    /// A cleaner of a cache of so many frames. `None` without an interval or without frames.
    pub(crate) fn new(interval: Duration, frames: usize) -> Option<Cleaner> {
        let hand = Hand { at: 0, visits: vec![0; frames], due: Time::ZERO };
        (!interval.is_zero() && frames > 0).then(|| Cleaner { interval, hand: Mutex::new(hand) })
    }

    /// The time of the first step, after the start of the node at `now`.
    pub(crate) fn start(&self, now: Time) -> Time {
        let mut hand = self.hand.lock();
        hand.due = now + self.pace(hand.visits.len());
        hand.due
    }

    /// The time between two steps with which the hand comes around in half an interval.
    fn pace(&self, frames: usize) -> Duration {
        (self.interval / 2 / frames.div_ceil(FRAMES) as u32).max(STEP_MIN)
    }
}

impl<P: CoherenceProtocol> Inner<P> {
    /// Takes one step of the cleaner, and sets the alarm of the next one.
    #[cold]
    pub(crate) fn clean(&self) {
        let Some(cleaner) = &self.node_core.cleaner else { return };
        let mut hand = cleaner.hand.lock();
        let frames = hand.visits.len();
        let (mut visited, mut cleaned) = (0, 0);
        while visited < frames.min(FRAMES) && cleaned < LINES {
            let at = hand.at;
            (hand.at, visited) = ((at + 1) % frames, visited + 1);
            let frame = self.node_core.cache.frame(FrameId(at as u32));
            let visits = &mut hand.visits[at];
            if frame.dirty().is_empty() || frame.addr().is_null() {
                *visits = 0;
            } else if *visits < VISITS {
                *visits += 1;
            } else {
                // A line for which it is not possible now gets another visit. One that has failed
                // stays dirty, and its frame serves no other line.
                match self.persist(frame.addr()) {
                    Ok(Attempt::NotNow) => {}
                    Ok(Attempt::InFlight(..)) => (*visits, cleaned) = (0, cleaned + 1),
                    Ok(Attempt::Done) | Err(_) => *visits = 0,
                }
            }
        }
        let now = self.core.handle.now();
        // After a step that was cut short, the rest is due at once.
        hand.due = hand.due + cleaner.pace(frames) * (visited as u32) / (frames.min(FRAMES) as u32);
        if hand.due + cleaner.interval < now {
            hand.due = now;
        }
        let next = hand.due.max(now + STEP_MIN);
        drop(hand);
        self.node_core.timers.set(next, GlobalAddr::NULL, Alarm::Clean);
    }
}
