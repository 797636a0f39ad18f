//! [`Input`]: an input file that opens without waiting and has a bounded size.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use latchwork_units::show_size;
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::wait;

/// The name of an input's kind, and its largest size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InputKind {
    /// The name with an article: "a property file".
    pub name: &'static str,
    /// The largest size in bytes.
    pub bytes_max: u64,
}

/// Why an input cannot be used. The error text is one line, to be printed behind the name of the
/// file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The system refused the access.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The input is a directory.
    #[error("it is a directory; name a file")]
    Directory,
    /// The input is a socket in the file system.
    #[error("it is a socket; name a file or a FIFO")]
    Socket,
    /// The input is a FIFO without a writer.
    #[error(
        "it is a FIFO, and no process has it open for writing; start the writer first, or name a file"
    )]
    NoWriter,
    /// The input has more bytes than its kind allows.
    #[error("it is larger than {}, the most that {} may have", show_size(kind.bytes_max), kind.name)]
    TooLarge {
        /// The kind of the input.
        kind: InputKind,
    },
    /// The input begins with the byte-order mark of UTF-16.
    #[error("it is UTF-16 text; save it as UTF-8")]
    Utf16,
    /// The input is not UTF-8 text.
    #[error("line {line}: it is not UTF-8 text; save it as UTF-8")]
    NotText {
        /// The first line that is not UTF-8 text, counted from 1.
        line: usize,
    },
}

/// An open input. Reading past the bound of its kind is an [`io::Error`] that holds
/// [`InputError::TooLarge`].
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    file: File,
    kind: InputKind,
    left: u64,
    bytes: u64,
    is_fifo: bool,
}

impl Input {
    /// Opens a file as an input of this kind, without waiting.
    ///
    /// # Errors
    /// When the file cannot be opened, when it is a directory or a socket, and when its known size
    /// is too large. A FIFO without a writer opens without an error; reading it gives
    /// [`InputError::NoWriter`].
    pub fn open(path: &Path, kind: InputKind) -> Result<Input, InputError> {
        // Only FIFOs and some devices make an open wait.
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
    /// When the file cannot be read, when it has more bytes than the kind allows, and when it is a
    /// FIFO without a writer.
    pub fn read_all(mut self) -> Result<Vec<u8>, InputError> {
        let mut bytes = Vec::new();
        match self.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(InputError::from_read(error)),
        }
    }

    /// Whether the input is a FIFO that has never had a writer. The end of such a FIFO is not the
    /// end of an input, and a wait for a writer may last without end.
    fn never_had_writer(&self) -> bool {
        self.is_fifo && self.bytes == 0 && {
            // The system reports a hang-up only if the FIFO had a writer after it was opened here.
            let mut now = [rustix::event::PollFd::new(&self.file, PollFlags::IN)];
            let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            let polled = rustix::event::poll(&mut now, Some(&none));
            polled.is_ok() && !now[0].revents().contains(PollFlags::HUP)
        }
    }
}

impl InputError {
    /// Converts the error with which reading an [`Input`] ended.
    pub(crate) fn from_read(error: io::Error) -> InputError {
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
            // The read may take one byte more than allowed, to distinguish the end of the file from
            // a file that is too large.
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

/// Reads all bytes of a file.
///
/// # Errors
/// As [`Input::open`] and [`Input::read_all`].
pub fn read(path: &Path, kind: InputKind) -> Result<Vec<u8>, InputError> {
    Input::open(path, kind)?.read_all()
}

/// Reads a file as UTF-8 text, without its byte-order mark.
///
/// # Errors
/// As [`read`] and [`text`].
pub fn read_text(path: &Path, kind: InputKind) -> Result<String, InputError> {
    text(read(path, kind)?)
}

/// Converts bytes to UTF-8 text, without their byte-order mark.
///
/// # Errors
/// When the bytes begin with the mark of UTF-16, or are not UTF-8.
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

/// The byte-order mark that some editors put before UTF-8 text.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The bytes without their byte-order mark, for formats that are only partly text.
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK).unwrap_or(bytes)
}
