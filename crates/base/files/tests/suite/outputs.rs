//! Outputs: regular files are replaced as a whole, and other kinds of files are written.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use latchwork_files::{Output, OutputError, grow, scratch};
use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat};
use tempfile::TempDir;

fn directory() -> TempDir {
    TempDir::new().expect("a directory")
}

fn fifo(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO");
    path
}

/// Opens a FIFO for reading, without waiting.
fn reader(path: &Path) -> File {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::empty()).expect("a FIFO").into()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let output = Output::open(path).map_err(|error| error.to_string())?;
    output.write(bytes).map_err(|error| error.to_string())
}

#[test]
fn a_file_is_replaced_in_one_step_and_nothing_else_is_left() {
    let directory = directory();
    let path = directory.path().join("file");
    let output = Output::open(&path).expect("a new file");
    assert_eq!(names(directory.path()), [""; 0], "looking leaves nothing");
    output.write(b"one").expect("room");
    // A process with the old file open keeps the old file.
    let mut old = File::open(&path).expect("it is there");
    output.write(b"two").expect("room");
    let mut text = String::new();
    old.read_to_string(&mut text).expect("text");
    assert_eq!((text.as_str(), fs::read(&path).expect("it is there")), ("one", b"two".to_vec()));
    assert_eq!(names(directory.path()), ["file"]);
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let directory = directory();
    let path = directory.path().join("file");
    write(&path, b"old").expect("room");
    let output = Output::open(&path).expect("a file");
    let failed = output.write_with(|out| {
        out.write_all(&[b'n'; 100_000])?;
        Err(std::io::Error::other("it broke"))
    });
    let told = failed.expect_err("it broke").to_string();
    assert_eq!(told, "it cannot be written: it broke; name another file");
    assert_eq!(fs::read(&path).expect("it is there"), b"old");
    assert_eq!(names(directory.path()), ["file"]);
}

#[test]
fn a_replaced_file_keeps_its_permissions() {
    let directory = directory();
    let path = directory.path().join("file");
    for mode in [0o600, 0o640, 0o666] {
        fs::write(&path, "old").expect("room");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("its owner may");
        write(&path, b"new").expect("room");
        let now = fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((now, fs::read(&path).expect("it is there")), (mode, b"new".to_vec()));
    }
}

#[test]
fn what_becomes_of_a_secret_file_is_secret_while_it_is_written() {
    let directory = directory();
    let path = directory.path().join("file");
    fs::write(&path, "old").expect("room");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("its owner may");
    let mut partials = 0;
    let output = Output::open(&path).expect("a file");
    let written = output.write_with(|out| {
        out.write_all(b"new")?;
        out.flush()?;
        for name in names(directory.path()).iter().filter(|name| name.ends_with(".partial")) {
            let mode = fs::metadata(directory.path().join(name))?.permissions().mode();
            assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
            partials += 1;
        }
        Ok(())
    });
    written.expect("room");
    assert_eq!(partials, 1, "the new content is in a file beside the old one");
}

#[test]
fn a_link_stays_and_its_target_is_replaced() {
    let directory = directory();
    let (inner, link) = (directory.path().join("inner"), directory.path().join("link"));
    fs::create_dir(&inner).expect("a directory");
    fs::write(inner.join("target"), "old").expect("room");
    symlink("inner/middle", &link).expect("a link");
    symlink("target", inner.join("middle")).expect("a link");
    write(&link, b"new").expect("room");
    assert_eq!(fs::read_link(&link).expect("still a link"), Path::new("inner/middle"));
    assert_eq!(fs::read(inner.join("target")).expect("it is there"), b"new");
    assert_eq!(names(&inner), ["middle", "target"]);
}

#[test]
fn a_file_with_the_longest_name_can_be_replaced() {
    let directory = directory();
    let path = directory.path().join("x".repeat(255));
    write(&path, b"one").expect("room");
    write(&path, b"two").expect("room");
    assert_eq!(fs::read(&path).expect("it is there"), b"two");
}

#[test]
fn what_cannot_be_written_is_one_clear_error_before_the_work() {
    let directory = directory();
    let of = |name: &str| directory.path().join(name);
    symlink("nowhere", of("dangling")).expect("a link");
    symlink("circle", of("circle")).expect("a link");
    fs::write(of("file"), "").expect("room");
    let _listener = std::os::unix::net::UnixListener::bind(of("socket")).expect("a socket");
    for (path, problem) in [
        (directory.path().to_owned(), "it is a directory; name a file"),
        (of("new/"), "a name that ends with a slash is that of a directory; leave the slash out"),
        (of("file/"), "a name that ends with a slash is that of a directory; leave the slash out"),
        (PathBuf::new(), "it is a directory; name a file"),
        (of("dangling"), "it is a link to nowhere, which is not there; make that file, or name"),
        (of("circle"), "it cannot be written: "),
        (of("lost/file"), "its directory does not exist; make "),
        (of("file/file"), "its directory does not exist; make "),
        (of("socket"), "it is a socket; name a file or a FIFO"),
        (fifo(&directory), "it is a FIFO, and no process has it open for reading; start the"),
    ] {
        let told = Output::open(&path).expect_err("it cannot be").to_string();
        assert!(told.starts_with(problem) && !told.contains('\n'), "{}: {told}", path.display());
    }
    assert!(of("dangling").is_symlink() && !of("nowhere").exists());
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced() {
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root may write every file");
        return;
    }
    let directory = directory();
    let path = directory.path().join("file");
    fs::write(&path, "old").expect("room");
    fs::set_permissions(&path, Permissions::from_mode(0o444)).expect("its owner may");
    let told = Output::open(&path).expect_err("read only").to_string();
    assert!(told.contains("Permission denied"), "{told}");
    // In a directory that may not be changed, a writable file is written in place.
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("its owner may");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o555)).expect("its owner may");
    let written = write(&path, b"new");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("its owner may");
    assert_eq!((written, fs::read(&path).expect("it is there")), (Ok(()), b"new".to_vec()));
}

#[test]
fn a_fifo_is_written_and_stays_one() {
    let directory = directory();
    let path = fifo(&directory);
    let mut reader = reader(&path);
    let output = Output::open(&path).expect("it has a reader");
    let large = vec![b'x'; 300_000];
    let expected = large.clone();
    // More bytes than the FIFO holds at once.
    let writer = std::thread::spawn(move || output.write(&large));
    let mut got = Vec::new();
    while got.len() < expected.len() {
        match reader.read_to_end(&mut got) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
    writer.join().expect("no panic").expect("all of it was read");
    assert!(got == expected);
    assert!(fs::symlink_metadata(&path).expect("it is there").file_type().is_fifo());
    assert_eq!(names(directory.path()), ["fifo"]);
}

#[test]
fn a_fifo_without_its_reader_is_an_error() {
    let directory = directory();
    let path = fifo(&directory);
    let reader = reader(&path);
    let output = Output::open(&path).expect("it has a reader");
    drop(reader);
    let error = output.write(b"lost").expect_err("no process reads");
    assert!(matches!(error, OutputError::Closed), "{error}");
}

#[test]
fn a_fifo_that_came_after_the_check_is_not_replaced() {
    let directory = directory();
    let path = directory.path().join("fifo");
    let output = Output::open(&path).expect("a new file");
    let path = fifo(&directory);
    let error = output.write(b"text").expect_err("no process reads");
    assert!(matches!(error, OutputError::NoReader), "{error}");
    assert!(fs::symlink_metadata(path).expect("it is there").file_type().is_fifo());
}

#[test]
fn a_device_is_written_and_stays_one() {
    let directory = directory();
    let path = directory.path().join("null");
    // The device numbers of /dev/null. The test does not touch /dev/null itself.
    if mknodat(CWD, &path, FileType::CharacterDevice, Mode::RWXU, makedev(1, 3)).is_err() {
        eprintln!("skipped: only root makes device nodes");
        return;
    }
    if OpenOptions::new().write(true).open(&path).is_err() {
        eprintln!("skipped: devices of this file system cannot be opened");
        return;
    }
    let link = directory.path().join("link");
    symlink("null", &link).expect("a link");
    for path in [&path, &link] {
        write(path, b"text").expect("it takes everything");
        assert!(!Output::open(path).expect("a device").is_file());
    }
    let now = fs::symlink_metadata(&path).expect("it is there");
    assert!(now.file_type().is_char_device() && now.rdev() == makedev(1, 3));
    assert!(link.is_symlink());
    assert_eq!(names(directory.path()), ["link", "null"]);
}

#[test]
fn a_full_device_is_an_error() {
    let told = write(Path::new("/dev/full"), b"text").expect_err("it is full");
    assert!(told.starts_with("it cannot be written: No space left"), "{told}");
}

#[test]
fn a_descriptor_is_written_and_its_file_is_not_replaced() {
    let directory = directory();
    let path = directory.path().join("file");
    fs::write(&path, "before\n").expect("room");
    let file = OpenOptions::new().append(true).open(&path).expect("it is there");
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    for place in [format!("/dev/fd/{number}"), format!("/proc/self/fd/{number}")] {
        write(Path::new(&place), b"text\n").expect("room");
    }
    (&file).write_all(b"after\n").expect("room");
    assert_eq!(fs::read_to_string(&path).expect("text"), "before\ntext\ntext\nafter\n");
    assert_eq!(names(directory.path()), ["file"]);
}

#[test]
fn standard_output_has_several_names() {
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        assert!(Output::open(Path::new(name)).expect("it is open").is_stdout(), "{name}");
    }
    let error = Output::open(Path::new("/dev/stderr")).expect("it is open");
    assert!(!error.is_stdout() && !error.is_file());
}

#[test]
fn a_finished_file_is_adopted_over_the_old_one() {
    let directory = directory();
    let (path, part) = (directory.path().join("file"), directory.path().join("part"));
    fs::write(&path, "old").expect("room");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("its owner may");
    fs::write(&part, "new").expect("room");
    Output::open(&path).expect("a file").adopt(&part).expect("one file system");
    let mode = fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((fs::read(&path).expect("it is there"), mode), (b"new".to_vec(), 0o600));
    fs::write(&part, "piped").expect("room");
    let fifo = fifo(&directory);
    let mut reader = reader(&fifo);
    Output::open(&fifo).expect("it has a reader").adopt(&part).expect("it is read");
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("its writer is gone");
    assert_eq!((text.as_str(), part.exists()), ("piped", false));
}

#[test]
fn a_finished_file_of_another_file_system_is_adopted() {
    const ELSEWHERE: &str = "/dev/shm";
    let directory = directory();
    let device = |path: &Path| fs::metadata(path).map(|info| info.dev()).ok();
    let Some(other) = device(Path::new(ELSEWHERE)).filter(|_| Path::new(ELSEWHERE).is_dir()) else {
        eprintln!("skipped: there is no {ELSEWHERE}");
        return;
    };
    if device(directory.path()) == Some(other) {
        eprintln!("skipped: {ELSEWHERE} and the temporary directory are one file system");
        return;
    }
    let elsewhere = TempDir::new_in(ELSEWHERE).expect("a directory");
    let (part, path) = (elsewhere.path().join("part"), directory.path().join("file"));
    for (old, mode) in [(None, None), (Some("old"), Some(0o600))] {
        if let (Some(old), Some(mode)) = (old, mode) {
            fs::write(&path, old).expect("room");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("its owner may");
        }
        fs::write(&part, "new").expect("room");
        Output::open(&path).expect("a file").adopt(&part).expect("it is copied");
        assert_eq!(fs::read(&path).expect("it is there"), b"new");
        assert_eq!(
            (names(directory.path()), names(elsewhere.path())),
            (vec!["file".into()], vec![])
        );
        if let Some(mode) = mode {
            let now = fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
            assert_eq!(now, mode);
        }
    }
}

/// A child process that ends when this value is dropped.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_descriptor_of_another_process_is_not_taken_for_an_own_one() {
    let directory = directory();
    let path = directory.path().join("theirs");
    let theirs = OpenOptions::new().create(true).append(true).open(&path).expect("a new file");
    let cat = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .stdout(theirs)
        .spawn()
        .map(Child)
        .expect("a program that waits for its input");
    // `spawn` returns after the descriptors of the child exist.
    let output = Output::open(Path::new(&format!("/proc/{}/fd/1", cat.0.id()))).expect("a file");
    assert!(!output.is_stdout(), "standard output of another process");
    output.write(b"for them").expect("room");
    assert_eq!(fs::read(&path).expect("it is there"), b"for them");
}

#[test]
fn what_grows_is_written_in_place() {
    let directory = directory();
    let path = directory.path().join("file");
    fs::write(&path, "a long old text").expect("room");
    let mut file = grow(&path).expect("a file");
    file.write_all(b"one").expect("room");
    assert_eq!(fs::read(&path).expect("it is there"), b"one");
    let fifo = fifo(&directory);
    assert!(matches!(grow(&fifo), Err(OutputError::NoReader)));
    assert!(scratch(&fifo).is_err(), "it waits for no reader");
    let _reader = reader(&fifo);
    let told = scratch(&fifo).expect_err("no file").to_string();
    assert_eq!(told, "it is no regular file; remove it");
    symlink("file", directory.path().join("link")).expect("a link");
    assert!(scratch(&directory.path().join("link")).is_err(), "it follows no link");
}
