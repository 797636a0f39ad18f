//! The steps of the [cleaner](crate::cleaner).

use latchwork_cache::FrameId;
use latchwork_verbs::GlobalAddr;

use crate::alarms::Alarm;
use crate::cleaner::{FRAMES, LINES, STEP_MIN, VISITS};
use crate::in_place::Attempt;
use crate::inner::Inner;
use crate::protocol::CoherenceProtocol;

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
        hand.due += cleaner.pace(frames) * (visited as u32) / (frames.min(FRAMES) as u32);
        if hand.due + cleaner.interval < now {
            hand.due = now;
        }
        let next = hand.due.max(now + STEP_MIN);
        drop(hand);
        self.node_core.timers.set(next, GlobalAddr::NULL, Alarm::Clean);
    }
}
