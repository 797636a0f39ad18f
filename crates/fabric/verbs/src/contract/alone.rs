//! [`alone`]: runs a test in a process of its own.

use std::env;
use std::process::Command;

/// Set in the process that [`alone`] starts.
const ALONE: &str = "LATCHWORK_TEST_ALONE";

/// Whether this process runs nothing but the named test. If it does not, this starts such a process
/// and waits for its end: a test that measures its process must not see the threads of others.
///
/// `test` is the path of the calling test in its program, for example
/// `idle::an_idle_cluster_uses_no_cpu`.
///
/// # Panics
/// When the other process cannot be started, runs no such test, or fails.
pub fn alone(test: &str) -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let program = env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--include-ignored", "--nocapture"]).env(ALONE, test);
    let output = command.output().expect("this program starts once more");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("running 1 test"), "there is no test {test}: {text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} failed in its own process: {text}{errors}");
    print!("{text}");
    false
}
