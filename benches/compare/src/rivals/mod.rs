//! The other structures, each with its natural fastest calls.

mod btreemap;
mod congee;
mod hash;
mod olc;
mod ordered;

pub(crate) use self::btreemap::LockedBTreeMap;
pub(crate) use self::congee::{CongeeOfArcs, CongeeOfWords};
pub(crate) use self::hash::{Dash, Papaya, SccHash};
pub(crate) use self::olc::{BPlusTree, Ferntree};
pub(crate) use self::ordered::{SccTree, SkipList};
