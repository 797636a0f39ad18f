//! [`Lines`]: the state that the clients of one thread share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use latchwork_verbs::GlobalAddr;
use latchwork_workload::distribution::{YCSB_THETA, Zipfian};

use super::call::LineCall;
use crate::checks::counter::Addition;
use crate::scenario::{LinesLoad, Scenario, SeededBug};
use crate::world::Observer;

/// Maximum number of waits for a line in one operation. This is an estimate.
pub(super) const ACCESSES_MAX: u32 = 4;

/// The workload.
pub(crate) struct Lines {
    pub(super) load: LinesLoad,
    pub(super) operations: u64,
    pub(super) plant: Option<SeededBug>,
    pub(super) seed: u64,
    pub(super) connections_fail: bool,
    pub(super) observer: Rc<Observer>,
    pub(super) zipfian: Option<Zipfian>,
    pub(super) lines: RefCell<Vec<GlobalAddr>>,
    pub(super) calls: RefCell<Vec<LineCall>>,
    /// The line of the counter, which only global atomics use.
    pub(super) counter: Cell<GlobalAddr>,
    pub(super) additions: RefCell<Vec<Addition>>,
    pub(super) counted: Cell<Option<u64>>,
}

impl Lines {
    pub(crate) fn new(scenario: &Scenario, load: &LinesLoad, observer: &Rc<Observer>) -> Lines {
        Lines {
            operations: scenario.operations,
            plant: scenario.plant,
            seed: scenario.seed,
            connections_fail: scenario.faults.fail_one_in > 0,
            observer: observer.clone(),
            zipfian: load.zipfian.then(|| Zipfian::new(load.lines, YCSB_THETA).ok()).flatten(),
            lines: RefCell::default(),
            calls: RefCell::default(),
            counter: Cell::new(GlobalAddr::NULL),
            additions: RefCell::default(),
            counted: Cell::new(None),
            load: load.clone(),
        }
    }
}
