//! [`Own`]: this program, for the processes that are started from it.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use latchwork_harness::AppError;
use rustix::fs::{Mode, OFlags, open};

/// The running program's file. A new build may replace the file by another one of the same name.
/// [`Own::path`] still leads to the running program then.
///
/// Children inherit the descriptor, because a wrapper such as nsenter may start the program in
/// turn. `/proc/self/exe` would be the wrapper there, and another process's `/proc/PID/exe` cannot
/// be read from a user namespace.
pub(crate) struct Own(OwnedFd);

impl Own {
    pub(crate) fn open() -> Result<Own, AppError> {
        match open("/proc/self/exe", OFlags::PATH, Mode::empty()) {
            Ok(file) => Ok(Own(file)),
            Err(error) => Err(AppError::Failed(format!(
                "this program's file cannot be opened: {}",
                io::Error::from(error)
            ))),
        }
    }

    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}
