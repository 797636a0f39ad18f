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
//! Every node accesses the same number of lines, for any share of lines in common with other nodes.
//! So each node's cache has the same part of its lines, and only the cost of sharing changes.
//!
//! One task is one client. The client draws the target of its next access from the last target:
//!
//! 1. With the probability of *temporal locality*: the line of the last access (SELCC 7.1.2).
//! 2. Else, with the probability of *spatial locality*: the item behind the last item, which may be
//!    the first item of the next line.
//! 3. Else a drawn line: a shared line with the probability of the sharing ratio, else one of the
//!    node's own lines; uniformly or zipfian.
//!
//! Popular lines are scattered over memory nodes and chunks. All nodes have the same popular lines.

mod item;
mod stream;

pub use item::{Garbage, ItemLayout, ItemNumber, ItemTag};
pub use stream::{AccessStream, ClientIndex, MicroAccess};

use latchwork_report::histogram::OperationKindSet;

use crate::WorkloadError;
use crate::distribution::ScaledZipfian;

/// The popularity of lines.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Popularity {
    /// All lines with the same probability.
    #[default]
    Uniform,
    /// Line k about (k + 1)^-theta as often as the first line.
    Zipfian {
        /// The skew.
        theta: f64,
    },
}

/// The effect of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WriteKind {
    /// Adds one to the item, under the line's latch.
    #[default]
    Locked,
    /// Replaces the item without a read.
    Blind,
}

/// The settings of the workload.
#[derive(Clone, PartialEq, Debug)]
pub struct MicroConfig {
    /// Lines that each node accesses.
    pub lines: u64,
    /// The zipfian is over this many times the number of lines; see [`ScaledZipfian`].
    pub scale: u64,
    /// Items of each line.
    pub items_per_line: u64,
    /// Compute nodes.
    pub nodes: u64,
    /// Probability that an access is a read.
    pub reads: f64,
    /// Number of nodes that only write, while all others only read; replaces `reads` (SELCC 7.1.3).
    pub writer_nodes: u64,
    /// The part of these lines that all nodes share, and the share of accesses to them.
    pub sharing: f64,
    /// Probability that an access goes to the line of the previous access.
    pub temporal: f64,
    /// Probability that an access goes to the item behind the previous item, if it does not go to
    /// the same line.
    pub spatial: f64,
    /// The popularity of lines.
    pub popularity: Popularity,
    /// The effect of a write.
    pub writes: WriteKind,
}

/// Kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MicroKind {
    /// A read of an item.
    Read,
    /// A write of an item.
    Write,
}

impl OperationKindSet for MicroKind {
    const NAMES: &'static [&'static str] = &["READ", "WRITE"];

    fn index(self) -> usize {
        self as usize
    }
}

/// The workload with its tables, which clones share.
#[derive(Clone, Debug)]
pub struct MicroWorkload {
    config: MicroConfig,
    shared: Region,
    /// The private lines of all nodes, one node after the other, the same number each.
    private: Region,
}

/// Lines with a common distribution.
#[derive(Clone, Debug)]
struct Region {
    lines: u64,
    /// An odd step through the lines that visits each line once.
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

    /// The line of this popularity. Neighbours in popularity are far from each other.
    fn place(&self, popularity: u64) -> u64 {
        (u128::from(popularity) * u128::from(self.stride) % u128::from(self.lines)) as u64
    }
}

/// About the golden section of `lines`, and coprime to `lines`. Its multiples spread evenly at
/// every length.
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
    /// Fails when the settings are impossible, with one line that states valid settings.
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

    /// The settings.
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

    /// The number of lines that all nodes use, and the number of private lines of each node.
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
