//! The memory of a cluster is not the state of a log. A database with a log is made from the log,
//! on a cluster that does not have it, or not at all.
//!
//! Bug: an instance took over a database that it found under its name. After a failed opening that
//! database was empty. After another process had continued with the log, that database was old. The
//! next checkpoint wrote either one over the durable rows.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Embedded};
use latchwork_database::{DatabaseOpenError, DatabaseOptions, Instance, Opened};
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{Range, Schema, TxnError};

/// Rows of the database that must not be lost.
const ROWS: u32 = 10_000;

fn config(memory_bytes: u64) -> ClusterConfig {
    ClusterConfig {
        compute_nodes: 2,
        workers: 2,
        memory_bytes,
        cache_frames: Some(3_000),
        line_size: 1024,
        chunk_size: 64 << 10,
        ..ClusterConfig::default()
    }
}

fn cluster() -> Embedded {
    Embedded::start(config(32 << 20)).expect("a cluster")
}

fn options() -> DatabaseOptions {
    let schema = Schema::builder("rows")
        .column("id", ColumnType::U32)
        .column("value", ColumnType::U64)
        .primary_key(["id"]);
    let tables = vec![schema.build().expect("a good schema")];
    DatabaseOptions { tables, patience: Duration::from_secs(30), ..DatabaseOptions::default() }
}

fn open(directory: &Path, cluster: &Embedded, options: DatabaseOptions) -> Instance {
    Instance::at(directory, cluster.config(), options).expect("it opens")
}

/// Adds rows from the second node, in transactions of 100.
fn add(instance: &Instance, cluster: &Embedded, from: u32, to: u32) {
    let added = instance.run(cluster, async |database| {
        if database.member().index != 2 {
            return Ok(());
        }
        let table = database.table("rows").await?;
        for first in (from..to).step_by(100) {
            let insert = async |tx: &mut latchwork_txn::Transaction<_>| {
                for id in first..to.min(first + 100) {
                    tx.insert(&table, &id.to_be_bytes(), &7_u64.to_le_bytes()).await?;
                }
                Ok(())
            };
            database.run(insert).await?;
        }
        Ok::<_, TxnError>(())
    });
    let added: Result<Vec<()>, _> = added.expect("it opens").into_iter().collect();
    added.expect("rows are new, and memory has room");
}

async fn count(database: Opened) -> Result<u32, TxnError> {
    let table = database.table("rows").await?;
    let scan = async |tx: &mut latchwork_txn::Transaction<_>| {
        let mut rows = 0;
        let each = |_: &[u8], _: &[u8]| {
            rows += 1;
            ControlFlow::Continue(())
        };
        tx.scan(&table, Range::all(), each).await?;
        Ok(rows)
    };
    database.run(scan).await
}

/// Makes a database with rows `0..rows`, and ends its cluster.
fn made(rows: u32) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = cluster();
    let instance = open(directory.path(), &cluster, options());
    add(&instance, &cluster, 0, rows);
    instance.close().expect("it closes");
    directory
}

/// Tries a checkpoint, as a program does that believes the database to be open.
fn try_checkpoint(instance: &Instance, cluster: &Embedded) -> Result<(), DatabaseOpenError> {
    let ends = instance.run(cluster, async |database| match database.member().index {
        0 => database.checkpoint().await.map(drop),
        _ => Ok(()),
    });
    ends?.into_iter().collect()
}

/// Asserts that a fresh cluster has these rows.
#[track_caller]
fn assert_durable(directory: &Path, rows: u32) {
    let cluster = cluster();
    let instance = open(directory, &cluster, options());
    for seen in instance.run(&cluster, count).expect("it opens") {
        assert_eq!(seen.expect("memory is in order"), rows);
    }
    instance.close().expect("it closes");
}

/// Asserts that another instance on this cluster is refused, with an error that says what to do.
#[track_caller]
fn assert_refused(directory: &Path, cluster: &Embedded) {
    for _ in 0..2 {
        let again = open(directory, cluster, options());
        let error = try_checkpoint(&again, cluster).expect_err("it is no state of the log");
        assert!(matches!(error, DatabaseOpenError::InMemory { .. }), "{error}");
        let told = error.to_string();
        assert!(told.contains("start a new cluster") && !told.contains('\n'), "{told}");
        again.close().expect("nothing was begun");
    }
}

#[test]
fn an_opening_that_ran_out_of_memory_is_not_taken_for_the_database_by_the_next_one() {
    let directory = made(ROWS);
    let small = Embedded::start(config(256 << 10)).expect("a cluster");
    let instance = open(directory.path(), &small, options());
    let error = instance.run(&small, count).expect_err("the rows do not fit").to_string();
    assert!(error.contains("memory pool is full"), "{error}");
    // The same instance stays failed, and reports why.
    let told = try_checkpoint(&instance, &small).expect_err("it has failed").to_string();
    assert!(told.contains("memory pool is full") && told.contains("new cluster"), "{told}");
    instance.close().expect("it closes");
    assert_refused(directory.path(), &small);
    assert_durable(directory.path(), ROWS);
}

#[test]
fn an_opening_that_came_too_late_is_not_taken_for_the_database_by_the_next_one() {
    let directory = made(ROWS);
    let cluster = cluster();
    let patience = Duration::from_secs(3);
    let instance = open(directory.path(), &cluster, DatabaseOptions { patience, ..options() });
    // One worker never opens the database, so the other workers wait in vain after the name is in
    // the catalogue.
    let ends = cluster.run(async |member| match member.index {
        3 => Ok(()),
        _ => instance.open(&member).await.map(drop),
    });
    let ends = ends.expect("they leave");
    assert!(ends.iter().any(|end| matches!(end, Err(DatabaseOpenError::Late { .. }))), "{ends:?}");
    let told = try_checkpoint(&instance, &cluster).expect_err("it has failed").to_string();
    assert!(told.contains("new cluster"), "{told}");
    instance.close().expect("it closes");
    assert_refused(directory.path(), &cluster);
    assert_durable(directory.path(), ROWS);
}

#[test]
fn an_opening_that_is_dropped_half_way_is_not_continued() {
    let directory = made(ROWS);
    let cluster = cluster();
    let instance = open(directory.path(), &cluster, options());
    let ends = cluster.run(async |member| {
        let deadline = member.handle.now() + Duration::from_secs(3);
        match member.index {
            3 => true,
            _ => member.handle.timeout(deadline, instance.open(&member)).await.is_err(),
        }
    });
    assert!(ends.expect("they leave").contains(&true));
    let error = try_checkpoint(&instance, &cluster).expect_err("one worker gave up");
    assert!(matches!(error, DatabaseOpenError::Elsewhere { .. }), "{error}");
    instance.close().expect("it closes");
    assert_refused(directory.path(), &cluster);
    assert_durable(directory.path(), ROWS);
}

#[test]
fn the_memory_of_a_cluster_is_not_taken_for_a_log_that_another_cluster_went_on_with() {
    let directory = made(10);
    let first = cluster();
    let instance = open(directory.path(), &first, options());
    add(&instance, &first, 10, 20);
    instance.close().expect("it closes");
    let other = cluster();
    let instance = open(directory.path(), &other, options());
    add(&instance, &other, 20, 30);
    instance.close().expect("it closes");
    assert_refused(directory.path(), &first);
    assert_durable(directory.path(), 30);
}

#[test]
fn an_instance_belongs_to_the_first_cluster_on_which_it_was_run() {
    let directory = made(10);
    let first = cluster();
    let instance = open(directory.path(), &first, options());
    add(&instance, &first, 10, 20);
    let second = cluster();
    // Once without and once with a database of that name in the memory.
    for shared in [false, true] {
        if shared {
            let other = Instance::in_memory(second.config(), options());
            add(&other, &second, 0, 1);
        }
        let error = try_checkpoint(&instance, &second).expect_err("it is open on another one");
        assert!(matches!(error, DatabaseOpenError::OtherCluster { .. }), "{error}");
        let direct = second.run(async |member| instance.open(&member).await.map(drop));
        for end in direct.expect("they leave") {
            assert!(matches!(end, Err(DatabaseOpenError::OtherCluster { .. })), "{end:?}");
        }
    }
    // On its own cluster the instance continues.
    add(&instance, &first, 20, 30);
    drop(first);
    let third = cluster();
    let error = try_checkpoint(&instance, &third).expect_err("its cluster has ended");
    assert!(matches!(error, DatabaseOpenError::OtherCluster { .. }), "{error}");
    instance.close().expect("it closes");
    assert_durable(directory.path(), 30);
}

#[test]
fn a_database_without_a_log_is_shared_and_one_with_a_log_is_not() {
    let cluster = cluster();
    let first = Instance::in_memory(cluster.config(), options());
    add(&first, &cluster, 0, 10);
    let second = Instance::in_memory(cluster.config(), options());
    for seen in second.run(&cluster, count).expect("it opens") {
        assert_eq!(seen.expect("memory is in order"), 10);
    }
    // A log would lack these rows.
    let directory = tempfile::tempdir().expect("a directory");
    assert_refused(directory.path(), &cluster);
    let named = || DatabaseOptions { name: "logged".to_owned(), ..options() };
    let logged = open(directory.path(), &cluster, named());
    add(&logged, &cluster, 0, 20);
    // Its commits would be in no log.
    let unlogged = Instance::in_memory(cluster.config(), named());
    let error = unlogged.run(&cluster, count).expect_err("it has a log");
    assert!(matches!(error, DatabaseOpenError::HasLog { .. }), "{error}");
    logged.close().expect("it closes");
    assert_durable(directory.path(), 20);
}
