//! [`Lock`]: exclusive access to a store's directory, for one thread of one process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::MembershipError;
use crate::time::Deadline;

/// The exclusive lock of a store's directory, held until the value is dropped or its process ends.
pub(super) struct Lock {
    // Each lock opens the file anew. So `flock` excludes other threads of the process too.
    file: File,
}

impl Lock {
    pub(super) fn acquire(
        store: &str,
        path: &Path,
        limit: Duration,
    ) -> Result<Self, MembershipError> {
        let deadline = Deadline::after(limit);
        let failed = |error: io::Error| MembershipError::Files {
            path: path.parent().unwrap_or(path).to_owned(),
            why: format!("its lock file: {error}; were its files removed?"),
        };
        let file = File::options().read(true).write(true).open(path).map_err(failed)?;
        let mut pause = Duration::from_micros(50);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
            let Some(left) = deadline.left() else {
                let holder = holder(&file);
                return Err(MembershipError::Locked { store: store.to_owned(), holder, limit });
            };
            sleep(pause.min(left));
            pause = (2 * pause).min(Duration::from_millis(2));
        }
        let mut lock = Lock { file };
        // The process id is only for the error of a process that waits in vain. So a failed write
        // is harmless.
        let _ = lock.file.write_all(format!("{:<10}\n", std::process::id()).as_bytes());
        Ok(lock)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file also unlocks, unless a child process has inherited the file.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

fn holder(mut file: &File) -> String {
    let mut text = String::new();
    let _ = file.read_to_string(&mut text);
    match text.trim() {
        "" => "unknown".into(),
        process => process.to_owned(),
    }
}

/// Puts the thread to sleep.
pub(super) fn sleep(duration: Duration) {
    let (mutex, nobody) = (Mutex::new(()), Condvar::new());
    let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    drop(nobody.wait_timeout(guard, duration));
}
