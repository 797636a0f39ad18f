//! Early release, step by step: no caller and no other node gets a row before it is durable.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::Worker;
use latchwork_runtime::JoinHandle;
use latchwork_txn::{Database, Range, Scheme, Table, Timestamp, Transaction, TxnError};
use latchwork_wal::storage::Torn;
use latchwork_wal::{Device, WalError};

use crate::crashes::stage::{Part, Stage, get, put};

const SYNC: Duration = Duration::from_millis(1);
/// Much less than the time of a sync.
const MOMENT: Duration = Duration::from_micros(50);

fn stage(scheme: Scheme) -> Stage {
    let disk = Device { sync: SYNC, ..Device::default() };
    Stage { scheme, block: 1, early: true, disk, ..Stage::default() }
}

/// Several stages for each scheme: data that was not synced may or may not survive a crash.
fn stages() -> impl Iterator<Item = Stage> {
    let lucky = |scheme| (0..4).map(move |luck| Stage { luck, ..stage(scheme) });
    Scheme::ALL.into_iter().flat_map(lucky)
}

/// The content of a row; `None`: the row does not exist.
type Row = Option<u8>;

/// The row as a transaction sees it. No caller gets the result of this transaction.
async fn peek(database: &Database<Worker>, table: &Table<Worker>, key: u8) -> Option<Row> {
    let mut tx = database.begin().await.expect("memory is in order");
    let mut row = Vec::new();
    let found = tx.get(table, &[key], &mut row).await.ok()?;
    Some(found.then(|| row[0]))
}

type Commit = JoinHandle<Result<((), Timestamp), TxnError>>;

impl Part {
    /// Begins a commit that sets row 2 to `row`, in a task of its own, and waits until other
    /// transactions of the node see it.
    async fn commit(&self, database: &Database<Worker>, table: &Table<Worker>, row: Row) -> Commit {
        let commit = {
            let (database, table) = (database.clone(), table.clone());
            self.handle().spawn(async move {
                let change = async |tx: &mut Transaction<Worker>| match row {
                    None => tx.delete(&table, &[2]).await,
                    Some(amount) => match tx.insert(&table, &[2], &[amount]).await {
                        Err(TxnError::Exists) => tx.update(&table, &[2], &[amount]).await,
                        other => other,
                    },
                };
                database.attempt(change).await
            })
        };
        let begun = self.handle().now();
        while peek(database, table, 2).await != Some(row) {
            self.sleep(Duration::from_micros(5)).await;
            assert!(self.handle().now() < begun + SYNC / 2, "not before it is lasting");
        }
        commit
    }
}

/// The ways in which a caller gets a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    /// A transaction that has read the row commits.
    Reads,
    /// A transaction that has read the row ends with an error of its program.
    Fails,
    /// The program validates a transaction that has read the row.
    Asks,
    /// A transaction that has read the row is a part of a larger one, which another node decides.
    Prepares,
    /// A transaction that has found the row by an index commits.
    Finds,
}

impl Told {
    const ALL: [Told; 5] = [Told::Reads, Told::Fails, Told::Asks, Told::Prepares, Told::Finds];

    /// Row 2, as a caller gets it.
    async fn tell(
        self,
        database: &Database<Worker>,
        table: &Table<Worker>,
    ) -> Result<Row, TxnError> {
        let mut row = Vec::new();
        if self == Told::Finds {
            let all = database.attempt(async |tx| {
                let mut amount = None;
                tx.scan_index(table, 0, Range::all(), |key, row| {
                    if key == [2] {
                        amount = Some(row[0]);
                    }
                    ControlFlow::Continue(())
                })
                .await?;
                Ok(amount)
            });
            return all.await.map(|(amount, _)| amount);
        }
        if self == Told::Fails {
            let mut found = false;
            let failed = database.attempt(async |tx| {
                found = tx.get(table, &[2], &mut row).await?;
                Err::<(), _>(TxnError::NotFound)
            });
            return match failed.await {
                Err(TxnError::NotFound) => Ok(found.then(|| row[0])),
                other => other.map(|_| None),
            };
        }
        let mut tx = database.begin().await?;
        let found = tx.get(table, &[2], &mut row).await?;
        match self {
            Told::Asks => tx.validate().await?,
            Told::Prepares => drop(tx.prepare().await?),
            _ => drop(tx.commit().await?),
        }
        Ok(found.then(|| row[0]))
    }
}

/// Checks the rows after a restart.
fn find(stage: &Stage, left: &Torn, keys: &'static [(u8, Row)]) {
    stage.play(left, move |part| async move {
        let (database, table) = part.open().await;
        if part.node == 0 {
            for &(key, row) in keys {
                assert_eq!(get(&database, &table, key).await, row, "{key}: told, and lost");
            }
        }
    });
}

/// No caller on any node gets a row that is not durable, in any way. A row that a caller got is
/// there after a crash.
#[test]
fn a_row_that_was_reported_is_there_after_a_crash() {
    for (stage, told) in stages().flat_map(|stage| Told::ALL.map(|told| (stage.clone(), told))) {
        for (teller, row) in [(0, Some(77)), (0, None), (1, Some(77)), (1, None)] {
            let scheme = stage.scheme;
            let left = stage.play(&Torn::new(1), move |part| async move {
                let (database, table) = part.open().await;
                if part.node == 0 {
                    put(&database, &table, 2, 1).await;
                    let commit = part.commit(&database, &table, row).await;
                    part.next();
                    if teller != part.node {
                        commit.await.expect("no panic").expect("nobody is in the way");
                        return part.wait(2).await;
                    }
                } else {
                    part.wait(1).await;
                    if teller != part.node {
                        return part.wait(2).await;
                    }
                }
                loop {
                    match told.tell(&database, &table).await {
                        Ok(seen) if seen == row => break,
                        Ok(other) => assert_eq!(other, Some(1), "{scheme}, {told:?}"),
                        Err(error) => assert!(error.conflict().is_some(), "{error}"),
                    }
                    part.sleep(MOMENT / 5).await;
                }
                part.power_off();
                part.next();
            });
            match row {
                Some(_) => find(&stage, &left, &[(2, Some(77))]),
                None => find(&stage, &left, &[(2, None)]),
            }
        }
    }
}

/// A caller learns that a row exists from an insert that fails.
#[test]
fn a_row_that_was_reported_to_exist_does() {
    for stage in stages() {
        let left = stage.play(&Torn::new(1), |part| async move {
            let (database, table) = part.open().await;
            if part.node == 1 {
                return part.wait(1).await;
            }
            put(&database, &table, 2, 1).await;
            // Two flush batches: the first may survive without the second.
            let gone = part.commit(&database, &table, None).await;
            let back = part.commit(&database, &table, Some(77)).await;
            for blind in [true, false] {
                let refused = database.attempt(async |tx| match blind {
                    true => tx.insert_blind(&table, &[2], &[5]),
                    false => tx.insert(&table, &[2], &[5]).await,
                });
                let error = refused.await.expect_err("it is there");
                assert!(matches!(error, TxnError::Exists), "{error}");
                if blind {
                    part.power_off();
                }
            }
            for commit in [gone, back] {
                commit.await.expect("no panic").expect("it was lasting before the power went off");
            }
            part.next();
        });
        find(&stage, &left, &[(2, Some(77))]);
    }
}

/// A node reads a row that another node has written, and then commits a write in its own log.
#[test]
fn a_commit_that_another_node_has_built_on_is_durable() {
    for (stage, row) in stages().flat_map(|s| [(s.clone(), Some(77)), (s, None)]) {
        let left = stage.play(&Torn::new(1), move |part| async move {
            let (database, table) = part.open().await;
            if part.node == 0 {
                put(&database, &table, 2, 1).await;
                // Other transactions of this node change the row again, so its node lock lasts
                // longer than a sync.
                let first = part.commit(&database, &table, Some(2)).await;
                let last = part.commit(&database, &table, row).await;
                part.next();
                part.wait(2).await;
                for commit in [first, last] {
                    commit
                        .await
                        .expect("no panic")
                        .expect("it was lasting before the power was off");
                }
                return;
            }
            part.wait(1).await;
            let mut old = Vec::new();
            loop {
                let copied = database.attempt(async |tx| {
                    let found = tx.get(&table, &[2], &mut old).await?;
                    tx.insert(&table, &[3], &[if found { old[0] } else { 9 }]).await
                });
                match copied.await {
                    Ok(_) => break,
                    Err(error) => assert!(error.conflict().is_some(), "{error}"),
                }
                part.sleep(MOMENT / 5).await;
            }
            part.power_off();
            part.next();
        });
        match row {
            Some(_) => find(&stage, &left, &[(2, Some(77)), (3, Some(77))]),
            None => find(&stage, &left, &[(2, None), (3, Some(9))]),
        }
    }
}

/// No transaction sees a new row before it is durable.
#[test]
fn a_new_row_is_visible_when_it_is_durable() {
    for (stage, node) in stages().flat_map(|s| [(s.clone(), 0), (s, 1)]) {
        let left = stage.play(&Torn::new(1), move |part| async move {
            let (database, table) = part.open().await;
            if part.node == 0 {
                let (database, table) = (database.clone(), table.clone());
                drop(part.handle().spawn(async move { put(&database, &table, 2, 77).await }));
                part.sleep(MOMENT).await;
                part.next();
            }
            part.wait(1).await;
            if part.node != node {
                return part.wait(2).await;
            }
            loop {
                match Told::Reads.tell(&database, &table).await {
                    Ok(seen) => break assert_eq!(seen, Some(77)),
                    Err(error) => assert!(error.conflict().is_some(), "{error}"),
                }
                part.sleep(MOMENT / 5).await;
            }
            part.power_off();
            part.next();
        });
        find(&stage, &left, &[(2, Some(77))]);
    }
}

/// The old index entry of a row that moved is purged when the row has another key. A crash may take
/// back a later change of the key. So other nodes must not have seen that the entry was removed.
#[test]
fn an_entry_that_a_crash_brings_back_does_not_go() {
    for stage in stages().filter(|stage| stage.scheme == Scheme::TwoPhaseLocking) {
        let left = stage.play(&Torn::new(1), |part| async move {
            let (database, table) = part.open().await;
            let by_amount = async |amount: u8| {
                let mut found = 0;
                let (from, to) = ([amount], [amount + 1]);
                let scan = database.attempt(async |tx| {
                    let range = Range::between(&from, &to);
                    found =
                        tx.scan_index(&table, 0, range, |_, _| ControlFlow::Continue(())).await?;
                    Ok(())
                });
                scan.await.map(|_| found)
            };
            if part.node == 1 {
                part.wait(1).await;
                loop {
                    match by_amount(1).await {
                        Ok(0) => break,
                        Ok(found) => assert_eq!(found, 1),
                        Err(error) => assert!(error.conflict().is_some(), "{error}"),
                    }
                    part.sleep(MOMENT / 5).await;
                }
                part.power_off();
                return part.next();
            }
            put(&database, &table, 2, 1).await;
            for amount in [2, 1] {
                let moved = part.commit(&database, &table, Some(amount)).await;
                // A transaction that has locked the row to read prevents the purge of the old
                // entry.
                let mut reader = database.begin().await.expect("memory is in order");
                reader.get(&table, &[2], &mut Vec::new()).await.expect("nobody is in the way");
                moved.await.expect("no panic").expect("nobody was in the way");
            }
            let _last = part.commit(&database, &table, Some(3)).await;
            // A commit tries the waiting purges.
            get(&database, &table, 9).await;
            part.next();
            part.wait(2).await;
        });
        find(&stage, &left, &[(2, Some(3))]);
    }
}

/// Commits of one row by many tasks of a node share syncs.
#[test]
fn a_row_commits_more_than_once_a_sync() {
    for scheme in Scheme::ALL {
        let took = [true, false].map(|early| {
            let took = Rc::new(Cell::new(Duration::ZERO));
            let stage = Stage { early, ..stage(scheme) };
            let left = stage.play_with(&Torn::new(1), took.clone(), |part, took| async move {
                let (database, table) = part.open().await;
                if part.node == 1 {
                    return part.wait(1).await;
                }
                put(&database, &table, 2, 0).await;
                let begun = part.handle().now();
                let tasks: Vec<_> = (0..6)
                    .map(|_| {
                        let (database, table) = (database.clone(), table.clone());
                        part.handle().spawn(async move {
                            for _ in 0..4 {
                                add_one(&database, &table).await;
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.expect("no panic");
                }
                took.set(part.handle().now() - begun);
                part.next();
            });
            find(&stage, &left, &[(2, Some(24))]);
            took.get()
        });
        let [early, late] = took;
        assert!(early < 14 * SYNC && late > 24 * SYNC, "{scheme}: {early:?}, {late:?}");
    }
}

async fn add_one(database: &Database<Worker>, table: &Table<Worker>) {
    let mut row = Vec::new();
    let added = database.run(async |tx| {
        tx.get_for_update(table, &[2], &mut row).await?;
        tx.update(table, &[2], &[row[0] + 1]).await
    });
    added.await.expect("others let it through");
}

/// Tasks of one node that write a row without a gap do not keep it from other nodes.
#[test]
fn another_node_gets_a_row_that_always_has_a_node_lock() {
    for scheme in Scheme::ALL {
        stage(scheme).play(&Torn::new(1), move |part| async move {
            let (database, table) = part.open().await;
            if part.node == 0 {
                put(&database, &table, 2, 0).await;
                let tasks: Vec<_> = (0..5)
                    .map(|task| {
                        let (database, table) = (database.clone(), table.clone());
                        let handle = part.handle().clone();
                        part.handle().spawn(async move {
                            handle.sleep(SYNC / 5 * task).await;
                            let end = handle.now() + 400 * SYNC;
                            while handle.now() < end {
                                let mut row = Vec::new();
                                let added = database.attempt(async |tx| {
                                    tx.get_for_update(&table, &[2], &mut row).await?;
                                    tx.update(&table, &[2], &[row[0] ^ 1]).await
                                });
                                match added.await {
                                    Ok(_) => {}
                                    Err(error) => assert!(error.conflict().is_some(), "{error}"),
                                }
                                handle.sleep(Duration::from_micros(20)).await;
                            }
                        })
                    })
                    .collect();
                part.next();
                for task in tasks {
                    task.await.expect("no panic");
                }
                return part.wait(2).await;
            }
            part.wait(1).await;
            let begun = part.handle().now();
            for _ in 0..5 {
                add_one(&database, &table).await;
            }
            let took = part.handle().now() - begun;
            assert!(took < 250 * SYNC, "{scheme}: {took:?}");
            part.next();
        });
    }
}

/// When the log fails, rows on which other transactions depend stay locked, and no caller gets
/// them.
#[test]
fn when_the_log_fails_no_client_sees_what_the_log_had_not_taken() {
    for stage in stages() {
        let left = stage.play(&Torn::new(1), |part| async move {
            let (database, table) = part.open().await;
            if part.node == 1 {
                part.wait(1).await;
                for told in Told::ALL {
                    let error = told.tell(&database, &table).await.expect_err("not here");
                    assert!(error.conflict().is_some(), "{error}");
                }
                assert_eq!(get(&database, &table, 3).await, Some(1), "others are as they were");
                return part.next();
            }
            put(&database, &table, 2, 1).await;
            put(&database, &table, 3, 1).await;
            let first = part.commit(&database, &table, Some(77)).await;
            let second = part.commit(&database, &table, Some(78)).await;
            part.fail_sync();
            for commit in [first, second] {
                let told = commit.await.expect("no panic");
                assert!(matches!(told, Err(TxnError::InDoubt(_))), "{told:?}");
            }
            for told in Told::ALL {
                let error = told.tell(&database, &table).await.expect_err("it may not last");
                assert!(matches!(error, TxnError::NotDurable(_)), "{told:?}: {error}");
            }
            assert_eq!(get(&database, &table, 3).await, Some(1), "what is lasting is told");
            let update = database.attempt(async |tx| tx.update(&table, &[2], &[79]).await);
            let error = update.await.expect_err("the log has failed");
            assert!(matches!(error, TxnError::NotLogged(_)), "{error}");
            assert_eq!(database.node().health().left_locked, 2);
            let error = part.checkpoint(&database).await.expect_err("it would have it");
            assert!(matches!(error, TxnError::LeftLocked { transactions: 2, .. }), "{error}");
            part.next();
            part.wait(2).await;
        });
        stage.play(&left, |part| async move {
            let (database, table) = part.open().await;
            let found = get(&database, &table, 2).await.expect("it was there before");
            assert!([1, 77, 78].contains(&found), "{found}");
        });
    }
}

/// A full device does not take back a commit on which other transactions depend: that commit waits
/// for room. New commits are refused meanwhile.
#[test]
fn a_full_device_keeps_what_others_have_built_on_waiting() {
    for stage in stages() {
        let left = stage.play(&Torn::new(1), |part| async move {
            let (database, table) = part.open().await;
            if part.node == 1 {
                return part.wait(1).await;
            }
            put(&database, &table, 2, 1).await;
            put(&database, &table, 3, 1).await;
            let mut commits = vec![part.commit(&database, &table, Some(76)).await];
            part.is_full(true);
            commits.push(part.commit(&database, &table, Some(77)).await);
            commits.push(part.commit(&database, &table, Some(78)).await);
            part.sleep(3 * SYNC).await;
            let update = database.attempt(async |tx| tx.update(&table, &[3], &[2]).await);
            let error = update.await.expect_err("the device is full");
            let refused = matches!(&error, TxnError::NotLogged(error) if matches!(**error, WalError::Refused { .. }));
            assert!(refused, "{error}");
            part.is_full(false);
            for commit in commits {
                commit.await.expect("no panic").expect("there is room");
            }
            put(&database, &table, 3, 3).await;
            part.power_off();
            part.next();
        });
        find(&stage, &left, &[(2, Some(78)), (3, Some(3))]);
    }
}
