//! [`Output`]: where a result goes, looked at before the work begins.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::descriptor::{descriptor, directory_of};
use crate::replace;
use crate::stream::Stream;

/// Standard output's number.
pub(crate) const STDOUT: u32 = 1;

/// Why an output cannot be written. The text is one line, to follow the name of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The system refused.
    #[error("it cannot be written: {0}; name another file")]
    Io(#[from] io::Error),
    /// It is a directory.
    #[error("it is a directory; name a file")]
    Directory,
    /// It is no directory, and is written as one.
    #[error("a name that ends with a slash is that of a directory; leave the slash out")]
    Slash,
    /// It is a symbolic link that leads nowhere.
    #[error("it is a link to {}, which is not there; make that file, or name another", target.display())]
    Dangling {
        /// What the link says.
        target: PathBuf,
    },
    /// There is no directory for it.
    #[error("its directory does not exist; make {} first, or name another file", directory.display())]
    NoDirectory {
        /// The directory.
        directory: PathBuf,
    },
    /// It is a FIFO that no process reads.
    #[error(
        "it is a FIFO, and no process has it open for reading; start the reader first, or name a file"
    )]
    NoReader,
    /// It is a socket in the file system.
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

/// Where a result goes. FIFOs and devices are open from the beginning on, so that a reader sees one
/// writer.
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

/// What stands at a path.
pub(crate) enum Place {
    Stdout,
    /// What is replaced: the target of the path's links.
    File(PathBuf),
    Stream(Stream),
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Output {
        Output { path: PathBuf::from("-"), place: Held::Stdout }
    }

    /// The output at `path`; `-` is standard output. A regular file stays as it is until
    /// [`write`](Output::write).
    ///
    /// # Errors
    /// When it could not be written there, as far as that is known before.
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

    /// Whether it is standard output, under whatever name.
    pub fn is_stdout(&self) -> bool {
        matches!(self.place, Held::Stdout)
    }

    /// Whether it is a regular file, which can be read back.
    pub fn is_file(&self) -> bool {
        matches!(self.place, Held::File)
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts `bytes` there: into a file as a whole or not at all. That standard output was closed is
    /// no error.
    ///
    /// # Errors
    /// When the system refuses. An older file is then still there, untouched.
    pub fn write(&self, bytes: &[u8]) -> Result<(), OutputError> {
        self.write_with(|out| out.write_all(bytes))
    }

    /// As [`write`](Output::write), of what `write` writes.
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
            // A device or a FIFO may have come to stand there since the output was opened.
            Held::File => match look(&self.path)? {
                Place::File(target) => Ok(replace::replace(&target, &mut write)?),
                Place::Stream(stream) => to_stream(&stream, &mut write),
                Place::Stdout => to_stdout(&mut write),
            },
        }
    }

    /// Moves the finished file `from` there, which is gone afterwards: for what is written while
    /// the program runs, and may be large.
    ///
    /// # Errors
    /// As [`write`](Output::write); `from` is still there then.
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

/// When the reader of standard output has closed it, as `head` does, it has read what it wanted.
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
    // Dropped, the buffer would be written again, and would wait again.
    drop(out.into_parts());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(OutputError::Closed),
        written => Ok(written?),
    }
}

/// What stands at `path`.
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

/// What is to be made of a path at which nothing stands.
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
