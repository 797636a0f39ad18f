//! Settings of a compute node, under any protocol.

mod table;
mod value;

use std::time::Duration;

#[cfg(doc)]
use latchwork_cache::Cache;
use latchwork_cache::ReplacementPolicy;

use crate::costs::CpuCosts;

pub use table::{Setting, SettingError};

/// The choice of the lines that eviction removes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplacementChoice {
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
    /// A protocol without invalidation requests (SEL) uses growing back-offs instead: shrinking
    /// back-offs would only raise the load on a contended latch word. A node that has been refused
    /// for very long most likely waits for a stuck or dead node. Such a node backs off for a part
    /// of the time for which the node has been refused.
    #[default]
    Shrinking,
}

/// Settings of a compute node. All settings may be changed at run time before the node starts.
/// [`NodeSettings::TABLE`] lists by name those that a user may change.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Deadline: an access that waits longer for a line fails.
    pub deadline: Duration,
    /// How long reservations may keep a line from a requesting node before the reservations expire.
    /// Also how long accesses that wait for the local latch keep a line from a requesting node,
    /// while no such access gets the latch.
    pub lapse: Duration,
    /// The line lease, gamma of SELCC 5.3.1. It bounds the local accesses that have to wait for the
    /// local latch and still come before a requesting node. They are counted as `reads / workers +
    /// writes`. At this count, the node gives the line up. With 0, requesting nodes come first.
    /// With `None`, the count has no bound.
    pub lease: Option<u32>,
    /// How back-offs change with refusals. Each back-off is drawn at random between 0.5 and 1.5
    /// times the value of this rule.
    pub resend: Resend,
    /// C of [`Resend::Shrinking`].
    pub resend_factor: u32,
    /// RTT of [`Resend::Shrinking`]: the round-trip time of an atomic verb.
    pub round_trip: Duration,
    /// The shortest back-off after a refusal, before the draw.
    pub pause: Duration,
    /// The longest back-off, before the draw.
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
    /// A writer with at least this many refusals is starved.
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
    /// `evict_batch` frames. Eviction starts when more than half of these frames, or more than
    /// `evict_batch`, are not free.
    pub evict_share: usize,
    /// The most lines that a worker evicts in one pass. A sweep has up to two passes. With 1 the
    /// node evicts neither in batches nor ahead of need. Lines are then evicted one at a time while
    /// an access waits for a frame, each with a doorbell of its own.
    pub evict_batch: usize,
    /// The choice of the lines that eviction removes.
    pub replacement: ReplacementChoice,
    /// The frames that [`ReplacementChoice::Epoch`] samples for each wanted frame. A sample has at
    /// least 16 frames.
    pub evict_sample: usize,
    /// A new replacement epoch of [`ReplacementChoice::Epoch`] begins after 1/N of the frames was
    /// chosen for replacement (N = `epoch_share`).
    pub epoch_share: usize,
    /// The number of write-back slots of one worker for one memory node (SELCC 5.2.1). So many
    /// evicted lines can have a write-back in flight while their frames are free already.
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
    /// With adaptive release: the number of recent lines of a worker. Recent lines are the last
    /// lines that the worker obtained and did not release at once.
    pub linger: usize,
    /// Whether sharers pledge their copies to a writer, which takes the line over from all sharers
    /// at once. Off: each sharer releases its own copy (SELCC 4.4.3).
    pub takeover: bool,
    /// For each worker of another node, the receiver remembers at most this many message numbers
    /// that later messages have overtaken. A message with a forgotten number is dropped.
    ///
    /// The smallest safe value is R + W. R is the number of requests that a worker may have in
    /// flight to one node, a limit of the fabric. W is the number of workers of this node. A
    /// connection that fails repeatedly may need more. With any value, no message is taken twice.
    pub gaps_max: usize,
    /// The charges for work on cached lines in a world. `None`: no charges, as always in real time.
    pub costs: Option<CpuCosts>,
    /// Whether the node deduplicates messages. Off only in tests, which show that checks detect the
    /// harm.
    pub drops_repeats: bool,
    /// Whether the node sends no requests to nodes that it knows to be dead or to have left. A line
    /// whose requests were never sent may then release its frame. Off only in tests, as
    /// `drops_repeats`.
    pub heeds_the_gone: bool,
}

impl Default for NodeSettings {
    fn default() -> Self {
        NodeSettings {
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
            replacement: ReplacementChoice::Epoch,
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

impl NodeSettings {
    /// The replacement policy for the cache of a node, for [`Cache::with_replacement`].
    pub fn replacement_policy(&self) -> ReplacementPolicy {
        match self.replacement {
            ReplacementChoice::Epoch => {
                ReplacementPolicy::Epoch { sample: self.evict_sample, share: self.epoch_share }
            }
            ReplacementChoice::Lru => ReplacementPolicy::Lru,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacement_by_epochs_has_the_settings_sample_and_share() {
        let settings = NodeSettings { evict_sample: 7, epoch_share: 3, ..NodeSettings::default() };
        let policy = ReplacementPolicy::Epoch { sample: 7, share: 3 };
        assert_eq!(settings.replacement_policy(), policy);
    }
}
