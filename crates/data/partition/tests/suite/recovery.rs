//! After a crash, each transaction over several nodes is there as a whole or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use latchwork_partition::{DECISION, PREPARE, resolve};
use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
use latchwork_wal::storage::Torn;
use latchwork_wal::{
    DatabaseId, Log, LogDirectory, LogRecord, LogRecordKind, LogSettings, NodeId, Replayed,
    TableId, Timestamp,
};

const DATABASE: DatabaseId = DatabaseId(3);
const TABLE: TableId = TableId(1);

fn at(counter: u64, node: u8) -> Timestamp {
    Timestamp::new(counter, NodeId(node)).expect("in range")
}

/// A record as the crate writes it. `proposals` belong to a decision only, and are of nodes 1, 2 ..
fn record(which: u8, ts: Timestamp, id: u64, proposals: &[Timestamp], key: &[u8]) -> LogRecord {
    let mut group = LogRecord::new(LogRecordKind::Note(which), ts);
    let mut named = Vec::new();
    for (node, proposed) in (1..).zip(proposals) {
        named.push(node);
        named.extend_from_slice(&proposed.0.to_le_bytes());
    }
    group.put(TableId(u32::MAX), &id.to_le_bytes(), &named).expect("room");
    group.put(TABLE, key, &id.to_le_bytes()).expect("room");
    group
}

/// The rows after a restart, with the transaction that wrote each.
fn rows(replayed: &Replayed) -> BTreeMap<Vec<u8>, u64> {
    let live = replayed.keys().filter_map(|(_, latest)| {
        let value = latest.value.as_deref()?.try_into().expect("8 bytes");
        Some((latest.key.to_vec(), u64::from_le_bytes(value)))
    });
    live.collect()
}

fn restart(device: &Torn) -> (Replayed, usize) {
    let directory = LogDirectory::open(Arc::new(device.clone()), DATABASE).expect("it opens");
    let mut replayed = directory.replay(1).expect("it reads");
    let resolved = resolve(&replayed.notes, directory.floor()).expect("records make sense");
    resolved.merge_into(&mut replayed);
    (replayed, resolved.aborted)
}

/// Writes the first `steps` steps of transaction 7 over three nodes, each durable, and one more
/// that may be torn; then crashes.
fn crash_after(steps: usize, seed: u64) -> (Replayed, usize) {
    let device = Torn::new(seed);
    let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
    let handle = executor.handle();
    let directory = LogDirectory::open(Arc::new(device.clone()), DATABASE).expect("it is empty");
    let log = |node| {
        Log::threaded(&directory, NodeId(node), LogSettings::default()).expect("nobody has it")
    };
    let logs = [log(0), log(1), log(2)];
    let proposals = [at(10, 1), at(12, 2)];
    let groups = [
        (1, record(PREPARE, proposals[0], 7, &[], b"one")),
        (2, record(PREPARE, proposals[1], 7, &[], b"two")),
        (0, record(DECISION, at(13, 0), 7, &proposals, b"zero")),
    ];
    executor.block_on(async {
        let deadline = handle.now() + Duration::from_secs(10);
        let mut before = LogRecord::new(LogRecordKind::Commit, at(2, 1));
        before.put(TABLE, b"one", &1_u64.to_le_bytes()).expect("room");
        let position = logs[1].append(&before).expect("room");
        logs[1].durable(&handle, &position, deadline).await.expect("a good device");
        for (node, group) in &groups[..steps] {
            let position = logs[*node].append(group).expect("room");
            logs[*node].durable(&handle, &position, deadline).await.expect("a good device");
        }
        if let Some((node, group)) = groups.get(steps) {
            // No task waits for this record: the crash may come before it, behind it, or in the
            // middle.
            logs[*node].append(group).expect("room");
        }
    });
    restart(&device.crash(seed))
}

#[test]
fn a_transaction_is_whole_or_nothing_wherever_the_crash_comes() {
    let before = BTreeMap::from([(b"one".to_vec(), 1)]);
    let after = BTreeMap::from([(b"zero".to_vec(), 7), (b"one".to_vec(), 7), (b"two".to_vec(), 7)]);
    let (mut committed, mut torn) = (0, 0);
    for seed in 0..30 {
        for steps in 0..=3 {
            let (replayed, aborted) = crash_after(steps, seed);
            let rows = rows(&replayed);
            match steps {
                3 => assert_eq!((&rows, aborted), (&after, 0), "{seed}: it was decided"),
                2 if rows == after => committed += 1,
                2 => {
                    assert_eq!((&rows, aborted), (&before, 1), "{seed}");
                    torn += 1;
                }
                _ => assert_eq!(rows, before, "{seed}: {steps} are no decision"),
            }
            assert!(replayed.highest >= at(2, 1));
        }
    }
    assert!(committed + torn == 30, "{committed} {torn}");
}

/// Node 1 has its prepare record and node 0 the decision record. The prepare record of node 2 is
/// lost, as an asynchronous log may lose it.
fn lost(proposals: [Timestamp; 2], cts: Timestamp) -> Torn {
    let device = Torn::new(1);
    let directory = LogDirectory::open(Arc::new(device.clone()), DATABASE).expect("it is empty");
    let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
    let handle = executor.handle();
    let groups = [
        (1, record(PREPARE, proposals[0], 7, &[], b"one")),
        (0, record(DECISION, cts, 7, &proposals, b"zero")),
    ];
    executor.block_on(async {
        for (node, group) in groups {
            let log =
                Log::threaded(&directory, NodeId(node), LogSettings::default()).expect("closed");
            let position = log.append(&group).expect("room");
            let deadline = handle.now() + Duration::from_secs(10);
            log.durable(&handle, &position, deadline).await.expect("a good device");
        }
    });
    device.crash(1)
}

#[test]
fn a_decision_counts_with_all_of_its_prepare_records_only() {
    let left = lost([at(10, 1), at(12, 2)], at(13, 0));
    let (replayed, aborted) = restart(&left);
    assert_eq!((rows(&replayed), aborted), (BTreeMap::new(), 1));
    assert_eq!(replayed.notes, [], "they are settled");
    // If a checkpoint covers the writes of node 2, its prepare record is not needed.
    let directory = LogDirectory::open(Arc::new(left), DATABASE).expect("it opens");
    let notes = directory.replay(1).expect("it reads").notes;
    let resolved = resolve(&notes, at(12, 5)).expect("records make sense");
    assert_eq!((resolved.commits.len(), resolved.aborted), (1, 0));
    assert_eq!(resolved.commits[0].timestamp, at(13, 0));
}

#[test]
fn under_timestamp_ordering_one_prepare_record_does_not_stand_for_another() {
    // All parts have the transaction's timestamp.
    let (replayed, aborted) = restart(&lost([at(10, 0); 2], at(10, 0)));
    assert_eq!((rows(&replayed), aborted), (BTreeMap::new(), 1));
}

#[test]
fn records_that_make_no_sense_are_an_error_that_names_them() {
    let device = Torn::new(2);
    let directory = LogDirectory::open(Arc::new(device.clone()), DATABASE).expect("it is empty");
    let log = Log::threaded(&directory, NodeId(4), LogSettings::default()).expect("nobody has it");
    let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
    let handle = executor.handle();
    executor.block_on(async {
        let mut group = LogRecord::new(LogRecordKind::Note(PREPARE), at(3, 4));
        group.put(TABLE, b"no head", b"").expect("room");
        let position = log.append(&group).expect("room");
        let deadline = handle.now() + Duration::from_secs(10);
        log.durable(&handle, &position, deadline).await.expect("a good device");
    });
    drop(log);
    let directory = LogDirectory::open(Arc::new(device.crash(2)), DATABASE).expect("it opens");
    let notes = directory.replay(1).expect("it reads").notes;
    let error = resolve(&notes, Timestamp::ZERO).expect_err("no head");
    assert_eq!(error.node, 4);
}
