//! All rows of a database with their versions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use latchwork_coherence::LineLocks;
use latchwork_history::{RecordedOperation, Recording};
use latchwork_txn::{Database, Range, Table};

use crate::crashes::judge::Rows;

/// The tag of the transaction that wrote a row.
pub(crate) fn tag_of(row: &[u8]) -> u64 {
    u64::from_le_bytes(row[..8].try_into().expect("8 bytes"))
}

/// All rows, read by the primary and by the secondary index, which must agree.
pub(crate) async fn rows<M: LineLocks>(database: &Database<M>, table: &Table<M>) -> Rows {
    let recording = Recording::memory(0);
    database.record(recording.recorder(), 0);
    let mut tx = database.begin().await.expect("memory is in order");
    let (mut tags, mut others) = (BTreeMap::new(), BTreeMap::new());
    let on = ControlFlow::Continue(());
    let key_of = |key: &[u8]| u32::from_be_bytes(key.try_into().expect("4 bytes"));
    let all = tx.scan(table, Range::all(), |key, row| {
        tags.insert(key_of(key), tag_of(row));
        on
    });
    all.await.expect("memory is in order");
    let all = tx.scan_index(table, 0, Range::all(), |key, row| {
        others.insert(key_of(key), tag_of(row));
        on
    });
    all.await.expect("memory is in order");
    tx.commit().await.expect("nobody else is there");
    database.record(latchwork_history::Recorder::off(), 0);
    assert_eq!(tags, others, "the indexes lead to the same rows");
    let mut versions = BTreeMap::new();
    for transaction in &recording.history().transactions {
        for operation in &transaction.operations {
            let RecordedOperation::Scan(scan) = operation else { continue };
            let with_version = scan.seen.iter().filter_map(|seen| Some((&seen.key, seen.version?)));
            versions.extend(with_version.map(|(key, version)| (key_of(key), version)));
        }
    }
    tags.into_iter().map(|(key, tag)| (key, (tag, versions[&key]))).collect()
}
