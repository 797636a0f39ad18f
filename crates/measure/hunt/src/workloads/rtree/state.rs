//! [`Boxes`]: what the clients of one thread share.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_cluster::Worker;
use latchwork_rtree::{RTree, RTreeConfig, RTreeRules};

use super::model::{BoxOperation, D};
use super::record::Found;
use crate::scenario::{RtreeLoad, Scenario, SeededBug};
use crate::workloads::tree::{Recorder, Shared};
use crate::world::Observer;

/// The most waits for a line in one operation, as an estimate: queries read every page.
pub(super) const ACCESSES_MAX: u32 = 400;

/// The workload.
pub(crate) struct Boxes {
    pub(super) load: RtreeLoad,
    pub(super) operations: u64,
    pub(super) tasks: u64,
    pub(super) plant: Option<SeededBug>,
    pub(super) seed: u64,
    pub(super) observer: Rc<Observer>,
    pub(super) shared: Shared<RTree<Worker, D>>,
    pub(super) recorder: Recorder<BoxOperation>,
    pub(super) ends: RefCell<Vec<Found>>,
}

impl Boxes {
    pub(crate) fn new(scenario: &Scenario, load: &RtreeLoad, observer: &Rc<Observer>) -> Boxes {
        let most = (load.entries_per_page > 0).then_some(load.entries_per_page as u16);
        let config = RTreeConfig {
            payload_len: 16,
            max_entries_leaf: most,
            max_entries_inner: most,
            rules: rules(scenario.plant),
        };
        Boxes {
            operations: scenario.operations,
            tasks: (scenario.compute_nodes * scenario.workers * scenario.tasks) as u64,
            plant: scenario.plant,
            seed: scenario.seed,
            observer: observer.clone(),
            shared: Shared::new(("the R-tree", ACCESSES_MAX), config, observer),
            recorder: Recorder::new(observer),
            ends: RefCell::default(),
            load: load.clone(),
        }
    }
}

/// The rules of the tree, without the one that a seeded bug turns off.
fn rules(plant: Option<SeededBug>) -> RTreeRules {
    let all = RTreeRules::ALL;
    match plant {
        Some(SeededBug::SplitsUncounted) => RTreeRules { splits_count: false, ..all },
        Some(SeededBug::StopsBeforeLast) => RTreeRules { queries_read_last: false, ..all },
        Some(SeededBug::ParentsStaySmall) => RTreeRules { parents_grow: false, ..all },
        Some(SeededBug::ShrinksUnderInserts) => RTreeRules { shrinks_give_way: false, ..all },
        Some(SeededBug::LeavesNoTrace) => RTreeRules { departed_stay: false, ..all },
        _ => all,
    }
}
