//! The common parts of the program's tests.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs the program with arguments that have no spaces.
pub(crate) fn sim(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
    command.args(arguments.split_whitespace()).output().expect("the program starts")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// An empty directory for one test.
pub(crate) fn directory(test: &str) -> PathBuf {
    let name = format!("latchwork-sim-{}-{test}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("a directory");
    directory
}
