//! Files and terminals of real users: histories written to links and FIFOs, terminals of eighty
//! columns.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use latchwork_processes::{Ended, shown, too_wide};
use tempfile::TempDir;

use crate::TPCC;

const SMALL: &str = "-w 1 --set items=100 --set customers=30 --cache-mb 8 --memory-mb 64 --threads 1 --operations 20";

/// The longest time that a program may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

fn command(directory: &TempDir, arguments: &str) -> Command {
    let mut command = TPCC.command(arguments);
    command.current_dir(directory);
    command
}

fn tpcc(directory: &TempDir, arguments: &str) -> Ended {
    Ended::of(&mut command(directory, arguments))
}

fn good(directory: &TempDir, arguments: &str) -> (String, String) {
    let ended = tpcc(directory, arguments);
    ended.assert_good(arguments);
    (ended.out, ended.err)
}

/// Bug: the document replaced the history, with exit status 0. Fix: the program compares the files
/// of all flags before it starts.
#[test]
fn two_outputs_in_one_file_are_refused_before_any_work() {
    let directory = TempDir::new().expect("a directory");
    fs::write(directory.path().join("old"), "old").expect("room");
    symlink("old", directory.path().join("link")).expect("a link");
    for (arguments, flags) in [
        ("--record same --json same", "--record same and --json same"),
        ("--record same --json ./same", "--record same and --json ./same"),
        ("--record old --json link", "--record old and --json link"),
        ("--record - --json /dev/stdout", "--record - and --json /dev/stdout"),
    ] {
        let output = tpcc(&directory, &format!("{SMALL} {arguments}"));
        let err = output.err;
        assert_eq!(output.status, Some(2), "{arguments}: {err}");
        assert!(err.contains(flags) && err.lines().count() == 1, "{arguments}: {err}");
        assert_eq!(names(directory.path()), ["link", "old"], "{arguments}");
    }
    good(&directory, &format!("{SMALL} --record /dev/null --json /dev/null"));
}

/// Bug: with a history on a full device, the results of the run were lost, and its parts stayed
/// among the temporary files.
#[test]
fn a_history_that_cannot_be_written_loses_no_result_and_leaves_no_part() {
    let directory = TempDir::new().expect("a directory");
    let temporary = directory.path().join("temporary");
    fs::create_dir(&temporary).expect("room");
    let mut command = command(&directory, &format!("{SMALL} --record /dev/full --json d.json"));
    let output = Ended::of(command.env("TMPDIR", &temporary));
    let (out, err) = (&output.out, &output.err);
    assert_eq!(output.status, Some(1), "{out}\n{err}");
    assert!(out.contains("[CHECK], serializability, ok"), "{out}");
    let last = err.lines().last().unwrap_or_default();
    assert!(last.contains("the history is not written: /dev/full: "), "{err}");
    let document = fs::read_to_string(directory.path().join("d.json")).expect("a document");
    assert!(document.contains("\"serializability\": \"ok\""), "{document}");
    assert_eq!(names(&temporary), [""; 0]);
}

/// Bug: a failed write of a line for people lost the result for scripts and the document.
#[test]
fn standard_error_on_a_full_device_loses_no_result() {
    let directory = TempDir::new().expect("a directory");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let mut command = command(&directory, &format!("{SMALL} --set interval=0.001 --json d.json"));
    let output = Ended::of(command.stderr(full));
    let out = &output.out;
    assert!(output.status == Some(0), "{output:?}");
    assert!(out.contains("[Summary] "), "{out}");
    assert!(directory.path().join("d.json").exists());
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_history_goes_into_a_fifo_that_has_a_reader() {
    let directory = TempDir::new().expect("a directory");
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("coreutils").success());
    let refused = tpcc(&directory, &format!("{SMALL} --record fifo"));
    let told = refused.err;
    assert_eq!((refused.status, told.lines().count()), (Some(2), 1), "{told}");
    assert!(told.contains("--record fifo: it is a FIFO, and no process has it open for"), "{told}");

    // The test opens the FIFO for reading and writing, so that the open waits for no writer.
    let mut reader = fs::File::options().read(true).write(true).open(&fifo).expect("a FIFO");
    let mut running = command(&directory, &format!("{SMALL} --record fifo"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut got = vec![0; 1 << 16];
    let length = reader.read(&mut got).expect("it is written");
    assert!(got[..length].starts_with(b"{\"format\":\"latchwork-history\""), "{got:?}");
    let drain = std::thread::spawn(move || while let Ok(1..) = reader.read(&mut got) {});
    let out = running.stdout.take().map(|mut out| {
        let mut text = String::new();
        out.read_to_string(&mut text).expect("text");
        text
    });
    assert!(running.wait().expect("it ends").success());
    assert!(out.expect("piped").contains("[CHECK], serializability, ok\n"));
    assert!(fs::symlink_metadata(&fifo).expect("it is there").file_type().is_fifo());
    assert_eq!(names(directory.path()), ["fifo"]);
    // The reader has a writing end too, so the FIFO stays open until the test ends.
    drop(drain);
}

#[test]
fn a_history_replaces_the_target_of_a_link_when_the_run_is_over() {
    let directory = TempDir::new().expect("a directory");
    fs::create_dir(directory.path().join("inner")).expect("a directory");
    let (link, target) = (directory.path().join("link"), directory.path().join("inner/target"));
    fs::write(&target, "old").expect("room");
    symlink("inner/target", &link).expect("a link");
    // A failed run leaves the old history.
    let failed = tpcc(&directory, &format!("{SMALL} --record link --memory-mb 5"));
    assert!(failed.status != Some(0));
    assert_eq!(fs::read(&target).expect("it is there"), b"old");
    good(&directory, &format!("{SMALL} --record link"));
    assert!(link.is_symlink());
    assert!(fs::read(&target).expect("it is there").starts_with(b"{\"format\":"));
    assert_eq!(names(&directory.path().join("inner")), ["target"]);
    let told = tpcc(&directory, &format!("{SMALL} --record -")).err;
    assert!(told.contains("--record -: standard output has the result; name a file"), "{told}");
}

#[test]
fn on_a_terminal_a_result_stands_once_and_fits() {
    let directory = TempDir::new().expect("a directory");
    let arguments = format!("{SMALL} --set interval=0.001 --record history");
    let (status, text) = shown(command(&directory, &arguments), LIMIT);
    assert!(status.success(), "{text}");
    assert_eq!(too_wide(&text), [""; 0]);
    // Where a line folds depends on the figures in it.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for once in ["new orders/min", "check serializability", "check tpcc-3.3.2.12"] {
        assert_eq!(text.matches(once).count(), 1, "{once}: {text}");
    }
    assert!(!text.contains("[Summary]") && !text.contains("[CHECK]"), "{text}");
}

#[test]
fn scripts_have_their_lines_and_people_lines_that_fit() {
    let directory = TempDir::new().expect("a directory");
    for arguments in ["", "--partitioned -w 2", "--fabric sim"] {
        let (out, err) = good(&directory, &format!("{SMALL} {arguments}"));
        assert!(out.contains("[Summary] ") && out.ends_with("[CHECK], tpcc-stock, ok\n"), "{out}");
        assert_eq!(too_wide(&err), [""; 0]);
    }
    let log = "--wal-dir log --set retry-for=2m";
    let (_, err) =
        good(&directory, &format!("prepare {SMALL} {log}").replace("--operations 20", ""));
    assert_eq!(too_wide(&err), [""; 0]);
}
