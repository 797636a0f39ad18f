//! `cluster node`: becomes a command that ends with its parent.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use latchwork_harness::AppError;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::args::Node;

/// The arguments with which this program becomes `command`. The kernel sends `signal` to `command`
/// when the calling process ends.
pub(crate) fn wrap(program: &str, signal: i32, command: &[String]) -> Vec<String> {
    let parent = std::process::id().to_string();
    let own = [program, "node", "--parent", &parent, "--signal", &signal.to_string(), "--"];
    own.iter().map(|part| (*part).to_owned()).chain(command.iter().cloned()).collect()
}

/// Does not return, unless the command cannot be executed.
pub(crate) fn command(node: &Node) -> AppError {
    let failed =
        |what: &str, error: &dyn std::fmt::Display| AppError::Failed(format!("{what}: {error}"));
    // The kernel sends the signal when the thread that forked this process ends: the parent's main
    // thread.
    if let Err(error) = set_parent_process_death_signal(Signal::from_named_raw(node.signal)) {
        return failed("the end of this process cannot be bound to that of its parent", &error);
    }
    // The parent may have ended before the call. Then the kernel sends no signal.
    if getppid().map(Pid::as_raw_nonzero).is_none_or(|pid| pid.get() as u32 != node.parent) {
        return AppError::Failed("whoever started this is over".to_owned());
    }
    let [program, arguments @ ..] = &node.command[..] else {
        return AppError::Usage("there is no command".to_owned());
    };
    let error = Command::new(program).args(arguments).exec();
    failed(&format!("{program} cannot be started"), &error)
}
