//! Inputs: opened without waiting, and bounded.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use latchwork_units::show_size;
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::wait;

/// What an input is, and how large it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// Its name with an article: "a property file".
    pub name: &'static str,
    /// The most bytes that it may have.
    pub bytes_max: u64,
}

/// Why an input cannot be used. The text is one line, to follow the name of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The system refused.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is a directory.
    #[error("it is a directory; name a file")]
    Directory,
    /// It is a socket in the file system.
    #[error("it is a socket; name a file or a FIFO")]
    Socket,
    /// It is a FIFO that no process writes into.
    #[error(
        "it is a FIFO, and no process has it open for writing; start the writer first, or name a file"
    )]
    NoWriter,
    /// It has more bytes than its kind allows.
    #[error("it is larger than {}, the most that {} may have", show_size(kind.bytes_max), kind.name)]
    TooLarge {
        /// What it was read as.
        kind: Kind,
    },
    /// It begins with the byte-order mark of UTF-16.
    #[error("it is UTF-16 text; save it as UTF-8")]
    Utf16,
    /// It is no text.
    #[error("line {line}: it is not UTF-8 text; save it as UTF-8")]
    NotText {
        /// The first line that is none, from 1.
        line: usize,
    },
}

/// An open input. Reading past the bound of its kind is an [`io::Error`] that holds
/// [`InputError::TooLarge`].
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    file: File,
    kind: Kind,
    left: u64,
    bytes: u64,
    is_fifo: bool,
}

impl Input {
    /// Opens a file as an input of this kind, without waiting for anything.
    ///
    /// # Errors
    /// What cannot be read, a FIFO without a writer, and a file whose size is known to be too
    /// large.
    pub fn open(path: &Path, kind: Kind) -> Result<Input, InputError> {
        // Only FIFOs and some devices wait for anything.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
        let file = file.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NXIO) => InputError::Socket,
            _ => InputError::Io(error),
        })?;
        let info = file.metadata()?;
        if info.is_dir() {
            return Err(InputError::Directory);
        }
        if info.is_file() && info.len() > kind.bytes_max {
            return Err(InputError::TooLarge { kind });
        }
        let is_fifo = info.file_type().is_fifo();
        let (path, left) = (path.to_owned(), kind.bytes_max);
        Ok(Input { path, file, kind, left, bytes: 0, is_fifo })
    }

    /// Reads to the end.
    ///
    /// # Errors
    /// What cannot be read, more bytes than the kind allows, and a FIFO that has no writer.
    pub fn read_all(mut self) -> Result<Vec<u8>, InputError> {
        let mut bytes = Vec::new();
        match self.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(InputError::from_read(error)),
        }
    }

    /// Whether a FIFO that is at its end never had a writer: then it can be waited for without end.
    fn never_had_writer(&self) -> bool {
        self.is_fifo && self.bytes == 0 && {
            // The system reports a hang-up only where there was a writer since the FIFO was opened
            // here.
            let mut now = [rustix::event::PollFd::new(&self.file, PollFlags::IN)];
            let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            let polled = rustix::event::poll(&mut now, Some(&none));
            polled.is_ok() && !now[0].revents().contains(PollFlags::HUP)
        }
    }
}

impl InputError {
    /// The error that reading an [`Input`] ended in.
    pub fn from_read(error: io::Error) -> InputError {
        if error.get_ref().is_some_and(|inner| inner.is::<InputError>()) {
            let inner = error.into_inner().expect("it was just there");
            return *inner.downcast().expect("it was just asked for");
        }
        InputError::Io(error)
    }
}

impl From<InputError> for io::Error {
    fn from(error: InputError) -> io::Error {
        match error {
            InputError::Io(error) => error,
            error => io::Error::other(error),
        }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // One byte more than there may be, to tell an end from a file that goes on.
            let most = self.left.saturating_add(1).min(buffer.len() as u64) as usize;
            match self.file.read(&mut buffer[..most]) {
                Ok(count) if count as u64 > self.left => {
                    return Err(InputError::TooLarge { kind: self.kind }.into());
                }
                Ok(0) if !buffer.is_empty() && self.never_had_writer() => {
                    return Err(InputError::NoWriter.into());
                }
                Ok(count) => {
                    self.left -= count as u64;
                    self.bytes += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait::until(&self.file, PollFlags::IN, &self.path, "writer")?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// All bytes of a file.
///
/// # Errors
/// As [`Input::open`] and [`Input::read_all`].
pub fn read(path: &Path, kind: Kind) -> Result<Vec<u8>, InputError> {
    Input::open(path, kind)?.read_all()
}

/// The text of a file, without a byte-order mark.
///
/// # Errors
/// As [`read`] and [`text`].
pub fn read_text(path: &Path, kind: Kind) -> Result<String, InputError> {
    text(read(path, kind)?)
}

/// Bytes as text, without a byte-order mark.
///
/// # Errors
/// UTF-16 and what is no UTF-8.
pub fn text(mut bytes: Vec<u8>) -> Result<String, InputError> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(InputError::Utf16);
    }
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        InputError::NotText { line: 1 + good.iter().filter(|byte| **byte == b'\n').count() }
    })
}

/// What editors put before UTF-8 text.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Bytes without a byte-order mark, for formats that are text in parts.
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK).unwrap_or(bytes)
}
