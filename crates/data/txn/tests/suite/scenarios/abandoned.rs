//! A node dies in the middle of a commit, with rows that it has placed and not published. Other
//! nodes have met these rows before, so the recovery takes nothing back of them.

use std::ops::ControlFlow;
use std::time::Duration;

use latchwork_coherence::CoherentMemory;
use latchwork_txn::{Conflict, Prepared, Range, Scheme, TxnError};

use crate::scenarios::stage::{Part, Stage, row};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

fn key(of: u32) -> [u8; 4] {
    of.to_be_bytes()
}

/// A row whose transaction of `B` is prepared: it is pending, and entries of both indexes lead
/// there.
fn prepared(stage: &Stage, number: u32, code: u32) -> Prepared<latchwork_cluster::Worker> {
    stage.on(B, async move |part: Part| {
        let mut tx = part.database.begin().await.expect("memory is in order");
        tx.insert(&part.table, &key(number), &row(code, 0)).await.expect("it is not there");
        tx.prepare().await.expect("nobody is in the way")
    })
}

/// One attempt of a node to find the row.
fn finds(stage: &Stage, node: usize, number: u32) -> Result<bool, Conflict> {
    let found = stage.on(node, async move |part: Part| {
        let mut tx = part.database.begin().await?;
        let found = tx.get(&part.table, &key(number), &mut Vec::new()).await?;
        tx.commit().await.map(|_| found)
    });
    found.map_err(conflict)
}

/// One attempt of a node to add the row.
fn adds(stage: &Stage, node: usize, number: u32, code: u32) -> Result<(), Conflict> {
    let added = stage.on(node, async move |part: Part| {
        let mut tx = part.database.begin().await?;
        tx.insert(&part.table, &key(number), &row(code, 1)).await?;
        tx.commit().await.map(drop)
    });
    added.map_err(conflict)
}

fn conflict(error: TxnError) -> Conflict {
    error.conflict().unwrap_or_else(|| panic!("{error}"))
}

fn scans(stage: &Stage, node: usize) -> Vec<Vec<u8>> {
    stage.on(node, async move |part: Part| {
        let mut keys = Vec::new();
        let scanned = part.database.run(async |tx| {
            keys.clear();
            let visit = |key: &[u8], _: &[u8]| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            };
            tx.scan(&part.table, Range::all(), visit).await
        });
        scanned.await.expect("nobody is in the way");
        keys
    })
}

/// `B` has a pending row 1 with the code 101, beside row 0. `A` and `C` meet it. Then `B` dies.
fn abandoned(scheme: Scheme) -> Stage {
    let stage = Stage::surviving(scheme, 3);
    stage.run(B, async |tx, table| tx.insert(table, &key(0), &row(100, 0)).await);
    let dies = prepared(&stage, 1, 101);
    for node in [A, C] {
        let met = finds(&stage, node, 1);
        assert_eq!(met, Err(Conflict::Locked), "{scheme}");
    }
    stage.kill_and_recover(B);
    // The task of the dead node that would take the transaction back does not run.
    drop(dies);
    stage
}

#[test]
fn a_pending_row_of_a_node_that_has_ended_is_no_conflict() {
    for scheme in Scheme::ALL {
        let stage = abandoned(scheme);
        assert_eq!(finds(&stage, A, 1), Ok(false), "{scheme}");
        assert_eq!(adds(&stage, C, 1, 101), Ok(()), "{scheme}: with the same code");
        assert_eq!(finds(&stage, A, 1), Ok(true), "{scheme}");
        stage.finish();

        let stage = abandoned(scheme);
        assert_eq!(scans(&stage, C), [key(0)], "{scheme}");
        assert_eq!((stage.count(A, 101), stage.count(C, 101)), (0, 0), "{scheme}");
        assert_eq!(adds(&stage, A, 2, 101), Ok(()), "{scheme}: another row with its code");
        stage.finish();

        // The unique index leads to the row first.
        for looks in [false, true] {
            let stage = abandoned(scheme);
            if looks {
                assert_eq!(stage.count(A, 101), 0, "{scheme}");
            }
            assert_eq!(adds(&stage, A, 2, 101), Ok(()), "{scheme}");
            assert_eq!(adds(&stage, C, 1, 102), Ok(()), "{scheme}");
            assert_eq!(scans(&stage, A), [key(0), key(1), key(2)], "{scheme}");
            assert_eq!((stage.count(A, 101), stage.count(C, 102)), (1, 1), "{scheme}");
            stage.finish();
        }
    }
}

#[test]
fn two_nodes_erase_a_row_at_the_same_time() {
    for scheme in Scheme::ALL {
        let stage = abandoned(scheme);
        let add = |node: usize| {
            stage.start(node, async move |part: Part| {
                let added = part.database.run(async |tx| {
                    tx.insert(&part.table, &key(1), &row(200 + node as u32, 0)).await
                });
                added.await
            })
        };
        let ends = [add(A), add(C)].map(|task| stage.end(task));
        let added = ends.iter().filter(|end| end.is_ok()).count();
        let refused = ends.iter().filter(|end| matches!(end, Err(TxnError::Exists))).count();
        assert_eq!((added, refused), (1, 1), "{scheme}: {ends:?}");
        assert_eq!(scans(&stage, C), [key(0), key(1)], "{scheme}");
        let codes = [A, C].map(|node| stage.count(A, 200 + node as u32));
        assert_eq!(codes.iter().sum::<usize>(), 1, "{scheme}: {codes:?}");
        stage.finish();
    }
}

/// The transaction has installed row 1, which others have seen. It has published row 2, which no
/// other node has seen, in a line that it has formatted. It waits to publish a third row.
#[test]
fn rows_of_one_transaction_come_back_each_by_itself() {
    for scheme in Scheme::ALL {
        let stage = Stage::surviving(scheme, 3);
        stage.run(A, async |tx, table| tx.insert(table, &key(1), &row(101, 0)).await);
        let (commits, locked) = stage.commit_and_wait((B, A), 3, async |tx, table| {
            tx.update(table, &key(1), &row(101, 7)).await?;
            tx.insert(table, &key(2), &row(102, 7)).await
        });
        let reads = async |part: Part| {
            let mut value = Vec::new();
            let read = part.database.run(async |tx| {
                value.clear();
                tx.get(&part.table, &key(1), &mut value).await
            });
            read.await.expect("nobody is in the way");
            value
        };
        assert_eq!(stage.on(C, reads), row(101, 7), "{scheme}");
        stage.kill_and_recover(B);
        drop(commits);
        stage.unlock(A, locked);
        assert_eq!(stage.on(A, reads), row(101, 7), "{scheme}");
        assert_eq!(finds(&stage, A, 2), Ok(false), "{scheme}");
        assert_eq!(adds(&stage, C, 2, 102), Ok(()), "{scheme}");
        stage.finish();
    }
}

/// Before the recovery has ended, and where there is none, the row is a conflict.
#[test]
fn a_pending_row_of_a_node_that_may_return_is_a_conflict() {
    for scheme in Scheme::ALL {
        let stage = Stage::surviving(scheme, 3);
        let pending = prepared(&stage, 1, 101);
        assert!(finds(&stage, A, 1).is_err(), "{scheme}");
        // Another node has ended.
        stage.kill_and_recover(C);
        assert!(finds(&stage, A, 1).is_err(), "{scheme}");
        stage.on(B, async move |_| pending.abort().await);
        assert_eq!(finds(&stage, A, 1), Ok(false), "{scheme}");
        stage.finish();
    }
}

/// The node has two places in the queue of aged transactions. Others have seen the queue, so it
/// stays as it is.
#[test]
fn no_transaction_waits_for_an_aged_one_of_a_node_that_has_ended() {
    for scheme in Scheme::ALL {
        let stage = Stage::surviving(scheme, 3);
        let aged = stage.on(B, async move |part: Part| {
            let mut aged = [part.database.retry(), part.database.retry()];
            for retry in &mut aged {
                while !retry.is_aged() {
                    retry.met(Conflict::Locked).await.expect("it is not tried for long");
                }
            }
            aged
        });
        let waits_for_its_turn = |node: usize| {
            stage.start(node, async move |part: Part| {
                let begin = part.memory.handle().now();
                let mut retry = part.database.retry();
                retry.met(Conflict::Locked).await.expect("the first one");
                retry.turn().await;
                part.memory.handle().now() - begin
            })
        };
        let waits = [waits_for_its_turn(A), waits_for_its_turn(C)];
        stage.pass(Duration::from_millis(1));
        stage.kill_and_recover(B);
        std::mem::forget(aged);
        for waited in waits.map(|task| stage.end(task)) {
            assert!(waited > Duration::from_millis(1), "{scheme}: nobody was in the way");
            assert!(waited < Duration::from_millis(4), "{scheme}: {waited:?}");
        }
        stage.finish();
    }
}
