//! Paths that name an open descriptor, such as `/dev/stdout` and `/dev/fd/3`.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// The descriptor number of standard output.
pub(crate) const STDOUT: u32 = 1;

/// The descriptor number of standard error.
pub(crate) const STDERR: u32 = 2;

/// The largest number of symbolic links that the search follows, as in the kernel.
const LINKS_MAX: usize = 40;

/// The descriptor to which a path leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Descriptor {
    /// The number of the descriptor, if it belongs to this process.
    pub(crate) own: Option<u32>,
}

/// The descriptor to which `path` leads, directly or through symbolic links.
///
/// The links in `/proc/PID/fd` are not ordinary links, so the search ends at such a link. Its
/// content may be no path at all (`pipe:[123]`). And replacing the file that it names would
/// disconnect the descriptor from the file.
pub(crate) fn descriptor(path: &Path) -> Option<Descriptor> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let directory = fs::canonicalize(directory_of(&path)).ok()?;
        let name = path.file_name()?.to_owned();
        if let Some(pid) = of_process(&directory) {
            let number = name.to_str().and_then(|name| name.parse().ok());
            let is_own = pid == rustix::process::getpid().as_raw_nonzero().get();
            return Some(Descriptor { own: number.filter(|_| is_own) });
        }
        let link = directory.join(name);
        path = directory.join(fs::read_link(&link).ok()?);
    }
    None
}

/// The id of the process to which the descriptors in this directory belong. `None` unless the
/// directory is `/proc/PID/fd`, or the same directory of a thread.
fn of_process(directory: &Path) -> Option<i32> {
    let parts: Vec<_> = directory.components().collect();
    let (Some(Component::RootDir), Some(Component::Normal(proc))) = (parts.first(), parts.get(1))
    else {
        return None;
    };
    let is_fd = parts.last() == Some(&Component::Normal("fd".as_ref()));
    let is_long_enough = parts.len() == 4 || parts.len() == 6;
    if *proc != "proc" || !is_fd || !is_long_enough {
        return None;
    }
    parts[2].as_os_str().to_str()?.parse().ok()
}

/// The directory part of a path; `.` for a file name alone.
pub(crate) fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
