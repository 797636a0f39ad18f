//! The contract of every fabric as a test suite, with one function for each tested promise.
//!
//! A backend implements [`Harness`] in its tests and calls
//! [`contract_tests!`](crate::contract_tests). The promises are written as *scripts*. A script is
//! the async code of one worker with its own endpoint. The harness runs the scripts concurrently,
//! each on a thread of its own or in a simulated world.
//!
//! ```text
//!   promise ── scripts ──► Harness::run ──► one Running per script
//!                                           step: poll the script, ring, poll the endpoint
//! ```

mod alone;
mod atomics;
mod buffers;
mod chip;
mod ends;
mod errors;
mod order;
pub mod parking;
mod pressure;
mod script;
mod threads;

use std::sync::Arc;

pub use alone::alone;
pub use atomics::{
    an_unlock_by_write_is_never_lost, atomics_lose_nothing,
    cas_excludes_and_what_it_protects_is_consistent,
};
pub use buffers::{
    a_batch_completes_once_with_its_own_token, a_completion_gives_the_buffers_back,
    a_read_whose_condition_holds_is_done, words_are_never_torn,
};
pub use chip::requests_reach_the_range_that_they_address;
pub use ends::{
    a_dropped_endpoint_takes_back_what_was_not_rung, a_memory_node_that_vanishes_fails_its_batches,
};
pub use errors::{a_bad_batch_is_refused_and_does_nothing, a_disconnected_node_fails_its_batches};
pub use order::{
    a_completed_verb_is_seen_by_later_ones, an_effect_comes_before_a_read_behind_it,
    write_comes_before_atomic_and_atomic_before_read, write_comes_before_message,
    write_comes_before_polled_word, write_comes_before_write, write_comes_before_write_on_chip,
};
pub use pressure::{full_inboxes_push_back, full_send_queues_push_back};
pub use script::{Running, Script, Worker};
pub use threads::run_on_threads;

use crate::address::{ComputeNodeId, LocalBuffer, MemoryNodeId, RegionKey, Target};
use crate::extent::Extent;
use crate::region::Region;

/// The number of memory nodes of a harness's cluster, with ids from 0.
pub const MEMORY_NODES: u16 = 2;

/// The bytes of each memory node.
pub const MEMORY_BYTES: usize = 64 << 10;

/// The bytes of on-chip memory of memory node 0, where the fabric has any. The other memory nodes
/// have none.
pub const CHIP_BYTES: usize = 4 << 10;

/// The lengths of the memory of memory node `id`.
pub fn memory_extent(id: u16) -> Extent {
    let chip_bytes = if id == 0 { CHIP_BYTES as u64 } else { 0 };
    Extent { bytes: MEMORY_BYTES as u64, chip_bytes }
}

/// The number of compute nodes of a harness's cluster, with ids from 1.
pub const COMPUTE_NODES: u8 = 3;

/// The bytes of the region that each compute node has registered, with key 0.
pub const REGION_BYTES: usize = 64 << 10;

/// The inbox capacity, in messages, of each compute node of a harness's cluster. The capacity is
/// small, so that tests meet full inboxes. One test depends on the exact number.
pub const INBOX_CAPACITY: usize = 8;

/// A cluster on the backend under test: [`MEMORY_NODES`] memory nodes, and [`COMPUTE_NODES`]
/// compute nodes with one region each. Each promise gets a fresh cluster.
pub trait Harness {
    /// Runs all scripts concurrently, each on a new endpoint of its node, until all scripts have
    /// ended.
    ///
    /// # Panics
    /// When a script panics, or when a script does not end within the time limit of the harness.
    fn run(&self, scripts: Vec<Script>);

    /// The memory of a memory node.
    fn memory(&self, node: MemoryNodeId) -> Arc<Region>;

    /// The region that `node` registered with key 0.
    fn region(&self, node: ComputeNodeId) -> Arc<Region>;

    /// Whether memory node 0 has [`CHIP_BYTES`] of on-chip memory. If not, the promises on it are
    /// not tested, because not every RDMA device has such memory.
    fn has_chip(&self) -> bool {
        true
    }

    /// The number of rounds of a test. A long test runs fewer rounds.
    fn rounds(&self) -> u64;
}

/// Tests a backend with one test per promise. `$harnesses` is an expression for an iterator over
/// fresh [`Harness`]es, for instance one per seed. Every promise is tested on each harness.
#[macro_export]
macro_rules! contract_tests {
    ($harnesses:expr) => {
        $crate::contract_tests! { @ $harnesses =>
            write_comes_before_write
            write_comes_before_write_on_chip
            write_comes_before_atomic_and_atomic_before_read
            write_comes_before_message
            write_comes_before_polled_word
            an_effect_comes_before_a_read_behind_it
            a_completed_verb_is_seen_by_later_ones
            atomics_lose_nothing
            cas_excludes_and_what_it_protects_is_consistent
            an_unlock_by_write_is_never_lost
            requests_reach_the_range_that_they_address
            words_are_never_torn
            a_completion_gives_the_buffers_back
            a_read_whose_condition_holds_is_done
            a_batch_completes_once_with_its_own_token
            a_bad_batch_is_refused_and_does_nothing
            a_disconnected_node_fails_its_batches
            a_memory_node_that_vanishes_fails_its_batches
            a_dropped_endpoint_takes_back_what_was_not_rung
            full_send_queues_push_back
            full_inboxes_push_back
        }
    };
    (@ $harnesses:expr => $($promise:ident)*) => {$(
        #[test]
        fn $promise() {
            for harness in $harnesses {
                $crate::contract::$promise(&harness);
            }
        }
    )*};
}

/// The compute node with this id, 1 to [`COMPUTE_NODES`].
fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).expect("a small id")
}

const MEMORY: Target = Target::Memory(MemoryNodeId(0));

fn local(offset: usize, len: usize) -> LocalBuffer {
    LocalBuffer { region: RegionKey(0), offset: offset as u64, len: len as u32 }
}

/// The target for the region of compute node `id`.
fn compute(id: u8) -> Target {
    Target::Compute(node(id), 0)
}
