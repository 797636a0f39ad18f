//! [`Output`]: the destination of a result, checked before the work begins.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::OutputError;
use crate::place::{Place, look};
use crate::replace;
use crate::stream::Stream;

/// The destination of a result. A FIFO or a device is opened at once and stays open, so that a
/// reader sees one writer. A regular file is opened only by [`Output::write`], which looks at its
/// path again.
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

impl Output {
    /// Standard output.
    pub fn stdout() -> Output {
        Output { path: PathBuf::from("-"), place: Held::Stdout }
    }

    /// Makes the output at `path`; `-` is standard output. A regular file stays unchanged until
    /// [`write`](Output::write).
    ///
    /// # Errors
    /// When the path cannot be written, as far as this can be found before the write.
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
    /// exceptions on the [crate's page](crate). If standard output is closed, the result is
    /// discarded without an error.
    ///
    /// # Errors
    /// When the system refuses the write. After an error an older file is unchanged, with the same
    /// exceptions.
    pub fn write(&self, bytes: &[u8]) -> Result<(), OutputError> {
        self.write_with(|out| out.write_all(bytes))
    }

    /// Like [`write`](Output::write), but the function `write` produces the bytes.
    ///
    /// # Errors
    /// As [`write`](Output::write), and the error of the function `write`.
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

    /// Moves the finished file `from` to the output, or copies it and removes `from`. This is for
    /// large results that the program writes to a file of its own while it runs.
    ///
    /// # Errors
    /// As [`write`](Output::write). After an error `from` still exists.
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

/// Writes to standard output. If the reader closes standard output, as `head` does, it has read all
/// that it needs. So this is no error.
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
    // Without `into_parts`, the drop of the writer would write the buffer again, and would wait
    // again.
    drop(out.into_parts());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(OutputError::Closed),
        written => Ok(written?),
    }
}
