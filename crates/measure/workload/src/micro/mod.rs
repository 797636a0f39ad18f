//! The micro-benchmark of GAM as SELCC uses it (GAM 6, SELCC 7.1): accesses to lines by their
//! address, with a share of reads, a share of lines that all nodes use, locality, and skew.
//!
//! ```text
//!   lines   |  shared by all nodes  | node 0's | node 1's | ..
//!           <------- lines that node 0 accesses ---->
//!
//!   items   each line has some, side by side; an access is to one item
//! ```
//!
//! Every node accesses as many lines, whatever part of them it shares with the others: so its cache
//! has the same part of them, and what sharing costs is all that changes.
//!
//! One task is one client: it draws where its next access goes from where its last one went.
//!
//! 1. With the probability of *temporal locality* to the line of the last one (SELCC 7.1.2).
//! 2. Else, with that of *spatial locality*, to the item behind the last one, which may be the
//!    first of the next line.
//! 3. Else to a line that is drawn: a shared one with the probability of the sharing ratio, else
//!    one of the node's own; uniformly or zipfian.
//!
//! Popular lines are scattered, so that they are spread over memory nodes and chunks; which ones
//! they are is the same on every node.

mod item;
mod stream;

pub use item::{Garbage, ItemLayout, ItemNumber, Stamp};
pub use stream::{Access, AccessStream, ClientIndex};

use crate::WorkloadError;
use crate::distribution::ScaledZipfian;
use crate::histogram::Kind;

/// How popular lines are.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Popularity {
    /// All alike.
    #[default]
    Uniform,
    /// Line k about (k + 1)^-theta as often as the first.
    Zipfian {
        /// The skew.
        theta: f64,
    },
}

/// What a write does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WriteKind {
    /// Adds one to what it finds, under the line's latch.
    #[default]
    Locked,
    /// Replaces the item without looking.
    Blind,
}

/// The workload, as asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct MicroConfig {
    /// Lines that each node accesses.
    pub lines: u64,
    /// How many times as many lines the zipfian is over; see [`ScaledZipfian`].
    pub scale: u64,
    /// Items of each line.
    pub items_per_line: u64,
    /// Compute nodes.
    pub nodes: u64,
    /// Probability that an access is a read.
    pub reads: f64,
    /// Nodes that only write, while all others only read; instead of `reads` (SELCC 7.1.3).
    pub writer_nodes: u64,
    /// Part of these lines that is the same on all nodes, and of the accesses that go there.
    pub sharing: f64,
    /// Probability that an access is to the line of the one before.
    pub temporal: f64,
    /// Probability that an access is to the item behind the one before, if it is not to the same
    /// line.
    pub spatial: f64,
    /// How popular lines are.
    pub popularity: Popularity,
    /// What a write does.
    pub writes: WriteKind,
}

/// Kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MicroKind {
    /// An item is read.
    Read,
    /// An item is written.
    Write,
}

impl Kind for MicroKind {
    const NAMES: &'static [&'static str] = &["READ", "WRITE"];

    fn index(self) -> usize {
        self as usize
    }
}

/// The workload, ready to draw from. Clones share its tables.
#[derive(Clone, Debug)]
pub struct MicroWorkload {
    config: MicroConfig,
    shared: Region,
    /// Those of each node, one behind the other, as many each.
    private: Region,
}

/// Lines that are drawn from together.
#[derive(Clone, Debug)]
struct Region {
    lines: u64,
    /// Odd steps through the lines, that visit each once.
    stride: u64,
    zipfian: Option<ScaledZipfian>,
}

impl Region {
    fn new(lines: u64, config: &MicroConfig) -> Result<Region, WorkloadError> {
        let zipfian = match config.popularity {
            Popularity::Zipfian { theta } if lines > 0 => {
                Some(ScaledZipfian::new(lines, config.scale, theta)?)
            }
            _ => None,
        };
        Ok(Region { lines, stride: stride(lines), zipfian })
    }

    /// The line of this popularity: neighbours in popularity are far from each other.
    fn place(&self, popularity: u64) -> u64 {
        (u128::from(popularity) * u128::from(self.stride) % u128::from(self.lines)) as u64
    }
}

/// About the golden section of `lines`, and prime to it: multiples of it spread evenly at every
/// length.
fn stride(lines: u64) -> u64 {
    let common = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let golden = (lines as f64 * 0.618_033_988_749_894_9) as u64;
    (golden..lines).find(|stride| common(*stride, lines) == 1).unwrap_or(1)
}

impl MicroWorkload {
    /// The workload of `config`.
    ///
    /// # Errors
    ///
    /// Fails when it is impossible, with a line that says what would do.
    pub fn new(config: MicroConfig) -> Result<MicroWorkload, WorkloadError> {
        let refuse = |problem: String| Err(WorkloadError::Conflict(problem));
        let MicroConfig { lines, nodes, items_per_line, writer_nodes, .. } = config;
        if lines == 0 || nodes == 0 || items_per_line == 0 {
            return refuse("there must be lines, items in them, and nodes".to_owned());
        }
        for (name, share) in [
            ("reads", config.reads),
            ("the sharing ratio", config.sharing),
            ("temporal locality", config.temporal),
            ("spatial locality", config.spatial),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return refuse(format!("{name} must be a share from 0 to 1, and {share} is not"));
            }
        }
        if writer_nodes > nodes {
            return refuse(format!(
                "{writer_nodes} nodes that write are more than the {nodes} nodes that there are"
            ));
        }
        let shared = (lines as f64 * config.sharing).round() as u64;
        let own = lines - shared.min(lines);
        let (some, others) = (config.sharing > 0.0, config.sharing < 1.0);
        if some && shared == 0 || others && own == 0 {
            return refuse(format!("{lines} lines are too few to share a part of them; use more"));
        }
        if own.checked_mul(nodes).and_then(|all| all.checked_add(shared)).is_none() {
            return refuse(format!("{lines} lines for each of {nodes} nodes are too many"));
        }
        let (shared, private) = (Region::new(shared, &config)?, Region::new(own, &config)?);
        Ok(MicroWorkload { config, shared, private })
    }

    /// What was asked for.
    pub fn config(&self) -> &MicroConfig {
        &self.config
    }

    /// The probability that an access of this node is a read.
    pub fn reads_of(&self, node: u64) -> f64 {
        match self.config.writer_nodes {
            0 => self.config.reads,
            writers if node < writers => 0.0,
            _ => 1.0,
        }
    }

    /// Lines that all nodes use, and lines of each node alone.
    pub fn regions(&self) -> (u64, u64) {
        (self.shared.lines, self.private.lines)
    }

    /// Lines of all nodes together.
    pub fn lines(&self) -> u64 {
        self.shared.lines + self.config.nodes * self.private.lines
    }
}

#[cfg(test)]
mod tests;
