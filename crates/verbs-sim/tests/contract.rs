//! The simulated fabric keeps the contract of the verbs, in many worlds.

mod world;

use latchwork_verbs_sim::{Drawn, SimConfig};
use world::World;

fn worlds() -> impl Iterator<Item = World> {
    (0..24).map(|seed| {
        // Some worlds use fewer freedoms; nothing must need them.
        let reorder_batches = seed % 4 != 1;
        let pieces_max = if seed % 4 == 2 { 1 } else { 8 };
        World::new(
            seed,
            SimConfig::drawn(Drawn { reorder_batches, pieces_max, ..Drawn::default() }),
        )
    })
}

latchwork_verbs::contract_tests!(worlds());
