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

/// An open output that is never replaced. A write waits for the reader of a FIFO.
#[derive(Debug)]
pub struct Stream {
    path: PathBuf,
    file: File,
}

impl Stream {
    /// An open file, which `path` names in messages.
    pub(crate) fn of(path: &Path, file: File) -> Stream {
        Stream { path: path.to_owned(), file }
    }

    /// Opens the file at `path` without waiting for a reader.
    pub(crate) fn open(path: &Path, descriptor: Option<Descriptor>) -> Result<Stream, OutputError> {
        if descriptor.is_some_and(|descriptor| descriptor.own == Some(STDERR)) {
            // A new open of a regular file behind standard error would write from its beginning.
            let file = File::from(io::stderr().as_fd().try_clone_to_owned()?);
            return Ok(Stream { path: path.to_owned(), file });
        }
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(flags.bits() as i32);
        // Other users of the descriptor may have written to its file too.
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
