//! Evictions in batches ahead of need, or of one line when an access needs a frame.

use latchwork_coherence::CoherentMemory;
use latchwork_engine::Counters;
use latchwork_verbs::GlobalAddr;

use crate::common::small;
use crate::scenarios::stage::*;

const FRAMES: usize = 64;
const LINES: usize = 2 * FRAMES;
const ROUNDS: u64 = 3;

/// The counters and the doorbells of one task that reads lines of both memory nodes in turn. Each
/// line was evicted before.
fn churn(seed: u64, batch: usize, ring: usize) -> (Counters, u64) {
    let mut config = small(1, 1, FRAMES, seed);
    config.node.evict_batch = batch;
    config.node.write_back_ring = ring;
    // A quarter of the frames is kept free, so that a batch has several lines even in this small
    // cache.
    config.node.evict_share = 4;
    let stage = Stage::on(config);
    let lines = stage.run(A, async move |member| {
        let mut lines: Vec<GlobalAddr> = Vec::new();
        for _ in 0..LINES {
            let line = member.memory.allocate().await.expect("a pool with room");
            member.memory.write(line, |guard| fill(guard, 0)).await.expect("a line");
            lines.push(line);
        }
        lines
    });
    let nodes = lines.chunk_by(|a, b| a.node() == b.node()).count();
    assert!(nodes > 1, "the lines are on both memory nodes");
    let (before, rung) = (stage.cluster.counters(), stage.sim().doorbells());
    stage.run(A, async move |member| {
        for round in 0..ROUNDS {
            for line in &lines {
                let old = member.memory.write(*line, |guard| {
                    let old = value(guard.words());
                    fill(guard, round + 1);
                    old
                });
                assert_eq!(old.await.expect("a line"), round);
            }
        }
    });
    let (after, rung) = (stage.cluster.counters() - before, stage.sim().doorbells() - rung);
    stage.finish();
    (after, rung)
}

/// Many lines are evicted ahead of need: no access waits for a frame, and a batch takes one
/// doorbell.
#[test]
fn victims_leave_in_batches_before_their_frames_are_needed() {
    in_every_world(|seed| {
        let (counters, doorbells) = churn(seed, 32, 32);
        let (misses, evicted) = (counters.cache_misses, counters.evictions_for_room);
        assert!(misses > ROUNDS * LINES as u64 / 2, "seed {seed}: {misses} misses");
        assert!(evicted >= misses - FRAMES as u64, "seed {seed}: {evicted} evicted");
        assert!(counters.eviction_batches * 3 < evicted, "seed {seed}: {counters:?}");
        assert_eq!(counters.frame_waits, 0, "seed {seed}");
        // There is at most one doorbell for each miss, and one for each batch.
        assert!(doorbells <= misses + counters.eviction_batches, "seed {seed}: {doorbells}");
    });
}

/// The baseline of SELCC 7.2.3. A miss that finds no free frame evicts one line and waits for the
/// line's frame. The release has its own doorbell.
#[test]
fn one_at_a_time_a_line_leaves_when_its_frame_is_needed() {
    in_every_world(|seed| {
        for ring in [0, 32] {
            let (counters, doorbells) = churn(seed, 1, ring);
            let (misses, evicted) = (counters.cache_misses, counters.evictions_for_room);
            assert_eq!(evicted, misses, "seed {seed}: a frame each");
            assert_eq!(counters.eviction_batches, evicted, "seed {seed}: each alone");
            assert_eq!(counters.frame_waits, misses, "seed {seed}: each waits");
            assert_eq!(doorbells, misses + evicted, "seed {seed}: none is shared");
        }
    });
}

/// Also in a batch, the frame of a dirty line is free at once only if a write-back slot takes its
/// changes.
#[test]
fn what_is_evicted_in_batches_is_copied_as_far_as_there_is_room() {
    in_every_world(|seed| {
        let copied = |ring| {
            let (counters, _) = churn(seed, 32, ring);
            let dirty = counters.write_backs_copied + counters.write_backs_in_frame;
            assert_eq!(dirty, counters.evictions, "seed {seed}: all were written");
            counters.write_backs_copied as f64 / dirty as f64
        };
        assert_eq!((copied(0), copied(32)), (0.0, 1.0), "seed {seed}");
        let some = copied(2);
        assert!(0.0 < some && some < 1.0, "seed {seed}: {some}");
    });
}
