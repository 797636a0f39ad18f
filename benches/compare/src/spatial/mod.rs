//! Our R-tree beside the in-memory R-trees of other crates: the same boxes, queries and threads, in
//! turn, in one process.
//!
//! ```text
//!   args      what is asked for
//!     |
//!   run       the trees, packed and grown, then all measurements in turn
//!     |   data      boxes and queries, each query with its answer from a search of all boxes
//!     |   subject ◄── rivals
//!     |     ▲
//!     |   ours      the R-tree, on an embedded cluster of two compute nodes
//!   results
//!     |
//!   report, plot    tables, targets, JSON, SVG
//! ```

pub(crate) mod args;
mod data;
mod ours;
mod plot;
mod report;
mod results;
mod rivals;
mod run;
mod subject;

use crate::error::Failure;
use args::SpatialArgs;

/// Measures, and writes all outputs.
pub(crate) fn compare(args: &SpatialArgs) -> Result<(), Failure> {
    report::check_outputs(args)?;
    let results = run::run(args)?;
    report::write(args, &results)
}
