//! The memory that a tree takes for its entries.

use latchwork_coherence::testing::{LocalMemory, LocalNode, Settings, executor};
use latchwork_rtree::{RTree, RTreeConfig, Rect};

use crate::common::Random;

/// Bytes of all pages for each byte of the entries: boxes, ids and payloads.
fn overhead<const D: usize>(line_size: usize, payload_len: usize) -> f64 {
    const COUNT: u64 = 40_000;
    let mut executor = executor(5);
    let settings = Settings { line_size, frames: 1 << 14, ..Settings::CALM };
    let memory = LocalNode::new(settings).worker(executor.handle());
    executor.block_on(async move {
        let config = RTreeConfig { payload_len, ..RTreeConfig::DEFAULT };
        let tree = RTree::<LocalMemory, D>::create(memory, config).await.expect("room");
        let mut random = Random::new(5);
        for id in 0..COUNT {
            let rect: Rect<D> = random.rect(1 << 30, 1 << 10);
            tree.insert(&rect, id, &vec![1; payload_len]).await.expect("room");
        }
        let statistics = tree.validate().await.expect("whole");
        let entry = 16 * D + 8 + payload_len;
        (statistics.pages() as usize * line_size) as f64 / (COUNT as usize * entry) as f64
    })
}

/// Pages are full to two thirds after random inserts. The bounds are 1.6 for long lines. In short
/// lines, the headers and the levels above the leaves take more.
#[test]
fn random_inserts_take_few_bytes_beyond_those_of_the_entries() {
    for (line_size, payload_len, most) in
        [(1024, 0, 1.9), (2048, 0, 1.7), (4096, 0, 1.6), (4096, 24, 1.6)]
    {
        let two = overhead::<2>(line_size, payload_len);
        let three = overhead::<3>(line_size, payload_len);
        println!("lines of {line_size}, payloads of {payload_len}: {two:.3} and {three:.3}");
        assert!(two <= most && three <= most, "{two} and {three} with lines of {line_size}");
    }
}
