//! [`TreeWork`]: the state that the clients of one thread share.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_blink::Tree;
use latchwork_cluster::Worker;

use super::content::{Content, Operation};
use super::index::tree_config;
use super::recorder::Recorder;
use super::shared::Shared;
use crate::scenario::{Scenario, SeededBug, TreeLoad};
use crate::world::Observer;

/// Maximum number of waits for a line in a walk over the whole tree. This is an estimate.
pub(super) const WALK_MAX: u32 = 1_000;

/// The workload.
pub(crate) struct TreeWork {
    pub(super) load: TreeLoad,
    pub(super) operations: u64,
    pub(super) plant: Option<SeededBug>,
    pub(super) seed: u64,
    pub(super) observer: Rc<Observer>,
    pub(super) shared: Shared<Tree<Worker>>,
    pub(super) recorder: Recorder<Operation>,
    pub(super) ends: RefCell<Vec<Vec<(u64, Content)>>>,
}

impl TreeWork {
    pub(crate) fn new(scenario: &Scenario, load: &TreeLoad, observer: &Rc<Observer>) -> TreeWork {
        TreeWork {
            operations: scenario.operations,
            plant: scenario.plant,
            seed: scenario.seed,
            observer: observer.clone(),
            shared: Shared::new(("tree", WALK_MAX), tree_config(load.entries_per_page), observer),
            recorder: Recorder::new(observer),
            ends: RefCell::default(),
            load: load.clone(),
        }
    }
}
