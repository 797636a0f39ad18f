//! Lines under a node lock. Other transactions of the node can lock them, and other nodes cannot
//! get them.

use latchwork_cache::Hint;

use super::*;

/// Locks a line to write, writes to it, and turns the lock into a node lock.
#[track_caller]
fn detained(stage: &Stage, worker: usize, line: GlobalAddr, value: u64) -> Lock {
    let mut held = lock(stage, worker, line, AccessMode::Exclusive);
    stage.write(worker, line, value);
    stage.run(worker, async move |member| {
        member.memory.convert_to_node_lock(&mut held);
        held
    })
}

fn is_detained(stage: &Stage, worker: usize, line: GlobalAddr) -> bool {
    stage.run(worker, async move |member| member.memory.has_node_lock(line, &Hint::default()))
}

#[test]
fn a_line_with_a_node_lock_is_locked_for_other_nodes_only() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let first = detained(&stage, A, line, 1);
        for mode in BOTH {
            is_refused(&stage, B, line, mode);
            assert!(stage.end(looks_in(&stage, B, line, mode)).is_none());
        }
        assert!(is_detained(&stage, A, line));
        // The line is locked again, and each node lock keeps the line at the node.
        let second = detained(&stage, A, line, 2);
        let reader = lock(&stage, A, line, AccessMode::Shared);
        stage.drop_on(A, first);
        stage.drop_on(A, reader);
        is_refused(&stage, B, line, AccessMode::Shared);
        assert!(is_detained(&stage, A, line));
        assert_eq!(stage.node(A).locked_lines(), 1);
        stage.drop_on(A, second);
        assert!(!is_detained(&stage, A, line));
        assert_eq!(stage.node(A).locked_lines(), 0);
        let held = lock(&stage, B, line, AccessMode::Exclusive);
        assert_eq!(stage.read(B, line), 2);
        stage.drop_on(B, held);
        stage.finish();
    });
}

/// Nodes that wait for the line get an answer at once, and the line in the end.
#[test]
fn a_waiting_access_gets_a_line_after_its_node_lock() {
    in_every_way(2, |stage| {
        for write in [false, true] {
            let stage = stage();
            let line = stage.line();
            let held = detained(&stage, A, line, 4);
            let access = if write { stage.writes(B, line, 5) } else { stage.reads(B, line) };
            stage.pass(Duration::from_millis(5));
            assert!(!access.is_finished(), "seed {}", stage.seed);
            stage.drop_on(A, held);
            assert_eq!(stage.end(access), 4);
            stage.finish();
        }
    });
}

/// Other lines are evicted. A line under a node lock stays, and counts as locked.
#[test]
fn lines_with_node_locks_are_not_evicted_and_have_a_bound() {
    in_every_world(|seed| {
        let stage = Stage::with(1, 8, seed);
        let lines: Vec<_> = (0..40).map(|_| stage.line()).collect();
        let most = stage.node(A).cache().capacity() / 2;
        let held: Vec<_> = lines[..most].iter().map(|line| detained(&stage, A, *line, 3)).collect();
        for line in &lines {
            stage.write(A, *line, 3);
        }
        for line in &lines[..most] {
            assert_eq!(stage.owns(A, *line), Ownership::Exclusive, "seed {seed}: evicted");
        }
        let error = stage.end(locks(&stage, A, lines[most], AccessMode::Shared)).map(drop);
        let error = error.expect_err("one too many").to_string();
        assert!(error.contains("lock-share"), "seed {seed}: {error}");
        // A line that is already under a node lock is not counted twice.
        let again = lock(&stage, A, lines[0], AccessMode::Exclusive);
        stage.drop_on(A, again);
        held.into_iter().for_each(|held| stage.drop_on(A, held));
        let held = lock(&stage, A, lines[most], AccessMode::Shared);
        stage.drop_on(A, held);
        assert_eq!(stage.node(A).locked_lines(), 0);
        stage.finish();
    });
}

/// Node locks that follow one another without a gap do not keep a line forever. When other nodes
/// have been refused for some time, no transaction can lock the line before the node has released
/// it.
#[test]
fn a_line_that_other_nodes_want_is_released() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let first = detained(&stage, A, line, 1);
        let second = detained(&stage, A, line, 2);
        let mut refused = 0;
        while matches!(tries(&stage, A, line, AccessMode::Exclusive), Ok(LockOutcome::Got(_))) {
            is_refused(&stage, B, line, AccessMode::Exclusive);
            refused += 1;
            assert!(refused < 20, "seed {}: for ever", stage.seed);
        }
        assert!(refused > 2, "seed {}: at once", stage.seed);
        for mode in BOTH {
            is_refused(&stage, A, line, mode);
        }
        stage.drop_on(A, first);
        is_refused(&stage, A, line, AccessMode::Exclusive);
        stage.drop_on(A, second);
        // B may get the line first, or another node.
        let held = lock(&stage, B, line, AccessMode::Exclusive);
        assert_eq!(stage.read(B, line), 2);
        stage.drop_on(B, held);
        stage.drop_on(A, lock(&stage, A, line, AccessMode::Exclusive));
        stage.finish();
    });
}
