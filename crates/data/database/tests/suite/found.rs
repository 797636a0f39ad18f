//! What an instance reports of the directory that it opened.

use std::path::Path;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Embedded};
use latchwork_database::{DatabaseOpenError, DatabaseOptions, Instance};
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{Schema, Transaction, TxnError};
use latchwork_wal::Timestamp;

fn config() -> ClusterConfig {
    ClusterConfig {
        compute_nodes: 1,
        memory_bytes: 16 << 20,
        cache_frames: Some(2_000),
        line_size: 1024,
        chunk_size: 64 << 10,
        ..ClusterConfig::default()
    }
}

fn options() -> DatabaseOptions {
    let schema = Schema::builder("rows").column("id", ColumnType::U32).primary_key(["id"]);
    let tables = vec![schema.build().expect("a good schema")];
    DatabaseOptions { tables, patience: Duration::from_secs(30), ..DatabaseOptions::default() }
}

/// Inserts the rows of one range and deletes those of another one, a commit for each row.
fn change(directory: &Path, inserted: std::ops::Range<u32>, deleted: std::ops::Range<u32>) {
    let cluster = Embedded::start(config()).expect("a cluster");
    let instance = Instance::at(directory, &config(), options()).expect("it opens");
    let ends = instance.run(&cluster, async |database| {
        let table = database.table("rows").await?;
        for id in inserted.clone() {
            let insert = async |tx: &mut Transaction<_>| {
                tx.insert(&table, &id.to_be_bytes(), &[]).await.map(drop)
            };
            database.run(insert).await?;
        }
        for id in deleted.clone() {
            let delete = async |tx: &mut Transaction<_>| {
                tx.delete(&table, &id.to_be_bytes()).await.map(drop)
            };
            database.run(delete).await?;
        }
        Ok::<_, TxnError>(())
    });
    for end in ends.expect("it opens") {
        end.expect("each row is inserted once and deleted once");
    }
    instance.close().expect("it closes");
}

fn found(directory: &Path) -> latchwork_database::Found {
    let instance = Instance::at(directory, &config(), options()).expect("it opens");
    let found = instance.found();
    instance.close().expect("nothing was begun");
    found
}

#[test]
fn an_empty_directory_is_new_and_one_with_a_table_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let empty = found(directory.path());
    assert!(empty.is_new(), "{empty:?}");
    assert_eq!((empty.rows, empty.records, empty.last), (0, 0, Timestamp::ZERO));
    // An instance that was closed before a worker opened it leaves the directory new.
    assert!(found(directory.path()).is_new());

    change(directory.path(), 0..0, 0..0);
    let with_table = found(directory.path());
    assert!(!with_table.is_new(), "{with_table:?}");
    assert!(with_table.rows > 0 && with_table.last > Timestamp::ZERO, "{with_table:?}");
}

#[test]
fn deleted_rows_are_not_counted_although_the_log_has_them() {
    let directory = tempfile::tempdir().expect("a directory");
    change(directory.path(), 0..0, 0..0);
    let before = found(directory.path());
    change(directory.path(), 0..30, 0..10);
    let after = found(directory.path());
    assert_eq!(after.rows, before.rows + 20);
    assert_eq!(after.records, before.records + 40);
    assert!(after.last > before.last);
}

#[test]
fn settings_that_no_log_can_have_are_refused_before_anything_is_made() {
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("log");
    let mut options = options();
    options.log.segment_bytes = 1;
    let error = Instance::at(&directory, &config(), options).expect_err("no record fits");
    assert!(matches!(error, DatabaseOpenError::Log(_)), "{error:?}");
    let files = std::fs::read_dir(&directory).map_or(0, Iterator::count);
    assert_eq!(files, 0, "{error}");
}
