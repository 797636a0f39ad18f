//! [`Place`]: the kind of file at the path of an output.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::descriptor::{STDOUT, descriptor, directory_of};
use crate::error::OutputError;
use crate::stream::Stream;

/// The kind of file at a path.
pub(crate) enum Place {
    Stdout,
    /// The regular file to replace or to create. Symbolic links in the path have been followed.
    File(PathBuf),
    Stream(Stream),
}

/// Finds the kind of file at `path`, and opens a file that is not replaced.
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

/// Finds the file to create at `path`, where no file exists or the access failed with `error`.
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
