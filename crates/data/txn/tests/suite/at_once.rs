//! The fast path: an operation that needs no wait is ready at the first poll of its future. A fast
//! path that does not succeed has changed nothing.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Simulated, Worker};
use latchwork_coherence::CoherentMemory;
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{
    Conflict, Database, DatabaseId, NodeId, Schema, Scheme, Table, TransactionNode,
    TransactionSettings, TxnError,
};
use latchwork_verbs_sim::SimConfig;

const LIMIT: Duration = Duration::from_secs(10);

/// Runs `body` under each scheme, on a table with the rows 0 to 7, each in a line of its own.
fn each_scheme(body: impl AsyncFn(&Database<Worker>, &Table<Worker>) + Copy + 'static) {
    for scheme in Scheme::ALL {
        let config =
            ClusterConfig { compute_nodes: 1, workers: 1, seed: 1, ..ClusterConfig::default() };
        let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
        let ran = Rc::new(Cell::new(false));
        let done = ran.clone();
        let run = move |member: latchwork_cluster::Member| {
            let done = done.clone();
            async move {
                let _operation = member.memory.enter().await.expect("memory is in order");
                let settings = TransactionSettings { scheme, ..TransactionSettings::default() };
                let node = TransactionNode::new(NodeId(0), None, settings);
                let made = Database::create(member.memory.clone(), node, DatabaseId(1)).await;
                let database = made.expect("room");
                let schema = Schema::builder("rows")
                    .column("id", ColumnType::U8)
                    .column("amount", ColumnType::U16)
                    .primary_key(["id"])
                    .rows_per_line(1);
                let schema = schema.build().expect("a good schema");
                let table = database.create_table(schema).await.expect("room");
                for key in 0..8 {
                    database.load(&table, &[key], &[key, 0]).await.expect("room");
                }
                body(&database, &table).await;
                done.set(true);
            }
        };
        cluster.run(LIMIT, run).unwrap_or_else(|error| panic!("{scheme}: {error}"));
        assert!(ran.get(), "{scheme}");
    }
}

/// The result of a future at its first poll, if it is ready then.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

async fn amount(database: &Database<Worker>, table: &Table<Worker>, key: u8) -> Option<Vec<u8>> {
    let mut row = Vec::new();
    let found = database.run(async |tx| tx.get(table, &[key], &mut row).await).await;
    found.expect("nobody is in the way").then_some(row)
}

#[test]
fn what_is_done_at_once_is_read_by_itself_and_committed_with_the_rest() {
    each_scheme(async |database, table| {
        let mut tx = database.begin().await.expect("memory is in order");
        let mut row = vec![9; 9];
        let found = |found| matches!(found, Some(Ok(true)));
        assert!(found(at_once(tx.get(table, &[1], &mut row))) && row == [1, 0]);
        assert!(found(at_once(tx.get_for_update(table, &[2], &mut row))) && row == [2, 0]);
        assert!(matches!(at_once(tx.update_part(table, &[2], 1, &[77])), Some(Ok(()))));
        assert!(found(at_once(tx.get(table, &[2], &mut row))) && row == [2, 77]);
        // A row that was read without the intention to write it.
        assert!(matches!(at_once(tx.update_part(table, &[1], 1, &[55])), Some(Ok(()))));
        assert!(found(at_once(tx.get(table, &[1], &mut row))) && row == [1, 55]);
        tx.delete(table, &[3]).await.expect("it is there");
        assert!(matches!(at_once(tx.get(table, &[3], &mut row)), Some(Ok(false))));
        // The row is written again.
        assert!(matches!(at_once(tx.update_part(table, &[2], 0, &[66])), Some(Ok(()))));
        assert_eq!(amount(database, table, 4).await, Some(vec![4, 0]));
        tx.commit().await.expect("nobody is in the way");
        assert_eq!(amount(database, table, 1).await, Some(vec![1, 55]));
        assert_eq!(amount(database, table, 2).await, Some(vec![66, 77]));
        assert_eq!(amount(database, table, 3).await, None);
    });
}

#[test]
fn what_is_not_done_at_once_has_changed_nothing() {
    each_scheme(async |database, table| {
        let mut tx = database.begin().await.expect("memory is in order");
        let mut row = Vec::new();
        // A missing row; a part that ends outside the value.
        assert!(!tx.get(table, &[100], &mut row).await.expect("nobody is in the way"));
        assert!(matches!(at_once(tx.get_for_update(table, &[6], &mut row)), Some(Ok(true))));
        let outside = at_once(tx.update_part(table, &[6], 1, &[1, 2]));
        assert!(matches!(outside, Some(Err(TxnError::OutsideValue { .. }))), "{outside:?}");
        tx.commit().await.expect("nobody is in the way");
        assert_eq!(amount(database, table, 6).await, Some(vec![6, 0]));
    });
}

#[test]
fn the_future_of_a_step_reports_the_conflict_that_the_fast_path_met() {
    each_scheme(async |database, table| {
        let mut other = database.begin().await.expect("memory is in order");
        other.update(table, &[1], &[11, 0]).await.expect("nobody is in the way");
        let prepared = other.prepare().await.expect("nobody is in the way");
        let mut tx = database.begin().await.expect("memory is in order");
        let mut row = Vec::new();
        // The optimistic transaction finds the lock at its commit.
        let is_met = database.scheme() != Scheme::Optimistic;
        let told = at_once(tx.get(table, &[1], &mut row)).expect("no wait for a lock");
        let expected = if is_met { Err(Conflict::Locked) } else { Ok(true) };
        assert_eq!(told.map_err(|error| error.conflict().expect("a conflict")), expected);
        prepared.abort().await;
        // Only an abort follows a conflict.
        let after = at_once(tx.get(table, &[2], &mut row)).expect("no wait");
        assert!(matches!((is_met, after), (true, Err(TxnError::Doomed)) | (false, Ok(true))));
        drop(tx);
        assert_eq!(amount(database, table, 1).await, Some(vec![1, 0]));
    });
}

#[test]
fn a_row_that_two_have_read_is_changed_by_one_unless_reads_lock_it() {
    each_scheme(async |database, table| {
        let mut other = database.begin().await.expect("memory is in order");
        let mut tx = database.begin().await.expect("memory is in order");
        let mut row = Vec::new();
        for reader in [&mut other, &mut tx] {
            assert!(matches!(at_once(reader.get(table, &[5], &mut row)), Some(Ok(true))));
        }
        let changed = tx.update_part(table, &[5], 1, &[9]).await;
        let is_met = database.scheme() == Scheme::TwoPhaseLocking;
        let expected = if is_met { Err(Conflict::Locked) } else { Ok(()) };
        assert_eq!(changed.map_err(|error| error.conflict().expect("a conflict")), expected);
        drop(other);
        if !is_met {
            tx.commit().await.expect("nobody is in the way");
        }
        let after = if is_met { 0 } else { 9 };
        assert_eq!(amount(database, table, 5).await, Some(vec![5, after]));
    });
}

#[test]
fn a_task_on_the_fast_path_lets_others_go_on() {
    each_scheme(async |database, table| {
        let handle = database.memory().handle().clone();
        let went = Rc::new(Cell::new(0_u32));
        let counter = went.clone();
        let counts = {
            let handle = handle.clone();
            async move {
                for _ in 0..4 {
                    counter.set(counter.get() + 1);
                    handle.yield_now().await;
                }
            }
        };
        let counts = handle.spawn(counts);
        let mut tx = database.begin().await.expect("memory is in order");
        let mut row = Vec::new();
        let mut reads = 0_u32;
        while went.get() < 4 {
            reads += 1;
            assert!(reads < 10_000, "the other task has come to {}", went.get());
            assert!(tx.get(table, &[1], &mut row).await.expect("nobody is in the way"));
        }
        tx.commit().await.expect("nobody is in the way");
        counts.await.expect("no panic");
    });
}
