//! [`Faults`]: the faults that happen by chance.

use std::time::Duration;

use latchwork_simulation::Kernel;

use crate::drawn::draw_up_to;

/// The rates of random faults. A rate N means one in N on average, and 0 means never. The seed
/// decides which batches and messages have a fault.
///
/// Faults of whole nodes are calls: [`SimFabric::kill`](crate::SimFabric::kill),
/// [`SimFabric::lose_memory_node`](crate::SimFabric::lose_memory_node),
/// [`SimFabric::slow_down`](crate::SimFabric::slow_down).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// The rate of batches that take up to [`delay`](Faults::delay) longer to reach the target.
    pub delay_one_in: u64,
    /// The longest extra time of a delayed batch, and of the second copy of a duplicated message.
    pub delay: Duration,
    /// The rate of messages that never arrive, although their batch completes.
    pub lose_one_in: u64,
    /// The rate of messages that arrive a second time, up to [`delay`](Faults::delay) later.
    pub repeat_one_in: u64,
    /// The rate of batches that complete with
    /// [`VerbError::Ambiguous`](latchwork_verbs::VerbError::Ambiguous). The failing connection cuts
    /// such a batch off before its first request or behind any request, also behind the last. With
    /// drawn times, the READ or WRITE at the cut may be placed in part.
    pub fail_one_in: u64,
}

impl Faults {
    /// No random faults.
    pub const NONE: Faults = Faults {
        delay_one_in: 0,
        delay: Duration::ZERO,
        lose_one_in: 0,
        repeat_one_in: 0,
        fail_one_in: 0,
    };
    const _CHECK: () = assert!(
        Faults::NONE.delay_one_in == 0
            && Faults::NONE.lose_one_in == 0
            && Faults::NONE.repeat_one_in == 0
            && Faults::NONE.fail_one_in == 0,
        "a world without faults has a fault"
    );

    /// The extra time of a delayed batch; `None` for a batch without delay.
    pub(crate) fn draw_delay(&self, kernel: &Kernel) -> Option<Duration> {
        strikes(kernel, self.delay_one_in).then(|| draw_up_to(kernel, self.delay))
    }

    pub(crate) fn draw_loss(&self, kernel: &Kernel) -> bool {
        strikes(kernel, self.lose_one_in)
    }

    /// The delay of the second copy of a duplicated message; `None` without a copy.
    pub(crate) fn draw_duplicate(&self, kernel: &Kernel) -> Option<Duration> {
        strikes(kernel, self.repeat_one_in).then(|| draw_up_to(kernel, self.delay))
    }

    /// The number of requests before the cut, of the `len` requests of a batch; `None` without a
    /// cut.
    pub(crate) fn draw_cut(&self, kernel: &Kernel, len: usize) -> Option<usize> {
        strikes(kernel, self.fail_one_in).then(|| kernel.random_below(len as u64 + 1) as usize)
    }
}

// A fault with rate 0 takes no random number. So the runs of a world without faults do not change
// when this code changes.
fn strikes(kernel: &Kernel, one_in: u64) -> bool {
    one_in > 0 && kernel.random_below(one_in) == 0
}

/// The number of times that each fault has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Batches delayed.
    pub delayed: u64,
    /// Messages lost.
    pub lost: u64,
    /// Messages duplicated.
    pub repeated: u64,
    /// Failed batches that were cut off behind their last request.
    pub failed_applied: u64,
    /// Failed batches that were cut off before or within a request. At least one request of such a
    /// batch took effect in part or not at all.
    pub failed_unapplied: u64,
}
