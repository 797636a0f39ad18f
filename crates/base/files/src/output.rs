//! [`Output`]: the destination of a result, checked before the work begins.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::OutputError;
use crate::place::{Place, look};
use crate::replace;
use crate::stream::Stream;

/// The destination of a result. FIFOs and devices are open from the beginning, so that a reader
/// sees one writer. [`Output::write`] looks again at the path of a regular file.
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

    /// Moves the finished file `from` to the output, or copies and removes the file. For results
    /// that are written while the program runs and may be large. `from` then no longer exists.
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
