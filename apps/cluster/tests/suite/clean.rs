//! `cluster clean` with files of this user and of another.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common;

const CLUSTER: &str = env!("CARGO_BIN_EXE_cluster");
/// The id of a user that has no files here.
const OTHER: u32 = 65534;

fn clean(program: &Path, directory: &Path, user: Option<u32>) -> (Output, String) {
    let mut command = Command::new(program);
    command.args(["clean", "--shm-dir"]).arg(directory);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let output = command.output().expect("the program starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, told)
}

#[test]
fn a_directory_that_is_empty_after_cleaning_is_removed() {
    let place = TempDir::new().expect("a directory");
    let directory = place.path().join("shared");
    fs::create_dir(&directory).expect("room");
    fs::write(directory.join("latchwork-0000000000000001-memory-1"), "x").expect("room");
    let (output, told) = clean(Path::new(CLUSTER), &directory, None);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(out.contains(&format!("in {}: their processes", directory.display())), "{out}{told}");
    assert!(!directory.exists(), "{out}{told}");
    // A directory with a file in it stays, because another program may use it.
    fs::create_dir(&directory).expect("room");
    fs::write(directory.join("notes"), "x").expect("room");
    clean(Path::new(CLUSTER), &directory, None);
    assert!(directory.join("notes").exists());
}

/// Bug: files of another user stayed without a message, and the error for a directory of another
/// user did not name that user.
#[test]
fn what_is_another_users_stays_with_a_line_that_names_the_user() {
    let place = TempDir::new().expect("a directory");
    let foreign = place.path().join("latchwork-0000000000000002-owner");
    fs::write(&foreign, "x").expect("room");
    let own = fs::metadata(&foreign).expect("it was written").uid();
    if own == OTHER || chown(&foreign, Some(OTHER), Some(OTHER)).is_err() {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    let (output, told) = clean(Path::new(CLUSTER), place.path(), None);
    let line = format!("{}: 1 file of other users stay", place.path().display());
    let line = told.lines().find(|told| told.contains(&line)).expect(&told);
    assert!(line.contains("the user with id 65534"), "{line}");
    assert_eq!(output.status.code(), Some(1));
    assert!(foreign.exists());

    // Another user, which may not read this user's directory, runs a copy of the program.
    let program = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir();
    let program = program.expect("a directory");
    let copy = program.path().join("cluster");
    common::copy(Path::new(CLUSTER), &copy);
    let shared = program.path().join("shared");
    fs::create_dir(&shared).expect("room");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).expect("this user's own");
    let (output, told) = clean(&copy, &shared, Some(OTHER));
    let line = format!("{}: it belongs to the user with id 0", shared.display());
    let line = told.lines().find(|told| told.contains(&line)).expect(&told);
    assert!(line.contains("shm-dir"), "{line}");
    assert_eq!(output.status.code(), Some(1));
    assert!(shared.exists());
}
