//! Databases by their names: with a log and without one, after a panic, and without a close at the
//! end of the program.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use latchwork::cluster::ClusterError;
use latchwork::database::{DatabaseOpenError, Found};
use latchwork::txn::{Schema, TxnError, schema::ColumnType};
use latchwork::verbs_sim::SimConfig;
use latchwork::wal::Device;
use latchwork::wal::storage::Torn;
use latchwork::{Cluster, ClusterWorker, Error, Result};

use crate::config;

fn rows() -> Schema {
    let schema = Schema::builder("rows")
        .column("id", ColumnType::U32)
        .column("value", ColumnType::U64)
        .primary_key(["id"]);
    schema.build().expect("a good schema")
}

fn threads() -> Cluster {
    Cluster::start(config(2, 2, 1)).expect("a cluster")
}

fn world(seed: u64) -> Cluster {
    Cluster::simulated(config(2, 2, seed), SimConfig::default()).expect("a cluster")
}

fn open(cluster: &Cluster, directory: &Path) -> Result<Found> {
    cluster.database("counts").directory(directory).table(rows()).open()
}

/// Adds one to row 0 of a database, and returns its value.
async fn increment(worker: &ClusterWorker, database: &str) -> Result<u64> {
    let database = worker.database(database)?;
    let rows = database.table("rows").await?;
    let key = 0_u32.to_be_bytes();
    let sum = database.run(async |tx| {
        let mut row = Vec::new();
        if tx.get_for_update(&rows, &key, &mut row).await? {
            let value = u64::from_le_bytes(row[..].try_into().expect("a row")) + 1;
            tx.update(&rows, &key, &value.to_le_bytes()).await?;
            return Ok(value);
        }
        tx.insert(&rows, &key, &1_u64.to_le_bytes()).await?;
        Ok(1)
    });
    Ok(sum.await?)
}

/// Lets each of the four workers add ten, and returns the highest value.
fn add_forty(cluster: &Cluster) -> u64 {
    let highest = cluster.run(async |worker| {
        let mut last = 0;
        for _ in 0..10 {
            last = increment(&worker, "counts").await?;
        }
        Ok(last)
    });
    highest.expect("memory has room").into_iter().max().expect("there are workers")
}

#[test]
fn a_database_in_memory_is_the_same_for_all_workers_and_phases() {
    for cluster in [threads(), world(3)] {
        cluster.database("counts").table(rows()).open().expect("a new database");
        assert_eq!(add_forty(&cluster), 40);
        assert_eq!(add_forty(&cluster), 80);
        cluster.close().expect("there is no log");
    }
}

#[test]
fn a_log_is_read_again_after_a_close_and_after_a_forgotten_close_in_threads_and_in_worlds() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let mut sum = 0;
    for (forgets, make) in [
        (false, threads as fn() -> Cluster),
        (true, threads),
        (false, || world(1)),
        (true, || world(2)),
        (false, threads),
    ] {
        let cluster = make();
        let found = open(&cluster, directory).expect("it opens");
        assert_eq!(found.is_new(), sum == 0, "{found:?}");
        sum += 40;
        assert_eq!(add_forty(&cluster), sum);
        if !forgets {
            cluster.close().expect("it closes");
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_power_cut_of_a_simulated_device() {
    for seed in 0..10 {
        let (mut device, mut sum) = (Torn::new(seed), 0);
        for _ in 0..3 {
            let cluster = world(seed);
            let slow = Device { sync: Duration::from_micros(500), ..Device::default() };
            let counts = cluster.database("counts").table(rows());
            let found = counts.storage(Arc::new(device.clone()), Some(slow)).open();
            assert_eq!(found.expect("it opens").is_new(), sum == 0);
            sum += 40;
            assert_eq!(add_forty(&cluster), sum);
            // What the device has not written durably is torn, before anything is closed.
            device = device.crash(seed);
        }
    }
}

#[test]
fn an_error_of_a_body_is_returned_and_ends_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = threads();
    open(&cluster, directory.path()).expect("it opens");
    let error = cluster.run(async |worker| {
        increment(&worker, "counts").await?;
        match worker.index {
            2 => Err(Error::from("not today")),
            _ => increment(&worker, "counts").await,
        }
    });
    assert_eq!(error.expect_err("worker 2 fails").to_string(), "not today");
    assert_eq!(add_forty(&cluster), 47);
    cluster.close().expect("it closes");
}

#[test]
fn a_panic_is_named_and_ends_the_cluster_and_no_commit_is_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let mut sum = 0;
    for make in [threads as fn() -> Cluster, || world(5)] {
        let cluster = make();
        open(&cluster, directory).expect("it opens");
        cluster.database("other").table(rows()).open().expect("a new database");
        let error = cluster.run(async |worker| {
            increment(&worker, "counts").await?;
            increment(&worker, "other").await?;
            if worker.index == 3 {
                panic!("boom");
            }
            increment(&worker, "counts").await
        });
        sum += 7;
        let error = error.expect_err("worker 3 panics");
        assert!(matches!(&error, Error::Cluster(ClusterError::Panicked { .. })), "{error:?}");
        assert!(error.to_string().contains("node2-worker1 panicked: boom"), "{error}");
        let again = cluster.run(async |_| Ok(())).expect_err("it stays so");
        assert!(matches!(again, Error::Failed { .. }), "{again:?}");
        assert!(again.to_string().contains("boom"), "{again}");
        // Both databases know of the panic, and neither is used any more.
        for name in ["counts", "other"] {
            assert!(cluster.instance(name).is_some(), "it is open until the close");
        }
        cluster.close().expect("the log is whole");

        let cluster = make();
        open(&cluster, directory).expect("it opens");
        sum += 40;
        assert_eq!(add_forty(&cluster), sum);
        cluster.close().expect("it closes");
    }
}

#[test]
fn a_panic_of_a_task_is_named() {
    let cluster = threads();
    cluster.database("counts").table(rows()).open().expect("a new database");
    let error = cluster.run(async |worker| {
        if worker.index == 1 {
            let task = worker.handle.spawn(async { panic!("boom in a task") });
            let _: std::result::Result<(), _> = task.await;
        }
        Ok(())
    });
    let told = error.expect_err("a panic").to_string();
    assert!(told.contains("node1-worker1 panicked: boom in a task"), "{told}");
    assert!(matches!(cluster.run(async |_| Ok(())), Err(Error::Failed { .. })));
}

#[test]
fn a_body_uses_several_databases_and_trees_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = threads();
    open(&cluster, directory.path()).expect("it opens");
    cluster.database("other").table(rows()).open().expect("a new database");
    let ends = cluster.run(async |worker| {
        let seen = worker.tree("seen").await?;
        let (one, other) =
            (increment(&worker, "counts").await?, increment(&worker, "other").await?);
        seen.insert(&[worker.index as u8], &one.to_le_bytes()).await?;
        // A worker may close its part early. The run does not close it again.
        worker.database("other")?.close().await?;
        Ok(other)
    });
    let mut ends = ends.expect("memory has room");
    ends.sort_unstable();
    assert_eq!(ends, [1, 2, 3, 4]);
    let seen = cluster.run(async |worker| Ok(worker.tree("seen").await?.count().await?));
    assert_eq!(seen.expect("it opens"), [4; 4]);
    cluster.close().expect("it closes");
}

#[test]
fn a_database_that_is_not_open_or_is_open_already_is_an_error_that_says_what_to_do() {
    let cluster = threads();
    let error = cluster.run(async |worker| worker.database("counts").map(drop));
    let error = error.expect_err("there is none");
    assert!(matches!(error, Error::NoDatabase { .. }), "{error:?}");
    assert!(error.to_string().contains("Cluster::database(\"counts\")"), "{error}");
    cluster.database("counts").table(rows()).open().expect("a new database");
    let error = cluster.database("counts").open().expect_err("it is open");
    assert!(matches!(error, Error::AlreadyOpen { .. }), "{error:?}");
}

#[test]
fn an_opening_that_fails_leaves_the_cluster_usable_without_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = threads();
    open(&cluster, directory.path()).expect("it opens");
    // One instance at a time can have a directory open.
    let twice = cluster.database("twice").directory(directory.path()).open();
    let twice = twice.expect_err("it is in use");
    assert!(matches!(twice, Error::Database(DatabaseOpenError::OpenHere { .. })), "{twice:?}");
    // Tables of the same name with other columns.
    let memory = || cluster.database("memory");
    memory().table(rows()).open().expect("a new database");
    let schema = Schema::builder("rows").column("id", ColumnType::U64).primary_key(["id"]);
    let other = cluster.database("wrong").table(rows()).table(schema.build().expect("good"));
    let other = other.open().expect_err("two schemas of one name");
    assert!(matches!(other, Error::Database(DatabaseOpenError::OtherSchema { .. })), "{other:?}");
    assert_eq!(add_forty(&cluster), 40);
    cluster.close().expect("it closes");
}

#[test]
fn an_opening_that_takes_longer_than_the_patience_ends_and_says_for_what_it_waited() {
    let cluster = world(1).with_patience(Duration::from_nanos(1));
    let late = cluster.database("counts").table(rows()).open().expect_err("no time at all");
    assert!(matches!(&late, Error::Database(DatabaseOpenError::Late { .. })), "{late:?}");
    assert!(late.to_string().contains("within 1ns"), "{late}");
}

#[test]
fn a_run_in_virtual_time_ends_at_its_limit() {
    let cluster = world(1).with_limit(Duration::from_secs(1));
    let error = cluster.run(async |worker| {
        worker.handle.sleep(Duration::from_secs(3_600)).await;
        Ok(())
    });
    let error = error.expect_err("it sleeps too long");
    assert!(matches!(error, Error::Cluster(ClusterError::World(_))), "{error:?}");
}

#[test]
fn an_error_of_a_transaction_passes_through() {
    let cluster = threads();
    cluster.database("counts").table(rows()).open().expect("a new database");
    let error = cluster.run(async |worker| {
        worker.database("counts")?.table("missing").await?;
        Ok(())
    });
    let error = error.expect_err("there is no such table");
    assert!(matches!(&error, Error::Transaction(TxnError::NoTable { name }) if name == "missing"));
}
