//! [`distinct`]: finds a file that one command line names twice, before the work begins.

use std::borrow::Cow;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::descriptor::{STDERR, STDOUT};
use crate::descriptor::{descriptor, directory_of};

/// A file that a command line names, and its use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    flag: Cow<'static, str>,
    path: PathBuf,
    is_written: bool,
}

impl Named {
    /// An input that `flag` names.
    pub fn read(flag: impl Into<Cow<'static, str>>, path: impl Into<PathBuf>) -> Named {
        Named { flag: flag.into(), path: path.into(), is_written: false }
    }

    /// An output that `flag` names; `-` is standard output.
    pub fn written(flag: impl Into<Cow<'static, str>>, path: impl Into<PathBuf>) -> Named {
        Named { flag: flag.into(), path: path.into(), is_written: true }
    }

    fn told(&self) -> String {
        format!("{} {}", self.flag, self.path.display())
    }
}

/// The error that two names are one file, and at least one of them is an output. The error text is
/// one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{first} and {second} are one file, and one of them would destroy the other; name two files"
)]
pub struct SameFile {
    first: String,
    second: String,
}

/// The file to which a name leads.
#[derive(PartialEq, Eq)]
enum Identity {
    /// Standard output or standard error of this process.
    Own(u32),
    /// A regular file: device and inode.
    File(u64, u64),
    /// A file that does not exist yet: the canonical path of its directory, and its name.
    New(PathBuf, std::ffi::OsString),
}

/// Checks that no output is the same file as an input or as another output, also under different
/// names. Checks also that no output is the regular file to which standard output or standard error
/// leads.
///
/// Several inputs may be one file. Devices and FIFOs may be named twice, because they keep no
/// content that a second writer destroys. Standard output may be named once.
///
/// # Errors
/// The first two names of one file.
pub fn distinct(named: &[Named]) -> Result<(), SameFile> {
    let known: Vec<(&Named, Option<Identity>)> =
        named.iter().map(|named| (named, identity(named))).collect();
    for (at, (second, second_is)) in known.iter().enumerate() {
        let Some(second_is) = second_is else { continue };
        let earlier = known[..at].iter().find(|(first, first_is)| {
            (first.is_written || second.is_written) && first_is.as_ref() == Some(second_is)
        });
        if let Some((first, _)) = earlier {
            return Err(SameFile { first: first.told(), second: second.told() });
        }
    }
    for (name, stream) in [
        ("standard output", behind(std::io::stdout())),
        ("standard error", behind(std::io::stderr())),
    ] {
        let output = known.iter().find(|(named, is)| {
            named.is_written && stream.is_some() && is.as_ref() == stream.as_ref()
        });
        if let Some((output, _)) = output {
            return Err(SameFile { first: output.told(), second: name.to_owned() });
        }
    }
    Ok(())
}

/// The identity of a file. `None` if the file may be named twice, or if a later open reports an
/// error anyway.
fn identity(named: &Named) -> Option<Identity> {
    let path = named.path.as_path();
    if named.is_written && path == Path::new("-") {
        return Some(Identity::Own(STDOUT));
    }
    if let Some(own) = descriptor(path).and_then(|descriptor| descriptor.own)
        && named.is_written
        && [STDOUT, STDERR].contains(&own)
    {
        return Some(Identity::Own(own));
    }
    match fs::metadata(path) {
        Ok(info) if info.is_file() => Some(Identity::File(info.dev(), info.ino())),
        Ok(_) => None,
        Err(_) => {
            let directory = fs::canonicalize(directory_of(path)).ok()?;
            Some(Identity::New(directory, path.file_name()?.to_owned()))
        }
    }
}

/// The regular file to which an open stream leads; `None` if it leads to another kind of file.
fn behind(stream: impl AsFd) -> Option<Identity> {
    let file = fs::File::from(stream.as_fd().try_clone_to_owned().ok()?);
    let info = file.metadata().ok()?;
    info.is_file().then(|| Identity::File(info.dev(), info.ino()))
}
