//! The program from its users' view: its output and its exit status.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use latchwork_history::{RecordedChange, Recording, TransactionOutcome};
use tempfile::TempDir;

fn history(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_histories"));
    command.args(arguments).output().expect("the program starts")
}

/// Bug: a shell with the program's directory in its path ran its own builtin `history`. Fix: the
/// program has a name that no shell has.
#[test]
fn a_shell_with_the_program_in_its_path_runs_the_program() {
    let program = Path::new(env!("CARGO_BIN_EXE_histories"));
    let directory = program.parent().expect("it is in a directory");
    let name = program.file_name().and_then(|name| name.to_str()).expect("text");
    for shell in ["sh", "bash"] {
        let mut command = Command::new(shell);
        let path = std::env::join_paths([directory, Path::new("/usr/bin"), Path::new("/bin")]);
        command.env("PATH", path.expect("a path")).args(["-c", &format!("{name} --version")]);
        let output = command.output().expect("the shell starts");
        let expected = format!("{name} {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(text(&output.stdout), expected, "{shell}: {output:?}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Two transactions that count up, both from the same version or one after the other.
fn recorded(directory: &TempDir, is_lost: bool) -> PathBuf {
    let path = directory.path().join(format!("lost-{is_lost}"));
    let recording = Recording::create(&path, 0).expect("a new file");
    let recorder = recording.recorder();
    for (number, version) in [(1, 0), (2, 64), (3, if is_lost { 64 } else { 128 })] {
        let mut record = recorder.begin(0, 3, number * 1000);
        record.read(7, b"counter", version);
        record.write(7, b"counter", RecordedChange::Put);
        recorder.finish(
            record,
            TransactionOutcome::Committed { cts: number * 64 },
            number * 1000 + 10,
        );
    }
    recording.finish().expect("the disk has room");
    path
}

/// Bug: the export replaced the history from which it was made, with exit status 0.
#[test]
fn an_export_does_not_replace_its_source() {
    let directory = TempDir::new().expect("a directory");
    let path = recorded(&directory, false);
    let old = std::fs::read(&path).expect("it is there");
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    for out in [&path, &link] {
        let name = |path: &Path| path.to_str().expect("text").to_owned();
        let output = history(&["elle", &name(&path), "--out", &name(out)]);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        let both = format!("FILE {} and --out {} are one file", path.display(), out.display());
        assert!(err.contains(&both) && err.lines().count() == 1, "{err}");
        assert_eq!(std::fs::read(&path).expect("it is there"), old);
    }
}

/// Bug: two transactions with the same number counted as two writers of the same version. So a
/// serializable run was reported as not serializable.
#[test]
fn a_transaction_that_stands_twice_is_an_error_of_the_command_line() {
    let directory = TempDir::new().expect("a directory");
    let path = recorded(&directory, false);
    let content = std::fs::read_to_string(&path).expect("it is there");
    let (copy, longer) = (directory.path().join("copy"), directory.path().join("longer"));
    std::fs::write(&copy, &content).expect("room");
    let last = content.lines().last().expect("a line");
    std::fs::write(&longer, format!("{content}{last}\n")).expect("room");
    let name = |path: &Path| path.to_str().expect("text").to_owned();
    for (files, second, lines) in [
        (vec![&path, &path], &path, (2, 2)),
        (vec![&path, &copy], &copy, (2, 2)),
        (vec![&longer], &longer, (4, 5)),
    ] {
        for command in ["check", "elle"] {
            let arguments: Vec<String> = [command.to_owned()]
                .into_iter()
                .chain(files.iter().map(|path| name(path)))
                .collect();
            let output = history(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            let err = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
            let again = format!("{}, line {}: transaction T0.3.", name(second), lines.1);
            let first = format!("stands in {}, line {}, already", name(files[0]), lines.0);
            assert!(err.contains(&again) && err.contains(&first), "{err}");
            assert_eq!((err.lines().count(), output.stdout.len()), (1, 0), "{err}");
        }
    }
}

#[test]
fn the_result_is_the_status() {
    let directory = TempDir::new().expect("a directory");
    let good = recorded(&directory, false);
    let output = history(&["check", good.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).starts_with("serializable\n3 committed, 0 aborted"), "{output:?}");
    let output = history(&["check", "--strict", good.to_str().expect("text")]);
    assert!(text(&output.stdout).starts_with("strictly serializable\n"), "{output:?}");

    let bad = recorded(&directory, true);
    let output = history(&["check", bad.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let out = text(&output.stdout);
    assert!(out.starts_with("NOT serializable\n"), "{out}");
    assert!(out.contains("lost-update: two read the same version and both replaced it\n"), "{out}");
    assert!(out.contains("T0.3.1 < T0.3.2  ww 7/counter: version 128, replaced by 192\n"), "{out}");
    assert!(
        out.contains("T0.3.2 < T0.3.1  rw 7/counter: read version 64, replaced by 128\n"),
        "{out}"
    );
}

#[test]
fn files_of_one_run_are_checked_together() {
    let directory = TempDir::new().expect("a directory");
    let (one, other) = (recorded(&directory, false), recorded(&directory, true));
    let content = std::fs::read_to_string(&other).expect("it is there");
    let of_another_node = content.replace("\"node\":0", "\"node\":1");
    assert_ne!(of_another_node, content);
    std::fs::write(&other, of_another_node).expect("room");
    let output = history(&["check", one.to_str().expect("text"), other.to_str().expect("text")]);
    let out = text(&output.stdout);
    // The two histories have the same timestamps, which is impossible within one run.
    assert!(out.contains("timestamp: ") && out.contains("6 committed"), "{out}");
}

#[test]
fn elle_gets_what_jepsen_writes() {
    let directory = TempDir::new().expect("a directory");
    let good = recorded(&directory, false);
    let output = history(&["elle", good.to_str().expect("text")]);
    let expected = "\
{:type :invoke, :f :txn, :value [[:r 0 nil] [:w 0 64]], :process 0, :time 1000, :index 0}
{:type :ok, :f :txn, :value [[:r 0 nil] [:w 0 64]], :process 0, :time 1010, :index 1}
{:type :invoke, :f :txn, :value [[:r 0 nil] [:w 0 128]], :process 0, :time 2000, :index 2}
{:type :ok, :f :txn, :value [[:r 0 64] [:w 0 128]], :process 0, :time 2010, :index 3}
{:type :invoke, :f :txn, :value [[:r 0 nil] [:w 0 192]], :process 0, :time 3000, :index 4}
{:type :ok, :f :txn, :value [[:r 0 128] [:w 0 192]], :process 0, :time 3010, :index 5}
";
    assert_eq!(text(&output.stdout), expected);

    let out = directory.path().join("lists.edn");
    let to = ["--model", "list-append", "--out", out.to_str().expect("text")];
    let output = history(&[&["elle", good.to_str().expect("text")][..], &to].concat());
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let written = std::fs::read_to_string(out).expect("it was written");
    assert!(written.ends_with(
        "{:type :ok, :f :txn, :value [[:r 0 [64 128]] [:append 0 192]], :process 0, :time 3010, :index 5}\n"
    ), "{written}");
}

#[test]
fn what_is_no_history_is_one_line() {
    let directory = TempDir::new().expect("a directory");
    let path = recorded(&directory, false);
    let whole = std::fs::read_to_string(&path).expect("it was written");
    for (from, to, error) in [
        ("\"version\":1", "\"version\":2", "a history of version 2"),
        ("latchwork-history", "diary", "this is no history"),
        (
            "\"cts\":128",
            "\"cts\":0",
            ", line 3: T0.3.1 is committed with writes and without a timestamp",
        ),
        ("\"put\"", "\"put", ", line 2: "),
    ] {
        std::fs::write(&path, whole.replacen(from, to, 1)).expect("the disk has room");
        for command in ["check", "elle"] {
            let output = history(&[command, path.to_str().expect("text")]);
            let err = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{err}");
            assert!(
                err.contains(error) && err.lines().count() == 1 && output.stdout.is_empty(),
                "{err}"
            );
        }
    }
    let output = history(&["check", "nothing-of-that-name"]);
    let err = text(&output.stderr);
    assert!(
        err.starts_with("histories: nothing-of-that-name: opening failed: No such file"),
        "{err}"
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(history(&["check"]).status.code(), Some(2));
    // The output is checked before the input.
    let output = history(&["elle", "--out", "/nowhere/lists.edn", "nothing-of-that-name"]);
    let err = text(&output.stderr);
    assert!(
        err.contains("--out /nowhere/lists.edn") && err.contains("make /nowhere first"),
        "{err}"
    );
    assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{err}");
    assert!(text(&history(&["--help"]).stdout).contains("elle"));
}

#[test]
fn what_is_too_large_or_never_comes_is_refused_at_once() {
    let directory = TempDir::new().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let sparse = std::fs::File::create(path("sparse")).expect("room");
    sparse.set_len(3 << 30).expect("a sparse file");
    assert!(Command::new("mkfifo").arg(path("fifo")).status().expect("coreutils").success());
    let refused = |arguments: &[&str], problem: &str| {
        let output = history(arguments);
        let err = text(&output.stderr);
        assert_eq!((output.status.code(), err.lines().count()), (Some(2), 1), "{err}");
        assert!(err.contains(problem), "{err}");
    };
    let too_large = "it is larger than 2 GiB, the most that a history may have";
    refused(&["check", &path("sparse")], too_large);
    let line = "it is larger than 4 KiB, the most that the first line of a history may have";
    refused(&["check", "--size-max", "4GiB", &path("sparse")], line);
    refused(&["check", "/dev/zero"], line);
    refused(&["elle", &path("fifo")], "it is a FIFO, and no process has it open for writing");
    let good = recorded(&directory, false);
    let good = good.to_str().expect("text");
    refused(&["elle", good, "--out", &path("fifo")], "no process has it open for reading");
    refused(&["check", "--size-max", "64", good], "it is larger than 64 bytes");
}

#[test]
fn a_mark_before_a_history_is_skipped_and_an_export_keeps_a_link() {
    let directory = TempDir::new().expect("a directory");
    let good = recorded(&directory, false);
    let bytes = std::fs::read(&good).expect("it is there");
    std::fs::write(&good, [b"\xef\xbb\xbf", &*bytes].concat()).expect("room");
    let (target, link) = (directory.path().join("target"), directory.path().join("link"));
    std::fs::write(&target, "old").expect("room");
    std::os::unix::fs::symlink("target", &link).expect("a link");
    let (good, out) = (good.to_str().expect("text"), link.to_str().expect("text"));
    let output = history(&["elle", good, "--out", out]);
    assert!(output.status.success(), "{output:?}");
    assert!(link.is_symlink());
    assert!(std::fs::read(&target).expect("it is there").starts_with(b"{:type :invoke"));
    let doubled = std::fs::read_to_string(good)
        .expect("text")
        .replace("\"node\":0,", "\"node\":0,\"node\":1,");
    std::fs::write(good, doubled).expect("room");
    let output = history(&["check", good]);
    assert!(text(&output.stderr).contains("duplicate field `node`"), "{output:?}");
}
