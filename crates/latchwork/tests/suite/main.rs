//! The tests of `latchwork`, as one program.

mod boxes;
mod databases;
mod examples;
mod guide;
#[cfg(feature = "processes")]
mod processes;
mod sentences;
mod trees;

use latchwork::{ClusterConfig, Result};

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

/// Checks what a `main` that returns the error prints: a sentence that has the parts in `with`.
#[track_caller]
fn ends_with<T>(ended: Result<T>, with: &[&str]) {
    let error = ended.map(drop).expect_err("it cannot succeed");
    let told = format!("{error:?}");
    assert_eq!(told, error.to_string());
    assert!(!told.contains(['{', '}']), "not a sentence: {told}");
    for part in with {
        assert!(told.contains(part), "{part:?} is not in: {told}");
    }
}
