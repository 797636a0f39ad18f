//! Bytes that are not what was written: hostile ones, and damage to durable data.

use std::sync::Arc;

use latchwork_simulation::Random;
use latchwork_wal::storage::{Storage as _, Torn};
use latchwork_wal::{DatabaseId, LogDirectory, LogRecord, LogRecordKind, LogSettings, WalError};
use proptest::prelude::*;

use crate::common::{DATABASE, NODE, TABLE, at, commit, counters, group, open, run, soon, start};
use crate::example::{End, LAST, accept, example, files, last_batch, made_of, replay, small};

/// No durable byte can change without an error that names the file and a position at or before the
/// byte. After a clean end this holds for every commit. Only the end record may be missing, because
/// it is no commit. After a kill, damage of the last flush batch looks like a torn tail, because no
/// other log knows of that batch.
#[test]
fn every_byte_of_what_was_durable_counts() {
    for (with_checkpoint, end) in
        [(false, End::Closed), (true, End::Closed), (false, End::Killed), (true, End::Killed)]
    {
        let whole = example(with_checkpoint, end);
        assert_eq!(replay(&made_of(&whole)).expect("whole"), (1..=LAST).collect::<Vec<_>>());
        let segments = whole.iter().filter(|(name, _)| name.ends_with(".log")).count();
        assert!(segments >= 2, "{segments} segments");
        let tail = last_batch(&whole);
        let last = whole.iter().rposition(|(name, _)| name.ends_with(".log")).expect("a segment");
        let mut random = Random::new(1);
        for (index, (name, bytes)) in whole.iter().enumerate() {
            for offset in 0..bytes.len() {
                let torn = made_of(&whole);
                assert!(torn.damage(name, offset as u64, 1 << random.below(8)));
                match replay(&torn) {
                    Err(WalError::Damaged { file, offset: found, .. }) => {
                        assert!(file == *name && found <= offset as u64, "{name} at {offset}");
                    }
                    Err(WalError::Version { file, .. } | WalError::OtherDatabase { file, .. }) => {
                        assert!(file == *name && offset < 32, "{name} at {offset}");
                    }
                    Err(error) => panic!("{name} at {offset}: {error}"),
                    Ok(found) => {
                        assert!(index == last && offset as u64 >= tail, "{name} at {offset}");
                        let last = if end == End::Closed { LAST } else { LAST - 1 };
                        assert_eq!(found, (1..=last).collect::<Vec<_>>(), "{name} at {offset}");
                    }
                }
            }
        }
    }
}

#[test]
fn no_file_may_be_missing() {
    for with_checkpoint in [false, true] {
        let whole = example(with_checkpoint, End::Closed);
        for (name, _) in &whole {
            if name == "CHECKPOINT" {
                continue;
            }
            let torn = made_of(&whole);
            torn.remove(name).expect("removed");
            let error = replay(&torn).expect_err(name);
            let said = error.to_string();
            let is_noticed = match &error {
                WalError::NoCheckpoint { .. } => name.ends_with(".part"),
                error => matches!(error, WalError::Missing { .. } | WalError::Lost { .. }),
            };
            assert!(is_noticed && said.contains(name) && !said.contains('\n'), "{said}");
        }
    }
}

/// Regression: a log without its end, or without its last segments, looks like a log that ends
/// there, and caused no error.
#[test]
fn a_log_that_was_closed_cannot_lose_its_end_unnoticed() {
    for with_checkpoint in [false, true] {
        let whole = example(with_checkpoint, End::Closed);
        let last = whole.iter().rposition(|(name, _)| name.ends_with(".log")).expect("a segment");
        let (name, bytes) = whole[last].clone();
        let (mut lost, mut kept) = (0, 0);
        for length in 0..bytes.len() {
            let mut files = whole.clone();
            files[last].1.truncate(length);
            match replay(&made_of(&files)) {
                Ok(found) => {
                    kept += 1;
                    assert_eq!(found, (1..=LAST).collect::<Vec<_>>(), "cut at {length}");
                }
                Err(error @ WalError::Lost { bytes: found, least, groups, .. }) => {
                    lost += 1;
                    let said = error.to_string();
                    assert!(
                        said.contains(&name) && said.contains("--set accept-loss=on"),
                        "{said}"
                    );
                    assert!(found <= length as u64 && (length as u64) < least, "{said}");
                    assert!((1..=LAST).contains(&groups), "{said}");
                }
                Err(error) => panic!("cut at {length}: {error}"),
            }
        }
        // The end record is no commit.
        assert!(kept < 64 && lost > 200, "{kept} kept, {lost} lost");
        // All segments of the node, and all but one.
        for keep in [0, 1] {
            let segments = whole.iter().filter(|(name, _)| name.ends_with(".log"));
            let gone: Vec<_> = segments.skip(keep).map(|(name, _)| name.clone()).collect();
            let files: Vec<_> =
                whole.iter().filter(|(name, _)| !gone.contains(name)).cloned().collect();
            let torn = made_of(&files);
            assert_eq!(LogDirectory::identify(&torn).expect("read"), Some(DATABASE));
            let error = replay(&torn).expect_err("lost");
            assert!(matches!(error, WalError::Lost { bytes: 0, .. }), "{error}");
        }
    }
}

/// A header with a right checksum states fewer commits before its segment than an earlier header
/// does. If the header were trusted, the previous segment would look like one that the checkpoint
/// covers.
#[test]
fn headers_that_contradict_each_other_are_damage() {
    let whole = example(true, End::Closed);
    let (name, last) = whole.iter().rfind(|(name, _)| name.ends_with(".log")).expect("a segment");
    let before = u64::from_le_bytes(last[40..48].try_into().expect("eight bytes"));
    assert!(before > 10, "the segment before the last is beyond the checkpoint: {before}");
    let mut files = whole.clone();
    let (_, forged) = files.iter_mut().find(|(file, _)| file == name).expect("there");
    forged[40..48].copy_from_slice(&9u64.to_le_bytes());
    let crc = crc32fast::hash(&forged[..60]);
    forged[60..64].copy_from_slice(&crc.to_le_bytes());
    let torn = made_of(&files);
    match replay(&torn) {
        Err(WalError::Damaged { file, .. }) => assert_eq!(file, *name),
        other => panic!("{other:?}"),
    }
    assert_eq!(self::files(&torn), files, "nothing has changed");
    let (found, _) = accept(&torn, false).expect("accepted");
    assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>());
    assert!(found.len() as u64 > 10, "what is before the forged header stays: {found:?}");
    assert_eq!(replay(&torn).expect("whole"), found);
}

#[test]
fn another_database_or_version_is_one_clear_error() {
    let whole = example(false, End::Closed);
    let torn = made_of(&whole);
    assert_eq!(LogDirectory::identify(&torn).expect("read"), Some(DATABASE));
    assert_eq!(LogDirectory::identify(&Torn::new(0)).expect("empty"), None);
    let error = LogDirectory::open(Arc::new(torn), DatabaseId(9)).expect_err("another");
    let said = error.to_string();
    assert!(
        said.contains("belongs to database 000000000000da7a, not to 0000000000000009"),
        "{said}"
    );
    let torn = made_of(&whole);
    assert!(torn.damage("01-0000000001.log", 8, 3));
    let said = replay(&torn).expect_err("another version").to_string();
    assert_eq!(
        said,
        "01-0000000001.log has log format 1, this program understands 2: use the version that wrote it"
    );
}

#[test]
fn a_directory_has_one_process_and_a_log_one_owner() {
    let torn = Torn::new(0);
    let directory = open(&torn).expect("empty");
    let said = open(&torn).expect_err("taken").to_string();
    assert!(said.starts_with("memory is in use by process"), "{said}");
    let log = start(&directory, LogSettings::default());
    let again = latchwork_wal::Log::threaded(&directory, NODE, LogSettings::default());
    assert!(matches!(again, Err(WalError::NodeInUse { .. })));
    run(async |handle| log.close(&handle, soon(&handle)).await).expect("closed");
    start(&directory, LogSettings::default());
    let far = latchwork_wal::NodeId(64);
    let far = latchwork_wal::Log::threaded(&directory, far, LogSettings::default());
    assert!(matches!(far, Err(WalError::Node { .. })));
}

/// Guards against this bug: a torn record has a value with the bytes of whole records of another
/// file or position. If these bytes counted as records of this log, the torn tail would look like
/// damage. Or commits would appear that were never made here. The mechanism: the checksum of a
/// record covers its position.
#[test]
fn a_log_that_is_kept_as_a_value_is_no_log() {
    let whole = example(false, End::Closed);
    let (name, copy) = whole.iter().find(|(name, _)| name.ends_with(".log")).expect("a segment");
    let torn = Torn::new(0);
    let directory = open(&torn).expect("empty");
    let log = start(&directory, LogSettings::default());
    let mut files = run(async |handle| {
        commit(&log, &handle, 1..=3, 10).await;
        let mut group = LogRecord::new(LogRecordKind::Commit, at(4));
        // Copies at every position at which a record can begin.
        group.put(TABLE, &4u64.to_be_bytes(), &[&[0; 4], &copy[..]].concat()).expect("small");
        let position = log.append(&group).expect("appended");
        log.durable(&handle, &position, soon(&handle)).await.expect("lasting");
        // The log is not closed, so the witness does not know of the last record.
        files(&torn)
    });
    let (_, bytes) = files.iter_mut().find(|(other, _)| other == name).expect("the same name");
    let tail = (0..bytes.len() / 8).map(|at| at * 8).filter(|at| bytes[*at..].starts_with(b"GRP1"));
    let tails: Vec<usize> = tail.collect();
    assert!(tails.len() > 6, "the copies are in there, where groups can stand");
    // The record with the copies is torn at its beginning: it is cut off, and nothing else. It
    // follows a mark and three records.
    bytes[tails[4]] ^= 1;
    assert_eq!(replay(&made_of(&files)).expect("a tail"), [1, 2, 3]);
    // The file of another number under this name.
    let mut files = whole.clone();
    let other =
        files.iter().filter(|(name, _)| name.ends_with(".log")).nth(1).expect("two").1.clone();
    files.iter_mut().find(|(other, _)| other == name).expect("there").1 = other;
    assert!(matches!(replay(&made_of(&files)), Err(WalError::Damaged { .. })));
}

/// An impossible record with a right checksum is an error, not a torn tail.
#[test]
fn log_records_have_limits_that_are_reported() {
    let mut group = LogRecord::new(LogRecordKind::Commit, at(1));
    let key = vec![0; LogRecord::KEY_MAX + 1];
    assert!(matches!(group.remove(TABLE, &key), Err(WalError::TooLarge { .. })));
    let value = vec![0; 64 << 20];
    let said = group.put(TABLE, b"k", &value).expect_err("too large").to_string();
    assert!(said.contains("too large for the log: 67108864 are possible"), "{said}");
    assert_eq!(group.entries(), 0, "nothing was added");
    let torn = Torn::new(0);
    let settings = LogSettings { backlog_bytes: 4096, ..LogSettings::default() };
    let log = start(&open(&torn).expect("empty"), settings);
    assert!(matches!(log.append(&crate::common::group(1, 5000)), Err(WalError::TooLarge { .. })));
}

/// One random change of the files.
fn mutate(files: &mut Vec<(String, Vec<u8>)>, random: &mut Random) {
    let count = files.len() as u64;
    let index = random.below(count) as usize;
    let bytes = &mut files[index].1;
    let length = bytes.len() as u64;
    let place = |random: &mut Random| random.below(length.max(1)) as usize;
    match random.below(7) {
        0 if length > 0 => {
            let at = place(random);
            bytes[at] ^= 1 << random.below(8);
        }
        1 => bytes.truncate(place(random)),
        2 => bytes.extend((0..random.below(300)).map(|_| 0)),
        3 => {
            let noise: Vec<u8> = (0..random.below(300)).map(|_| random.draw() as u8).collect();
            bytes.extend(noise);
        }
        4 if length > 0 => {
            let (from, to) = (place(random), place(random));
            let part = bytes[from.min(to)..from.max(to)].to_vec();
            bytes.extend(part);
        }
        5 if length > 0 => {
            let (from, to) = (place(random) / 8 * 8, place(random) / 8 * 8);
            let n = (length as usize - from.max(to)).min(512);
            bytes.copy_within(from..from + n, to);
        }
        _ => {
            files.swap_remove(index);
        }
    }
}

/// Any change of the files leads to an error, or to commits that were made.
#[test]
fn hostile_files_neither_panic_nor_make_anything_up() {
    let examples =
        [example(false, End::Closed), example(true, End::Closed), example(false, End::Killed)];
    let (mut errors, mut read, mut accepted) = (0, 0, 0);
    for seed in 0..6000 {
        let mut random = Random::new(seed);
        let mut files = examples[random.below(3) as usize].clone();
        for _ in 0..1 + random.below(3) {
            if !files.is_empty() {
                mutate(&mut files, &mut random);
            }
        }
        match replay(&made_of(&files)) {
            Err(error) => {
                errors += 1;
                assert!(!error.to_string().contains('\n'), "{error}");
            }
            Ok(found) => {
                read += 1;
                assert!(found.iter().all(|counter| (1..=LAST).contains(counter)), "seed {seed}");
            }
        }
        let torn = made_of(&files);
        let Ok((found, _)) = accept(&torn, false) else { continue };
        accepted += 1;
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>(), "seed {seed}: a beginning");
        assert_eq!(replay(&torn).expect("it was accepted"), found, "seed {seed}");
    }
    assert!(errors > 1000 && read > 200, "{errors} errors, {read} read");
    assert!(accepted > 2000, "{accepted} accepted");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Keys and values of any bytes, in records of any size, come back as they were. Of several
    /// values of a key the last one counts.
    #[test]
    fn what_was_put_is_what_is_read(
        groups in proptest::collection::vec(
            proptest::collection::vec(
                (0u32..3, proptest::collection::vec(any::<u8>(), 0..9),
                    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..600))),
                0..6),
            1..12))
    {
        let torn = Torn::new(0);
        let directory = open(&torn).expect("empty");
        let log = start(&directory, small());
        let mut expected = std::collections::BTreeMap::new();
        run(async |handle| {
            for (counter, entries) in (1..).zip(&groups) {
                let mut group = LogRecord::new(LogRecordKind::Commit, at(counter));
                for (table, key, value) in entries {
                    let table = latchwork_wal::TableId(*table);
                    match value {
                        Some(value) => group.put(table, key, value),
                        None => group.remove(table, key),
                    }.expect("small");
                    expected.insert((table, key.clone()), (at(counter), value.clone()));
                }
                log.append(&group).expect("appended");
            }
            log.close(&handle, soon(&handle)).await.expect("closed");
        });
        drop(directory);
        drop(log);
        let directory = open(&torn.crash(1)).expect("whole");
        let replayed = directory.replay(3).expect("whole");
        let found: std::collections::BTreeMap<_, _> = replayed.keys().map(|(table, latest)| {
            let value = latest.value.as_ref().map(|value| value.to_vec());
            ((table, latest.key.to_vec()), (latest.timestamp, value))
        }).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(replayed.groups, groups.len() as u64);
    }
}

#[test]
fn log_records_that_are_notes_are_handed_over_unchanged() {
    let torn = Torn::new(0);
    let directory = open(&torn).expect("empty");
    let log = start(&directory, LogSettings::default());
    run(async |handle| {
        commit(&log, &handle, [1], 10).await;
        let mut note = LogRecord::new(LogRecordKind::Note(9), at(2));
        note.put(TABLE, &1u64.to_be_bytes(), b"prepared").expect("small");
        log.append(&note).expect("appended");
        log.append(&group(3, 10)).expect("appended");
        log.close(&handle, soon(&handle)).await.expect("closed");
    });
    let directory = open(&torn.crash(1)).expect("whole");
    let replayed = directory.replay(1).expect("whole");
    assert_eq!(counters(&replayed), [1, 3]);
    let (_, first) = replayed.keys().next().expect("two");
    assert_eq!(first.value.as_deref(), Some(&[1; 10][..]), "the note was not merged");
    let [note] = &replayed.notes[..] else { panic!("one note") };
    assert_eq!((note.which, note.timestamp, note.node, note.segment), (9, at(2), NODE, 1));
    assert_eq!(note.entries[0].value.as_deref(), Some(&b"prepared"[..]));
    assert_eq!(replayed.highest, at(3));
}
