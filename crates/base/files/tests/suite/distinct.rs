//! One file under two names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use latchwork_files::{Named, distinct};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

fn told(first: Named, second: Named) -> Option<String> {
    distinct(&[first, second]).err().map(|error| error.to_string())
}

#[test]
fn an_output_is_no_other_output_and_no_input_under_whatever_name() {
    let directory = TempDir::new().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::write(at("file"), "").expect("room");
    fs::hard_link(at("file"), at("hard")).expect("a link");
    symlink("file", at("soft")).expect("a link");
    fs::create_dir(at("inner")).expect("a directory");
    symlink("inner", at("door")).expect("a link");
    for (one, other) in [
        ("file", "file"),
        ("file", "inner/../file"),
        ("file", "soft"),
        ("file", "hard"),
        ("new", "./new"),
        ("inner/new", "door/new"),
    ] {
        let (one, other) = (at(one), at(other));
        for first in [Named::read("--in", &one), Named::written("--one", &one)] {
            let line = told(first, Named::written("--out", &other)).expect("one file");
            let (one, other) = (one.display(), other.display());
            assert!(line.contains(&format!("{one} and --out {other} are one file")), "{line}");
        }
        assert_eq!(told(Named::read("--in", &one), Named::read("--too", &other)), None);
    }
    for (one, other) in [("file", "inner/file"), ("new", "newer"), ("inner", "inner")] {
        assert_eq!(told(Named::written("--a", at(one)), Named::written("--b", at(other))), None);
    }
}

#[test]
fn devices_and_fifos_may_be_named_twice_and_standard_output_may_not() {
    let directory = TempDir::new().expect("a directory");
    let fifo = directory.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).expect("a FIFO");
    for path in [Path::new("/dev/null"), Path::new("/dev/full"), &fifo] {
        assert_eq!(told(Named::written("--a", path), Named::written("--b", path)), None);
    }
    for (one, other) in [("-", "-"), ("-", "/dev/stdout"), ("/dev/stdout", "/proc/self/fd/1")] {
        let line = told(Named::written("--a", one), Named::written("--b", other));
        assert!(line.is_some(), "{one} {other}");
    }
    // For an input, `-` is the name of a file.
    assert_eq!(told(Named::read("--a", "-"), Named::written("--b", "-")), None);
}
