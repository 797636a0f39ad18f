//! The structures in the words of the report.

use crate::args::Structure;

/// The name of a structure.
pub(crate) fn name(structure: Structure) -> &'static str {
    match structure {
        Structure::Latchwork => "latchwork",
        Structure::LatchworkTwo => "latchwork on two nodes",
        Structure::Ferntree => "ferntree",
        Structure::SccTree => "scc::TreeIndex",
        Structure::Congee => "congee",
        Structure::Bplustree => "bplustree",
        Structure::Skiplist => "crossbeam-skiplist",
        Structure::Btreemap => "locked BTreeMap",
        Structure::SccHash => "scc::HashMap",
        Structure::Dashmap => "dashmap",
        Structure::Papaya => "papaya",
    }
}

/// Whether a structure has an order.
pub(super) fn is_ordered(structure: Structure) -> bool {
    !matches!(structure, Structure::SccHash | Structure::Dashmap | Structure::Papaya)
}
