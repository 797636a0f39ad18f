//! Purge pieces that wait in the queue of one worker while the slots of their rows are reused.

use latchwork_txn::{Conflict, Scheme, TxnError};

use crate::scenarios::stage::{Part, Stage, row};

const A: usize = 0;
const B: usize = 1;

/// The purge queue of `A` has the entry by which row 1 had code 1. Row 1 has been deleted since.
/// Its slot, beside row 0, is free, and `B` knows the free slot.
pub(crate) fn with_an_entry_that_waits(scheme: Scheme, nodes: usize) -> Stage {
    let stage = Stage::new(scheme, nodes);
    stage.run(A, async |tx, table| {
        tx.insert(table, &0_u32.to_be_bytes(), &row(100, 0)).await?;
        tx.insert(table, &1_u32.to_be_bytes(), &row(1, 0)).await
    });
    stage.commit_and_leave((A, B), 1, 0, async |tx, table| {
        tx.update(table, &1_u32.to_be_bytes(), &row(7, 0)).await
    });
    stage.run(B, async |tx, table| tx.delete(table, &1_u32.to_be_bytes()).await);
    stage
}

#[test]
fn an_entry_that_waits_leads_to_another_row_by_then() {
    for scheme in Scheme::ALL {
        let stage = with_an_entry_that_waits(scheme, 2);
        // The new row has the slot and the code of row 1, and the same entry leads to it.
        stage.run(B, async |tx, table| tx.insert(table, &4_u32.to_be_bytes(), &row(1, 0)).await);
        stage.run(A, async |tx, table| tx.update(table, &0_u32.to_be_bytes(), &row(100, 1)).await);
        assert_eq!((stage.count(A, 1), stage.count(B, 1)), (1, 1), "{scheme}");
        assert_eq!(stage.count(A, 7), 0, "{scheme}");
        stage.finish();
    }
}

#[test]
fn an_entry_that_waits_leads_to_a_row_that_is_about_to_come() {
    for scheme in Scheme::ALL {
        let stage = with_an_entry_that_waits(scheme, 2);
        let comes = stage.on(B, async |part: Part| {
            let mut tx = part.database.begin().await.expect("memory is in order");
            let put = tx.insert(&part.table, &4_u32.to_be_bytes(), &row(1, 0)).await;
            put.expect("it is not there");
            tx.prepare().await.expect("nobody is in the way")
        });
        stage.run(A, async |tx, table| tx.update(table, &0_u32.to_be_bytes(), &row(100, 1)).await);
        let commits = stage.on(B, async move |_| {
            let comes = comes.validate().await?;
            let cts = comes.propose()?;
            comes.commit(cts).await
        });
        commits.expect("nobody is in the way");
        assert_eq!((stage.count(A, 1), stage.count(B, 1)), (1, 1), "{scheme}");
        stage.finish();
    }
}

/// Adds a row with code 1, for which an entry is in the way. Taking the entry over reads the line
/// beside row 0, which another transaction has locked.
fn meets_the_entry(stage: &Stage) -> bool {
    let locked = stage.lock(B, false, 0);
    let added = stage.on(A, async |part: Part| {
        let mut tx = part.database.begin().await?;
        tx.insert(&part.table, &5_u32.to_be_bytes(), &row(1, 0)).await?;
        tx.commit().await
    });
    stage.unlock(B, locked);
    match added {
        Ok(_) => false,
        Err(TxnError::Conflict(Conflict::Locked)) => true,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_waits_at_a_worker_that_ends_another_takes_away() {
    for scheme in Scheme::ALL {
        for ends in [false, true] {
            let mut stage = with_an_entry_that_waits(scheme, 2);
            if ends {
                stage.replace_worker(A);
                stage.run(A, async |tx, table| {
                    tx.insert(table, &6_u32.to_be_bytes(), &row(600, 0)).await
                });
            }
            assert_eq!(meets_the_entry(&stage), !ends, "{scheme}");
            stage.finish();
        }
    }
}
