//! [`alone`]: runs a test in a process of its own.

use std::env;
use std::io::Read as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use latchwork_runtime::Clock;

/// The time limit of a test. The limit is generous, so that a busy machine causes no failure.
const LIMIT: Duration = Duration::from_secs(600);

/// The time within which a process must end after it has closed its output.
const END: Duration = Duration::from_secs(60);

/// Set in the process that [`alone`] starts.
const ALONE: &str = "LATCHWORK_TEST_ALONE";

/// Returns true when this process runs nothing but the named test. Otherwise the call runs the test
/// in a new process, waits for its end and returns false. A test that measures its own process
/// needs this, because other tests' threads would change the result.
///
/// `test` is the path of the calling test in its program, for example
/// `idle::an_idle_cluster_uses_no_cpu`.
///
/// # Panics
/// When the new process cannot be started, has no such test, fails, or writes an output that is not
/// text. Also when the new process does not close its output within ten minutes, or does not end
/// within one more minute. In these two cases the call kills the new process first.
pub fn alone(test: &str) -> bool {
    if env::var(ALONE).is_ok_and(|name| name == test) {
        return true;
    }
    let program = env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--include-ignored", "--nocapture"]).env(ALONE, test);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("this program starts once more");
    let mut output = child.stdout.take().expect("it is piped");
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut text = String::new();
        let read = output.read_to_string(&mut text);
        // The send fails only after the limit, when the receiver is gone.
        let _ = sender.send(read.map(|_| text));
    });
    let Ok(text) = receiver.recv_timeout(LIMIT) else {
        let _ = child.kill();
        let _ = child.wait();
        panic!("{test} did not end in its own process within {LIMIT:?}");
    };
    let text = text.expect("its output is text");
    let Some(status) = wait(&mut child) else {
        let _ = child.kill();
        let _ = child.wait();
        panic!("{test} did not end in its own process within {END:?} of its last output");
    };
    assert!(text.contains("running 1 test"), "there is no test {test}: {text}");
    assert!(status.success(), "{test} failed in its own process: {text}");
    print!("{text}");
    false
}

/// The exit status of a process that has closed its output. `None` when the process does not end
/// within [`END`].
#[allow(clippy::disallowed_methods, reason = "another process is a matter of real time")]
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let clock = Clock::start();
    let deadline = clock.now() + END;
    loop {
        match child.try_wait().expect("a child of this process") {
            None if clock.now() < deadline => thread::sleep(Duration::from_millis(1)),
            status => return status,
        }
    }
}
