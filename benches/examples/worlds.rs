//! One long run of a simulated world: verbs, events and operations per second of real time, and the
//! highest memory use.
//!
//! ```text
//! cargo run --release -p latchwork-benches --example worlds -- lines
//! cargo run --release -p latchwork-benches --example worlds -- tree --operations 2000 --runs 5
//! cargo run --release -p latchwork-benches --example worlds -- large
//! ```

use clap::{Parser, ValueEnum};
use latchwork_benches::worlds::{BenchWorld, Shape, peak_memory};
use latchwork_verbs_sim::SimConfig;

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    /// Reads and writes of single lines, payloads elided.
    Lines,
    /// Lookups and updates in a B-link tree.
    Tree,
    /// Single lines on 16 nodes of 16 workers with 8 memory nodes.
    Large,
}

#[derive(Clone, Copy, ValueEnum)]
enum Network {
    /// The times of a ConnectX-5.
    Nic,
    /// Times that the seed draws, little reordering.
    Calm,
    /// Times that the seed draws, everything overtakes everything.
    Rough,
}

/// How fast worlds are simulated.
#[derive(Parser)]
struct Arguments {
    /// The world.
    #[arg(value_enum, default_value = "lines")]
    world: Which,
    /// Operations of each task in each run.
    #[arg(long, default_value_t = 5_000)]
    operations: u64,
    /// Runs, one after the other in one world; the first one fills the caches.
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Seed of the world.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The network.
    #[arg(long, value_enum, default_value = "nic")]
    network: Network,
}

fn main() {
    let arguments = Arguments::parse();
    let mut shape = match arguments.world {
        Which::Lines => Shape::lines(),
        Which::Tree => Shape::tree(),
        Which::Large => Shape::large(),
    };
    shape.seed = arguments.seed;
    let network = match arguments.network {
        Network::Nic => shape.network.clone(),
        Network::Calm => SimConfig::default(),
        Network::Rough => SimConfig::rough(),
    };
    shape.network = SimConfig { payload_max: shape.network.payload_max, ..network };
    let world = BenchWorld::new(shape);
    for _ in 0..arguments.runs {
        println!("{}", world.run(arguments.operations));
    }
    match peak_memory() {
        Some(bytes) => println!("peak memory {} MiB", bytes >> 20),
        None => println!("peak memory unknown: no /proc here"),
    }
}
