//! Files and terminals of real users: links, devices, FIFOs, byte order marks, terminals of eighty
//! columns.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::time::Duration;

use latchwork_processes::{Ended, shown, too_wide};
use tempfile::TempDir;

use crate::YCSB;

const SMALL: &str = "--cache-mb 4 -p recordcount=500 --operations 500 --threads 1";

/// The longest time that a program may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

fn command(directory: &TempDir, arguments: &str) -> Command {
    let mut command = YCSB.command(arguments);
    command.current_dir(directory);
    command
}

fn ycsb(directory: &TempDir, arguments: &str) -> Ended {
    Ended::of(&mut command(directory, arguments))
}

/// Runs the program, demands success, and returns standard output and standard error.
fn good(directory: &TempDir, arguments: &str) -> (String, String) {
    let ended = ycsb(directory, arguments);
    ended.assert_good(arguments);
    (ended.out, ended.err)
}

/// Bug: an output under the name of an input replaced the input, with exit status 0. Fix: the
/// program compares the files of all flags before it starts.
#[test]
fn an_output_that_is_also_an_input_is_refused_before_any_work() {
    let directory = TempDir::new().expect("a directory");
    let nic = format!(
        "{}/../../crates/fabric/verbs-sim/profiles/connectx3.toml",
        env!("CARGO_MANIFEST_DIR")
    );
    for (name, content) in [
        ("properties", "recordcount=500\n".to_owned()),
        ("config.toml", "threads = 1\n".to_owned()),
        ("nic.toml", fs::read_to_string(nic).expect("a profile that comes along")),
    ] {
        fs::write(directory.path().join(name), content).expect("room");
    }
    symlink("config.toml", directory.path().join("link")).expect("a link");
    for (arguments, flags) in [
        ("-P properties --json properties", "-P properties and --json properties"),
        (
            "--config config.toml --json ./config.toml",
            "--config config.toml and --json ./config.toml",
        ),
        ("--config config.toml --json link", "--config config.toml and --json link"),
        ("--fabric sim --nic nic.toml --json nic.toml", "--nic nic.toml and --json nic.toml"),
    ] {
        let old: Vec<_> = ["properties", "config.toml", "nic.toml"]
            .map(|name| fs::read(directory.path().join(name)).expect("it is there"))
            .into();
        let output = ycsb(&directory, &format!("{SMALL} {arguments}"));
        let err = output.err;
        assert_eq!(output.status, Some(2), "{arguments}: {err}");
        assert!(err.contains(flags) && err.lines().count() == 1, "{arguments}: {err}");
        let new: Vec<_> = ["properties", "config.toml", "nic.toml"]
            .map(|name| fs::read(directory.path().join(name)).expect("it is there"))
            .into();
        assert_eq!(old, new, "{arguments}");
    }
    // The lines for scripts and the document go to one file here. The document would replace the
    // lines.
    let both = directory.path().join("both");
    let file = fs::File::create(&both).expect("room");
    let output = Ended::of(command(&directory, &format!("{SMALL} --json both")).stdout(file));
    let err = output.err;
    assert_eq!(output.status, Some(2), "{err}");
    assert!(err.contains("--json both and standard output"), "{err}");
}

/// Bug: a failed write of a line for people lost the result for scripts and the document.
#[test]
fn an_output_on_a_full_device_loses_no_other_output() {
    let directory = TempDir::new().expect("a directory");
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let arguments = format!("{SMALL} --json j.json --log trace");
    let output = Ended::of(command(&directory, &arguments).stderr(full()));
    assert!(output.status == Some(0), "{output:?}");
    assert!(output.out.contains("[OVERALL], Throughput"), "{output:?}");
    fs::remove_file(directory.path().join("j.json")).expect("a document");

    // If the result itself cannot be printed, the status says so.
    let arguments = format!("{SMALL} --json j.json");
    let output = Ended::of(command(&directory, &arguments).stdout(full()));
    let err = output.err;
    assert_eq!(output.status, Some(1), "{err}");
    assert!(err.contains("the result cannot be written to standard output: "), "{err}");
    assert!(directory.path().join("j.json").exists());
}

/// Bug: the status was success although the help text could not be written.
#[test]
fn help_on_a_full_device_is_an_error() {
    let directory = TempDir::new().expect("a directory");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let output = Ended::of(command(&directory, "--help").stdout(full));
    let err = output.err;
    assert_eq!(output.status, Some(1), "{err}");
    assert!(err.contains("cannot be written to standard output: "), "{err}");
}

#[test]
fn proportions_that_do_not_add_up_to_a_number_are_reported_as_that() {
    let directory = TempDir::new().expect("a directory");
    let output = ycsb(&directory, "-p readproportion=1e308 -p updateproportion=1e308");
    let err = output.err;
    assert_eq!(output.status, Some(2), "{err}");
    assert!(err.contains("are too large to add up") && !err.contains("all 0"), "{err}");
}

/// Runs an impossible command line, and returns the single line of the error.
fn refused(directory: &TempDir, arguments: &str) -> String {
    let output = ycsb(directory, arguments);
    let err = output.err;
    assert_eq!(output.status, Some(2), "{arguments}\n{err}");
    assert!(output.out.is_empty() && err.lines().count() == 1, "{arguments}\n{err}");
    err
}

fn directory() -> TempDir {
    TempDir::new().expect("a directory")
}

fn made(directory: &TempDir, command: &str) -> Option<PathBuf> {
    let words: Vec<_> = command.split_whitespace().collect();
    let made = Command::new(words[0]).args(&words[1..]).current_dir(directory).output();
    let is_made = made.expect("coreutils").status.success();
    is_made.then(|| directory.path().join(words[1]))
}

fn is_document(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains("\"app\": \"ycsb\""))
}

#[test]
fn a_document_goes_beside_the_target_of_a_link_and_the_link_stays() {
    let directory = directory();
    fs::create_dir(directory.path().join("inner")).expect("a directory");
    let (link, target) = (directory.path().join("link"), directory.path().join("inner/target"));
    fs::write(&target, "old").expect("room");
    symlink("inner/target", &link).expect("a link");
    good(&directory, &format!("{SMALL} --json link"));
    assert!(link.is_symlink() && is_document(&target));
    assert_eq!(fs::read_dir(directory.path().join("inner")).expect("it is there").count(), 1);
    fs::remove_file(&target).expect("it is there");
    let told = refused(&directory, &format!("{SMALL} --json link"));
    assert!(
        told.contains("--json link: it is a link to inner/target, which is not there"),
        "{told}"
    );
}

#[test]
fn a_document_goes_into_a_device_or_a_fifo_and_what_was_there_stays() {
    let directory = directory();
    match made(&directory, "mknod device c 1 3") {
        Some(device) if fs::File::open(&device).is_ok() => {
            good(&directory, &format!("{SMALL} --json device"));
            let kind = fs::symlink_metadata(device).expect("it is there").file_type();
            assert!(kind.is_char_device(), "{kind:?}");
        }
        _ => eprintln!("skipped: only root makes devices, and not everywhere"),
    }
    let fifo = made(&directory, "mkfifo fifo").expect("a FIFO");
    let told = refused(&directory, &format!("{SMALL} --json fifo"));
    assert!(told.contains("--json fifo: it is a FIFO, and no process has it open for"), "{told}");
    // The test opens the FIFO for reading and writing, so that the open waits for no writer.
    let mut reader = fs::File::options().read(true).write(true).open(&fifo).expect("a FIFO");
    good(&directory, &format!("{SMALL} --json fifo"));
    // The FIFO is large enough for the whole text.
    let mut got = vec![0; 1 << 16];
    let length = reader.read(&mut got).expect("it was written");
    let got = String::from_utf8_lossy(&got[..length]);
    assert!(got.contains("\"app\": \"ycsb\"") && got.ends_with("}\n"), "{got}");
    assert!(fs::symlink_metadata(fifo).expect("it is there").file_type().is_fifo());
}

#[test]
fn a_property_file_is_bounded_and_never_waited_for() {
    let directory = directory();
    made(&directory, "mkfifo fifo").expect("a FIFO");
    let sparse = fs::File::create(directory.path().join("sparse")).expect("room");
    sparse.set_len(3 << 30).expect("a sparse file");
    for flag in ["-P", "--config"] {
        let kind = if flag == "-P" { "a property file" } else { "a configuration file" };
        for (file, problem) in [
            ("/dev/zero", format!("it is larger than 1 MiB, the most that {kind} may have")),
            ("sparse", format!("it is larger than 1 MiB, the most that {kind} may have")),
            ("fifo", "it is a FIFO, and no process has it open for writing".to_owned()),
            (".", "it is a directory; name a file".to_owned()),
        ] {
            let told = refused(&directory, &format!("{flag} {file}"));
            assert!(told.contains(&format!("{file}: {problem}")), "{told}");
        }
    }
}

#[test]
fn an_editors_mark_before_a_file_changes_nothing() {
    let directory = directory();
    let write = |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes);
    write("marked", b"\xef\xbb\xbfrecordcount=321\noperationcount=100\n").expect("room");
    write("config.toml", b"\xef\xbb\xbfcache-mb = \"4MiB\"\nthreads = 1\n").expect("room");
    let (_, err) = good(&directory, "-P marked --config config.toml");
    assert!(err.contains("the 321 that were inserted"), "{err}");
    write("wide", b"\xff\xfer\0").expect("room");
    let told = refused(&directory, "-P wide");
    assert!(told.contains("wide: it is UTF-16 text; save it as UTF-8"), "{told}");
}

#[test]
fn a_key_that_stands_twice_in_a_file_is_reported_with_both_lines() {
    let directory = directory();
    fs::write(directory.path().join("twice"), "recordcount=200\n\nrecordcount=300\n")
        .expect("room");
    let (_, err) = good(&directory, "-P twice --cache-mb 4 --operations 100 --threads 1");
    let warning =
        "ycsb: twice:3: `recordcount` stands at twice:1 already; the later value replaces it";
    assert!(err.lines().any(|line| line == warning), "{err}");
    assert!(err.contains("the 300 that were inserted"), "{err}");
    fs::write(directory.path().join("twice.toml"), "threads = 1\nthreads = 2\n").expect("room");
    let told = refused(&directory, "--config twice.toml");
    assert!(told.contains("twice.toml:2: this is no TOML: duplicate key"), "{told}");
}

#[test]
fn sizes_and_times_have_one_grammar_wherever_they_stand() {
    let directory = directory();
    let plain = format!("{SMALL} --gcl-size 4096 --memory-mb 64 --set deadline=10s --fabric sim");
    let spelt = "--cache-mb 4M -p recordcount=500 --operations 500 --threads 1 --gcl-size 4K --memory-mb \
                 64MiB --set deadline=10 --fabric sim --time 4s -p fieldlength=100B";
    let hash = |arguments: &str| {
        let (out, err) = good(&directory, &format!("{arguments} --json -"));
        let hash = out.lines().find(|line| line.contains("\"event_hash\"")).map(str::to_owned);
        hash.unwrap_or_else(|| panic!("{out}\n{err}"))
    };
    assert_eq!(hash(&plain), hash(spelt));
    let told = refused(&directory, "--cache-mb 256MB");
    assert!(told.contains("256M"), "{told}");
    let told = refused(&directory, "-p maxexecutiontime=5d");
    assert!(told.contains("500ms"), "{told}");
    let help = ycsb(&directory, "--help").out;
    let help: Vec<_> = help.split_whitespace().collect();
    assert!(help.join(" ").contains("Times: 500us, 20ms, 4s, 2m, 1h."), "{help:?}");
}

#[test]
fn on_a_terminal_a_result_stands_once_and_fits() {
    let directory = directory();
    let (status, text) = shown(command(&directory, &format!("{SMALL} -w f --target 5000")), LIMIT);
    assert!(status.success(), "{text}");
    assert_eq!(too_wide(&text), [""; 0]);
    for once in ["operations/s", "READ-MODIFY-WRITE", "dataintegrity", "  intended"] {
        let lines: Vec<_> = text.lines().filter(|line| line.contains(once)).collect();
        let expected = if once == "  intended" { 2 } else { 1 };
        assert_eq!(lines.len(), expected, "{once}: {text}");
    }
    assert!(!text.contains("[OVERALL]") && !text.contains("[CHECK]"), "{text}");
}

#[test]
fn scripts_have_their_lines_and_people_lines_that_fit() {
    let directory = directory();
    for arguments in ["-w f --target 5000", "--fabric sim", "load"] {
        let (out, err) = good(&directory, &format!("{arguments} {SMALL}"));
        assert!(out.starts_with("[OVERALL], ") && out.contains("[CHECK], tree, ok\n"), "{out}");
        assert_eq!(too_wide(&err), [""; 0]);
    }
}

/// Waits until the program has printed these words, and returns the rest of its output.
fn hear(running: &mut std::process::Child, words: &str) -> BufReader<ChildStderr> {
    let mut err = BufReader::new(running.stderr.take().expect("piped"));
    let mut line = String::new();
    loop {
        line.clear();
        assert!(err.read_line(&mut line).expect("text") > 0, "it ended without: {words}");
        if line.contains(words) {
            return err;
        }
    }
}

#[test]
fn a_wait_for_the_other_end_of_a_fifo_says_so_and_ends_on_a_signal() {
    let directory = directory();
    let fifo = made(&directory, "mkfifo fifo").expect("a FIFO");
    // A peer that has opened the FIFO for reading and writing, and does nothing.
    let peer = fs::File::options().read(true).write(true).open(&fifo).expect("a FIFO");
    for (arguments, other_end, status) in
        [("-P fifo".to_owned(), "writer", 143), (format!("{SMALL} --json fifo"), "reader", 1)]
    {
        if other_end == "reader" {
            // This fills the FIFO, so that a further write blocks until a read.
            let mut full = Command::new("dd");
            full.args(["if=/dev/zero", "of=fifo", "bs=4096", "oflag=nonblock", "conv=notrunc"]);
            full.current_dir(&directory).output().expect("coreutils");
        }
        let mut running = command(&directory, &arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let err = hear(&mut running, &format!("fifo: waiting for its {other_end}; a signal ends"));
        let id = running.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &id]).status();
        assert!(killed.expect("a shell's tool").success());
        let rest: Vec<_> = err.lines().map_while(Result::ok).collect();
        let ended = running.wait().expect("it ends");
        assert_eq!(ended.code(), Some(status), "{rest:?}");
        assert!(rest.last().is_some_and(|line| line.contains("ended")), "{rest:?}");
    }
    drop(peer);
}
