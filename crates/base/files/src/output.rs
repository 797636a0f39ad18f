//! [`Output`]: the destination of a result, checked before the work begins.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::descriptor::{descriptor, directory_of};
use crate::replace;
use crate::stream::Stream;

/// The descriptor number of standard output.
pub(crate) const STDOUT: u32 = 1;

/// The reason why an output cannot be written. The error text is one line that follows the name of
/// the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The system refused the access.
    #[error("it cannot be written: {0}; name another file")]
    Io(#[from] io::Error),
    /// The output is a directory.
    #[error("it is a directory; name a file")]
    Directory,
    /// The name ends with a slash, but is not a directory.
    #[error("a name that ends with a slash is that of a directory; leave the slash out")]
    Slash,
    /// The output is a symbolic link without a target.
    #[error("it is a link to {}, which is not there; make that file, or name another", target.display())]
    Dangling {
        /// The path in the link.
        target: PathBuf,
    },
    /// The directory of the output does not exist.
    #[error("its directory does not exist; make {} first, or name another file", directory.display())]
    NoDirectory {
        /// The missing directory.
        directory: PathBuf,
    },
    /// The output is a FIFO without a reader.
    #[error(
        "it is a FIFO, and no process has it open for reading; start the reader first, or name a file"
    )]
    NoReader,
    /// The output is a socket in the file system.
    #[error("it is a socket; name a file or a FIFO")]
    Socket,
    /// The reader of a FIFO has closed it.
    #[error("its reader has closed it before all was written")]
    Closed,
}

impl From<OutputError> for io::Error {
    fn from(error: OutputError) -> io::Error {
        match error {
            OutputError::Io(error) => error,
            error => io::Error::other(error),
        }
    }
}

/// The destination of a result. FIFOs and devices are open from the beginning, so that a reader
/// sees one writer.
#[derive(Clone, Debug)]
pub struct Output {
    path: PathBuf,
    place: Held,
}

#[derive(Clone, Debug)]
enum Held {
    Stdout,
    File,
    Stream(Arc<Stream>),
}

/// The kind of file at a path.
pub(crate) enum Place {
    Stdout,
    /// The file to replace: the target of the path's links.
    File(PathBuf),
    Stream(Stream),
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Output {
        Output { path: PathBuf::from("-"), place: Held::Stdout }
    }

    /// The output at `path`; `-` is standard output. A regular file stays unchanged until
    /// [`write`](Output::write).
    ///
    /// # Errors
    /// When the path cannot be written, as far as that is known before the write.
    pub fn open(path: &Path) -> Result<Output, OutputError> {
        if path == Path::new("-") {
            return Ok(Output::stdout());
        }
        let place = match look(path)? {
            Place::Stdout => Held::Stdout,
            Place::Stream(stream) => Held::Stream(Arc::new(stream)),
            Place::File(target) => {
                replace::check(&target)?;
                Held::File
            }
        };
        Ok(Output { path: path.to_owned(), place })
    }

    /// Whether the output is standard output, under any name.
    pub fn is_stdout(&self) -> bool {
        matches!(self.place, Held::Stdout)
    }

    /// Whether the output is a regular file, which can be read back.
    pub fn is_file(&self) -> bool {
        matches!(self.place, Held::File)
    }

    /// The path as the user gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `bytes` to the output. A regular file is written as a whole or not at all, with the
    /// exceptions of the crate's page. Closed standard output is no error.
    ///
    /// # Errors
    /// When the system refuses the write. An older file then stays unchanged, with the same
    /// exceptions.
    pub fn write(&self, bytes: &[u8]) -> Result<(), OutputError> {
        self.write_with(|out| out.write_all(bytes))
    }

    /// Like [`write`](Output::write), with the bytes that `write` writes.
    ///
    /// # Errors
    /// As [`write`](Output::write), and the error of `write` itself.
    pub fn write_with(
        &self,
        mut write: impl FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), OutputError> {
        match &self.place {
            Held::Stdout => to_stdout(&mut write),
            Held::Stream(stream) => to_stream(stream, &mut write),
            // A device or a FIFO may have replaced the file since the output was opened.
            Held::File => match look(&self.path)? {
                Place::File(target) => Ok(replace::replace(&target, &mut write)?),
                Place::Stream(stream) => to_stream(&stream, &mut write),
                Place::Stdout => to_stdout(&mut write),
            },
        }
    }

    /// Moves the finished file `from` to the output, for results that are written while the program
    /// runs and may be large. `from` then no longer exists.
    ///
    /// # Errors
    /// As [`write`](Output::write). Then `from` still exists.
    pub fn adopt(&self, from: &Path) -> Result<(), OutputError> {
        if let Held::File = self.place
            && let Place::File(target) = look(&self.path)?
            && replace::adopt(from, &target)?
        {
            return Ok(());
        }
        let mut file = fs::File::open(from)?;
        self.write_with(|out| io::copy(&mut file, out).map(drop))?;
        Ok(fs::remove_file(from)?)
    }
}

type Writing<'a> = &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// Writes to standard output. A reader that closes standard output, as `head` does, has read all it
/// needs, so this is no error.
fn to_stdout(write: Writing<'_>) -> Result<(), OutputError> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = write(&mut out).and_then(|()| out.flush());
    drop(out.into_parts());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn to_stream(stream: &Stream, write: Writing<'_>) -> Result<(), OutputError> {
    let mut out = io::BufWriter::new(stream);
    let written = write(&mut out).and_then(|()| out.flush());
    // A drop of the writer would write the buffer again, and would wait again.
    drop(out.into_parts());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(OutputError::Closed),
        written => Ok(written?),
    }
}

/// The kind of file at `path`.
pub(crate) fn look(path: &Path) -> Result<Place, OutputError> {
    if path.as_os_str().is_empty() {
        return Err(OutputError::Directory);
    }
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(if path.is_dir() { OutputError::Directory } else { OutputError::Slash });
    }
    let descriptor = descriptor(path);
    if descriptor.is_some_and(|descriptor| descriptor.own == Some(STDOUT)) {
        return Ok(Place::Stdout);
    }
    let info = match fs::metadata(path) {
        Ok(info) => info,
        Err(error) => return missing(path, error),
    };
    if info.is_dir() {
        return Err(OutputError::Directory);
    }
    if info.is_file() && descriptor.is_none() {
        return Ok(Place::File(fs::canonicalize(path)?));
    }
    Ok(Place::Stream(Stream::open(path, descriptor)?))
}

/// The kind of file to create at `path`, where no file exists.
fn missing(path: &Path, error: io::Error) -> Result<Place, OutputError> {
    if let Ok(target) = fs::read_link(path) {
        return match error.kind() {
            io::ErrorKind::NotFound => Err(OutputError::Dangling { target }),
            _ => Err(error.into()),
        };
    }
    if path.file_name().is_none() {
        return Err(OutputError::Directory);
    }
    let directory = directory_of(path);
    if !directory.is_dir() {
        return Err(OutputError::NoDirectory { directory });
    }
    match error.kind() {
        io::ErrorKind::NotFound => Ok(Place::File(path.to_owned())),
        _ => Err(error.into()),
    }
}
