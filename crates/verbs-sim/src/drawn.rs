//! [`Drawn`]: delays that the seed draws, and which freedoms are used.

use std::ops::RangeInclusive;
use std::time::Duration;

use latchwork_simulation::Kernel;

/// Pieces that one READ or WRITE is cut into at most.
pub const PIECES_MAX: usize = 8;

/// Drawn times. All draws are uniform and the kernel's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drawn {
    /// From the doorbell to the target, and again from the last effect to the completion.
    pub one_way: RangeInclusive<Duration>,
    /// One in so many of these delays is longer, by up to `tail`; 0 means none is.
    pub tail_one_in: u64,
    /// See `tail_one_in`.
    pub tail: Duration,
    /// How far apart the effects of one batch are at the target: the longest pause before a request,
    /// and the longest time over which the pieces of a READ or WRITE are scattered.
    pub spread: Duration,
    /// READs and WRITEs are placed in at most so many pieces (1 to [`PIECES_MAX`]), cut at random
    /// words, in random order. With 1 nothing is torn.
    pub pieces_max: usize,
    /// True: each batch goes its own way, as over several queue pairs. False: the batches of one
    /// endpoint to one target are one queue pair, and [`Kind::before`](latchwork_verbs::Kind::before)
    /// holds between them too. Code above must not rely on more than true gives.
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
    /// A network in which delays differ by a factor of a hundred, so that what is rarely overtaken
    /// elsewhere is overtaken all the time.
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
    }

    pub(crate) fn draw_one_way(&self, kernel: &Kernel) -> Duration {
        let (start, end) = (*self.one_way.start(), *self.one_way.end());
        let mut delay = start + draw_up_to(kernel, end.saturating_sub(start));
        if self.tail_one_in > 0 && kernel.random_below(self.tail_one_in) == 0 {
            delay += draw_up_to(kernel, self.tail);
        }
        delay
    }

    pub(crate) fn draw_spread(&self, kernel: &Kernel) -> Duration {
        draw_up_to(kernel, self.spread)
    }
}

pub(crate) fn draw_up_to(kernel: &Kernel, max: Duration) -> Duration {
    let nanos = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX - 1).min(u64::MAX - 1);
    Duration::from_nanos(kernel.random_below(nanos + 1))
}
