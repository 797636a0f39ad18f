//! Timestamp ordering: transactions that come too late and take a later timestamp, and read
//! timestamps that are ahead of their readers.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Simulated, Worker};
use latchwork_coherence::{CoherentMemory, LineLocks};
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{
    Conflict, Database, DatabaseId, NodeId, Schema, Scheme, Table, Transaction, TransactionNode,
    TransactionSettings, TxnError,
};
use latchwork_verbs_sim::SimConfig;

const LIMIT: Duration = Duration::from_secs(10);
const A: [u8; 4] = [0, 0, 0, 1];
const B: [u8; 4] = [0, 0, 0, 2];

/// Runs `body` on a database with two rows in lines of their own, some time after the rows were
/// loaded.
fn with_database(
    read_lease: u64,
    extend_timestamps: bool,
    body: impl AsyncFn(&Database<Worker>, &Table<Worker>) + 'static,
) {
    let config =
        ClusterConfig { compute_nodes: 1, workers: 1, seed: 1, ..ClusterConfig::default() };
    let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
    let (body, ran) = (Rc::new(body), Rc::new(Cell::new(false)));
    let done = ran.clone();
    let run = move |member: latchwork_cluster::Member| {
        let (body, done) = (body.clone(), done.clone());
        async move {
            let memory = member.memory.clone();
            let _operation = memory.enter().await.expect("memory is in order");
            let scheme = Scheme::TimestampOrdering;
            let settings = TransactionSettings {
                scheme,
                read_lease,
                extend_timestamps,
                ..TransactionSettings::default()
            };
            let node = TransactionNode::new(NodeId(0), None, settings);
            let database = Database::create(memory, node, DatabaseId(1)).await.expect("room");
            let schema = Schema::builder("rows")
                .column("id", ColumnType::U32)
                .column("amount", ColumnType::U64)
                .primary_key(["id"])
                .rows_per_line(1);
            let schema = schema.build().expect("a good schema");
            let table = database.create_table(schema).await.expect("room");
            for key in [A, B] {
                database.load(&table, &key, &7_u64.to_le_bytes()).await.expect("room");
            }
            for _ in 0..800 {
                database.begin().await.expect("a timestamp").abort();
            }
            body(&database, &table).await;
            done.set(true);
        }
    };
    cluster.run(LIMIT, run).expect("nothing fails");
    assert!(ran.get());
}

async fn set<M: LineLocks>(
    mut tx: Transaction<M>,
    table: &Table<M>,
    keys: &[[u8; 4]],
) -> Result<latchwork_txn::Timestamp, TxnError> {
    let mut row = Vec::new();
    for key in keys {
        tx.get_for_update(table, key, &mut row).await?;
        tx.update(table, key, &8_u64.to_le_bytes()).await?;
    }
    tx.commit().await
}

fn is_too_late<T>(result: &Result<T, TxnError>) -> bool {
    matches!(result, Err(TxnError::Conflict(Conflict::TooLate)))
}

#[test]
fn a_transaction_that_meets_a_later_row_becomes_later() {
    for extends in [true, false] {
        with_database(0, extends, async move |database, table| {
            let mut row = Vec::new();
            let mut first = database.retry().begin().await.expect("memory is in order");
            assert!(first.get(table, &A, &mut row).await.expect("it is there"));
            let second = database.begin().await.expect("memory is in order");
            let written = set(second, table, &[B]).await.expect("nobody is in the way");
            let read = first.get(table, &B, &mut row).await;
            if !extends {
                return assert!(is_too_late(&read), "{read:?}");
            }
            assert!(read.expect("it is later now") && row == 8_u64.to_le_bytes());
            first.update(table, &A, &9_u64.to_le_bytes()).await.expect("it was read");
            assert!(first.commit().await.expect("nobody is in the way") > written);
        });
    }
}

#[test]
fn a_transaction_whose_reads_have_changed_does_not_become_later() {
    with_database(0, true, async |database, table| {
        let mut row = Vec::new();
        let mut first = database.retry().begin().await.expect("memory is in order");
        assert!(first.get(table, &A, &mut row).await.expect("it is there"));
        let second = database.begin().await.expect("memory is in order");
        set(second, table, &[A, B]).await.expect("it is later than who has read A");
        let read = first.get(table, &B, &mut row).await;
        assert!(matches!(read, Err(TxnError::Conflict(Conflict::Changed))), "{read:?}");
    });
}

#[test]
fn a_range_that_was_empty_stays_so() {
    with_database(0, true, async |database, table| {
        let (mut row, none) = (Vec::new(), [0, 0, 0, 9]);
        let mut first = database.retry().begin().await.expect("memory is in order");
        assert!(!first.get(table, &none, &mut row).await.expect("memory is in order"));
        let mut second = database.begin().await.expect("memory is in order");
        second.insert(table, &none, &7_u64.to_le_bytes()).await.expect("it is not there");
        set(second, table, &[B]).await.expect("nobody is in the way");
        let read = first.get(table, &B, &mut row).await;
        assert!(matches!(read, Err(TxnError::Conflict(Conflict::Phantom))), "{read:?}");
    });
}

#[test]
fn a_read_timestamp_ahead_serves_later_readers() {
    for (lease, extends) in [(0, false), (4096, false), (4096, true)] {
        with_database(lease, extends, async move |database, table| {
            let mut row = Vec::new();
            let mut reader = database.retry().begin().await.expect("memory is in order");
            assert!(reader.get(table, &A, &mut row).await.expect("it is there"));
            reader.commit().await.expect("it wrote nothing");
            // One hundredth of the age of the rows, so below a read timestamp that is an eighth of
            // that age ahead.
            let mut retry = database.retry();
            let wrote = set(retry.begin().await.expect("a timestamp"), table, &[A]).await;
            if lease == 0 || extends {
                wrote.expect("nobody is in the way");
                return;
            }
            assert!(is_too_late(&wrote), "{wrote:?}");
            retry.met(Conflict::TooLate).await.expect("it is the first time");
            let again = set(retry.begin().await.expect("a timestamp"), table, &[A]).await;
            again.expect("it is later than the stamp now");
        });
    }
}
