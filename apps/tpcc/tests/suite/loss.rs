//! Databases whose log has lost its end in another way than by a crash, and databases that cannot
//! be written.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use latchwork_processes::Ended;
use latchwork_runtime::{Clock, Time};

use crate::TPCC;
use crate::program::{figure, good, orders, prepared, temporary};

const SHAPE: &str = "--cache-mb 16 --memory-mb 256 --threads 1";
/// The time that the witness may take on a busy machine: a second, and more when several threads
/// take turns.
const WITNESS: Duration = Duration::from_secs(4);

fn copy_of(directory: &Path) -> PathBuf {
    let copy = temporary("copy");
    fs::create_dir(&copy).expect("made");
    for entry in fs::read_dir(directory).expect("there") {
        let path = entry.expect("there").path();
        fs::copy(&path, copy.join(path.file_name().expect("a name"))).expect("copied");
    }
    copy
}

fn last_segment(directory: &Path, node: u8) -> PathBuf {
    let names = fs::read_dir(directory).expect("there").map(|entry| entry.expect("there").path());
    let begin = format!("{node:02}-");
    let is_log = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        name.starts_with(&begin) && name.ends_with(".log")
    };
    names.filter(is_log).max().expect("a segment")
}

fn first_segment(node: u8) -> String {
    format!("{node:02}-0000000001.log")
}

/// Cuts the last segment of `node` to `length` bytes, in a copy of the directory.
fn cut(directory: &Path, node: u8, length: u64) -> PathBuf {
    let copy = copy_of(directory);
    let file = fs::OpenOptions::new().write(true).open(last_segment(&copy, node));
    file.and_then(|file| file.set_len(length)).expect("cut");
    copy
}

fn check(directory: &Path, flags: &str) -> Ended {
    TPCC.run(&format!("check --wal-dir {} {SHAPE} --compute-nodes 1 {flags}", directory.display()))
}

/// The number of orders that a check finds.
fn orders_in(output: &Ended) -> u64 {
    let err = &output.err;
    let line = err.lines().find(|line| line.starts_with("check  tpcc-3.3.2.06 "));
    figure(line.unwrap_or_else(|| panic!("the sixth condition: {err}")), "ok     ")
}

/// Checks the error after a detected loss: the error names the file and what to do.
fn assert_noticed(output: &Ended, file: &Path) {
    let err = &output.err;
    let last = err.trim_end().lines().last().unwrap_or_default();
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(output.status, Some(1), "{err}");
    for word in [&name[..], "byte", "--set accept-loss=on"] {
        assert!(last.contains(word), "{word}: {last}");
    }
    assert!(!err.contains("panicked"), "{err}");
}

/// Bug: a log with a shortened last segment lost acknowledged commits without a message. With two
/// nodes the result was a state that never existed. The test cuts to many lengths, after a clean
/// end.
#[test]
fn a_log_that_was_closed_and_lost_its_end_is_an_error_until_the_loss_is_accepted() {
    cut_what_was_closed("--inflight 2", 6);
}

/// A transaction over several nodes has records in several logs. After the cut it is whole or gone.
#[test]
fn a_loss_that_is_accepted_leaves_no_half_of_a_transaction_over_partitions() {
    cut_what_was_closed("--inflight 2 --partitioned --distribution-ratio 50", 4);
}

#[test]
fn a_loss_that_is_accepted_takes_with_it_what_was_built_on_early_releases() {
    cut_what_was_closed("--inflight 3 --set early-release=on", 3);
}

fn cut_what_was_closed(flags: &str, parts: u64) {
    let directory = prepared("-w 2");
    let at = format!("--wal-dir {} {SHAPE}", directory.display());
    good(&format!("run {at} --compute-nodes 2 --operations 600 --set retry-for=300 {flags}"));
    let all = orders(&format!("--wal-dir {} --cache-mb 16 --memory-mb 256", directory.display()));
    let mut given_up = 0;
    for node in [0, 1] {
        let length = fs::metadata(last_segment(&directory, node)).expect("there").len();
        for part in 0..parts {
            // The record at the end of a closed log is not a commit.
            let copy = cut(&directory, node, (length - 200) * part / (parts - 1));
            assert_noticed(&check(&copy, ""), &last_segment(&copy, node));
            let accepted = check(&copy, "--set accept-loss=on");
            let err = &accepted.err;
            assert!(accepted.status == Some(0), "{err}");
            let told = err.lines().filter(|line| line.starts_with("tpcc: accept-loss: node "));
            let told: Vec<_> = told.collect();
            assert!(told.iter().any(|line| line.contains(" commits or more are missing")), "{err}");
            given_up += usize::from(told.iter().any(|line| line.contains("are given up")));
            let left = orders_in(&accepted);
            // The last commit may be another transaction than a new order.
            let is_last = part + 1 == parts;
            assert!(left < all || is_last && left == all, "{left} of {all}");
            // The check with an accepted loss has changed no file.
            assert_noticed(&check(&copy, ""), &last_segment(&copy, node));
            if part % 3 == 1 {
                let history = temporary("history");
                let flags = "--operations 100 --compute-nodes 2 --set retry-for=300 --record";
                let flags = format!("{flags} {}", history.display());
                good(&format!(
                    "run --set accept-loss=on --wal-dir {} {SHAPE} {flags}",
                    copy.display()
                ));
                fs::remove_file(&history).expect("a history");
                let again = check(&copy, "");
                assert!(again.status == Some(0), "it was accepted: {}", again.err);
                assert!(orders_in(&again) > left);
            }
            fs::remove_dir_all(&copy).expect("removed");
        }
    }
    assert!(given_up > 0, "the other node's commits have never seen what was lost");
    fs::remove_dir_all(&directory).expect("removed");
}

/// Regression: a checkpoint needed what was durable when it was put in place, behind its last
/// rotation. So under load no state was left without a last segment.
#[test]
fn a_killed_run_that_lost_only_the_last_segment_of_a_log_leaves_a_state() {
    let mut noticed = 0;
    for round in 0..4 {
        let directory = prepared("-w 2");
        let small = format!("--wal-dir {} --cache-mb 16 --memory-mb 256", directory.display());
        let before = orders(&small);
        let flags = "--compute-nodes 2 --inflight 8 --set checkpoint=0.5";
        let mut after = Duration::from_millis(1500 + 130 * round);
        let has_rotated = |node| !last_segment(&directory, node).ends_with(first_segment(node));
        killed_run(&directory, flags, after);
        // On a busy machine the run may need longer to get to its first checkpoint.
        while !has_rotated(0) || !has_rotated(1) {
            after *= 2;
            killed_run(&directory, flags, after);
        }
        for node in [0, 1] {
            let copy = copy_of(&directory);
            fs::remove_file(last_segment(&copy, node)).expect("there");
            noticed += usize::from(check(&copy, "").status != Some(0));
            let accepted = check(&copy, "--set accept-loss=on");
            assert!(accepted.status == Some(0), "round {round}: {}", accepted.err);
            assert!(orders_in(&accepted) >= before, "the checkpoint has them");
            fs::remove_dir_all(&copy).expect("removed");
        }
        fs::remove_dir_all(&directory).expect("removed");
    }
    assert!(noticed > 0, "no removal was a loss");
}

/// The acknowledgements of a run, with the time of each.
fn killed_run(directory: &Path, flags: &str, after: Duration) -> Vec<(Time, u64)> {
    let at = format!("run --wal-dir {} {SHAPE} {flags}", directory.display());
    let often = "--warmup 0 --time 60 --set interval=0.1";
    let mut command = TPCC.command(&format!("{at} {often}"));
    let mut running =
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
    let (mut said, mut acknowledged) = (Vec::new(), 0);
    let clock = Clock::start();
    let out = BufReader::new(running.stdout.take().expect("piped"));
    for line in out.lines().map_while(Result::ok) {
        if line.starts_with("[Current] NEW_ORDER - ") {
            acknowledged += figure(&line, "Count: ");
        } else if line.starts_with("[Current] NEW_ORDER_ABORT - ") {
            acknowledged -= figure(&line, "Rollbacks: ");
        } else {
            continue;
        }
        let now = clock.now();
        said.push((now, acknowledged));
        if said.first().is_some_and(|(first, _)| now - *first >= after) {
            break;
        }
    }
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    said
}

/// The same for a killed run. Only the loss of records that are younger than the witness gives no
/// error.
#[test]
fn a_log_of_a_killed_run_that_lost_its_end_is_an_error_or_has_lost_nothing_older_than_the_witness()
{
    let mut noticed = [0, 0];
    for (nodes, noticed) in (1..).zip(&mut noticed) {
        let directory = prepared("-w 2");
        let small = format!("--wal-dir {} --cache-mb 16 --memory-mb 256", directory.display());
        let before = orders(&small);
        let flags = format!("--compute-nodes {nodes} --set checkpoint=0");
        let said = killed_run(&directory, &flags, WITNESS + Duration::from_secs(2));
        let (end, all) = *said.last().expect("it has said something");
        let old = said.iter().rev().find(|(at, _)| end - *at >= WITNESS).map_or(0, |(_, n)| *n);
        assert!(old > 0, "{said:?}");
        let length = fs::metadata(last_segment(&directory, 0)).expect("there").len();
        for part in 0..8 {
            // Most of the lengths are near the end, where only this log may show the loss.
            let copy = cut(&directory, 0, length - (length >> part));
            let output = check(&copy, "");
            if output.status == Some(0) {
                let left = orders_in(&output);
                assert!(left >= before + old, "{left} of {before} and {old} to {all}");
            } else {
                *noticed += 1;
                assert_noticed(&output, &last_segment(&copy, 0));
                let accepted = check(&copy, "--set accept-loss=on");
                assert!(accepted.status == Some(0), "{}", accepted.err);
                assert!(orders_in(&accepted) >= before, "the checkpoint has them");
            }
            fs::remove_dir_all(&copy).expect("removed");
        }
        fs::remove_dir_all(&directory).expect("removed");
    }
    // With two nodes the cut may remove only records younger than the witness: on a busy machine
    // the other node may do all the earlier work. So only runs with one node must give an error.
    assert!(noticed[0] > 0, "{noticed:?} noticed");
}

/// Runs a check on a directory that cannot be written. The directory is a read-only mount if this
/// process may mount, else its permissions forbid writing. `None` if neither works.
fn check_read_only(directory: &Path) -> Option<Ended> {
    let program = TPCC.0;
    let at = directory.display();
    let check = format!("check --wal-dir {at} {SHAPE} --compute-nodes 1");
    let mount = format!("mount --bind {at} {at} && mount -o remount,bind,ro {at}");
    let can_mount = Command::new("unshare")
        .args(["-m", "sh", "-c", &format!("{mount} && ! touch {at}/writable 2>/dev/null")])
        .output()
        .is_ok_and(|output| output.status.success());
    if can_mount {
        let script = format!("{mount} && exec {program} {check}");
        return Some(Ended::of(Command::new("unshare").args(["-m", "sh", "-c", &script])));
    }
    let allow = |mode| fs::set_permissions(directory, fs::Permissions::from_mode(mode));
    allow(0o555).expect("changed");
    let is_denied = fs::File::create(directory.join("writable")).is_err();
    let output = is_denied.then(|| TPCC.run(&check));
    allow(0o755).expect("changed");
    output
}

#[test]
fn a_database_on_a_file_system_that_cannot_be_written_can_be_checked() {
    let directory = prepared("-w 2");
    let small = format!("--wal-dir {} --cache-mb 16 --memory-mb 256", directory.display());
    let expected = orders(&small);
    for with_lock in [true, false] {
        let lock = directory.join("LOCK");
        if !with_lock {
            fs::remove_file(&lock).expect("there");
        }
        let Some(output) = check_read_only(&directory) else {
            eprintln!("skipped: this user can write everywhere, and may not mount");
            break;
        };
        assert!(output.status == Some(0), "{}", output.err);
        assert_eq!(orders_in(&output), expected);
        assert_eq!(lock.exists(), with_lock, "none is made");
    }
    fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn a_database_that_is_at_work_is_not_checked() {
    let directory = prepared("-w 2");
    let flags =
        format!("run --wal-dir {} {SHAPE} --time 60 --set interval=0.1", directory.display());
    let mut command = TPCC.command(&flags);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = command.spawn().expect("the program starts");
    let mut out = BufReader::new(running.stdout.take().expect("piped"));
    out.read_line(&mut String::new()).expect("it says how it goes");
    let output = check(&directory, "");
    let err = &output.err;
    let by = format!("is in use by process {}", running.id());
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    assert!(output.status == Some(1) && err.contains(&by), "{err}");
    assert!(check(&directory, "").status == Some(0), "the lock ended with the process");
    fs::remove_dir_all(&directory).expect("removed");
}

/// Regression: without the witness, an acceptance said that the log had lost nothing. Against a
/// damaged checkpoint it was advised, and ended with the same line.
#[test]
fn what_cannot_be_known_is_said_and_what_cannot_help_is_not_advised() {
    let directory = prepared("-w 2");
    let at = format!("--wal-dir {} {SHAPE} --compute-nodes 1", directory.display());
    good(&format!("run {at} --operations 300 --set checkpoint=0"));
    let length = fs::metadata(last_segment(&directory, 0)).expect("there").len();
    let copy = cut(&directory, 0, length / 2);
    fs::remove_file(copy.join("WITNESS")).expect("there");
    let output = check(&copy, "");
    let err = &output.err;
    assert_eq!(output.status, Some(1), "{err}");
    assert!(err.contains("WITNESS is missing") && err.contains("--set accept-loss=on"), "{err}");
    let accepted = check(&copy, "--set accept-loss=on");
    let err = &accepted.err;
    assert_eq!(accepted.status, Some(0), "{err}");
    assert!(err.contains("cannot be known without WITNESS"), "{err}");
    assert!(!err.contains("lost nothing"), "{err}");
    fs::remove_dir_all(&copy).expect("removed");

    let names = fs::read_dir(&directory).expect("there").map(|entry| entry.expect("there").path());
    let names = names.map(|path| path.file_name().expect("a name").to_owned());
    let is_part = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".part");
    let part = names.into_iter().find(is_part).expect("a checkpoint");
    let damages = [part, "CHECKPOINT".into()].map(|name| [(name.clone(), true), (name, false)]);
    for (name, is_removed) in damages.into_iter().flatten() {
        let copy = copy_of(&directory);
        let file = copy.join(&name);
        let mut bytes = fs::read(&file).expect("there");
        fs::remove_file(&file).expect("there");
        if !is_removed {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&file, bytes).expect("room");
        }
        for flags in ["", "--set accept-loss=on"] {
            let output = check(&copy, flags);
            let last = output.err.trim_end().lines().last().unwrap_or_default();
            assert_eq!(output.status, Some(1), "{}", output.err);
            assert!(last.contains(&*name.to_string_lossy()), "{last}");
            assert!(last.contains("from a copy") && !last.contains("accept"), "{last}");
        }
        fs::remove_dir_all(&copy).expect("removed");
    }
    fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn a_loss_can_only_be_accepted_of_a_log_that_is_recovered() {
    let output = TPCC.run("prepare --wal-dir /nowhere/x --set accept-loss=on");
    let err = &output.err;
    assert_eq!(output.status, Some(2), "{err}");
    assert!(err.contains("--set accept-loss: ") && err.contains("run or check"), "{err}");
}
