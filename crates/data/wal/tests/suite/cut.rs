//! A cut of several logs, which an accepted loss decides. The logs end in one state that existed
//! before, also when the power goes off during the cut.

use latchwork_wal::storage::Torn;
use latchwork_wal::{Log, LogRecord, LogRecordKind, LogSettings, NodeId, WalError};

use crate::common::{TABLE, at, open, run, soon};
use crate::example::{accept, files, made_of, replay};

const NODES: [NodeId; 2] = [NodeId(1), NodeId(2)];

/// Forty commits of two nodes in turns, in segments of a few commits. Each commit is durable before
/// the next one begins.
pub(crate) fn two_logs() -> Vec<(String, Vec<u8>)> {
    let torn = Torn::new(0);
    let directory = open(&torn).expect("empty");
    let settings = LogSettings { segment_bytes: 1024, ..LogSettings::default() };
    let logs = NODES.map(|node| Log::threaded(&directory, node, settings.clone()).expect("a log"));
    run(async |handle| {
        for counter in 1..=40_u64 {
            let log = &logs[counter as usize % 2];
            let mut group = LogRecord::new(LogRecordKind::Commit, at(counter));
            group.put(TABLE, &counter.to_be_bytes(), &[7; 150]).expect("small");
            let position = log.append(&group).expect("the log is open");
            log.durable(&handle, &position, soon(&handle)).await.expect("the device works");
        }
        for log in &logs {
            log.close(&handle, soon(&handle)).await.expect("the device works");
        }
    });
    files(&torn)
}

/// The same files, with the second segment of the first node cut in its middle.
fn damaged() -> Vec<(String, Vec<u8>)> {
    let mut files = two_logs();
    let of_first = |name: &str| name.starts_with("01-") && name.ends_with(".log");
    let segments: Vec<usize> =
        (0..files.len()).filter(|&index| of_first(&files[index].0)).collect();
    assert!(segments.len() > 3, "{} segments", segments.len());
    let bytes = &mut files[segments[1]].1;
    bytes.truncate(bytes.len() / 2);
    files
}

#[test]
fn a_loss_of_one_log_cuts_the_other_to_the_same_state() {
    let (found, missing) = accept(&made_of(&damaged()), false).expect("it is accepted");
    let last = found.len() as u64;
    assert!(last > 4 && last < 20, "{found:?}");
    assert_eq!(found, (1..=last).collect::<Vec<_>>(), "a beginning of all commits");
    assert!(missing > 0, "{missing} are reported missing");
}

/// The power goes off after each operation of the cut in turn, and the system keeps a drawn part of
/// what was not synced.
#[test]
fn a_cut_of_two_logs_is_done_or_not_begun_wherever_the_power_goes_off() {
    let files = damaged();
    let (expected, _) = accept(&made_of(&files), true).expect("it is accepted");
    let (mut before, mut after, mut operations) = (0, 0, 0);
    loop {
        let mut all_done = true;
        for seed in 0..40 {
            let torn = made_of(&files);
            torn.power_off_after(operations);
            let done = accept(&torn, false).is_ok();
            all_done &= done && torn.is_on();
            let torn = torn.crash(seed);
            match replay(&torn) {
                Ok(found) => {
                    after += 1;
                    assert_eq!(found, expected, "{operations} operations, seed {seed}");
                }
                Err(WalError::Damaged { .. } | WalError::Lost { .. }) if !done => {
                    before += 1;
                    let (found, _) = accept(&torn, false).expect("it is accepted");
                    assert_eq!(found, expected, "{operations} operations, seed {seed}");
                }
                Err(error) => panic!("{operations} operations, seed {seed}: {error}"),
            }
            // The logs stay where they were cut, also after another crash.
            assert_eq!(replay(&torn.crash(seed)).expect("it was cut"), expected);
        }
        if all_done {
            break;
        }
        operations += 1;
    }
    assert!(operations > 8, "the cut takes {operations} operations");
    assert!(before > 100 && after > 100, "{before} before, {after} after");
}
