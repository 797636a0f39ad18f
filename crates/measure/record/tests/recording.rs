//! A recorded history is read back from its file unchanged. A read or write error is reported once,
//! in one line.

use std::io::Cursor;
use std::ops::Bound;
use std::path::Path;

use latchwork_record::{
    Direction, HistoryError, RecordedChange, Recorder, Recording, TransactionHistory,
    TransactionId, TransactionOutcome,
};

fn record(recorder: &Recorder, worker: u16, n: u64) {
    let mut record = recorder.begin(3, worker, n * 10);
    let key = n.to_be_bytes();
    record.read(1, &key, n);
    record.read_value(1, &key, n, n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let scan = record.scan(1, Bound::Excluded(&key[..]), Bound::Unbounded, Direction::Down);
    record.saw(scan, b"\x00\xff", None);
    record.saw(scan, b"", Some(u64::MAX));
    record.stopped(scan, b"");
    record.scan(2, Bound::Included(b""), Bound::Included(b"\x7f"), Direction::Up);
    record.write(1, &key, RecordedChange::Put);
    record.write(1, &key, RecordedChange::Value(u64::MAX));
    record.write(2, b"", RecordedChange::Delete);
    let outcome = match n % 3 {
        0 => TransactionOutcome::Committed { cts: n + 1 },
        1 => TransactionOutcome::Aborted { cts: 0 },
        _ => TransactionOutcome::Unknown { cts: n + 1 },
    };
    recorder.finish(record, outcome, n * 10 + 5);
}

#[test]
fn workers_record_side_by_side_and_a_file_says_what_memory_says() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("history");
    let to_file = Recording::create(&path, 77).expect("a new file");
    let to_memory = Recording::memory(77);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let recorders = [to_file.recorder(), to_memory.recorder()];
            scope.spawn(move || {
                for n in 0..500 {
                    recorders.iter().for_each(|recorder| record(recorder, worker, n));
                }
            });
        }
    });
    // A live recorder whose buffer is not full.
    let late = to_file.recorder();
    record(&late, 9, 1);
    assert_eq!(to_file.finish().expect("the disk has room"), 2001);

    let mut loaded = TransactionHistory::load(&path, u64::MAX).expect("a whole history");
    let mut kept = to_memory.history();
    record(&to_memory.recorder(), 9, 1);
    kept.transactions.push(to_memory.history().transactions.pop().expect("the last one"));
    loaded.transactions.sort_by_key(|transaction| transaction.id);
    kept.transactions.sort_by_key(|transaction| transaction.id);
    assert_eq!(loaded, kept);
    let last = TransactionId { node: 3, worker: 3, sequence: 499 };
    assert!(loaded.transactions.iter().any(|transaction| transaction.id == last));
}

#[test]
fn a_recorder_that_is_off_records_nothing() {
    let recorder = Recorder::off();
    record(&recorder, 0, 0);
    assert!(!recorder.is_on() && !recorder.begin(0, 0, 0).is_on());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_at_the_end_and_once() {
    let Err(error) = Recording::create(Path::new("/dev/full"), 0) else {
        panic!("nothing can be written to it");
    };
    assert!(error.to_string().starts_with("/dev/full: creating the history failed"), "{error}");

    // A FIFO without a reader is refused.
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("coreutils");
    assert!(made.success());
    let Err(error) = Recording::create(&path, 0) else { panic!("no process reads it") };
    assert!(error.to_string().contains("no process has it open for reading"), "{error}");
    // A process that opens a FIFO for reading and writing does not wait for a second process.
    let mut both = std::fs::OpenOptions::new();
    let reader = both.read(true).write(true).open(&path).expect("a pipe");
    let recording = Recording::create(&path, 0).expect("it has a reader");
    let recorder = recording.recorder();
    drop(reader);
    for n in 0..1000 {
        record(&recorder, 0, n);
    }
    let error = recording.finish().expect_err("nobody reads");
    assert!(matches!(&error, HistoryError::Io { doing: "writing the history", .. }), "{error}");
}

fn read(text: &str) -> String {
    match TransactionHistory::read(Cursor::new(text), Path::new("file")) {
        Ok(history) => panic!("read as {history:?}"),
        Err(error) => error.to_string(),
    }
}

const HEADER: &str = r#"{"format":"latchwork-history","version":1,"base":0}"#;

#[test]
fn a_bad_file_is_one_error_that_names_the_line() {
    for text in ["", "hello", "{}", r#"{"format":"x","version":1,"base":0}"#] {
        assert!(read(text).starts_with("file: this is no history"), "{text}");
    }
    let other = read(&HEADER.replace(":1,", ":9,"));
    assert!(other.starts_with("file: a history of version 9, and this program reads 1"), "{other}");

    let good = r#"{"node":0,"worker":0,"sequence":0,"begin":1,"end":2,"outcome":{"committed":{"cts":64}},"operations":[{"write":{"table":1,"key":"6b","change":"put"}}]}"#;
    let whole = format!("{HEADER}\n{good}\n");
    let history =
        TransactionHistory::read(Cursor::new(&whole), Path::new("file")).expect("a good line");
    let mut written = Vec::new();
    history.write(&mut written).expect("memory has room");
    assert_eq!(String::from_utf8(written).expect("text"), whole);

    for (from, to, problem) in [
        ("\"6b\"", "\"6\"", "an even number of hexadecimal digits, not \"6\""),
        ("\"6b\"", "\"6ä\"", "an even number of hexadecimal digits"),
        ("\"put\"", "\"puts\"", "unknown variant `puts`"),
        ("\"begin\":1", "\"begin\":3", "T0.0.0 ends before it begins"),
        ("\"cts\":64", "\"cts\":-1", "invalid value: integer `-1`"),
        ("]}", "]", "EOF while parsing an object"),
    ] {
        let text = format!("{HEADER}\n{good}\n{}\n{good}\n", good.replace(from, to));
        let error = read(&text);
        assert!(error.starts_with("file, line 3: ") && error.contains(problem), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let cut = read(&whole[..whole.len() - 9]);
    assert!(cut.starts_with("file, line 2: the line is not whole"), "{cut}");
}
