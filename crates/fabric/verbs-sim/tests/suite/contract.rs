//! The simulated fabric keeps the contract of the verbs, in many worlds.

use latchwork_verbs_sim::{Drawn, NicProfile, SimConfig};

use crate::world::{World, profile};

fn worlds() -> impl Iterator<Item = World> {
    let drawn = (0..24).map(|seed| {
        // Some worlds have fewer freedoms, because no code may need a freedom.
        let reorder_batches = seed % 4 != 1;
        let pieces_max = if seed % 4 == 2 { 1 } else { 8 };
        let drawn = SimConfig::drawn(Drawn { reorder_batches, pieces_max, ..Drawn::default() });
        World::new(seed, SimConfig { tells_unsent: seed % 4 == 3, ..drawn })
    });
    // The times of a NIC, over one queue pair and over several.
    let nic = (24..30).map(|seed| {
        let queue_pairs = 1 + seed as u32 % 3;
        let nic = NicProfile { queue_pairs, jitter_ns: 3_000, ..profile() };
        World::new(seed, SimConfig::nic(nic))
    });
    drawn.chain(nic)
}

latchwork_verbs::contract_tests!(worlds());
