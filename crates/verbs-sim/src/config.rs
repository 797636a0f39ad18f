//! [`SimConfig`]: delays, limits, and which freedoms are used.

use std::ops::RangeInclusive;
use std::time::Duration;

use latchwork_simulation::Kernel;
use latchwork_verbs::BATCH_MAX;

/// Pieces that one READ or WRITE is cut into at most.
pub const PIECES_MAX: usize = 8;

/// How the simulated network and its NICs behave. All draws are uniform and the kernel's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimConfig {
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
    /// READs and atomics of one endpoint to one target under way at most (at least a batch).
    pub reads_max: usize,
    /// Requests of one endpoint to one target under way at most (at least a batch).
    pub requests_max: usize,
    /// Messages that wait in the inbox of one compute node at most, at least 1.
    pub inbox_capacity: usize,
    /// When a message that met a full inbox tries again.
    pub inbox_retry: Duration,
}

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig {
            one_way: Duration::from_nanos(500)..=Duration::from_nanos(1_500),
            tail_one_in: 64,
            tail: Duration::from_micros(20),
            spread: Duration::from_nanos(300),
            pieces_max: 3,
            reorder_batches: true,
            reads_max: 16,
            requests_max: 128,
            inbox_capacity: 1024,
            inbox_retry: Duration::from_micros(5),
        }
    }
}

impl SimConfig {
    /// A network in which delays differ by a factor of a hundred, so that what is rarely overtaken
    /// elsewhere is overtaken all the time: for looking for races, not for measuring.
    pub fn rough() -> Self {
        SimConfig {
            one_way: Duration::from_nanos(100)..=Duration::from_micros(5),
            tail_one_in: 6,
            tail: Duration::from_micros(40),
            spread: Duration::from_micros(2),
            pieces_max: 4,
            ..SimConfig::default()
        }
    }

    /// The limits, as far as they make sense.
    pub(crate) fn sane(mut self) -> Self {
        self.pieces_max = self.pieces_max.clamp(1, PIECES_MAX);
        self.reads_max = self.reads_max.max(BATCH_MAX);
        self.requests_max = self.requests_max.max(BATCH_MAX);
        self.inbox_capacity = self.inbox_capacity.max(1);
        self
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

fn draw_up_to(kernel: &Kernel, max: Duration) -> Duration {
    let nanos = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX - 1).min(u64::MAX - 1);
    Duration::from_nanos(kernel.random_below(nanos + 1))
}
