//! Opening a database: its content after a power cut, and the errors when it cannot be opened.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Embedded, Simulated};
use latchwork_database::{DatabaseOpenError, DatabaseOptions, Instance, Opened};
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{Range, Schema, Scheme, TransactionSettings, TxnError};
use latchwork_verbs_sim::SimConfig;
use latchwork_wal::Device;
use latchwork_wal::storage::Torn;

const LIMIT: Duration = Duration::from_secs(60);
const ACCOUNTS: u32 = 12;
const START: u64 = 100;
/// The first key of the rows in which workers count their transfers.
const COUNTS: u32 = 1_000;

fn config(seed: u64) -> ClusterConfig {
    ClusterConfig {
        compute_nodes: 2,
        workers: 2,
        memory_bytes: 32 << 20,
        cache_frames: Some(400),
        line_size: 1024,
        chunk_size: 128 << 10,
        seed,
        ..ClusterConfig::default()
    }
}

fn table(name: &str) -> Schema {
    let schema = Schema::builder(name)
        .column("id", ColumnType::U32)
        .column("value", ColumnType::U64)
        .primary_key(["id"]);
    schema.build().expect("a good schema")
}

fn options(scheme: Scheme) -> DatabaseOptions {
    // Rows whose log has failed stay locked, so transactions must not wait long for them.
    let retry_for = Duration::from_millis(100);
    let transactions = TransactionSettings { scheme, retry_for, ..TransactionSettings::default() };
    let patience = Duration::from_secs(20);
    DatabaseOptions {
        transactions,
        tables: vec![table("rows")],
        patience,
        ..DatabaseOptions::default()
    }
}

/// All rows, read in one transaction.
async fn rows(database: &Opened) -> Result<Vec<(u32, u64)>, TxnError> {
    let table = database.table("rows").await?;
    database
        .run(async |tx| {
            let mut rows = Vec::new();
            tx.scan(&table, Range::all(), |key, row| {
                let key = u32::from_be_bytes(key.try_into().expect("a key"));
                rows.push((key, u64::from_le_bytes(row.try_into().expect("a row"))));
                ControlFlow::Continue(())
            })
            .await?;
            Ok(rows)
        })
        .await
}

async fn add(database: &Opened, id: u32, value: u64) -> Result<(), TxnError> {
    let table = database.table("rows").await?;
    let (key, value) = (id.to_be_bytes(), value.to_le_bytes());
    database.run(async |tx| tx.insert(&table, &key, &value).await).await
}

/// For each worker, the number of its acknowledged transfers.
type Acknowledged = [u64; 4];

/// A power cut at some time: the device at that time, and the acknowledged transfers.
#[derive(Default)]
struct Cut {
    counts: Cell<Acknowledged>,
    device: RefCell<Option<(Torn, Acknowledged)>>,
}

/// Makes the accounts, if they do not exist.
async fn fill(database: Opened) -> Result<(), TxnError> {
    let table = database.table("rows").await?;
    if database.member().index > 0 || !rows(&database).await?.is_empty() {
        return Ok(());
    }
    database
        .run(async |tx| {
            for id in (0..ACCOUNTS).chain(COUNTS..COUNTS + 4) {
                let value = if id < ACCOUNTS { START } else { 0 };
                tx.insert(&table, &id.to_be_bytes(), &value.to_le_bytes()).await?;
            }
            Ok(())
        })
        .await
}

async fn transfers(database: Opened, cut: Rc<Cut>, device: Torn, seed: u64) {
    let table = database.table("rows").await.expect("it is made before any worker goes on");
    let member = database.member();
    let me = member.index as u32;
    for round in 0..30 {
        if cut.device.borrow().is_some() {
            return;
        }
        let account = || member.handle.random_below(ACCOUNTS.into()) as u32;
        let (from, to) = (account(), account());
        let moved = database
            .run(async |tx| {
                let mut count = 0;
                for (id, change) in [(from, -1), (to, 1), (COUNTS + me, 1)] {
                    let mut row = Vec::new();
                    tx.get_for_update(&table, &id.to_be_bytes(), &mut row).await?;
                    let before = u64::from_le_bytes(row[..].try_into().expect("a row"));
                    count = before.wrapping_add_signed(change);
                    tx.update(&table, &id.to_be_bytes(), &count.to_le_bytes()).await?;
                }
                Ok(count)
            })
            .await;
        let count = match moved {
            Ok(count) => count,
            // The log has failed.
            Err(_) if cut.device.borrow().is_some() => return,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        let mut counts = cut.counts.get();
        counts[me as usize] = count;
        cut.counts.set(counts);
        if me == 1 && round % 10 == 9 {
            let written = database.checkpoint().await;
            assert!(written.is_ok() || cut.device.borrow().is_some(), "seed {seed}: {written:?}");
        }
        if me == 3 && round == 5 + seed % 20 {
            *cut.device.borrow_mut() = Some((device.crash(seed), counts));
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_power_cut_again_and_again() {
    for (seed, scheme) in (0..6).zip(Scheme::ALL.into_iter().cycle()) {
        let (mut device, mut expected) = (Torn::new(seed), Acknowledged::default());
        for life in 0..3 {
            let cluster = Simulated::start(config(seed), SimConfig::default()).expect("a cluster");
            let storage = Arc::new(device.clone());
            let opened =
                Instance::on(storage, Some(Device::default()), cluster.config(), options(scheme));
            let instance = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(instance.found().is_new(), life == 0, "seed {seed}: {:?}", instance.found());
            if life > 0 {
                let seen = instance.run_simulated(&cluster, LIMIT, async |database| {
                    rows(&database).await.expect("memory is in order")
                });
                for rows in seen.expect("it opens") {
                    let (accounts, counts): (Vec<_>, Vec<_>) =
                        rows.into_iter().partition(|(id, _)| *id < ACCOUNTS);
                    let money = accounts.iter().fold(0_u64, |all, (_, one)| all.wrapping_add(*one));
                    assert_eq!(money, u64::from(ACCOUNTS) * START, "seed {seed}, life {life}");
                    for ((_, count), least) in counts.iter().zip(expected) {
                        assert!(*count >= least, "seed {seed}, life {life}: {count} of {least}");
                    }
                }
            }
            let filled = instance.run_simulated(&cluster, LIMIT, fill).expect("it opens");
            assert!(filled.iter().all(Result::is_ok), "seed {seed}: {filled:?}");
            let cut = Rc::<Cut>::default();
            let (of, on) = (cut.clone(), device.clone());
            let body = move |database| transfers(database, of.clone(), on.clone(), seed);
            let ended = instance.run_simulated(&cluster, LIMIT, body);
            // A log that had nothing to write since the power cut closes without an error.
            if let Err(error) = ended {
                assert!(matches!(error, DatabaseOpenError::Log(_)), "seed {seed}: {error}");
            }
            (device, expected) = cut.device.take().expect("the power was cut");
        }
    }
}

#[test]
fn an_error_of_one_worker_ends_the_opening_on_all_and_is_the_one_that_is_reported() {
    let cluster = Embedded::start(config(1)).expect("a cluster");
    let directory = tempfile::tempdir().expect("a directory");
    let open = |options| Instance::at(directory.path(), cluster.config(), options);
    let instance = open(options(Scheme::default())).expect("it opens");
    instance.run(&cluster, async |_| {}).expect("it opens");
    instance.close().expect("it closes");

    let other = Schema::builder("rows").column("id", ColumnType::U64).primary_key(["id"]);
    let tables = vec![other.build().expect("a good schema")];
    let cluster = Embedded::start(config(1)).expect("a cluster");
    let instance =
        open(DatabaseOptions { tables, ..options(Scheme::default()) }).expect("it opens");
    let error = instance.run(&cluster, async |_| {}).expect_err("another schema");
    assert!(matches!(error, DatabaseOpenError::OtherSchema { .. }), "{error}");
    let error = instance.run(&cluster, async |_| {}).expect_err("it stays so").to_string();
    assert!(error.contains("the database has a table rows with another schema"), "{error}");
}

#[test]
fn a_worker_that_does_not_come_ends_the_opening_in_time() {
    let cluster = Embedded::start(config(1)).expect("a cluster");
    let patience = Duration::from_millis(200);
    let options = DatabaseOptions { patience, ..options(Scheme::default()) };
    let instance = Instance::in_memory(cluster.config(), options);
    let ends = cluster.run(async |member| match member.index {
        3 => None,
        _ => Some(instance.open(&member).await.map(drop)),
    });
    let mut late = 0;
    for end in ends.expect("they leave").into_iter().flatten() {
        match end {
            Err(DatabaseOpenError::Late { what, .. }) => {
                assert!(what.contains("3 of 4 workers"), "{what}");
                late += 1;
            }
            Err(DatabaseOpenError::Elsewhere { cause }) => {
                assert!(cause.contains("3 of 4"), "{cause}")
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(late > 0);
    let error = cluster.run_on(3, async |member| match member.worker {
        2 => instance.open(&member).await.map(drop).map_err(|error| error.to_string()),
        _ => Ok(()),
    });
    let told = error.expect("they leave").remove(2).expect_err("there is no such worker");
    assert!(told.contains("2 nodes with 2 workers each"), "{told}");
}

#[test]
fn a_directory_that_is_damaged_or_none_is_refused_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, b"no directory").expect("room");
    let open = |path: &std::path::Path| {
        Instance::at(path, &config(1), options(Scheme::default())).map(drop)
    };
    let told = open(&file).expect_err("a file").to_string();
    assert!(told.contains("file") && !told.contains('\n'), "{told}");
    let path = directory.path().join("logs");
    let cluster = Embedded::start(config(1)).expect("a cluster");
    let instance = Instance::at(&path, cluster.config(), options(Scheme::default()));
    let instance = instance.expect("it opens");
    let added = instance.run(&cluster, async |database| match database.member().index {
        0 => {
            for id in 0..5 {
                add(&database, id, 1).await?;
            }
            Ok(())
        }
        _ => Ok::<_, TxnError>(()),
    });
    assert!(added.expect("it opens").into_iter().all(|added| added.is_ok()));
    instance.close().expect("it closes");
    let log = path.join("00-0000000001.log");
    let mut bytes = std::fs::read(&log).expect("a segment");
    bytes[100] ^= 1;
    std::fs::write(&log, bytes).expect("room");
    let told = open(&path).expect_err("damage").to_string();
    assert!(told.contains("00-0000000001.log"), "{told}");
}
