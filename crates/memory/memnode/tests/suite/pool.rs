//! Formatting and joining a pool, and the cases that are refused.

use latchwork_memnode::{Geometry, Pool, PoolError};
use latchwork_verbs::{GlobalAddr, MemoryNodeId};

use crate::common::{CHUNK, LINE, World, geometry};

#[test]
fn a_joining_node_finds_what_was_formatted() {
    for seed in 0..20 {
        let world = World::new(seed, &[3, 1, 7], 2, 1);
        let made = world.format();
        let worker = world.worker(2);
        let found =
            world.run(&worker.clone(), async move { Pool::join(&worker.port).await.unwrap() });
        for pool in [made, found] {
            assert_eq!((pool.id(), pool.geometry(), pool.memory_nodes()), (99, geometry(), 3));
            let chunks = [0, 1, 2, 3].map(|node| pool.chunks(MemoryNodeId(node)));
            assert_eq!(
                (chunks, pool.total_chunks(), pool.total_lines()),
                ([3, 1, 7, 0], 11, 11 * 126)
            );
        }
    }
}

#[test]
fn only_lines_of_the_pools_chunks_are_lines() {
    let world = World::new(1, &[2, 1], 1, 1);
    let pool = world.format();
    let at = |node, offset| pool.check_line(GlobalAddr::new(MemoryNodeId(node), offset)).is_ok();
    let first = u64::from(LINE) * 2;
    assert!(at(0, CHUNK + first) && at(0, 2 * CHUNK + first) && at(1, CHUNK + first));
    assert!(!at(0, CHUNK) && !at(0, CHUNK + first + 8) && !at(0, first) && !at(0, 0));
    assert!(!at(0, 3 * CHUNK + first), "beyond the last chunk");
    assert!(!at(1, 2 * CHUNK + first), "beyond the last chunk");
    assert!(!at(2, CHUNK + first), "no such memory node");
}

#[test]
fn a_pool_is_formatted_once_even_by_two_nodes_at_a_time() {
    for seed in 0..50 {
        let world = World::new(seed, &[2, 2], 2, 1);
        let tasks = [1, 2].map(|id| {
            let (worker, memory) = (world.worker(id), world.memory.clone());
            world.worker(id).handle.spawn(async move {
                Pool::format(&worker.port, &memory, geometry(), 5).await.map(|pool| pool.id())
            })
        });
        let results = world.run_all(Vec::from(tasks));
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1, "{results:?}");
        assert!(results.iter().any(|r| matches!(r, Err(PoolError::AlreadyFormatted { .. }))));
        let (worker, memory) = (world.worker(1), world.memory.clone());
        let again = world.run(&worker.clone(), async move {
            Pool::format(&worker.port, &memory, geometry(), 6).await.map(drop)
        });
        assert!(matches!(again, Err(PoolError::AlreadyFormatted { .. })));
    }
}

#[test]
fn what_is_no_pool_is_refused_with_the_reason() {
    let world = World::new(1, &[2, 2], 1, 1);
    let join = || {
        let worker = world.worker(1);
        world.run(&world.worker(1), async move { Pool::join(&worker.port).await.map(drop) })
    };
    assert_eq!(join(), Err(PoolError::NotFormatted { node: MemoryNodeId(0), found: 0 }));
    world.format();
    assert_eq!(join(), Ok(()));
    // Each word of memory node 1's superblock in turn.
    let memory = world.fabric.memory(MemoryNodeId(1)).unwrap();
    let refused = |word: usize, value| {
        let before = memory.words().word(word);
        memory.words().set_word(word, value);
        let error = join().unwrap_err();
        memory.words().set_word(word, before);
        error.to_string()
    };
    assert!(refused(0, 17).contains("holds no pool"));
    assert!(refused(1, 1).contains("format 1, this program understands 2"));
    assert!(refused(2, 98).contains("its pool id is 98, that of memory node 0 is 99"));
    assert!(refused(3, 2 * CHUNK).contains("its chunk size is 131072"));
    assert!(refused(4, 1024).contains("its line size is 1024"));
    assert!(refused(5, u64::MAX).contains("superblock at M1+0x0 is damaged"));
    assert!(refused(6, 0).contains("its number is 0"));
    assert!(refused(7, 9).contains("its number of memory nodes is 9"));
    assert_eq!(join(), Ok(()));
}

#[test]
fn impossible_memory_nodes_are_refused_before_anything_is_written() {
    let world = World::new(1, &[2], 1, 1);
    let format = |nodes: Vec<(MemoryNodeId, u64)>, geometry: Geometry| {
        let worker = world.worker(1);
        world.run(&world.worker(1), async move {
            Pool::format(&worker.port, &nodes, geometry, 1).await.map(drop).unwrap_err().to_string()
        })
    };
    let [zero, one] = [MemoryNodeId(0), MemoryNodeId(1)];
    assert!(format(vec![], geometry()).contains("numbered from 0"));
    assert!(format(vec![(one, 1 << 20)], geometry()).contains("numbered from 0"));
    assert!(format(vec![(zero, 1 << 20), (zero, 1 << 20)], geometry()).contains("numbered from 0"));
    let small = format(vec![(zero, 2 * CHUNK - 1)], geometry());
    assert!(small.contains("needs at least 131072: give it more memory or use smaller chunks"));
    let large = format(vec![(zero, 1 << 40)], geometry());
    assert!(large.contains("can cover only 268500992: use larger chunks"), "{large}");
    assert_eq!(world.word(0), 0);
    // A memory node that the fabric does not have is an error of the fabric.
    assert!(
        format(vec![(zero, 1 << 20), (one, 1 << 20)], geometry()).contains("the fabric failed")
    );
}
