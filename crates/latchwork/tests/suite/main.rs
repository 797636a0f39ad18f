//! The tests of `latchwork`, as one program.

mod boxes;
mod databases;
mod examples;
mod guide;
#[cfg(feature = "processes")]
mod processes;
mod sentences;
mod trees;

use latchwork::ClusterConfig;

fn config(compute_nodes: usize, workers: usize, seed: u64) -> ClusterConfig {
    ClusterConfig {
        compute_nodes,
        workers,
        memory_bytes: 16 << 20,
        cache_frames: Some(400),
        line_size: 1024,
        chunk_size: 64 << 10,
        seed,
        ..ClusterConfig::default()
    }
}
