//! Durable records that are lost: how a loss is found, accepted, reported, and cut out of the log.

use std::sync::Arc;

use latchwork_wal::storage::Torn;
use latchwork_wal::{DatabaseId, Log, LogDirectory, Opening, WalError};

use crate::common::{DATABASE, NODE, commit, counters, open, run, soon, start};
use crate::example::{End, LAST, accept, checkpoint, example, files, made_of, replay, small};

#[test]
fn an_accepted_loss_leaves_a_prefix_and_is_reported() {
    let whole = example(true, End::Closed);
    let last = whole.iter().rposition(|(name, _)| name.ends_with(".log")).expect("a segment");
    let mut lengths = std::collections::BTreeSet::new();
    for length in (0..whole[last].1.len()).step_by(7) {
        let mut files = whole.clone();
        files[last].1.truncate(length);
        let torn = made_of(&files);
        let read = accept(&torn, true).expect("accepted");
        assert_eq!(self::files(&torn), files, "who reads changes nothing");
        let (found, missing) = accept(&torn, false).expect("accepted");
        assert_eq!((found.clone(), missing), read);
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>(), "cut at {length}");
        assert_eq!(found.len() as u64 + missing, LAST, "cut at {length}");
        // The loss was accepted: nothing is missing any more, and the log goes on behind the cut.
        assert_eq!(accept(&torn, false).expect("whole"), (found.clone(), 0));
        let directory = open(&torn).expect("whole");
        let log = start(&directory, small());
        run(async |handle| commit(&log, &handle, 100..=100, 10).await);
        drop((log, directory));
        let again = replay(&torn.crash(length as u64)).expect("whole");
        assert_eq!(again, [&found[..], &[100]].concat(), "cut at {length}");
        lengths.insert(found.len());
    }
    assert!(lengths.len() > 2, "{lengths:?}");
}

/// One rename decides a cut. After a crash in a cut, the next start completes the cut. Before the
/// rename nothing was changed.
#[test]
fn an_accepted_loss_is_all_there_or_not_at_all_wherever_the_power_goes_off() {
    let mut files = example(false, End::Closed);
    let segments: Vec<usize> =
        (0..files.len()).filter(|at| files[*at].0.ends_with(".log")).collect();
    // In the middle of the second segment: the later segments go.
    let second = segments[1];
    let middle = files[second].1.len() / 2;
    files[second].1.truncate(middle);
    let (expected, missing) = accept(&made_of(&files), true).expect("accepted");
    assert!(missing > 5 && !expected.is_empty(), "{missing} missing, {expected:?}");
    let (mut before, mut after) = (0, 0);
    for seed in 0..600 {
        let torn = made_of(&files);
        torn.power_off_after(seed % 24);
        let done = accept(&torn, false).is_ok();
        let torn = torn.crash(seed);
        match replay(&torn) {
            Ok(found) => {
                after += 1;
                assert_eq!(found, expected, "seed {seed}");
            }
            Err(WalError::Damaged { .. } | WalError::Lost { .. }) if !done => {
                before += 1;
                assert_eq!(accept(&torn, false).expect("accepted").0, expected, "seed {seed}");
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(before > 50 && after > 200, "{before} before, {after} after");
}

fn without_logs(files: &[(String, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    files.iter().filter(|(name, _)| !name.ends_with(".log")).cloned().collect()
}

/// All logs are missing, and the checkpoint is whole.
#[test]
fn what_is_accepted_as_lost_is_not_what_the_checkpoint_has() {
    let torn = made_of(&without_logs(&example(true, End::Closed)));
    let (found, missing) = accept(&torn, false).expect("accepted");
    assert_eq!((found, missing), ((1..=10).collect(), LAST - 10));
    let directory = open(&torn).expect("whole");
    let log = start(&directory, small());
    run(async |handle| commit(&log, &handle, 100..=110, 150).await);
    drop((log, directory));
    let again = replay(&torn.crash(1)).expect("whole");
    assert_eq!(again, (1..=10).chain(100..=110).collect::<Vec<_>>());
}

/// What the checkpoint shows and the log has lost cannot be removed from the checkpoint. The case
/// is a commit above the floor that was there when the rows were read.
#[test]
fn a_loss_below_the_checkpoint_cannot_be_accepted() {
    let torn = Torn::new(0);
    let directory = open(&torn).expect("empty");
    let log = start(&directory, small());
    run(async |handle| {
        commit(&log, &handle, 1..=10, 150).await;
        checkpoint(&directory, 9, 1);
        log.close(&handle, soon(&handle)).await.expect("closed");
    });
    let gone = without_logs(&files(&torn));
    let torn = made_of(&gone);
    let error = accept(&torn, false).expect_err("too much");
    assert!(matches!(error, WalError::LostBelowCheckpoint { .. }), "{error}");
    assert!(error.to_string().contains("restore the directory from a copy"), "{error}");
    assert_eq!(files(&torn), gone, "nothing has changed");
}

#[test]
fn a_segment_in_the_middle_cannot_lose_its_end_unnoticed() {
    let whole = example(false, End::Closed);
    let (_, first) = whole.iter().find(|(name, _)| name.ends_with(".log")).expect("a segment");
    let ends: Vec<usize> = (8..first.len() / 8)
        .map(|at| at * 8)
        .filter(|at| first[*at..].starts_with(b"GRP1"))
        .collect();
    assert!(ends.len() > 3, "{ends:?}");
    for end in ends {
        let mut files = whole.clone();
        files
            .iter_mut()
            .find(|(name, _)| name.ends_with(".log"))
            .expect("a segment")
            .1
            .truncate(end);
        let error = replay(&made_of(&files)).expect_err("too short");
        assert!(matches!(error, WalError::Damaged { .. }), "{error}");
        let (found, _) = accept(&made_of(&files), false).expect("accepted");
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>());
    }
}

/// The checkpoint has rows that are in no log: without it no opening succeeds, and no file is
/// removed.
#[test]
fn a_missing_checkpoint_cannot_be_given_up() {
    for end in [End::Closed, End::Killed] {
        let whole = example(true, end);
        let without = |names: &[&str]| {
            let kept = whole.iter().filter(|(name, _)| !names.contains(&name.as_str()));
            kept.cloned().collect::<Vec<_>>()
        };
        for gone in [&["CHECKPOINT"][..], &["CHECKPOINT", "WITNESS"]] {
            let torn = made_of(&without(gone));
            for to_read in [true, false] {
                match accept(&torn, to_read) {
                    Err(WalError::NoCheckpoint { file, .. }) => assert_eq!(file, "CHECKPOINT"),
                    other => panic!("{gone:?}: {other:?}"),
                }
            }
            assert_eq!(files(&torn), without(gone), "nothing has changed");
        }
        let error = replay(&made_of(&without(&["CHECKPOINT"]))).expect_err("it is gone");
        assert!(matches!(error, WalError::NoCheckpoint { .. }), "{error}");
    }
}

/// A missing or damaged witness costs nothing where the logs are whole.
#[test]
fn a_missing_witness_is_made_anew_when_that_is_accepted() {
    let whole = example(true, End::Closed);
    let all: Vec<u64> = (1..=LAST).collect();
    for damaged in [false, true] {
        let mut files = whole.clone();
        let at = files.iter().position(|(name, _)| name == "WITNESS").expect("there is one");
        if damaged {
            files[at].1[20] ^= 1;
        } else {
            files.remove(at);
        }
        let torn = made_of(&files);
        replay(&torn).expect_err("the witness is needed");
        assert_eq!(accept(&torn, true).expect("accepted"), (all.clone(), 0));
        let opening = Opening { to_read: false, accept_loss: true };
        let directory = LogDirectory::open_as(Arc::new(torn.clone()), DATABASE, opening);
        let directory = directory.expect("accepted");
        let [loss] = directory.losses() else { panic!("{:?}", directory.losses()) };
        let told = loss.to_string();
        assert!(
            told.ends_with(": what stood behind that cannot be known without WITNESS"),
            "{told}"
        );
        drop(directory);
        assert_eq!(replay(&torn).expect("there is one again"), all);
    }
}

/// Records that only the log's own files show count as missing, although no other place knows of
/// them.
#[test]
fn the_commits_behind_a_damaged_one_are_reported() {
    let whole = example(false, End::Killed);
    let segments: Vec<usize> =
        (0..whole.len()).filter(|at| whole[*at].0.ends_with(".log")).collect();
    assert!(segments.len() >= 3, "{}", segments.len());
    let mut files: Vec<_> = whole.clone();
    // In the first commit of the first segment.
    let at = files[segments[0]].1.windows(4).position(|bytes| bytes == b"GRP1").expect("a group");
    let group = files[segments[0]].1[at..].windows(150).position(|row| row == [7; 150]);
    let byte = at + group.unwrap_or(200);
    files[segments[0]].1[byte] ^= 1;
    let opening = Opening { to_read: true, accept_loss: true };
    let torn = made_of(&files);
    let directory = LogDirectory::open_as(Arc::new(torn), DATABASE, opening).expect("accepted");
    let [loss] = directory.losses() else { panic!("{:?}", directory.losses()) };
    let kept = counters(&directory.replay(1).expect("whole")).len() as u64;
    let last = &whole[segments[segments.len() - 1]].1;
    let before = u64::from_le_bytes(last[48..56].try_into().expect("eight bytes"));
    assert!(loss.missing >= before - kept && loss.missing <= LAST - kept, "{loss}");
    assert!(loss.missing_bytes > 0 && loss.to_string().contains("are missing"), "{loss}");
}

/// The next opening completes a cut that was decided and interrupted, and reports the losses.
#[test]
fn an_interrupted_cut_is_reported_by_the_opening_that_completes_it() {
    let mut files = example(false, End::Closed);
    let last = files.iter().rposition(|(name, _)| name.ends_with(".log")).expect("a segment");
    files[last].1.truncate(100);
    an_interrupted_cut_is_reported(&files);
    files.retain(|(name, _)| name != "WITNESS");
    an_interrupted_cut_is_reported(&files);
}

fn an_interrupted_cut_is_reported(files: &[(String, Vec<u8>)]) {
    let told = |torn: &Torn, accept_loss| {
        let opening = Opening { to_read: false, accept_loss };
        let directory = LogDirectory::open_as(Arc::new(torn.clone()), DATABASE, opening)?;
        Ok::<_, WalError>(directory.losses().to_vec())
    };
    let expected = told(&made_of(files), true).expect("accepted");
    assert!(expected[0].missing > 0 || expected[0].unwitnessed, "{expected:?}");
    let mut interrupted = 0;
    for operations in 1.. {
        let torn = made_of(files);
        torn.power_off_after(operations);
        if told(&torn, true).is_ok() {
            break;
        }
        let torn = torn.crash(operations);
        match told(&torn, false) {
            // Decided, and not completed.
            Ok(losses) if !losses.is_empty() => {
                interrupted += 1;
                assert_eq!(losses, expected, "after {operations} operations");
                assert_eq!(told(&torn, false).expect("whole"), [], "one opening reports it");
            }
            // Completed before the power went off, or not decided.
            Ok(_) | Err(WalError::Lost { .. } | WalError::Missing { .. }) => {}
            Err(error) => panic!("after {operations} operations: {error}"),
        }
        assert_eq!(told(&torn, true).map(|_| ()).map_err(|e| e.to_string()), Ok(()));
    }
    assert!(interrupted > 0);
}

/// A power cut in the first start leaves a directory in which any database can begin.
#[test]
fn a_first_start_that_was_interrupted_leaves_an_empty_directory() {
    for seed in 0..200 {
        let torn = Torn::new(seed);
        torn.power_off_after(seed % 16);
        if let Ok(directory) = LogDirectory::open(Arc::new(torn.clone()), DatabaseId(7)) {
            run(async |_| drop(Log::threaded(&directory, NODE, small())));
        }
        let torn = torn.crash(seed);
        let found = LogDirectory::identify(&torn).expect("read").unwrap_or(DatabaseId(99));
        let opened = LogDirectory::open(Arc::new(torn), found);
        assert!(opened.is_ok(), "seed {seed}: {:?}", opened.err());
    }
}

/// An accepted loss of all records leaves a directory in which any database can begin.
#[test]
fn a_log_of_which_nothing_is_left_leaves_an_empty_directory() {
    let mut files = example(false, End::Closed);
    files.retain(|(name, _)| !name.ends_with(".log"));
    let torn = made_of(&files);
    let (found, missing) = accept(&torn, false).expect("accepted");
    assert_eq!((found.len(), missing), (0, LAST));
    assert_eq!(LogDirectory::identify(&torn).expect("read"), None);
    LogDirectory::open(Arc::new(torn), DatabaseId(99)).expect("any database can begin there");
}

type Files = Vec<(String, Vec<u8>)>;

/// One kind of damage of a file, by number; `None` when there is no such kind.
fn damaged(files: &Files, name: &str, kind: usize) -> Option<Files> {
    let mut files = files.clone();
    let at = files.iter().position(|(other, _)| other == name)?;
    let bytes = &mut files[at].1;
    let length = bytes.len();
    match kind {
        0 => drop(files.remove(at)),
        1..=5 => {
            bytes.truncate([0, 40, length / 3, length / 2, length.saturating_sub(1)][kind - 1])
        }
        6..=11 => {
            let places = [10, 20, 62, length / 3, length / 2, length.saturating_sub(1)];
            *bytes.get_mut(places[kind - 6])? ^= 1;
        }
        _ => return None,
    }
    Some(files)
}

/// A checkpoint that shows the last commit before it, which is above its floor.
fn checkpoint_of_all() -> Files {
    let torn = Torn::new(0);
    let directory = open(&torn).expect("empty");
    let log = start(&directory, small());
    run(async |handle| {
        commit(&log, &handle, 1..=10, 150).await;
        checkpoint(&directory, 9, 1);
        commit(&log, &handle, 11..=13, 150).await;
        log.close(&handle, soon(&handle)).await.expect("closed");
    });
    files(&torn)
}

/// Regression: accepting was advised against damage of the checkpoint, and against losses that it
/// shows. Then the acceptance failed, with the same advice.
#[test]
fn accepting_is_advised_where_it_gives_a_state_and_nowhere_else() {
    let examples = [
        example(true, End::Closed),
        example(true, End::Killed),
        example(false, End::Closed),
        checkpoint_of_all(),
        crate::cut::two_logs(),
    ];
    let (mut advised, mut hopeless, mut unwitnessed) = (0, 0, 0);
    let mut judge = |files: &Files| {
        for to_read in [true, false] {
            let open = |torn: Torn, accept_loss| {
                let opening = Opening { to_read, accept_loss };
                let directory = LogDirectory::open_as(Arc::new(torn), DATABASE, opening)?;
                directory.replay(2).map(|_| directory.losses().to_vec())
            };
            let accepted = open(made_of(files), true);
            let is_advice = |error: &WalError| error.to_string().contains("accept");
            if let Err(error) = open(made_of(files), false) {
                assert_eq!(is_advice(&error), accepted.is_ok(), "{error}; then {accepted:?}");
                *if accepted.is_ok() { &mut advised } else { &mut hopeless } += 1;
            }
            match accepted {
                Err(error) => assert!(!is_advice(&error), "{error}"),
                Ok(losses) => {
                    unwitnessed += usize::from(losses.iter().any(|loss| loss.unwitnessed))
                }
            }
        }
    };
    for whole in &examples {
        let also = whole.iter().map(|(name, _)| name).filter(|name| !name.ends_with(".log"));
        for (name, _) in whole {
            for files in (0..12).filter_map(|kind| damaged(whole, name, kind)) {
                judge(&files);
                for files in also.clone().flat_map(|other| {
                    [0, 7].into_iter().filter_map(|kind| damaged(&files, other, kind))
                }) {
                    judge(&files);
                }
            }
        }
    }
    println!("{advised} advised, {hopeless} hopeless, {unwitnessed} unwitnessed");
    assert!(advised > 500 && hopeless > 500 && unwitnessed > 300);
}
