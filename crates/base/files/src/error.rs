//! [`OutputError`]: why an output cannot be written.

use std::io;
use std::path::PathBuf;

/// Why an output cannot be written. The error text is one line, to be printed behind the name of
/// the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The system refused the access.
    #[error("it cannot be written: {0}; name another file")]
    Io(#[from] io::Error),
    /// The output is a directory, or its path has no file name.
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
    /// The reader of a FIFO closed the FIFO before the end of the output.
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
