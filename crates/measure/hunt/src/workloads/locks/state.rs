//! [`Locks`]: the state that the clients of one thread share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use latchwork_verbs::GlobalAddr;

use crate::scenario::{LocksLoad, Scenario, SeededBug};
use crate::workloads::lines::LineCall;
use crate::world::Observer;

/// The workload.
pub(crate) struct Locks {
    pub(super) load: LocksLoad,
    pub(super) operations: u64,
    pub(super) plant: Option<SeededBug>,
    pub(super) seed: u64,
    pub(super) observer: Rc<Observer>,
    pub(super) lines: RefCell<Vec<GlobalAddr>>,
    /// The lock owners of each line, as far as this thread knows: the number of readers, or -1 for
    /// a writer.
    pub(super) holders: RefCell<Vec<i64>>,
    pub(super) calls: RefCell<Vec<LineCall>>,
    /// Whether all workers of the cluster are on this thread. Otherwise there may be lock owners
    /// that this thread does not know.
    pub(super) alone: Cell<bool>,
}

impl Locks {
    pub(crate) fn new(scenario: &Scenario, load: &LocksLoad, observer: &Rc<Observer>) -> Locks {
        Locks {
            operations: scenario.operations,
            plant: scenario.plant,
            seed: scenario.seed,
            observer: observer.clone(),
            lines: RefCell::default(),
            holders: RefCell::new(vec![0; load.lines as usize]),
            calls: RefCell::default(),
            alone: Cell::new(true),
            load: load.clone(),
        }
    }
}
