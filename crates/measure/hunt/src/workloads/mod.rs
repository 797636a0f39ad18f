//! The workloads, which run in a world or on threads.

pub(crate) mod buffered;
pub(crate) mod lines;
pub(crate) mod load;
pub(crate) mod locks;
pub(crate) mod memory;
mod named;
pub(crate) mod record;
pub(crate) mod rtree;
pub(crate) mod tree;
pub(crate) mod ycsb;

use std::rc::Rc;

use crate::scenario::{Scenario, Workload};
use crate::world::Observer;
use load::Load;

/// Makes the workload of a scenario.
///
/// # Errors
/// The mistake in the scenario.
pub(crate) fn load(scenario: &Scenario, observer: &Rc<Observer>) -> Result<Rc<dyn Load>, String> {
    Ok(match &scenario.workload {
        Workload::Lines(load) => Rc::new(lines::Lines::new(scenario, load, observer)),
        Workload::Buffered(load) => Rc::new(buffered::Buffered::new(scenario, load, observer)),
        Workload::Locks(load) => Rc::new(locks::Locks::new(scenario, load, observer)),
        Workload::Tree(load) => Rc::new(tree::TreeWork::new(scenario, load, observer)),
        Workload::Rtree(load) => Rc::new(rtree::Boxes::new(scenario, load, observer)),
        Workload::Memory(load) => Rc::new(memory::Memory::new(scenario, load, observer)),
        Workload::Ycsb(load) => Rc::new(ycsb::Ycsb::new(scenario, load, observer)?),
    })
}
