//! The kernel's data about processes.

use std::fs;

/// The start time of a process, in ticks since the boot of the machine; `None` if there is no such
/// process.
pub(crate) fn started(pid: u32) -> Option<u64> {
    stat(pid, 22)?.parse().ok()
}

/// The parent of a process, or the process that has adopted it.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat(pid, 4)?.parse().ok()
}

/// Whether a process is stopped, by SIGSTOP, by its terminal or by a debugger.
pub(crate) fn is_stopped(pid: u32) -> bool {
    stat(pid, 3).is_some_and(|state| matches!(state.as_str(), "T" | "t"))
}

/// A field of `/proc/PID/stat`, counted from 1.
fn stat(pid: u32, field: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may contain any character.
    stat.rsplit_once(')')?.1.split_whitespace().nth(field - 3).map(str::to_owned)
}

/// The PID namespace of this process. Process numbers have no meaning in another namespace.
pub(crate) fn space() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    let digits = link.to_str()?.chars().filter(char::is_ascii_digit);
    Some(digits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_no_process_has_the_largest_number() {
        let own = std::process::id();
        assert!(started(own).is_some() && parent(own).is_some() && !is_stopped(own));
        assert!(started(u32::MAX).is_none() && !is_stopped(u32::MAX));
    }
}
