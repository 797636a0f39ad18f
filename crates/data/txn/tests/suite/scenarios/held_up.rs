//! Transactions whose end fails because of memory: the results of their callers, and the health of
//! the node.

use std::time::Duration;

use latchwork_txn::Scheme;

use crate::scenarios::stage::{Part, Stage, row};

const A: usize = 0;
const B: usize = 1;
const PASS: Duration = Duration::from_millis(50);

#[test]
fn a_commit_whose_memory_fails_behind_the_decision_has_committed_and_is_held_up() {
    for scheme in [Scheme::TwoPhaseLocking, Scheme::Optimistic] {
        let stage = Stage::new(scheme, 2);
        stage.run(B, async |tx, table| tx.insert(table, &1_u32.to_be_bytes(), &row(101, 0)).await);
        let (commits, locked) = stage.commit_and_wait((B, A), 3, async |tx, table| {
            tx.update(table, &1_u32.to_be_bytes(), &row(101, 7)).await
        });
        assert!(stage.health(B).is_good(), "{scheme}");
        // The lease of the node ends, so the node must not touch memory any more.
        stage.cluster.lapse(B);
        stage.unlock(A, locked);
        let cts = stage.end(commits);
        assert!(cts.is_ok(), "{scheme}: it has committed: {cts:?}");
        stage.pass(PASS);
        let health = stage.health(B);
        assert_eq!((health.held_up, health.left_locked), (1, 0), "{scheme}: {health}");
        assert!(health.retries > 0 && health.cause.is_some(), "{scheme}: {health}");
        // The worker ends before the transaction.
        let health = stage.abandon(B);
        assert_eq!((health.held_up, health.left_locked), (0, 1), "{scheme}: {health}");
    }
}

#[test]
fn an_abort_whose_memory_fails_is_held_up_and_given_up_when_its_worker_ends() {
    for scheme in Scheme::ALL {
        let stage = Stage::new(scheme, 2);
        stage.run(B, async |tx, table| tx.insert(table, &8_u32.to_be_bytes(), &row(108, 0)).await);
        let prepared = stage.on(B, async |part: Part| {
            let mut tx = part.database.begin().await.expect("memory is in order");
            let put = tx.insert(&part.table, &9_u32.to_be_bytes(), &row(109, 0)).await;
            put.expect("it is not there");
            tx.prepare().await.expect("nobody is in the way")
        });
        // The added row is in the line of the row before it. Node `A` takes that line.
        let _locked = stage.lock(A, false, 8);
        stage.cluster.lapse(B);
        drop(prepared);
        stage.pass(PASS);
        let health = stage.health(B);
        assert_eq!((health.held_up, health.given_up), (1, 0), "{scheme}: {health}");
        let health = stage.abandon(B);
        assert_eq!((health.held_up, health.given_up), (0, 1), "{scheme}: {health}");
        assert!(health.cause.is_some(), "{scheme}: {health}");
    }
}
