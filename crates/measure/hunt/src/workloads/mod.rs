//! The workloads, which run in a world or on threads.
//!
//! ```text
//!   world, threads ── Phase ──► Load ──► Client: draw, apply; draw, apply; ..
//!                                            └──► record ──► judge
//! ```
//!
//! Each workload implements [`Work`](client::Work), and all use one [`Client`](client::Client).

mod buffered;
mod client;
mod indexes;
mod lines;
pub(crate) mod load;
mod locks;
mod memory;
mod rtree;
mod tree;
mod txn;
mod ycsb;

use std::rc::Rc;

use latchwork_blink::Tree;
use latchwork_cluster::Worker;

use crate::scenario::{Scenario, TreeIndex, Workload};
use crate::world::Observer;
use client::Shared;
use load::Load;

/// Makes the workload of a scenario.
///
/// # Errors
/// The mistake in the scenario.
pub(crate) fn load(scenario: &Scenario, observer: &Rc<Observer>) -> Result<Rc<dyn Load>, String> {
    let of = scenario;
    Ok(match &scenario.workload {
        Workload::Lines(load) => Shared::load(lines::Lines::new(load), of, observer),
        Workload::Buffered(load) => Shared::load(buffered::Buffered::new(of, load), of, observer),
        Workload::Locks(load) => Shared::load(locks::Locks::new(load), of, observer),
        Workload::Tree(load) if load.index == TreeIndex::Blink => {
            Shared::load(tree::TreeWork::<Tree<Worker>>::new(load, 0), of, observer)
        }
        Workload::Tree(load) => {
            Shared::load(tree::TreeWork::<latchwork_sherman::Tree>::new(load, 0), of, observer)
        }
        Workload::Queue(load) => {
            let work = tree::TreeWork::<Tree<Worker>>::new(&load.tree(), load.queues);
            Shared::load(work, of, observer)
        }
        Workload::Rtree(load) => Shared::load(rtree::Boxes::new(of, load), of, observer),
        Workload::Txn(load) => Shared::load(txn::Txn::new(of, load), of, observer),
        Workload::Memory(load) => Shared::load(memory::Memory::new(load), of, observer),
        Workload::Ycsb(load) => Shared::load(ycsb::Ycsb::<Tree<Worker>>::new(load)?, of, observer),
    })
}
