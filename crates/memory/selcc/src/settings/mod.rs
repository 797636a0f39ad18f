//! Settings of a compute node, and the policies that tell the protocols apart.

mod table;
mod value;

use std::time::Duration;

#[cfg(doc)]
use latchwork_cache::Cache;
use latchwork_cache::ReplacementPolicy;
use latchwork_latch::Rules;

use crate::CpuCosts;

pub use table::{Setting, SettingError};

/// What tells one protocol of this engine from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The protocol's name.
    pub name: &'static str,
    /// The rules of the latch.
    pub rules: Rules,
    /// Whether a line stays with the node after the access, until another node asks for it or its
    /// frame is needed (SELCC 4.1).
    pub lazy_release: bool,
}

impl Policy {
    /// SELCC: lazy release, invalidation messages.
    pub const SELCC: Policy =
        Policy { name: "selcc", rules: Rules::DISCIPLINE, lazy_release: true };
}

/// How lines are chosen that leave the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// Those that were used longest ago, as far as epochs and a sample tell (ScaleStore 4.1).
    Epoch,
    /// Those that were used longest ago (SELCC 5.2). Each hit writes memory that all workers share.
    Lru,
}

/// When a line that nobody has asked for is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Release {
    /// When its frame is needed (SELCC 4.1).
    #[default]
    Lazy,
    /// Sooner where other nodes would take it away anyway before it is used here again.
    Adaptive,
}

/// How pauses go on when a node is refused again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Resend {
    /// `pause`, doubled with every further refusal, up to `pause_max`.
    Growing,
    /// C x RTT / N after N refusals, within the same bounds (SELCC 5.1.2). Means nothing to a
    /// protocol that asks nobody: there it would only make the word of a popular line more popular.
    /// Who has been refused for very long waits for a node that is stuck or gone, and pauses for a
    /// part of the time that it has waited.
    #[default]
    Shrinking,
}

/// Where pauses shrink, they are a part in this many of the time that a node has been refused for,
/// once that is more than the first pause: after a millisecond, by default, which is far longer
/// than waits among nodes that are well. Such a node asks in vain until somebody's deadline ends
/// it, and every question costs the nodes that it goes to. It learns by about this part later that
/// it can have the line.
const LATE: u32 = 64;

/// Settings of a compute node. All may be changed at run time, before the node starts;
/// [`Settings::TABLE`] has them by name.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The protocol.
    pub policy: Policy,
    /// How long an access waits for a line before it fails.
    pub deadline: Duration,
    /// How long a reservation or a latch of local code may keep the line from a node that asked for
    /// it. After this, reservations lapse.
    pub lapse: Duration,
    /// So many synthetic accesses (reads by worker, plus writes) that had to wait for the local
    /// latch come before a node that asked for the line; then it is given up: gamma of SELCC 5.3.1.
    /// 0: whoever asks comes first; `None`: whoever is local does.
    pub lease: Option<u32>,
    /// How pauses after refusals go on. Each is drawn from the range between half and one and a
    /// half of what the rule says.
    pub resend: Resend,
    /// C of [`Resend::Shrinking`].
    pub resend_factor: u32,
    /// RTT of [`Resend::Shrinking`]: of an atomic.
    pub round_trip: Duration,
    /// The shortest pause after a refusal.
    pub pause: Duration,
    /// The longest pause.
    pub pause_max: Duration,
    /// Whether a node's questions are asked with the priority that its refusals have brought, and
    /// the highest is served first. Off: who came first (SELCC 5.3.2).
    pub aging: bool,
    /// Whether readers that gave a line up for a writer that had been refused hold off before they
    /// come back (SELCC 5.3.2).
    pub spin_windows: bool,
    /// Whether a starved writer keeps what it won from readers that were refused less often than it
    /// (SELCC 5.3.2). Means nothing without `aging`.
    pub priority_matching: bool,
    /// A writer that was refused so often is starved.
    pub starved_at: u8,
    /// How long readers hold off for each step of the writer's priority; and how long a node that
    /// gave a line back for others stands back at the first step of theirs, doubled with each.
    pub hold_off: Duration,
    /// The longest time of both.
    pub hold_off_max: Duration,
    /// How often requests that local code keeps waiting are tried again while the worker has
    /// nothing else to do.
    pub serve_interval: Duration,
    /// Eviction starts when fewer frames than one in this many are free.
    pub evict_share: usize,
    /// Lines that one sweep evicts at most, ahead of need. With 1 there is no batch and no ahead:
    /// an access that finds no free frame evicts one line, with a doorbell of its own, and waits
    /// for the frame.
    pub evict_batch: usize,
    /// How lines are chosen that leave.
    pub replacement: Replacement,
    /// Frames that [`Replacement::Epoch`] looks at for each that is wanted. It looks at 16 at
    /// least.
    pub evict_sample: usize,
    /// A new epoch of [`Replacement::Epoch`] begins when one frame in this many was replaced.
    pub epoch_share: usize,
    /// Evicted lines of one worker whose changes are on their way to one memory node at most while
    /// their frames are used anew already (SELCC 5.2.1). Each takes memory of a line's size beside
    /// the cache, so this many times the line size for each worker, the handler included, and
    /// memory node that it has evicted dirty lines to. With 0 a frame stays with its line until the
    /// release is complete.
    pub write_back_ring: usize,
    /// Transactions lock one frame in this many at most. The others serve what is not locked.
    pub lock_share: usize,
    /// Whether only what changed of a line is written back (SELCC 5.2.2), and not all of it.
    pub dirty_bounds: bool,
    /// Whether an exclusive holder that is asked forwards the line and hands it over, instead of
    /// writing it back and releasing it (SELCC 4.4.1).
    pub forwarding: bool,
    /// Whether lines stay that other nodes keep taking away. Means nothing to a protocol without
    /// lazy release.
    pub release: Release,
    /// With adaptive release: so many lines that a worker obtained last are not given back yet.
    pub linger: usize,
    /// Whether sharers pledge their copies to a writer, which takes the line over from all of them
    /// at once. Off: each releases its own (SELCC 4.4.3).
    pub takeover: bool,
    /// Messages of one worker of another node that may be overtaken by later ones and still count:
    /// at least as many as a worker may have requests in flight to one node (the limits of the
    /// fabric), and one more for each worker of this node. A message that arrives twice counts once
    /// whatever this is.
    pub gaps_max: usize,
    /// What work on cached lines is charged, in a simulated world. `None`: nothing, as wherever
    /// time is real.
    pub costs: Option<CpuCosts>,
    /// Whether messages that arrive twice are dropped the second time. Off only in tests, which
    /// show that the harm would be noticed.
    pub drops_repeats: bool,
    /// Whether nobody is asked who is known to be gone, and lines for which nobody was asked give
    /// their frames back. Off only in tests, as `drops_repeats`.
    pub heeds_the_gone: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            policy: Policy::SELCC,
            deadline: Duration::from_secs(10),
            lapse: Duration::from_millis(1),
            lease: Some(256),
            resend: Resend::Shrinking,
            resend_factor: 8,
            round_trip: Duration::from_micros(2),
            pause: Duration::from_micros(2),
            pause_max: Duration::from_micros(500),
            aging: true,
            spin_windows: true,
            priority_matching: true,
            starved_at: 2,
            hold_off: Duration::from_micros(4),
            hold_off_max: Duration::from_millis(1),
            serve_interval: Duration::from_micros(20),
            evict_share: 32,
            evict_batch: 8,
            replacement: Replacement::Epoch,
            evict_sample: 4,
            epoch_share: 10,
            write_back_ring: 32,
            lock_share: 2,
            dirty_bounds: true,
            forwarding: true,
            release: Release::Lazy,
            linger: 2,
            takeover: true,
            gaps_max: 512,
            costs: None,
            drops_repeats: true,
            heeds_the_gone: true,
        }
    }
}

impl Settings {
    /// The rules of the latch: those of the protocol, with what settings say of them.
    pub fn rules(&self) -> Rules {
        let Settings { forwarding, takeover, aging, policy, .. } = *self;
        let starved_at = if self.priority_matching { self.starved_at } else { 0 };
        let gives_back = policy.lazy_release && aging && self.release == Release::Adaptive;
        Rules { forwarding, takeover, aging, starved_at, gives_back, ..policy.rules }
    }

    /// The pause after so many refusals, the first of them so long ago, before it is drawn around.
    pub(crate) fn pause_after(&self, refusals: u8, refused_for: Duration) -> Duration {
        match self.resend {
            Resend::Shrinking if self.policy.rules.invalidate => {
                let first = self.round_trip.saturating_mul(self.resend_factor);
                let (next, late) = (first / u32::from(refusals.max(1)), refused_for / LATE);
                (if late > first { late } else { next }).min(self.pause_max).max(self.pause)
            }
            _ => Self::doubled(self.pause, refusals.saturating_sub(1), self.pause_max),
        }
    }

    /// How long readers hold off for a writer of this priority.
    pub(crate) fn window(&self, priority: u8) -> Duration {
        if !self.spin_windows {
            return Duration::ZERO;
        }
        self.hold_off.saturating_mul(u32::from(priority)).min(self.hold_off_max)
    }

    /// How long a node that gave a line back, and handed it to nobody, leaves it to those who asked
    /// for it with this priority. It doubles with each step: some refusals are enough to find out
    /// how long a message and an operation on the word take, in any network.
    pub(crate) fn stand_back(&self, priority: u8) -> Duration {
        Self::doubled(self.hold_off, priority.saturating_sub(1), self.hold_off_max)
    }

    /// How a node's cache is to choose what leaves: for [`Cache::with_replacement`], by whoever
    /// makes it.
    pub fn replacement_policy(&self) -> ReplacementPolicy {
        match self.replacement {
            Replacement::Epoch => {
                ReplacementPolicy::Epoch { sample: self.evict_sample, share: self.epoch_share }
            }
            Replacement::Lru => ReplacementPolicy::Lru,
        }
    }

    /// `base` doubled `times` times, up to `max`.
    pub(crate) fn doubled(base: Duration, times: u8, max: Duration) -> Duration {
        base.saturating_mul(1u32.checked_shl(u32::from(times)).unwrap_or(u32::MAX)).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_ends_at_the_longest() {
        let (base, max) = (Duration::from_micros(2), Duration::from_micros(500));
        assert_eq!(Settings::doubled(base, 0, max), base);
        assert_eq!(Settings::doubled(base, 3, max), Duration::from_micros(16));
        assert_eq!(Settings::doubled(base, 255, max), max);
    }

    #[test]
    fn replacement_by_epochs_has_the_settings_sample_and_share() {
        let settings = Settings { evict_sample: 7, epoch_share: 3, ..Settings::default() };
        let policy = ReplacementPolicy::Epoch { sample: 7, share: 3 };
        assert_eq!(settings.replacement_policy(), policy);
    }

    #[test]
    fn pauses_shrink_or_grow_within_bounds() {
        let micros = |settings: &Settings, n| settings.pause_after(n, Duration::ZERO).as_micros();
        let growing = Settings { resend: Resend::Growing, ..Settings::default() };
        assert_eq!([1, 2, 3, 31].map(|n| micros(&growing, n)), [2, 4, 8, 500]);
        let (resend, resend_factor) = (Resend::Shrinking, 8);
        let shrinking = Settings { resend, resend_factor, ..Settings::default() };
        assert_eq!([1, 2, 4, 31].map(|n| micros(&shrinking, n)), [16, 8, 4, 2]);
        let other = Settings {
            resend_factor: 3,
            round_trip: Duration::from_micros(40),
            ..shrinking.clone()
        };
        assert_eq!([1, 2, 4].map(|n| micros(&other, n)), [120, 60, 30]);
        let mut silent = shrinking.clone();
        silent.policy.rules.invalidate = false;
        assert_eq!([1, 2, 3, 31].map(|n| micros(&silent, n)), [2, 4, 8, 500]);
    }

    #[test]
    fn pauses_that_shrink_grow_again_after_very_many_refusals() {
        let settings = Settings::default();
        let micros =
            |refused_for| settings.pause_after(31, Duration::from_micros(refused_for)).as_micros();
        assert_eq!([0, 1_000, 1_280, 6_400, 1_000_000].map(micros), [2, 2, 20, 100, 500]);
    }

    #[test]
    fn who_stands_back_does_so_for_longer_with_each_step() {
        let settings = Settings { spin_windows: false, ..Settings::default() };
        let micros = |priority| settings.stand_back(priority).as_micros();
        assert_eq!([1, 2, 5, 8, 9, 31].map(micros), [4, 8, 64, 512, 1_000, 1_000]);
    }

    #[test]
    fn windows_are_proportional_and_end() {
        let settings = Settings::default();
        assert_eq!([1, 2, 5].map(|p| settings.window(p)), [4, 8, 20].map(Duration::from_micros));
        let long = Settings { hold_off: Duration::from_micros(100), ..settings.clone() };
        assert_eq!(long.window(31), long.hold_off_max);
        assert_eq!(Settings { spin_windows: false, ..settings }.window(9), Duration::ZERO);
    }
}
