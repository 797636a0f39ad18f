//! [`Faults`]: what goes wrong by chance.

use std::time::Duration;

use latchwork_simulation::Kernel;

use crate::drawn::draw_up_to;

/// What goes wrong by chance, each with a rate: one in so many, and 0 means never. The seed draws.
///
/// Faults of whole nodes are calls: [`Fabric::kill`](crate::Fabric::kill),
/// [`Fabric::lose_memory_node`](crate::Fabric::lose_memory_node),
/// [`Fabric::slow_down`](crate::Fabric::slow_down).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Batches that take up to [`delay`](Faults::delay) longer on their way there.
    pub delay_one_in: u64,
    /// See `delay_one_in`.
    pub delay: Duration,
    /// Messages that never arrive, although their batch completes.
    pub lose_one_in: u64,
    /// Messages that arrive a second time, up to [`delay`](Faults::delay) later.
    pub repeat_one_in: u64,
    /// Batches that complete with [`VerbError::Ambiguous`](latchwork_verbs::VerbError::Ambiguous),
    /// cut off behind any of their requests, the last one included, or before the first. Where
    /// times are drawn, the READ or WRITE at the cut may be placed in part.
    pub fail_one_in: u64,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Faults = Faults {
        delay_one_in: 0,
        delay: Duration::ZERO,
        lose_one_in: 0,
        repeat_one_in: 0,
        fail_one_in: 0,
    };

    /// How much longer a batch takes, if it does.
    pub(crate) fn draw_delay(&self, kernel: &Kernel) -> Option<Duration> {
        strikes(kernel, self.delay_one_in).then(|| draw_up_to(kernel, self.delay))
    }

    pub(crate) fn draw_loss(&self, kernel: &Kernel) -> bool {
        strikes(kernel, self.lose_one_in)
    }

    /// How much later a message arrives once more, if it does.
    pub(crate) fn draw_repeat(&self, kernel: &Kernel) -> Option<Duration> {
        strikes(kernel, self.repeat_one_in).then(|| draw_up_to(kernel, self.delay))
    }

    /// After how many of its `len` requests a batch is cut off, if it is.
    pub(crate) fn draw_cut(&self, kernel: &Kernel, len: usize) -> Option<usize> {
        strikes(kernel, self.fail_one_in).then(|| kernel.random_below(len as u64 + 1) as usize)
    }
}

// What cannot strike draws nothing, so that worlds without faults do not depend on this.
fn strikes(kernel: &Kernel, one_in: u64) -> bool {
    one_in > 0 && kernel.random_below(one_in) == 0
}

/// How often each fault has struck.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Batches delayed.
    pub delayed: u64,
    /// Messages lost.
    pub lost: u64,
    /// Messages that arrived twice.
    pub repeated: u64,
    /// Batches that failed though all of their requests took effect.
    pub failed_applied: u64,
    /// Batches that failed, and some or all of their requests never took effect.
    pub failed_unapplied: u64,
}
