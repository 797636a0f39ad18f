//! Inputs: bounded, and without a wait for data that may never come.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use latchwork_files::{InputError, InputKind, read, read_text, text};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

const SMALL: InputKind = InputKind { name: "a test file", bytes_max: 1000 };

fn directory() -> TempDir {
    TempDir::new().expect("a directory")
}

fn fifo(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO");
    path
}

#[test]
fn a_file_is_read_up_to_its_bound() {
    let directory = directory();
    let path = directory.path().join("file");
    fs::write(&path, vec![b'x'; 1000]).expect("room");
    assert_eq!(read(&path, SMALL).expect("it fits").len(), 1000);
    fs::write(&path, vec![b'x'; 1001]).expect("room");
    let told = read(&path, SMALL).expect_err("too large").to_string();
    assert_eq!(told, "it is larger than 1000 bytes, the most that a test file may have");
}

#[test]
fn a_huge_file_is_refused_for_what_its_metadata_say() {
    let directory = directory();
    let path = directory.path().join("sparse");
    // The size is too large for memory.
    File::create(&path).and_then(|file| file.set_len(1 << 43)).expect("a sparse file");
    let kind = InputKind { name: "a history", bytes_max: 2 << 30 };
    let told = read(&path, kind).expect_err("too large").to_string();
    assert_eq!(told, "it is larger than 2 GiB, the most that a history may have");
}

#[test]
fn a_device_without_an_end_ends_at_the_bound() {
    let error = read(Path::new("/dev/zero"), SMALL).expect_err("it has no end");
    assert!(matches!(error, InputError::TooLarge { .. }), "{error}");
    assert_eq!(read(Path::new("/dev/null"), SMALL).expect("an empty file"), b"");
}

#[test]
fn a_fifo_without_a_writer_is_an_error_at_once() {
    let directory = directory();
    let error = read(&fifo(&directory), SMALL).expect_err("no process writes");
    assert!(matches!(error, InputError::NoWriter), "{error}");
    assert!(error.to_string().contains("start the writer first"), "{error}");
}

#[test]
fn a_fifo_is_read_until_its_writer_closes_it() {
    let directory = directory();
    let path = fifo(&directory);
    // The FIFO is opened for reading and writing, so that the open does not wait.
    let mut writer = OpenOptions::new().read(true).write(true).open(&path).expect("a FIFO");
    let reader = std::thread::spawn(move || read(&path, SMALL));
    for _ in 0..3 {
        writer.write_all(b"line\n").expect("room");
        std::thread::yield_now();
    }
    // Wait until the reader has read the bytes. A close before the reader has opened the FIFO would
    // discard the bytes.
    while rustix::io::ioctl_fionread(&writer).expect("a FIFO") > 0 {
        std::thread::yield_now();
    }
    drop(writer);
    let bytes = reader.join().expect("no panic").expect("a writer was there");
    assert_eq!(bytes, b"line\nline\nline\n");
}

#[test]
fn what_is_no_file_is_one_clear_error() {
    let directory = directory();
    let socket = directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    for (path, problem) in [
        (directory.path(), "it is a directory; name a file"),
        (&socket, "it is a socket; name a file or a FIFO"),
        (&directory.path().join("none"), "it cannot be read: No such file"),
        (&socket.join("x"), "it cannot be read: Not a directory"),
    ] {
        let told = read(path, SMALL).expect_err("no file").to_string();
        assert!(told.starts_with(problem) && !told.contains('\n'), "{told}");
    }
}

#[test]
fn a_byte_order_mark_is_skipped_and_other_encodings_are_reported() {
    let directory = directory();
    let path = directory.path().join("text");
    for (bytes, expected) in [
        (&b"\xef\xbb\xbfa=1\n"[..], Ok("a=1\n")),
        (b"a=1\xef\xbb\xbf", Ok("a=1\u{feff}")),
        (b"", Ok("")),
        (b"\xff\xfea\0", Err("it is UTF-16 text; save it as UTF-8")),
        (b"\xfe\xff\0a", Err("it is UTF-16 text; save it as UTF-8")),
        (b"a\nb\n\xc3(", Err("line 3: it is not UTF-8 text; save it as UTF-8")),
    ] {
        fs::write(&path, bytes).expect("room");
        let told = read_text(&path, SMALL).map_err(|error| error.to_string());
        assert_eq!(told, expected.map(str::to_owned).map_err(str::to_owned));
        assert_eq!(told.ok(), text(bytes.to_vec()).ok());
    }
}
