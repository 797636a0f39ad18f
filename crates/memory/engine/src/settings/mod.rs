//! Settings of a compute node, under any protocol.

mod table;
mod value;

use std::time::Duration;

#[cfg(doc)]
use latchwork_cache::Cache;
use latchwork_cache::ReplacementPolicy;

use crate::costs::CpuCosts;

pub use table::{NamedSettings, Setting};
pub use value::SettingValue;

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

crate::settings! {
    /// Settings of a compute node, under any protocol. A protocol has settings of its own. All
    /// settings may be changed at run time before the node starts.
    NodeSettings

    /// Deadline: an access that waits longer for a line fails.
    deadline: Duration = Duration::from_secs(10), "deadline" [1]
        "How long an access waits for a line before it fails" [];
    /// How long reservations may keep a line from a requesting node before the reservations expire.
    /// Also how long accesses that wait for the local latch keep a line from a requesting node,
    /// while no such access gets the latch.
    lapse: Duration = Duration::from_millis(1), "lapse"
        "How long local code may keep a line from a node that asked for it, before reservations lapse" ["0"];
    /// How often requests that local code keeps waiting are served again while the worker has
    /// nothing else to do.
    serve_interval: Duration = Duration::from_micros(20), "serve-interval" [1]
        "How often requests that local code keeps waiting are tried again by a worker with nothing else to do" [];
    /// Eviction keeps 1/N of the frames free (N = `evict_share`), but at most eight times
    /// `evict_batch` frames. Eviction starts when more than half of these frames, or more than
    /// `evict_batch`, are not free.
    evict_share: usize = 32, "evict-share" [1]
        "Eviction keeps one frame in this many free, and at most eight times evict-batch (SELCC 5.2.1)" [];
    /// The most lines that a worker evicts in one pass. A sweep has up to two passes. With 1 the
    /// node evicts neither in batches nor ahead of need. Lines are then evicted one at a time while
    /// an access waits for a frame, each with a doorbell of its own.
    evict_batch: usize = 8, "evict-batch" [1]
        "Lines that one sweep evicts at most, ahead of need; 1: one at a time, when an access needs the frame (SELCC 5.2.1)" ["1"];
    /// The choice of the lines that eviction removes.
    replacement: ReplacementChoice = ReplacementChoice::Epoch, "replacement"
        "How lines are chosen that leave the cache: by epochs of last use (ScaleStore 4.1) or by exact order (SELCC 5.2)" ["lru"];
    /// The frames that [`ReplacementChoice::Epoch`] samples for each wanted frame. A sample has at
    /// least 16 frames.
    evict_sample: usize = 4, "evict-sample" [1]
        "Frames that replacement by epochs looks at for each that is wanted, and 16 at least (ScaleStore 4.2)" ["32"];
    /// A new replacement epoch of [`ReplacementChoice::Epoch`] begins after 1/N of the frames was
    /// chosen for replacement (N = `epoch_share`).
    epoch_share: usize = 10, "epoch-share" [1]
        "A new epoch of replacement begins when one frame in this many was replaced (ScaleStore 4.1)" [];
    /// The number of write-back slots of one worker for one memory node (SELCC 5.2.1). So many
    /// evicted lines can have a write-back in flight while their frames are free already.
    ///
    /// The handler counts as a worker here. Each worker takes this many times the line size in
    /// memory for each memory node that it has evicted dirty lines to. With 0, a frame stays with
    /// its line until the release is complete.
    write_back_ring: usize = 32, "write-back-ring"
        "Evicted lines that a worker writes back to one memory node at a time while their frames are free already; 0: none (SELCC 5.2.1)" ["0", "1"];
    /// Transactions lock at most 1/N of the frames (N = `lock_share`). The other frames serve
    /// unlocked lines.
    lock_share: usize = 2, "lock-share" [1]
        "Transactions lock one frame in this many at most" [];
    /// Whether a write-back covers the dirty bounds only (SELCC 5.2.2), and not the whole line.
    dirty_bounds: bool = true, "dirty-bounds"
        "Only what changed of a line is written back (SELCC 5.2.2)" ["off"];
    /// Whether lines that other nodes repeatedly take are released lazily or early. Has no effect
    /// without lazy release.
    release: Release = Release::Lazy, "release"
        "lazy: lines stay until they are asked for; adaptive: those go early that others keep taking away" ["adaptive"];
    /// With adaptive release: the number of recent lines of a worker. Recent lines are the last
    /// lines that the worker obtained and did not release at once.
    linger: usize = 2, "linger"
        "With adaptive release, lines that a worker obtained last and does not give back yet" ["0"];
    /// For each worker of another node, the receiver remembers at most this many message numbers
    /// that later messages have overtaken. A message with a forgotten number is dropped.
    ///
    /// The smallest safe value is R + W. R is the number of requests that a worker may have in
    /// flight to one node, a limit of the fabric. W is the number of workers of this node. A
    /// connection that fails repeatedly may need more. With any value, no message is taken twice.
    gaps_max: usize = 512, "gaps-max" [1]
        "Messages of one worker that may be overtaken and still count" [];

    @unnamed
    /// The charges for work on cached lines in a world. `None`: no charges, as always in real time.
    costs: Option<CpuCosts> = None;
    /// Whether the node deduplicates messages. Off only in tests, which show that checks detect the
    /// harm.
    drops_repeats: bool = true;
    /// Whether the node sends no requests to nodes that it knows to be dead or to have left. A line
    /// whose requests were never sent may then release its frame. Off only in tests, as
    /// `drops_repeats`.
    heeds_the_gone: bool = true;
    /// Whether what latch words say of a dead node is changed by compare-and-swap. Off: by an
    /// addition. Off only in tests, as `drops_repeats`.
    mends_by_swap: bool = true;
    /// Whether nodes that let go of a dead node wait for each other twice before they close. Off
    /// only in tests, as `drops_repeats`.
    waits_twice: bool = true;
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
