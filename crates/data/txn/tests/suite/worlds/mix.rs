//! Random transactions.

use std::ops::ControlFlow;
use std::time::Duration;

use latchwork_coherence::LineLocks;
use latchwork_runtime::Handle;
use latchwork_txn::{Database, Range, Table, Transaction, TxnError, Values};

/// One step. Steps are drawn before the transaction, so that they are the same in each attempt.
#[derive(Clone, Debug)]
enum Step {
    Get(u32),
    /// Reads a number and adds one.
    Count(u32),
    /// Writes a row without a read before.
    Put {
        key: u32,
        bucket: u8,
        code: u16,
        note: usize,
    },
    /// Adds a row without a lookup.
    Blind {
        key: u32,
        bucket: u8,
        code: u16,
    },
    /// Changes a part of a row.
    Part(u32, u64),
    Delete(u32),
    Scan {
        from: u32,
        to: u32,
        limit: usize,
        descending: bool,
    },
    Bucket(u8),
    /// Reads many rows together, some of them twice. A step that reads rows to write adds one to
    /// each.
    Many {
        lines: bool,
        keys: Vec<u32>,
        counts: bool,
    },
    /// Adds lines side by side, which the commit places and enters together: blindly, or after a
    /// lookup.
    Lines {
        keys: Vec<u32>,
        blindly: bool,
        note: usize,
    },
    /// Deletes lines.
    NoLines(Vec<u32>),
}

/// The tables of a world.
#[derive(Clone, Debug)]
pub(crate) struct Tables<M: LineLocks> {
    /// With secondary indexes.
    pub(crate) things: Table<M>,
    /// Without secondary indexes.
    pub(crate) lines: Table<M>,
}

fn draw(handle: &Handle, keys: u32) -> Step {
    let key = || handle.random_below(keys.into()) as u32;
    let bucket = || handle.random_below(3) as u8;
    let code = || handle.random_below(u64::from(keys) * 2) as u16;
    let side_by_side = || {
        let (from, count) = (key(), 1 + handle.random_below(8) as u32);
        (from..(from + count).min(keys)).collect::<Vec<_>>()
    };
    match handle.random_below(20) {
        0..=3 => Step::Get(key()),
        4..=6 => Step::Count(key()),
        // Mostly short, sometimes most of a line: rows grow, move away and return.
        7..=9 => {
            let long = handle.random_below(4) == 0;
            let note = handle.random_below(if long { 700 } else { 30 });
            Step::Put { key: key(), bucket: bucket(), code: code(), note: note as usize }
        }
        10 if handle.random_below(2) == 0 => Step::Part(key(), handle.random()),
        10 => Step::Blind { key: key(), bucket: bucket(), code: code() },
        11..=12 => Step::Delete(key()),
        13..=14 => {
            let (one, two) = (key(), key());
            let limit = if handle.random_below(3) == 0 { 2 } else { usize::MAX };
            let descending = handle.random_below(2) == 0;
            Step::Scan { from: one.min(two), to: one.max(two) + 1, limit, descending }
        }
        15 => Step::Bucket(bucket()),
        16..=17 => {
            let keys = (0..handle.random_below(20)).map(|_| key()).collect();
            let [lines, counts] = [(); 2].map(|()| handle.random_below(2) == 0);
            Step::Many { lines, keys, counts }
        }
        18 if handle.random_below(3) == 0 => Step::NoLines(side_by_side()),
        _ => {
            let (keys, blindly) = (side_by_side(), handle.random_below(2) == 0);
            let long = handle.random_below(4) == 0;
            let note = handle.random_below(if long { 200 } else { 30 });
            Step::Lines { keys, blindly, note: note as usize }
        }
    }
}

fn row_of(amount: u64, bucket: u8, code: u16, note: usize) -> Vec<u8> {
    let mut row = amount.to_le_bytes().to_vec();
    row.push(bucket);
    row.extend_from_slice(&code.to_le_bytes());
    row.resize(11 + note, bucket);
    row
}

/// Runs one transaction until it commits or gives up.
pub(crate) async fn transaction<M: LineLocks>(
    database: &Database<M>,
    tables: &Tables<M>,
    keys: u32,
) {
    let handle = database.memory().handle().clone();
    let steps: Vec<_> = (0..1 + handle.random_below(5)).map(|_| draw(&handle, keys)).collect();
    let give_up = handle.random_below(10) == 0;
    let running = database.run(async |tx| {
        for step in &steps {
            self::step(tx, tables, step).await?;
            handle.charge(Duration::from_nanos(handle.random_below(2000)));
            handle.catch_up().await;
        }
        if give_up { Err(TxnError::NotFound) } else { Ok(()) }
    });
    let ran = match handle.random_below(12) {
        // The transaction is dropped at any moment, also during its commit.
        0 => {
            let until = handle.now() + Duration::from_micros(handle.random_below(60));
            match handle.timeout(until, running).await {
                Ok(ran) => ran,
                Err(_) => return,
            }
        }
        _ => running.await,
    };
    match ran {
        Ok(()) if !give_up => {}
        // Another row has the code, or a blindly added row existed.
        Err(TxnError::Exists) => {}
        Err(TxnError::NotFound) if give_up => {}
        // Without aged transactions no transaction is sure to commit.
        Err(TxnError::Contended { .. }) if database.node().settings().elder_after == 0 => {}
        other => panic!("{steps:?}: {other:?}"),
    }
}

async fn step<M: LineLocks>(
    tx: &mut Transaction<M>,
    tables: &Tables<M>,
    step: &Step,
) -> Result<(), TxnError> {
    let mut row = Vec::new();
    let table = &tables.things;
    match *step {
        Step::Many { lines, ref keys, counts } => {
            let table = if lines { &tables.lines } else { table };
            let (bytes, mut values): (Vec<_>, _) =
                (keys.iter().map(|key| key.to_be_bytes()).collect(), Values::default());
            match counts {
                true => tx.get_many_for_update(table, &bytes, &mut values).await?,
                false => tx.get_many(table, &bytes, &mut values).await?,
            }
            assert_eq!(values.len(), keys.len());
            for (number, key) in bytes.iter().enumerate() {
                let again = bytes[..number].contains(key);
                // The result must equal single reads, unless the reads are not of one moment.
                let there = tx.get(table, key, &mut row).await?;
                let seen = values.get(number);
                if !(counts && again) && seen != there.then_some(&row[..]) {
                    tx.validate().await?;
                    panic!("{key:?}: {seen:?}, and then {row:?}");
                }
                let Some(seen) = seen.filter(|_| counts && !again) else { continue };
                let amount = u64::from_le_bytes(*seen.first_chunk().expect("8 bytes"));
                tx.update_part(table, key, 0, &(amount + 1).to_le_bytes()).await?;
            }
        }
        Step::Lines { ref keys, blindly, note } => {
            for key in keys {
                let (key, new) = (key.to_be_bytes(), row_of(1, 0, 0, note));
                let added = match blindly {
                    true => tx.insert_blind(&tables.lines, &key, &new),
                    false => tx.insert(&tables.lines, &key, &new).await,
                };
                if !matches!(added, Err(TxnError::Exists)) {
                    added?;
                }
            }
        }
        Step::NoLines(ref keys) => {
            for key in keys {
                let deleted = tx.delete(&tables.lines, &key.to_be_bytes()).await;
                if !matches!(deleted, Err(TxnError::NotFound | TxnError::Blind)) {
                    deleted?;
                }
            }
        }
        Step::Get(key) => {
            tx.get(table, &key.to_be_bytes(), &mut row).await?;
        }
        Step::Count(key) => {
            let key = key.to_be_bytes();
            if tx.get_for_update(table, &key, &mut row).await? {
                let amount = u64::from_le_bytes(row[..8].try_into().expect("8 bytes"));
                tx.update_part(table, &key, 0, &(amount + 1).to_le_bytes()).await?;
            }
        }
        Step::Blind { key, bucket, code } => {
            let added = tx.insert_blind(table, &key.to_be_bytes(), &row_of(2, bucket, code, 0));
            if !matches!(added, Err(TxnError::Exists)) {
                added?;
            }
        }
        Step::Put { key, bucket, code, note } => {
            let key = key.to_be_bytes();
            let new = row_of(1, bucket, code, note);
            match tx.insert(table, &key, &new).await {
                Err(TxnError::Exists) => tx.update(table, &key, &new).await?,
                other => other?,
            }
            // The transaction sees its own write.
            assert!(tx.get(table, &key, &mut row).await? && row == new);
        }
        Step::Part(key, amount) => {
            let changed = tx.update_part(table, &key.to_be_bytes(), 0, &amount.to_le_bytes()).await;
            if !matches!(changed, Err(TxnError::NotFound)) {
                changed?;
            }
        }
        Step::Delete(key) => {
            let deleted = tx.delete(table, &key.to_be_bytes()).await;
            if !matches!(deleted, Err(TxnError::NotFound)) {
                // The transaction cannot know this for a row that it has added blindly.
                if matches!(deleted, Err(TxnError::Blind)) {
                    return Ok(());
                }
                deleted?;
                assert!(!tx.get(table, &key.to_be_bytes(), &mut row).await?);
            }
        }
        Step::Scan { from, to, limit, descending } => {
            let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
            let range = Range { descending, ..Range::between(&from, &to).limit(limit) };
            let mut keys = Vec::new();
            tx.scan(table, range, |key, _| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            })
            .await?;
            let ordered = match descending {
                true => keys.is_sorted_by(|a, b| a > b),
                false => keys.is_sorted_by(|a, b| a < b),
            };
            assert!(ordered && keys.len() <= limit, "{keys:?}");
        }
        Step::Bucket(bucket) => {
            let (from, to) = ([bucket], [bucket + 1]);
            tx.scan_index(table, 0, Range::between(&from, &to), |_, row| {
                assert_eq!(row[8], bucket);
                ControlFlow::Continue(())
            })
            .await?;
        }
    }
    Ok(())
}
