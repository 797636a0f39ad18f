//! Cases that random lives rarely reach, step by step.

use std::time::Duration;

use latchwork_txn::{Scheme, TxnError};
use latchwork_wal::storage::Torn;
use latchwork_wal::{CommitMode, LogSettings};

use crate::crashes::stage::{Stage, delete, get, put};

/// The schemes with a clock for each node.
const CLOCKS: [Scheme; 2] = [Scheme::TwoPhaseLocking, Scheme::Optimistic];

/// Moves the clock of this node, and with it all later commits, far ahead.
macro_rules! let_time_pass {
    ($database:ident, $table:ident) => {
        for amount in 0..200 {
            put(&$database, &$table, 1, amount).await;
        }
    };
}

/// Recovers from the remaining state, and checks the row `key`.
fn find(stage: &Stage, left: &Torn, key: u8, amount: u8) {
    stage.play(left, move |part| async move {
        let (database, table) = part.open().await;
        assert_eq!(get(&database, &table, key).await, Some(amount), "acknowledged, and lost");
    });
}

/// A node with a clock far behind adds a row that another node has deleted and purged. In replay
/// the new row must have the later timestamp.
#[test]
fn what_a_node_that_is_behind_adds_is_younger_than_what_was_deleted() {
    for (scheme, blind) in CLOCKS.into_iter().flat_map(|scheme| [(scheme, false), (scheme, true)]) {
        let stage = Stage { scheme, ..Stage::default() };
        let left = stage.play(&Torn::new(1), move |part| async move {
            let (database, table) = part.open().await;
            if part.node == 0 {
                part.wait(1).await;
                let_time_pass!(database, table);
                put(&database, &table, 2, 1).await;
                // The commit that deletes the row also purges it, if no lock is in the way.
                delete(&database, &table, 2).await;
                part.next();
                return part.wait(3).await;
            }
            part.next();
            part.wait(2).await;
            let added = database.attempt(async |tx| match blind {
                true => tx.insert_blind(&table, &[2], &[77]),
                false => tx.insert(&table, &[2], &[77]).await,
            });
            added.await.expect("nobody is in the way");
            part.next();
        });
        find(&stage, &left, 2, 77);
    }
}

/// A transaction that looks up a deleted row has seen the deletion, and commits later.
#[test]
fn a_transaction_that_finds_a_row_deleted_commits_after_the_deletion() {
    for scheme in CLOCKS {
        let stage = Stage { scheme, ..Stage::default() };
        stage.play(&Torn::new(1), |part| async move {
            let (database, table) = part.open().await;
            if part.node == 0 {
                put(&database, &table, 9, 1).await;
                part.wait(1).await;
                let_time_pass!(database, table);
                put(&database, &table, 2, 1).await;
                delete(&database, &table, 2).await;
                part.next();
                return part.wait(3).await;
            }
            part.next();
            part.wait(2).await;
            let begun = database.node().clock().now().counter();
            let looked = database.attempt(async |tx| {
                assert!(!tx.get(&table, &[2], &mut Vec::new()).await?, "it was deleted");
                tx.update(&table, &[9], &[2]).await
            });
            let ((), looked) = looked.await.expect("nobody is in the way");
            assert!(looked.counter() > begun + 200, "{looked} is before the deletion");
            part.next();
        });
    }
}

/// A transaction that began before a checkpoint commits at the timestamp that it drew then. The
/// checkpoint removes such old records from the logs, so it must contain the commit.
#[test]
fn a_checkpoint_waits_for_those_that_have_begun() {
    for slow in [0, 1] {
        let stage = Stage { scheme: Scheme::TimestampOrdering, block: 1, ..Stage::default() };
        let left = stage.play(&Torn::new(1), move |part| async move {
            let (database, table) = part.open().await;
            if part.node == slow {
                // Both nodes have opened the database, so no lookup of missing rows follows.
                part.wait(1).await;
                put(&database, &table, 1, 1).await;
                put(&database, &table, 2, 1).await;
                let mut old = database.begin().await.expect("memory is in order");
                old.update(&table, &[2], &[77]).await.expect("nobody is in the way");
                part.next();
                part.wait(3).await;
                part.sleep(Duration::from_millis(3)).await;
                old.commit().await.expect("nobody is in the way");
                return part.wait(4).await;
            }
            part.next();
            part.wait(2).await;
            let_time_pass!(database, table);
            // The first checkpoint ends with `Busy`. The second one waits for the same transaction.
            let busy = part.checkpoint_within(&database, Duration::from_micros(300)).await;
            assert!(matches!(busy, Err(TxnError::Busy { transactions: 1 })), "{busy:?}");
            part.next();
            part.checkpoint(&database).await.expect("the device is in order");
            part.next();
        });
        find(&stage, &left, 2, 77);
    }
}

/// A node that commits rarely, and a node that starts later, have clocks above the floor of a
/// checkpoint.
#[test]
fn what_a_node_commits_after_a_checkpoint_is_above_its_floor() {
    for (scheme, late) in CLOCKS.into_iter().flat_map(|scheme| [(scheme, false), (scheme, true)]) {
        let stage = Stage { scheme, ..Stage::default() };
        let left = stage.play(&Torn::new(1), move |part| async move {
            if part.node == 0 {
                let (database, table) = part.open().await;
                if !late {
                    part.wait(1).await;
                }
                let_time_pass!(database, table);
                let written = part.checkpoint(&database).await.expect("the device is in order");
                assert!(written.segments_removed > 0, "{written:?}");
                part.next();
                return part.wait(if late { 2 } else { 3 }).await;
            }
            if late {
                part.wait(1).await;
            }
            let (database, table) = part.open().await;
            if !late {
                part.next();
                part.wait(2).await;
            }
            put(&database, &table, 2, 77).await;
            part.next();
        });
        find(&stage, &left, 2, 77);
    }
}

/// Timestamps that were drawn before a checkpoint are not used after it.
#[test]
fn a_block_of_timestamps_does_not_outlive_a_checkpoint() {
    let stage = Stage { scheme: Scheme::TimestampOrdering, block: 64, ..Stage::default() };
    let left = stage.play(&Torn::new(1), |part| async move {
        let (database, table) = part.open().await;
        if part.node == 0 {
            part.wait(1).await;
            let_time_pass!(database, table);
            part.checkpoint(&database).await.expect("the device is in order");
            part.next();
            return part.wait(3).await;
        }
        // The first timestamp of a block. Later the row exists, and no other transaction has looked
        // for it.
        put(&database, &table, 2, 1).await;
        part.next();
        part.wait(2).await;
        put(&database, &table, 2, 77).await;
        part.next();
    });
    find(&stage, &left, 2, 77);
}

/// An asynchronous log loses the definition of a table, and the log of another node has rows of
/// that table. The next new table must not get those rows.
#[test]
fn a_new_table_does_not_get_the_rows_of_one_that_was_lost() {
    let long = Duration::from_secs(20);
    let slow = LogSettings { mode: CommitMode::Async, interval: long, ..LogSettings::default() };
    let quick = LogSettings { interval: Duration::from_micros(1), ..slow.clone() };
    let mut device = Torn::new(1);
    for life in 0..3 {
        let logs = [if life == 0 { slow.clone() } else { quick.clone() }, quick.clone()];
        let stage = Stage { logs, ..Stage::default() };
        device = stage.play(&device, move |part| async move {
            let (database, table) = part.open().await;
            match life {
                0 if part.node == 1 => drop(put(&database, &table, 5, 55).await),
                0 => {}
                _ => {
                    let skipped = part.recovery().skipped();
                    assert_eq!(skipped, 1, "life {life}: the row of a lost table");
                    let found = get(&database, &table, 5).await;
                    assert_eq!(found, None, "life {life}: a row of another table");
                }
            }
            part.sleep(Duration::from_millis(5)).await;
            // The power goes off before the logs are closed.
            part.power_off();
        });
    }
}

/// An in-doubt commit stays locked. A checkpoint would have the rows as they were before, and would
/// remove the log that may have the commit.
#[test]
fn there_is_no_checkpoint_over_an_unknown_outcome() {
    for scheme in Scheme::ALL {
        let stage = Stage { scheme, block: 1, ..Stage::default() };
        stage.play(&Torn::new(1), |part| async move {
            let (database, table) = part.open().await;
            if part.node == 1 {
                return part.wait(1).await;
            }
            put(&database, &table, 2, 1).await;
            assert_eq!(database.node().health().left_locked, 0);
            part.fail_sync();
            let doubtful = database.attempt(async |tx| tx.update(&table, &[2], &[3]).await).await;
            assert!(matches!(doubtful, Err(TxnError::InDoubt(_))), "{doubtful:?}");
            assert_eq!(database.node().health().left_locked, 1);
            let error = part.checkpoint(&database).await.expect_err("it would lose it");
            assert!(matches!(error, TxnError::LeftLocked { transactions: 1, .. }), "{error}");
            // The reported cause is the first error of the log, not a later error that follows from
            // the first.
            let told = error.to_string();
            assert!(told.contains("restart") && told.contains("syncing failed"), "{told}");
            part.next();
        });
    }
}

#[test]
fn all_nodes_use_one_scheme_until_the_next_start() {
    let mut device = Torn::new(1);
    for scheme in Scheme::ALL {
        let stage = Stage { scheme, block: 1, ..Stage::default() };
        device = stage.play(&device, move |part| async move {
            let (_database, _table) = part.open().await;
            for other in Scheme::ALL {
                let opened = part.open_as(other).await;
                if other == scheme {
                    opened.expect("the same");
                    continue;
                }
                let error = opened.expect_err("another");
                assert!(matches!(error, TxnError::OtherScheme { .. }), "{error}");
                let said = error.to_string();
                assert!(said.contains(scheme.name()) && said.contains(other.name()), "{said}");
            }
        });
    }
}
