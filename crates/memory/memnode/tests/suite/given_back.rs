//! Chunks that leaving nodes return are claimed again, once; no other chunk is.

use std::collections::BTreeSet;
use std::time::Duration;

use latchwork_memnode::{PoolError, PoolSettings};
use latchwork_verbs::{GlobalAddr, MemoryNodeId};

use crate::common::{Node, Worker, World, geometry};

const QUICK: PoolSettings = PoolSettings {
    tick_interval: Duration::from_micros(50),
    idle_after: Duration::from_micros(200),
    reuse_wait: Duration::from_millis(2),
    deadline: Duration::from_secs(1),
    stripes: 2,
};

async fn allocate(node: &Node, worker: &Worker, count: usize) -> Vec<GlobalAddr> {
    let mut lines = Vec::new();
    for _ in 0..count {
        lines.push(node.lines.allocate(&worker.port, &worker.handle).await.expect("room"));
    }
    lines
}

/// Nodes come one after the other, and each uses a few lines. If they did not return the rests,
/// each would use up a chunk for each stripe.
#[test]
fn what_a_node_leaves_of_its_chunks_the_next_ones_give_out() {
    for seed in 0..20 {
        let world = World::new(seed, &[2, 2], 2, 1);
        let pool = world.format();
        let mut all = BTreeSet::new();
        let total = pool.total_lines();
        for round in 0.. {
            let id = 1 + (round % 2) as u8;
            let (node, worker) = (world.register(id, &pool, QUICK), world.worker(id));
            let lines = world.run(&worker.clone(), async move {
                let mut lines = Vec::new();
                let count = worker.below(20);
                for _ in 0..count {
                    // Some allocations are dropped before their end, during the claim of a chunk.
                    let patience = Duration::from_nanos(match worker.below(3) {
                        0 => worker.below(4_000),
                        _ => 1_000_000_000,
                    });
                    let (handle, port) = (&worker.handle, &worker.port);
                    let one = node.lines.allocate(port, handle);
                    match handle.timeout(handle.now() + patience, one).await {
                        Ok(Ok(line)) => lines.push(line),
                        Ok(Err(PoolError::OutOfMemory { .. })) => break,
                        Ok(Err(error)) => panic!("{error}"),
                        Err(_) => {}
                    }
                }
                // Every verb of the dropped futures has ended.
                worker.handle.sleep(Duration::from_micros(100)).await;
                node.lines.give_back_rests(&worker.port).await.unwrap();
                assert_eq!(node.lines.available(), 0);
                node.epochs.unregister(&worker.port).await.unwrap();
                lines
            });
            for line in lines {
                assert!(all.insert(line), "seed {seed}: {line} was given out twice");
            }
            if all.len() as u64 == total {
                break;
            }
            assert!(round < 1_000, "seed {seed}: {} of {total} lines", all.len());
        }
    }
}

/// All of a node's chunks return, except one in which a latch word names a node.
#[test]
fn chunks_that_are_released_whole_are_used_again_unless_a_node_is_in_them() {
    let world = World::new(1, &[3, 3], 2, 1);
    let pool = world.format();
    let per_chunk = geometry().lines_per_chunk() as usize;
    let latched = |line: GlobalAddr| geometry().latch_addr(line);
    let mut kept = None;
    for round in 0..12 {
        let (node, worker) = (world.register(1, &pool, QUICK), world.worker(1));
        let (lines, given) = world.run(&worker.clone(), async move {
            let lines = allocate(&node, &worker, 4 * per_chunk + 5).await;
            if round == 3 {
                // The last line of a chunk: all words are checked.
                worker.port.write_word(latched(lines[per_chunk - 1]), 1 << 7).await.unwrap();
            }
            let given = node.lines.give_back_chunks(&worker.port).await.unwrap();
            assert_eq!(node.lines.available(), 0);
            node.epochs.unregister(&worker.port).await.unwrap();
            (lines, given)
        });
        let chunk = |line: GlobalAddr| (line.node(), geometry().chunk_index(line));
        if round == 3 {
            kept = Some(chunk(lines[per_chunk - 1]));
        } else if round > 3 {
            assert!(lines.iter().all(|line| Some(chunk(*line)) != kept), "round {round}");
        }
        assert_eq!(given, 6 - u64::from(round >= 3), "two stripes are begun");
    }
}

/// A node that found no chunk finds the chunks that others have returned since, after a call of
/// `look_again`. It does not take its own chunks for new ones.
#[test]
fn a_node_that_has_tried_all_chunks_finds_those_that_come_back() {
    let world = World::new(1, &[2], 2, 1);
    let pool = world.format();
    let (stays, goes) = (world.register(1, &pool, QUICK), world.register(2, &pool, QUICK));
    let [one, two] = [1, 2].map(|id| world.worker(id));
    let per_chunk = geometry().lines_per_chunk() as usize;
    let gone = {
        let (goes, two) = (goes.clone(), two.clone());
        world.run(&two.clone(), async move { allocate(&goes, &two, 1).await })
    };
    let finds_none = || {
        let (stays, one) = (stays.clone(), one.clone());
        let end = world
            .run(&one.clone(), async move { stays.lines.allocate(&one.port, &one.handle).await });
        assert!(matches!(end, Err(PoolError::OutOfMemory { .. })), "{end:?}");
    };
    finds_none();
    world.run(&two.clone(), async move { goes.lines.give_back_rests(&two.port).await.unwrap() });
    finds_none();
    stays.lines.look_again();
    let mut mine = {
        let (stays, one) = (stays.clone(), one.clone());
        world.run(&one.clone(), async move { allocate(&stays, &one, 2 * per_chunk - 1).await })
    };
    // Its own chunks are not new ones.
    stays.lines.look_again();
    finds_none();
    mine.extend(gone);
    let different: BTreeSet<_> = mine.iter().collect();
    assert_eq!((different.len(), mine[0].node()), (2 * per_chunk, MemoryNodeId(0)));
}
