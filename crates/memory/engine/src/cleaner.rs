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

use latchwork_runtime::Time;
use latchwork_runtime::sync::Mutex;

/// The frames that one step visits at most.
pub(crate) const FRAMES: usize = 1024;
/// The lines that one step writes back at most.
pub(crate) const LINES: usize = 8;
/// The shortest time between two steps.
pub(crate) const STEP_MIN: Duration = Duration::from_micros(50);
/// The visits at which a frame was dirty before its line is written back.
pub(crate) const VISITS: u8 = 2;

/// The state of the hand.
pub(crate) struct Cleaner {
    pub(crate) interval: Duration,
    pub(crate) hand: Mutex<Hand>,
}

pub(crate) struct Hand {
    /// The next frame.
    pub(crate) at: usize,
    /// For each frame, at how many visits in a row it was dirty, at most [`VISITS`].
    pub(crate) visits: Vec<u8>,
    /// The time at which the last step was due.
    pub(crate) due: Time,
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
    pub(crate) fn pace(&self, frames: usize) -> Duration {
        (self.interval / 2 / frames.div_ceil(FRAMES) as u32).max(STEP_MIN)
    }
}
