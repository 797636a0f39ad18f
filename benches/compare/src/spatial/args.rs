//! The command line of `compare spatial`.

use std::path::PathBuf;

use clap::Args;

use crate::numbers::{count, line_size, whole};

/// Latchwork's R-tree beside R-trees of other crates.
///
/// All of them hold the same boxes and answer the same queries, by turns, in one process. Our tree
/// is coherent: two compute nodes are alive, and all its lines are cached. Every answer is checked;
/// a wrong one ends the run.
#[derive(Debug, Args)]
pub(crate) struct SpatialArgs {
    /// Boxes in each tree, 1000 and more; 10M is ten million.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    pub(crate) boxes: u64,
    /// Repetitions of each measurement; medians are shown.
    #[arg(long, value_name = "N", default_value = "9", value_parser = whole::<1, 1000>)]
    pub(crate) repeats: u64,
    /// Milliseconds of each repetition of a query; a quarter of that, not counted, goes before it.
    #[arg(long, value_name = "MS", default_value = "100", value_parser = whole::<1, 600_000>)]
    pub(crate) time_ms: u64,
    /// Bytes of a line of our memory, a power of two from 512 to 65536.
    #[arg(long = "gcl-size", value_name = "BYTES", default_value = "2048", value_parser = line_size)]
    pub(crate) line_size: u32,
    /// Seed of all that is random.
    #[arg(long, value_name = "N", default_value = "42")]
    pub(crate) seed: u64,
    /// Print the targets, a line each: target, wanted, got, met or missed.
    #[arg(long)]
    pub(crate) check_targets: bool,
    /// Write everything that was measured as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables into a file that has a place for them, or into a new one.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Draw the measurements.
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
}
