//! Processes that are killed while they commit, on a real directory. A kill loses no bytes that
//! were passed to the operating system. So these tests do not check syncs; the tests in `worlds`
//! do. These tests check the whole path on real files, with a process that ends at any instruction.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchwork_runtime::Handle;
use latchwork_simulation::Random;
use latchwork_wal::storage::Disk;
use latchwork_wal::{
    CheckpointWriter, Log, LogDirectory, LogEntry, LogRecord, LogRecordKind, LogSettings, NodeId,
    Replayed, Timestamp, WalError,
};

use crate::common::{DATABASE, NODE, TABLE, run, soon};

const DIRECTORY: &str = "LATCHWORK_WAL_KILL_DIRECTORY";
const THREADS: u64 = 3;
/// The count of keys to which each commit writes one value.
const KEYS: u64 = 5;

fn open(path: &Path) -> Result<Arc<LogDirectory>, WalError> {
    LogDirectory::open(Arc::new(Disk::new(path).expect("a directory")), DATABASE)
}

/// The last counter of a thread, which all of its keys must have.
fn last_of(replayed: &Replayed, thread: u64) -> Result<u64, String> {
    let mut values = Vec::new();
    for (_, latest) in replayed.keys().filter(|(_, latest)| latest.key[0] == thread as u8) {
        let value = latest.value.as_deref().and_then(|value| value.first_chunk::<8>());
        values.push(value.map_or(0, |value| u64::from_be_bytes(*value)));
    }
    match values.first() {
        None => Ok(0),
        Some(&first) if values.len() as u64 == KEYS && values.iter().all(|v| *v == first) => {
            Ok(first)
        }
        Some(_) => Err(format!("thread {thread}: half a commit: {values:?}")),
    }
}

/// One thread's part of the database: the timestamp and the counter of its keys.
#[derive(Default)]
struct Row {
    /// A number below the timestamp that is being committed; the highest number when no commit is
    /// in flight.
    in_flight: AtomicU64,
    latest: Mutex<(Timestamp, u64)>,
}

fn value(counter: u64) -> Vec<u8> {
    [&counter.to_be_bytes()[..], &[7; 40]].concat()
}

/// Commits until it is killed, and prints each commit.
async fn commit_for_ever(handle: &Handle, log: &Log, clock: &AtomicU64, thread: u64, row: &Row) {
    let mut group = LogRecord::new(LogRecordKind::Commit, Timestamp::ZERO);
    let first = row.latest.lock().expect("whole").1 + 1;
    // The count is limited, in case the process is never killed.
    for counter in first..1_000_000 {
        // Stored before the timestamp is drawn. So a reader that finds no commit in flight knows
        // that this timestamp will be higher.
        row.in_flight.store(clock.load(SeqCst), SeqCst);
        let at = Timestamp::new(clock.fetch_add(1, SeqCst) + 1, NODE).expect("small");
        group.reset(LogRecordKind::Commit, at);
        for key in 0..KEYS {
            group.put(TABLE, &[thread as u8, key as u8], &value(counter)).expect("small");
        }
        let position = log.append(&group).expect("open");
        log.durable(handle, &position, soon(handle)).await.expect("lasting");
        *row.latest.lock().expect("whole") = (at, counter);
        row.in_flight.store(u64::MAX, SeqCst);
        say(&format!("{thread} {counter}\n"));
    }
}

/// Prints with one write, so that the reader sees whole lines.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let said = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    said.expect("somebody listens");
}

async fn checkpoint(
    handle: &Handle,
    directory: &Arc<LogDirectory>,
    log: &Log,
    clock: &AtomicU64,
    rows: &[Row],
) {
    let highest = clock.load(SeqCst);
    let until = soon(handle);
    while rows.iter().any(|row| row.in_flight.load(SeqCst) <= highest) && handle.now() < until {
        handle.sleep(Duration::from_micros(50)).await;
    }
    let floor = Timestamp::new(highest, NodeId(Timestamp::NODES_MAX - 1)).expect("small");
    let number = log.rotate(handle, until).await.expect("rotated");
    let writer = CheckpointWriter::begin(directory, floor, [(NODE, number)]).expect("begun");
    let mut part = writer.part().expect("made");
    for (thread, row) in rows.iter().enumerate() {
        let (timestamp, counter) = *row.latest.lock().expect("whole");
        for key in (0..KEYS).filter(|_| counter > 0) {
            let (key, value) = ([thread as u8, key as u8], value(counter));
            let entry = LogEntry { timestamp, table: TABLE, key: &key, value: Some(&value) };
            part.put(entry).expect("written");
        }
    }
    part.finish().expect("synced");
    log.flush(handle, until).await.expect("lasting");
    writer.publish().expect("in place");
    let removed = log.remove_through(floor).expect("removed");
    say(&format!("checkpoint {removed}\n"));
}

/// The process that is killed.
#[test]
#[ignore = "started by the test that kills it"]
fn child() {
    let Some(path) = std::env::var_os(DIRECTORY) else { return };
    // A panic must be visible to the parent.
    std::panic::set_hook(Box::new(|_| std::process::abort()));
    // Ends the line that the test harness has printed for this test.
    say("\n");
    let directory = open(Path::new(&path)).expect("whole");
    let replayed = directory.replay(2).expect("whole");
    let settings = LogSettings { segment_bytes: 20_000, ..LogSettings::default() };
    let log = Log::threaded(&directory, NODE, settings).expect("a log");
    let clock = AtomicU64::new(replayed.highest.counter());
    let row = |thread| {
        let at = replayed.keys().find(|(_, latest)| latest.key[0] == thread as u8);
        let at = at.map_or(Timestamp::ZERO, |(_, latest)| latest.timestamp);
        let latest = Mutex::new((at, last_of(&replayed, thread).expect("whole")));
        Row { in_flight: AtomicU64::new(u64::MAX), latest }
    };
    let rows: Vec<Row> = (0..THREADS).map(row).collect();
    std::thread::scope(|scope| {
        for (thread, row) in (0..).zip(&rows) {
            let (log, clock) = (&log, &clock);
            scope.spawn(move || {
                run(async |handle| commit_for_ever(&handle, log, clock, thread, row).await);
            });
        }
        run(async |handle| {
            loop {
                handle.sleep(Duration::from_millis(3)).await;
                checkpoint(&handle, &directory, &log, &clock, &rows).await;
            }
        })
    });
}

fn spawn(path: &Path) -> Child {
    let test = std::env::current_exe().expect("this test");
    let mut command = Command::new(test);
    command.args(["--exact", "kill::child", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(DIRECTORY, path).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("started")
}

/// Kills the process after `lines` lines, and returns the last counter that it printed for each
/// thread.
fn kill_after(child: &mut Child, lines: u64, removed: &mut u64) -> BTreeMap<u64, u64> {
    let mut said = BTreeMap::new();
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let mut seen = 0;
    for line in out.lines().map_while(Result::ok) {
        if let Some(segments) = line.strip_prefix("checkpoint ") {
            *removed += segments.parse::<u64>().unwrap_or(0);
        }
        let mut words = line.split(' ').map(str::parse);
        if let (Some(Ok(thread)), Some(Ok(counter)), None) =
            (words.next(), words.next(), words.next())
        {
            said.insert(thread, counter);
            seen += 1;
        }
        if seen == lines {
            // Lines that the process printed before its death count too, so they are read to the
            // end.
            child.kill().expect("killed");
        }
    }
    child.wait().expect("ended");
    assert!(seen >= lines, "it ended by itself after {seen} of {lines} commits");
    said
}

fn kills(count: u64, seed: u64) {
    let home = tempfile::tempdir().expect("a directory");
    let mut random = Random::new(seed);
    let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
    let mut removed = 0;
    // The test continues until there were checkpoints, because a busy machine may write them late.
    for kill in 0..20 * count {
        if kill >= count && removed >= count {
            break;
        }
        let mut child = spawn(home.path());
        let said = kill_after(&mut child, 1 + random.below(200), &mut removed);
        for (thread, counter) in said {
            let before = expected.insert(thread, counter).unwrap_or(0);
            assert!(before <= counter, "kill {kill}: thread {thread} went back to {counter}");
        }
        let directory = open(home.path()).expect("it can be opened");
        let replayed = directory.replay(2).expect("whole");
        for (&thread, counter) in &mut expected {
            let last = last_of(&replayed, thread).unwrap_or_else(|e| panic!("kill {kill}: {e}"));
            assert!(
                last == *counter || last == *counter + 1,
                "kill {kill}: {counter} acknowledged or found before, {last} found"
            );
            // The next process goes on from here, and may be killed before it prints anything of
            // this thread.
            *counter = last;
        }
    }
    println!("{count} kills or more, last commits {expected:?}, {removed} segments removed");
    assert!(removed >= count, "{removed} segments were removed by checkpoints");
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_it_acknowledged() {
    kills(20, 1);
}

/// `KILLS=1000 cargo test --release -p latchwork-wal --test suite kill:: -- --ignored --exact
/// more_kills`
#[test]
#[ignore = "as many kills as KILLS says"]
fn more_kills() {
    let count = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(200);
    kills(count, 2);
}

/// Regression: the thread of a closed log held the directory for a moment after the close was
/// reported.
#[test]
fn a_directory_can_be_opened_again_when_its_logs_are_closed() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("made").join("anew");
    for round in 0..50 {
        let directory = open(&path).unwrap_or_else(|e| panic!("round {round}: {e}"));
        let log = Log::threaded(&directory, NODE, LogSettings::default()).expect("a log");
        run(async |handle| log.close(&handle, soon(&handle)).await.expect("closed"));
    }
}

#[test]
fn a_directory_is_one_process_s() {
    let home = tempfile::tempdir().expect("a directory");
    let mut child = spawn(home.path());
    let out = BufReader::new(child.stdout.take().expect("piped"));
    // The process works when it prints its first commit.
    let first = out.lines().map_while(Result::ok).find(|line| line.starts_with("0 "));
    assert!(first.is_some());
    let said = open(home.path()).expect_err("in use").to_string();
    let expected = format!("{} is in use by process {}", home.path().display(), child.id());
    assert!(said.starts_with(&expected), "{said}");
    child.kill().expect("killed");
    child.wait().expect("ended");
    open(home.path()).expect("the lock ended with the process");
}
