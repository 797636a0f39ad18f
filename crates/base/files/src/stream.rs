//! Outputs that are opened and written but never replaced: FIFOs, devices, descriptors.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::descriptor::Descriptor;
use crate::output::{OutputError, Place, look};
use crate::wait;

/// The descriptor number of standard error.
pub(crate) const STDERR: u32 = 2;

/// An open output that is never replaced. A write waits for the reader of a FIFO.
#[derive(Debug)]
pub struct Stream {
    path: PathBuf,
    file: File,
}

impl Stream {
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

/// Opens an output that grows while the program runs. A regular file is emptied, and written in
/// place.
///
/// # Errors
/// As [`Output::open`](crate::Output::open).
pub fn grow(path: &Path) -> Result<Stream, OutputError> {
    match look(path)? {
        Place::Stream(stream) => Ok(stream),
        Place::File(target) => Ok(Stream { path: path.to_owned(), file: scratch(&target)? }),
        Place::Stdout => {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            Ok(Stream { path: path.to_owned(), file })
        }
    }
}

/// Creates or empties a file of the program's own, which grows while other processes read it.
///
/// # Errors
/// When the system refuses, and when the path is not a regular file.
pub fn scratch(path: &Path) -> io::Result<File> {
    // Do not wait for a FIFO at this path. Do not follow a link: in a directory that all users may
    // write, the link may belong to another user.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).custom_flags(flags.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file; remove it"));
    }
    file.set_len(0)?;
    Ok(file)
}
