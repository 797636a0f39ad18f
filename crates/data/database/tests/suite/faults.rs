//! The reaction of an instance to a lost log, a panic, a second instance in the process, and
//! damage.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, ClusterError, Embedded};
use latchwork_database::{DatabaseOpenError, DatabaseOptions, Instance, Opened};
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{Range, Schema, TxnError};

fn cluster() -> Embedded {
    let config = ClusterConfig {
        compute_nodes: 2,
        memory_bytes: 32 << 20,
        cache_frames: Some(400),
        line_size: 1024,
        chunk_size: 128 << 10,
        ..ClusterConfig::default()
    };
    Embedded::start(config).expect("a cluster")
}

fn options() -> DatabaseOptions {
    let schema = Schema::builder("rows")
        .column("id", ColumnType::U32)
        .column("value", ColumnType::U64)
        .primary_key(["id"]);
    let tables = vec![schema.build().expect("a good schema")];
    DatabaseOptions { tables, patience: Duration::from_secs(30), ..DatabaseOptions::default() }
}

fn open(directory: &Path, cluster: &Embedded) -> Instance {
    Instance::at(directory, cluster.config(), options()).expect("it opens")
}

/// Adds one to a row, and makes the row if it does not exist.
async fn increment(database: &Opened, id: u32) -> Result<(), TxnError> {
    let table = database.table("rows").await?;
    let key = id.to_be_bytes();
    database
        .run(async |tx| {
            let mut row = Vec::new();
            if tx.get_for_update(&table, &key, &mut row).await? {
                let value = u64::from_le_bytes(row[..].try_into().expect("a row")) + 1;
                return tx.update(&table, &key, &value.to_le_bytes()).await;
            }
            tx.insert(&table, &key, &1_u64.to_le_bytes()).await
        })
        .await
}

/// The sum of all rows.
async fn sum(database: Opened) -> Result<u64, TxnError> {
    let table = database.table("rows").await?;
    database
        .run(async |tx| {
            let mut sum = 0;
            let each = |_: &[u8], row: &[u8]| {
                sum += u64::from_le_bytes(row.try_into().expect("a row"));
                ControlFlow::Continue(())
            };
            tx.scan(&table, Range::all(), each).await?;
            Ok(sum)
        })
        .await
}

/// Makes `commits` commits on each node, on rows of its own, and closes the instance.
fn live(directory: &Path, commits: u32) {
    let cluster = cluster();
    let instance = open(directory, &cluster);
    let ends = instance.run(&cluster, async |database| {
        for _ in 0..commits {
            increment(&database, database.member().index as u32).await?;
        }
        Ok::<_, TxnError>(())
    });
    ends.expect("it opens").into_iter().collect::<Result<(), _>>().expect("memory has room");
    instance.close().expect("it closes");
}

#[track_caller]
fn durable(directory: &Path, accept_loss: bool) -> u64 {
    let cluster = cluster();
    let options = DatabaseOptions { accept_loss, ..options() };
    let instance = Instance::at(directory, cluster.config(), options).expect("it opens");
    assert_eq!(instance.losses().is_empty(), !accept_loss, "{:?}", instance.losses());
    let sums = instance.run(&cluster, sum).expect("it opens");
    let sum = sums.into_iter().next().expect("a worker").expect("memory is in order");
    instance.close().expect("it closes");
    sum
}

#[test]
fn a_loss_is_an_error_until_it_is_accepted_and_then_said() {
    let directory = tempfile::tempdir().expect("a directory");
    live(directory.path(), 20);
    let log = directory.path().join("01-0000000001.log");
    let bytes = fs::read(&log).expect("a segment");
    fs::write(&log, &bytes[..bytes.len() / 2]).expect("room");
    let cluster = cluster();
    let error = Instance::at(directory.path(), cluster.config(), options()).expect_err("a loss");
    let told = error.to_string();
    for word in ["01-0000000001.log", "--set accept-loss=on", "in code, accept_loss"] {
        assert!(told.contains(word), "{told}");
    }
    let left = durable(directory.path(), true);
    assert!((1..40).contains(&left), "{left} of 40");
    // From now on the remaining state is the whole database.
    assert_eq!(durable(directory.path(), false), left);
}

#[test]
fn a_body_that_panics_is_named_and_holds_no_other_worker_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = cluster();
    let instance = open(directory.path(), &cluster);
    let made = AtomicU64::new(0);
    let made = &made;
    let error = instance.run(&cluster, async |database| {
        increment(&database, 1).await.expect("memory has room");
        made.fetch_add(1, Ordering::Relaxed);
        if database.member().index == 1 {
            let table = database.table("rows").await.expect("it is made");
            let _: Result<(), TxnError> = database
                .run(async |tx| {
                    tx.get_for_update(&table, &1_u32.to_be_bytes(), &mut Vec::new()).await?;
                    panic!("boom with a locked row")
                })
                .await;
        }
        for _ in 0..50 {
            increment(&database, 1).await.expect("the row is free");
            made.fetch_add(1, Ordering::Relaxed);
        }
    });
    let error = error.expect_err("a panic");
    let DatabaseOpenError::Cluster(ClusterError::Panicked { thread, message }) = &error else {
        panic!("{error}")
    };
    assert_eq!((&thread[..], &message[..]), ("node2-worker0", "boom with a locked row"));
    assert_eq!(made.load(Ordering::Relaxed), 52);
    let again = instance.run(&cluster, sum).expect_err("it stays so").to_string();
    assert!(again.contains("node2-worker0 panicked: boom"), "{again}");
    instance.close().expect("it closes");
    assert_eq!(durable(directory.path(), false), 52);
}

#[test]
fn a_task_that_panics_is_named() {
    let cluster = cluster();
    let instance = Instance::in_memory(cluster.config(), options());
    let error = instance.run(&cluster, async |database| {
        if database.member().index == 1 {
            let task = database.member().handle.spawn(async { panic!("boom in a task") });
            let _: Result<(), _> = task.await;
        }
    });
    let told = error.expect_err("a panic").to_string();
    assert!(told.contains("node2-worker0 panicked: boom in a task"), "{told}");
    let again = instance.run(&cluster, sum).expect_err("it stays so").to_string();
    assert!(again.contains("node2-worker0 panicked"), "{again}");
}

#[test]
fn a_directory_that_this_process_has_open_is_not_said_to_be_another_process_s() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = cluster();
    let instance = open(directory.path(), &cluster);
    let clone = instance.clone();
    instance.close().expect("it closes");
    let again = || Instance::at(directory.path(), cluster.config(), options());
    let error = again().expect_err("a clone has it");
    assert!(matches!(error, DatabaseOpenError::OpenHere { .. }), "{error}");
    assert!(error.to_string().contains("drop all its clones"), "{error}");
    drop(clone);
    again().expect("it is free");
}

#[test]
fn an_empty_path_is_named() {
    let error = Instance::at("", cluster().config(), options()).expect_err("no directory");
    assert!(matches!(error, DatabaseOpenError::NoPath), "{error}");
}

#[test]
fn an_opening_that_damage_refuses_loses_no_commit() {
    let directory = tempfile::tempdir().expect("a directory");
    // The first segment is in the middle of the log, where only replay reads it completely.
    live(directory.path(), 20);
    live(directory.path(), 20);
    let log = directory.path().join("00-0000000001.log");
    let whole = fs::read(&log).expect("a segment");
    let mut damaged = whole.clone();
    let middle = whole.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&log, damaged).expect("room");
    for _ in 0..2 {
        let cluster = cluster();
        let error = Instance::at(directory.path(), cluster.config(), options());
        let told = error.expect_err("damage").to_string();
        assert!(told.contains("00-0000000001.log"), "{told}");
    }
    fs::write(&log, whole).expect("room");
    assert_eq!(durable(directory.path(), false), 80);
}
