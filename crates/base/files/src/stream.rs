//! Outputs that are opened and written but never replaced: FIFOs, devices, descriptors, and regular
//! files that grow.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::descriptor::{Descriptor, STDERR};
use crate::error::OutputError;
use crate::wait;

/// An open output that is written and not replaced. A write to a full FIFO waits for its reader.
#[derive(Debug)]
pub struct Stream {
    path: PathBuf,
    file: File,
}

impl Stream {
    /// Makes a stream of an open file. Messages name the file as `path`.
    pub(crate) fn of(path: &Path, file: File) -> Stream {
        Stream { path: path.to_owned(), file }
    }

    /// Opens the file at `path` without waiting for a reader.
    pub(crate) fn open(path: &Path, descriptor: Option<Descriptor>) -> Result<Stream, OutputError> {
        if descriptor.is_some_and(|descriptor| descriptor.own == Some(STDERR)) {
            // The open descriptor is duplicated, because a new open of a regular file behind
            // standard error would write from the file's beginning.
            let file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
            return Ok(Stream { path: path.to_owned(), file });
        }
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(flags.bits() as i32);
        // Other writers may have written to the descriptor's file, so the file is opened for
        // appending.
        options.append(descriptor.is_some());
        let file = options.open(path).map_err(|error| {
            let kind = std::fs::metadata(path).map(|info| info.file_type());
            match (Errno::from_io_error(&error), kind) {
                (Some(Errno::NXIO), Ok(kind)) if kind.is_fifo() => OutputError::NoReader,
                (Some(Errno::NXIO), Ok(kind)) if kind.is_socket() => OutputError::Socket,
                _ => OutputError::Io(error),
            }
        })?;
        Ok(Stream { path: path.to_owned(), file })
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match (&self.file).write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait::until(&self.file, PollFlags::OUT, &self.path, "reader")?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
