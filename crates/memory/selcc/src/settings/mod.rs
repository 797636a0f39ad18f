//! Settings of a compute node, and the policies that distinguish the protocols.

mod table;
mod value;

use std::time::Duration;

#[cfg(doc)]
use latchwork_cache::Cache;
use latchwork_cache::ReplacementPolicy;
use latchwork_latch::Rules;

use crate::costs::CpuCosts;

pub use table::{Setting, SettingError};

/// The differences between the protocols on this engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The protocol's name.
    pub name: &'static str,
    /// The rules of the line machine.
    pub rules: Rules,
    /// Whether the node keeps a line after the access, until another node requests the line or its
    /// frame is needed (SELCC 4.1).
    pub lazy_release: bool,
}

impl Policy {
    /// SELCC: lazy release and invalidation requests.
    pub const SELCC: Policy =
        Policy { name: "selcc", rules: Rules::DISCIPLINE, lazy_release: true };
}

/// The choice of the lines that eviction removes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// Least recently used, estimated from epochs and a sample (ScaleStore 4.1).
    Epoch,
    /// Least recently used, exactly (SELCC 5.2). Each hit writes memory that all workers share.
    Lru,
}

/// When a node releases a line that no other node has requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Release {
    /// When its frame is needed (SELCC 4.1).
    #[default]
    Lazy,
    /// Early, where another node would take the line anyway before its next local use.
    Adaptive,
}

/// How the back-off changes with repeated refusals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Resend {
    /// `pause`, doubled with every further refusal, up to `pause_max`.
    Growing,
    /// C x RTT / N after N refusals, within the same bounds (SELCC 5.1.2).
    ///
    /// A protocol without invalidation requests grows its back-offs instead: shrinking back-offs
    /// would only raise the load on a contended latch word. A node that has been refused for very
    /// long waits for a stuck or dead node. Such a node backs off for a part of the time that it
    /// has waited.
    #[default]
    Shrinking,
}

/// A late node backs off for 1/64 of the time for which it has been refused. Only shrinking
/// back-offs have this rule.
///
/// 1. A node is late once this part is more than its first back-off. By default that is after a
///    millisecond, far longer than waits among healthy nodes.
/// 2. A late node requests in vain until a deadline ends its want, and every request costs its
///    receivers.
/// 3. The price is small: the node learns later by about this part that it can have the line.
const LATE: u32 = 64;

/// Settings of a compute node. All settings may be changed at run time before the node starts.
/// [`Settings::TABLE`] lists them by name.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The protocol.
    pub policy: Policy,
    /// Deadline: an access that waits longer for a line fails.
    pub deadline: Duration,
    /// How long reservations, and accesses that wait for the local latch, may keep a line from a
    /// requesting node. After this time the reservations expire, and the requests come before the
    /// waiting accesses.
    pub lapse: Duration,
    /// The line lease, gamma of SELCC 5.3.1: so many synthetic accesses (reads / workers + writes)
    /// that had to wait for the local latch come before a requesting node. Then the node gives the
    /// line up. With 0, requesting nodes come first. With `None`, local accesses always come first.
    pub lease: Option<u32>,
    /// How back-offs change with refusals. Each back-off is drawn from 0.5 to 1.5 of what the rule
    /// says.
    pub resend: Resend,
    /// C of [`Resend::Shrinking`].
    pub resend_factor: u32,
    /// RTT of [`Resend::Shrinking`]: the round-trip time of an atomic verb.
    pub round_trip: Duration,
    /// The shortest back-off after a refusal.
    pub pause: Duration,
    /// The longest back-off.
    pub pause_max: Duration,
    /// Whether each refusal raises the priority of a node's requests, and a holder serves the
    /// highest priority first. Off: first come, first served (SELCC 5.3.2).
    pub aging: bool,
    /// Whether readers that gave a line up for an earlier refused writer hold off before they
    /// return (SELCC 5.3.2).
    pub spin_windows: bool,
    /// Whether a starved writer keeps its line from readers with fewer refusals than the writer
    /// (SELCC 5.3.2). Has no effect without `aging`.
    pub priority_matching: bool,
    /// A writer with so many refusals is starved.
    pub starved_at: u8,
    /// The hold-off of readers for each step of the writer's priority. Also the hold-off of a node
    /// that released a line for other nodes, at the first step of their priority, doubled with each
    /// further step.
    pub hold_off: Duration,
    /// The longest hold-off of both kinds.
    pub hold_off_max: Duration,
    /// How often requests that local code keeps waiting are served again while the worker has
    /// nothing else to do.
    pub serve_interval: Duration,
    /// Eviction keeps 1/N of the frames free (N = `evict_share`), but at most eight times
    /// `evict_batch`. It starts when more than half of these frames, or more than `evict_batch`,
    /// are missing.
    pub evict_share: usize,
    /// The most lines that one sweep evicts ahead of need. With 1 the node evicts neither in
    /// batches nor ahead: an access that finds no free frame evicts one line, with a doorbell of
    /// its own, and waits for the frame.
    pub evict_batch: usize,
    /// The choice of the lines that eviction removes.
    pub replacement: Replacement,
    /// The frames that [`Replacement::Epoch`] samples for each wanted frame. It samples 16 at
    /// least.
    pub evict_sample: usize,
    /// A new epoch of [`Replacement::Epoch`] begins after 1/N of the frames was replaced (N =
    /// `epoch_share`).
    pub epoch_share: usize,
    /// The write-back slots of one worker for one memory node: the most evicted lines with a
    /// write-back in flight whose frames are free already (SELCC 5.2.1).
    ///
    /// The handler counts as a worker here. Each worker takes this many times the line size in
    /// memory for each memory node that it has evicted dirty lines to. With 0, a frame stays with
    /// its line until the release is complete.
    pub write_back_ring: usize,
    /// Transactions lock at most 1/N of the frames (N = `lock_share`). The other frames serve
    /// unlocked lines.
    pub lock_share: usize,
    /// Whether a write-back covers the dirty bounds only (SELCC 5.2.2), and not the whole line.
    pub dirty_bounds: bool,
    /// Whether an exclusive holder forwards a requested line and hands it over. Off: the holder
    /// writes the line back and releases it (SELCC 4.4.1).
    pub forwarding: bool,
    /// Whether lines that other nodes repeatedly take are released lazily or early. Has no effect
    /// without lazy release.
    pub release: Release,
    /// With adaptive release: a worker does not release the last so many lines that it obtained.
    pub linger: usize,
    /// Whether sharers pledge their copies to a writer, which takes the line over from all sharers
    /// at once. Off: each sharer releases its own copy (SELCC 4.4.3).
    pub takeover: bool,
    /// The messages of one worker of another node that later messages may overtake and that still
    /// count. The least safe value is the sum of two numbers: the requests that a worker may have
    /// in flight to one node (a limit of the fabric), and the workers of this node. A duplicate
    /// counts once with any value.
    pub gaps_max: usize,
    /// The charges for work on cached lines in a world. `None`: no charges, as always in real time.
    pub costs: Option<CpuCosts>,
    /// Whether the node deduplicates messages. Off only in tests, which show that checks detect the
    /// harm.
    pub drops_repeats: bool,
    /// Whether the node sends no requests to nodes that it knows to be dead or to have left. Lines
    /// whose requests were never sent then release their frames. Off only in tests, as
    /// `drops_repeats`.
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
    /// The rules of the line machine: the policy's rules, changed by the settings.
    pub fn rules(&self) -> Rules {
        let Settings { forwarding, takeover, aging, policy, .. } = *self;
        let starved_at = if self.priority_matching { self.starved_at } else { 0 };
        let gives_back = policy.lazy_release && aging && self.release == Release::Adaptive;
        Rules { forwarding, takeover, aging, starved_at, gives_back, ..policy.rules }
    }

    /// Whether lines are released early by their history.
    pub(crate) fn adapts(&self) -> bool {
        self.policy.lazy_release && self.release == Release::Adaptive
    }

    /// Whether the end of an access decides about the line that the access obtained.
    pub(crate) fn minds_ends(&self) -> bool {
        !self.policy.lazy_release || self.adapts()
    }

    /// The back-off after so many refusals, the first of them `refused_for` ago, before the random
    /// draw.
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

    /// The hold-off of readers for a writer of this priority.
    pub(crate) fn window(&self, priority: u8) -> Duration {
        if !self.spin_windows {
            return Duration::ZERO;
        }
        self.hold_off.saturating_mul(u32::from(priority)).min(self.hold_off_max)
    }

    /// The hold-off of a node that released a line without a hand-over: it leaves the line to
    /// requesters of this priority. The hold-off doubles with each step. So a few refusals find out
    /// how long a message and a word operation take, in any network.
    pub(crate) fn stand_back(&self, priority: u8) -> Duration {
        Self::doubled(self.hold_off, priority.saturating_sub(1), self.hold_off_max)
    }

    /// The replacement policy for the cache of a node, for [`Cache::with_replacement`].
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
