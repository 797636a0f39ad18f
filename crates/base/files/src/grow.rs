//! Outputs that grow while the program runs.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::OutputError;
use crate::place::{Place, look};
use crate::stream::Stream;

/// Opens an output that grows while the program runs. A regular file is emptied and written in
/// place; a missing file is created.
///
/// # Errors
/// As [`Output::open`](crate::Output::open).
pub fn grow(path: &Path) -> Result<Stream, OutputError> {
    match look(path)? {
        Place::Stream(stream) => Ok(stream),
        Place::File(target) => Ok(Stream::of(path, scratch(&target)?)),
        Place::Stdout => {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            Ok(Stream::of(path, file))
        }
    }
}

/// Creates or empties a regular file that only this program writes. The file may grow while other
/// processes read it.
///
/// # Errors
/// When the system refuses, and when the path is not a regular file.
pub fn scratch(path: &Path) -> io::Result<File> {
    // The open must not wait for a FIFO at this path. The open must not follow a link either,
    // because in a directory that all users may write, the link may belong to another user.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).custom_flags(flags.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file; remove it"));
    }
    file.set_len(0)?;
    Ok(file)
}
