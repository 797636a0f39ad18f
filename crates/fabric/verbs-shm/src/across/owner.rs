//! [`Owner`]: the owner's file, which identifies a process. The lock of the file shows that the
//! process lives.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use latchwork_runtime::Clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use rustix::time::Timespec;

use crate::{ProcessEnd, ShmError};

/// The process that holds an owner's file, as the file describes it.
///
/// The lock decides whether the process lives. The kernel releases the lock when the process has
/// ended for any reason, after its threads have left its memory. So a file without a lock belongs
/// to a process that has ended, or that has just made this file and no other file yet. The process
/// id serves only to kill the process. A caller trusts the id only when the kernel confirms two
/// facts:
///
/// 1. The process with this id holds the lock.
/// 2. The process started at the time in the file.
#[derive(PartialEq, Eq, Debug)]
struct Identity {
    pid: i32,
    /// The start time of the process, in clock ticks since the machine started.
    started: u64,
    /// The inode number of the process id namespace. The process id has a meaning only in this
    /// namespace.
    namespace: u64,
    /// The directory of huge pages with further files of the process, if any.
    large: Option<PathBuf>,
}

impl Identity {
    fn own(large: Option<PathBuf>) -> io::Result<Identity> {
        let pid = rustix::process::getpid().as_raw_pid();
        let started = started(pid)?.ok_or(io::ErrorKind::NotFound)?;
        let namespace = fs::metadata("/proc/self/ns/pid")?.ino();
        Ok(Identity { pid, started, namespace, large })
    }

    fn to_text(&self) -> String {
        let Identity { pid, started, namespace, large } = self;
        let mut text = format!("process {pid}\nstarted {started}\nnamespace {namespace}\n");
        if let Some(large) = large {
            text += &format!("large {}\n", large.display());
        }
        text + "end\n"
    }

    fn parse(text: &str) -> Option<Identity> {
        let text = text.strip_suffix("end\n")?;
        let find =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Some(Identity {
            pid: find("process")?.parse().ok()?,
            started: find("started")?.parse().ok()?,
            namespace: find("namespace")?.parse().ok()?,
            large: find("large").map(PathBuf::from),
        })
    }
}

/// The start time of the process; `None` when the process does not exist.
fn started(pid: i32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // The second field is the name in parentheses, which may contain any character. So the search
    // begins behind the last parenthesis, at the third field. The start time is field 22.
    let start = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(22 - 3));
    let start = start.and_then(|start| start.parse().ok());
    start.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// This process's owner's file, locked until this value is dropped.
/// [`Directory`](super::directory::Directory) removes the file together with the process's other
/// files.
pub(crate) struct Owner(#[allow(dead_code)] File);

impl Owner {
    /// Makes the file and takes its lock. `None` when the name is taken, when another process has
    /// the lock at the same moment, or when a cleaner has removed the new file.
    pub(crate) fn create(path: &Path, large: Option<&Path>) -> io::Result<Option<Owner>> {
        let identity = Identity::own(large.map(Path::to_owned))?;
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let mut file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        // A cleaner that finds the file before the lock is taken assumes that its process has
        // ended, and removes the file.
        let still_there =
            fs::symlink_metadata(path).is_ok_and(|found| Some(found.ino()) == inode(&file));
        if locked.is_err() || !still_there {
            let _ = fs::remove_file(path);
            return Ok(None);
        }
        file.write_all(identity.to_text().as_bytes())?;
        Ok(Some(Owner(file)))
    }
}

fn inode(file: &File) -> Option<u64> {
    file.metadata().ok().map(|metadata| metadata.ino())
}

/// Opens a file of a peer: a plain file of this user, no symbolic link. `None` when the file does
/// not exist.
pub(crate) fn open_checked(path: &Path, write: bool) -> Result<Option<File>, ShmError> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(write)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let opened = options.open(path).and_then(|file| Ok((file.metadata()?, file)));
    match opened {
        Ok((found, file)) if found.is_file() && found.uid() == geteuid().as_raw() => Ok(Some(file)),
        Ok(_) => Err(ShmError::Foreign { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            Err(ShmError::Foreign { path: path.to_owned() })
        }
        Err(error) => Err(ShmError::File { action: "open", path: path.to_owned(), error }),
    }
}

/// Whether the process of this owner's file lives. True also while a cleaner holds the lock, and
/// when the lock cannot be checked.
fn is_held(file: &File) -> bool {
    // The check takes a shared lock, so that of two checking processes neither takes the other for
    // the owner.
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = flock(file, FlockOperation::Unlock);
            false
        }
        // The lock is held, or its state is unknown.
        Err(_) => true,
    }
}

/// The owner's file of a process that has ended, with its lock. While the caller has the lock, no
/// starting process can take the file, and no second process can clean up after the ended one.
/// `None` when another process holds the lock, when the file is gone, or when the file cannot be
/// checked.
pub(crate) fn take_over(path: &Path) -> Option<File> {
    let file = open_checked(path, false).ok()??;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    // Another process may have removed the file before the lock was taken.
    let there = fs::symlink_metadata(path).ok()?.ino();
    (inode(&file) == Some(there)).then_some(file)
}

/// Whether the lock of the file becomes free within `patience`. Another process may hold the lock
/// for a short time, to check the lock or to clean up.
fn is_left(file: &File, patience: Duration) -> bool {
    let clock = Clock::start();
    let deadline = clock.now() + patience;
    while is_held(file) {
        if clock.now() >= deadline {
            return false;
        }
        let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
    }
    true
}

/// Whether the process with the owner's file at `path` lives. A process without a file does not
/// live.
pub(crate) fn lives(path: &Path) -> Result<bool, ShmError> {
    Ok(open_checked(path, false)?.is_some_and(|file| is_held(&file)))
}

/// The directory of huge pages with files of the process whose owner's file is at `path`. `None`
/// also when the file cannot be read.
pub(crate) fn large_of(path: &Path) -> Option<PathBuf> {
    read_identity(&mut open_checked(path, false).ok()??)?.large
}

/// The id of the process that holds the lock of the file, according to the kernel. The search
/// compares inode numbers only. So it may find the lock of a file with the same number on another
/// file system.
fn holder(file: &File) -> Option<i32> {
    let wanted = inode(file)?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        // The fields: number, kind, manner, access, process, device and inode, range.
        let mut fields = line.split_whitespace().skip(1);
        let [kind, _, access, pid, place] = std::array::from_fn(|_| fields.next().unwrap_or(""));
        let inode: u64 = place.rsplit(':').next()?.parse().ok()?;
        let fits = kind == "FLOCK" && access == "WRITE" && inode == wanted;
        fits.then(|| pid.parse().ok())?
    })
}

fn read_identity(file: &mut File) -> Option<Identity> {
    let mut text = String::new();
    file.take(1 << 16).read_to_string(&mut text).ok()?;
    Identity::parse(&text)
}

/// Kills the process whose owner's file is at `path`, and waits for its end, for at most
/// `patience`.
///
/// Why the call kills no other process:
///
/// 1. The call opens a handle (pidfd) of the process with the id in the file. A handle stays with
///    its process, also when the id is used again.
/// 2. The call checks that the process with this id started at the time in the file.
/// 3. The call checks that the process with this id holds the lock of the file.
/// 4. The call sends the signal to the handle. If the handle's process still exists, this process
///    had the id during both checks. So both checks were about this process. Otherwise the signal
///    reaches no process.
pub(crate) fn stop(path: &Path, patience: Duration) -> Result<ProcessEnd, ShmError> {
    let unproven = |why| Err(ShmError::Unproven { path: path.to_owned(), why });
    let failed = |action| {
        move |error: Errno| ShmError::File { action, path: path.to_owned(), error: error.into() }
    };
    let Some(mut file) = open_checked(path, false)? else { return Ok(ProcessEnd::WasGone) };
    if !is_held(&file) {
        return Ok(ProcessEnd::WasGone);
    }
    let Some(identity) = read_identity(&mut file) else {
        return unproven("the file does not say whose it is");
    };
    let own = Identity::own(None).map_err(|error| ShmError::File {
        action: "who am I",
        path: path.to_owned(),
        error,
    })?;
    if identity.namespace != own.namespace {
        return unproven("its process counts its ids in another container");
    }
    if (identity.pid, identity.started) == (own.pid, own.started) {
        return Err(ShmError::OwnProcess { path: path.to_owned() });
    }
    let Some(pid) = Pid::from_raw(identity.pid) else {
        return unproven("the file has no process id");
    };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        // The process has ended since the check of the lock.
        Err(Errno::SRCH) if is_left(&file, patience) => return Ok(ProcessEnd::WasGone),
        Err(Errno::SRCH) => return unproven("another process holds its lock"),
        Err(error) => return Err(failed("open the process")(error)),
    };
    match started(identity.pid) {
        Ok(Some(found)) if found == identity.started => {}
        Ok(_) if is_left(&file, patience) => return Ok(ProcessEnd::WasGone),
        Ok(_) => return unproven("another process holds its lock"),
        Err(error) => {
            return Err(ShmError::File { action: "when it started", path: path.to_owned(), error });
        }
    }
    match holder(&file) {
        Some(holder) if holder == identity.pid => {}
        _ if is_left(&file, patience) => return Ok(ProcessEnd::WasGone),
        Some(_) => return unproven("another process holds its lock"),
        None => return unproven("/proc/locks does not say who holds its lock"),
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        // `SRCH`: the process has just ended. The poll below still waits until the handle reports
        // the end.
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(failed("kill the process")(error)),
    }
    let clock = Clock::start();
    let deadline = clock.now() + patience;
    loop {
        let left = deadline - clock.now();
        let timeout = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut handle = [PollFd::new(&process, PollFlags::IN)];
        match poll(&mut handle, Some(&timeout)) {
            Ok(0) if clock.now() >= deadline => {
                return Err(ShmError::NotEnded { pid: identity.pid, patience });
            }
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(ProcessEnd::Killed),
            Err(error) => return Err(failed("wait for the process")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_was_written_and_half_of_it_is_none() {
        for large in [None, Some(PathBuf::from("/dev/huge pages"))] {
            let own = Identity::own(large).unwrap();
            let text = own.to_text();
            assert_eq!(Identity::parse(&text), Some(own));
            for half in 0..text.len() {
                assert_eq!(Identity::parse(&text[..half]), None);
            }
        }
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let own = rustix::process::getpid().as_raw_pid();
        assert!(started(own).unwrap().unwrap() > 0);
        assert_eq!(started(i32::MAX).unwrap(), None);
    }
}
