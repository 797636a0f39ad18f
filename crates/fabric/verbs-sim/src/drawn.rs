//! [`Drawn`]: random delays, drawn from the seed, and the permitted reorderings.
//!
//! Each request takes effect in one or more events of its own. So requests without an order in the
//! contract can take effect in any order.

use std::ops::RangeInclusive;
use std::time::Duration;

use latchwork_simulation::Kernel;
use latchwork_strict::strict_assert;

/// The most pieces into which one READ or WRITE is cut.
pub(crate) const PIECES_MAX: usize = 8;
const _: () = assert!(PIECES_MAX <= 8, "an event has 3 bits for a piece");

/// Drawn times. All draws are uniform and come from the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drawn {
    /// The time of a batch from the doorbell to the target, and again from its last effect to its
    /// completion.
    pub one_way: RangeInclusive<Duration>,
    /// One in this many delays is longer, by up to `tail`. 0 means that no delay is longer.
    pub tail_one_in: u64,
    /// The longest extra time of a delay; see `tail_one_in`.
    pub tail: Duration,
    /// The longest pause before each request of a batch at the target. Also the longest time after
    /// the beginning of a READ or WRITE within which each of its pieces is placed.
    pub spread: Duration,
    /// The most pieces of a READ or WRITE (1 to 8). The cuts are at random words, and
    /// the pieces are placed in random order. With 1, no READ or WRITE is torn.
    pub pieces_max: usize,
    /// Whether batches may overtake each other. With true, all batches are independent, as over
    /// several queue pairs. With false, the batches of one endpoint to one target use one queue
    /// pair, and [`WorkRequestKind::before`](latchwork_verbs::WorkRequestKind::before) also holds
    /// between them. Code that uses the fabric must be correct with true.
    pub reorder_batches: bool,
}

impl Default for Drawn {
    fn default() -> Self {
        Drawn {
            one_way: Duration::from_nanos(500)..=Duration::from_nanos(1_500),
            tail_one_in: 64,
            tail: Duration::from_micros(20),
            spread: Duration::from_nanos(300),
            pieces_max: 3,
            reorder_batches: true,
        }
    }
}

impl Drawn {
    /// A network with delays that differ by a factor of fifty and more. So reorderings that are
    /// rare on a real network happen often.
    pub fn rough() -> Self {
        Drawn {
            one_way: Duration::from_nanos(100)..=Duration::from_micros(5),
            tail_one_in: 6,
            tail: Duration::from_micros(40),
            spread: Duration::from_micros(2),
            pieces_max: 4,
            reorder_batches: true,
        }
    }

    pub(crate) fn make_sane(&mut self) {
        self.pieces_max = self.pieces_max.clamp(1, PIECES_MAX);
        strict_assert!(self.pieces_max >= 1 && self.pieces_max <= PIECES_MAX);
    }

    pub(crate) fn draw_one_way(&self, kernel: &Kernel) -> Duration {
        let (start, end) = (*self.one_way.start(), *self.one_way.end());
        let mut delay = start + draw_up_to(kernel, end.saturating_sub(start));
        if self.tail_one_in > 0 && kernel.random_below(self.tail_one_in) == 0 {
            delay += draw_up_to(kernel, self.tail);
        }
        strict_assert!(delay >= start, "a delay is shorter than the least");
        delay
    }

    pub(crate) fn draw_spread(&self, kernel: &Kernel) -> Duration {
        draw_up_to(kernel, self.spread)
    }
}

/// Draws a duration from zero to `max`, in whole nanoseconds.
pub(crate) fn draw_up_to(kernel: &Kernel, max: Duration) -> Duration {
    let nanos = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX - 1).min(u64::MAX - 1);
    strict_assert!(nanos < u64::MAX, "a range of all numbers wraps");
    Duration::from_nanos(kernel.random_below(nanos + 1))
}
