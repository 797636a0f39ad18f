//! The simulated fabric keeps the contract of the verbs, in many worlds.

mod world;

use world::World;

fn worlds() -> impl Iterator<Item = World> {
    (0..24).map(World::new)
}

latchwork_verbs::contract_tests!(worlds());
