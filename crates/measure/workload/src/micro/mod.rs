//! The micro-benchmark of GAM in the form of the SELCC paper (GAM 6, SELCC 7.1): reads and writes
//! of items in lines. The settings are the share of reads, the share of lines that all nodes use,
//! locality, and skew.
//!
//! ```text
//!   lines   |  shared by all nodes  | node 0's | node 1's | ..
//!           <------- lines that node 0 accesses ---->
//!
//!   items   each line has some, side by side; an access is to one item
//! ```
//!
//! Every node accesses the same number of lines, whatever share of them it has in common with other
//! nodes. So each node's cache holds the same part of the lines that the node accesses, and only
//! the cost of sharing changes.
//!
//! A client is one task. The client chooses the target of its next access by these rules, in this
//! order:
//!
//! 1. With the probability of *temporal locality*: a random item of the line of the last access
//!    (SELCC 7.1.2).
//! 2. Else, with the probability of *spatial locality*: the item after the last item, which may be
//!    the first item of the next line.
//! 3. Else a random line: with the probability of the sharing ratio a shared line, else one of the
//!    node's own lines. The distribution is uniform or zipfian.
//!
//! Popular lines are spread over the memory. All nodes have the same popular shared lines.

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
    /// The line of popularity k (from 0) with a probability about proportional to (k + 1)^-theta.
    Zipfian {
        /// The skew.
        theta: f64,
    },
}

/// The effect of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WriteKind {
    /// Reads the item and writes it with its stamp plus one, in one atomic step.
    #[default]
    Locked,
    /// Replaces the item without reading it.
    Blind,
}

/// The settings of the workload.
#[derive(Clone, PartialEq, Debug)]
pub struct MicroConfig {
    /// Number of lines that each node accesses: shared lines and own lines together.
    pub lines: u64,
    /// The zipfian has the shares of a distribution over this many times the lines: see
    /// [`ScaledZipfian`].
    pub scale: u64,
    /// Items of each line.
    pub items_per_line: u64,
    /// Compute nodes.
    pub nodes: u64,
    /// Probability that an access is a read.
    pub reads: f64,
    /// If above 0, this many nodes only write, and all other nodes only read (SELCC 7.1.3). `reads`
    /// then has no effect.
    pub writer_nodes: u64,
    /// The part of a node's lines that all nodes share, and also the probability that a random line
    /// is shared, 0 to 1.
    pub sharing: f64,
    /// Probability that an access goes to the line of the previous access.
    pub temporal: f64,
    /// Probability that an access that temporal locality did not choose goes to the item after the
    /// previous item.
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

/// The checked settings and the tables of the distributions. Clones share the tables.
#[derive(Clone, Debug)]
pub struct MicroWorkload {
    config: MicroConfig,
    shared: Region,
    /// The private lines of one node. All nodes have the same number of private lines.
    private: Region,
}

/// Consecutive lines with a distribution of their own.
#[derive(Clone, Debug)]
struct Region {
    lines: u64,
    /// A step that is coprime to `lines`: repeated steps, modulo `lines`, visit each line once.
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

    /// The line of this popularity, from 0 for the most popular. Lines of similar popularity are
    /// far from each other.
    fn place(&self, popularity: u64) -> u64 {
        (u128::from(popularity) * u128::from(self.stride) % u128::from(self.lines)) as u64
    }
}

/// A number near `lines` divided by the golden ratio, and coprime to `lines`. The first n
/// multiples, modulo `lines`, are evenly spread for every n.
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
    /// [`WorkloadError`] when the settings are impossible. The text is one line that names the
    /// mistake.
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
    pub(crate) fn reads_of(&self, node: u64) -> f64 {
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

    /// Number of lines of all nodes together.
    pub fn lines(&self) -> u64 {
        self.shared.lines + self.config.nodes * self.private.lines
    }
}

#[cfg(test)]
mod tests;
