//! [`Owner`]: the file that says who a process is, and by its lock that it lives.

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

use crate::{End, ShmError};

/// Who holds an owner's file.
///
/// The lock is what counts. The kernel takes it away when the process has ended in whatever way,
/// which is after its threads have left its memory: a file without a lock is one of a process that
/// writes nothing any more. The process id is for those who must end it. It is believed when the
/// kernel says that this process holds the lock, and has started when the file says.
#[derive(PartialEq, Eq, Debug)]
struct Identity {
    pid: i32,
    /// In clock ticks since the machine started.
    started: u64,
    /// The process ids mean something inside one namespace alone.
    namespace: u64,
    /// Where else there are files of the process.
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

/// When the process started; `None` when there is no such process.
fn started(pid: i32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Behind the name, which may have anything in it, comes the third field; the start is the 22nd.
    let start = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(22 - 3));
    let start = start.and_then(|start| start.parse().ok());
    start.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// This process's own file, held for as long as this lives. Removing it is up to whoever removes
/// the others.
pub(crate) struct Owner(#[allow(dead_code)] File);

impl Owner {
    /// Makes the file and takes its lock; `None` when somebody has taken the name, or looked at the
    /// lock at the wrong moment.
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
        // Whoever found it without a lock took it for that of a dead process.
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

/// Opens a file of a peer: one of this user, no link, nothing special. `None` when there is none.
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

/// Whether the process lives that holds this file.
fn is_held(file: &File) -> bool {
    // Shared, so that two who look do not take each other for the owner.
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = flock(file, FlockOperation::Unlock);
            false
        }
        // Unknown is not dead.
        Err(_) => true,
    }
}

/// The owner's file of a process that has ended, with its lock: nobody who is just starting can
/// take it meanwhile, nor can two clean up after the same process. `None` when it lives, or that
/// cannot be found out.
pub(crate) fn take_over(path: &Path) -> Option<File> {
    let file = open_checked(path, false).ok()??;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    // Others may have removed it before the lock was taken.
    let there = fs::symlink_metadata(path).ok()?.ino();
    (inode(&file) == Some(there)).then_some(file)
}

/// Whether nobody holds the file any more, by the end of `patience`: somebody may just be looking
/// at it, or cleaning up after its process.
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

/// Whether the process lives whose owner's file is at `path`. One without a file does not.
pub(crate) fn lives(path: &Path) -> Result<bool, ShmError> {
    Ok(open_checked(path, false)?.is_some_and(|file| is_held(&file)))
}

/// The other directory with files of the process whose owner's file is at `path`.
pub(crate) fn large_of(path: &Path) -> Option<PathBuf> {
    read_identity(&mut open_checked(path, false).ok()??)?.large
}

/// The process that took the lock of the file, as the kernel tells.
fn holder(file: &File) -> Option<i32> {
    let wanted = inode(file)?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        // Number, kind, manner, access, process, device and inode, range.
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

/// Kills the process whose owner's file is at `path`, and waits for its end.
///
/// Nobody else is ever killed: what is signalled is a handle of a process, not a number. The
/// process behind the handle is the one in the file if it started when the file says and holds the
/// file's lock, and was still there after that was looked up.
pub(crate) fn stop(path: &Path, patience: Duration) -> Result<End, ShmError> {
    let unproven = |why| Err(ShmError::Unproven { path: path.to_owned(), why });
    let failed = |action| {
        move |error: Errno| ShmError::File { action, path: path.to_owned(), error: error.into() }
    };
    let Some(mut file) = open_checked(path, false)? else { return Ok(End::WasGone) };
    if !is_held(&file) {
        return Ok(End::WasGone);
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
        // It has ended since the lock was looked at.
        Err(Errno::SRCH) if is_left(&file, patience) => return Ok(End::WasGone),
        Err(Errno::SRCH) => return unproven("another process holds its lock"),
        Err(error) => return Err(failed("open the process")(error)),
    };
    match started(identity.pid) {
        Ok(Some(found)) if found == identity.started => {}
        Ok(_) if is_left(&file, patience) => return Ok(End::WasGone),
        Ok(_) => return unproven("another process holds its lock"),
        Err(error) => {
            return Err(ShmError::File { action: "when it started", path: path.to_owned(), error });
        }
    }
    match holder(&file) {
        Some(holder) if holder == identity.pid => {}
        _ if is_left(&file, patience) => return Ok(End::WasGone),
        Some(_) => return unproven("another process holds its lock"),
        None => return unproven("/proc/locks does not say who holds its lock"),
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        // Ended by itself just now; its memory is left when the handle says so.
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
            Ok(_) => return Ok(End::Killed),
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
    fn a_process_is_told_by_its_start() {
        let own = rustix::process::getpid().as_raw_pid();
        assert!(started(own).unwrap().unwrap() > 0);
        assert_eq!(started(i32::MAX).unwrap(), None);
    }
}
