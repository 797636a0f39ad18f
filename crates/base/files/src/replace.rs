//! Replaces regular files in one step, by a temporary file and a rename.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::descriptor::directory_of;

/// The largest number of names to try for a temporary file. A name may be taken by a temporary file
/// of a killed process.
const NAMES_MAX: u32 = 1000;

/// Writes `target` as a whole or not at all. The function writes a temporary file in the same
/// directory, and renames the temporary file to `target`. `target` is no symbolic link.
///
/// If the process may not change the directory, or if a rename cannot replace the file, `target` is
/// written in place. Such a result is better than no result.
pub(crate) fn replace(
    target: &Path,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let old = fs::metadata(target).ok();
    let (beside, file) = match temporary(target, old.as_ref()) {
        Ok(made) => made,
        Err(error) if old.is_some() && is_forbidden(&error) => return in_place(target, write),
        Err(error) => return Err(error),
    };
    let renamed = filled(&file, write).and_then(|()| {
        if let Some(old) = &old {
            keep_permissions(&file, old)?;
        }
        file.sync_all()?;
        match fs::rename(&beside, target) {
            Err(error) if old.is_some() && is_forbidden(&error) => in_place(target, &mut |out| {
                io::copy(&mut File::open(&beside)?, out)?;
                fs::remove_file(&beside)
            }),
            renamed => renamed,
        }
    });
    if renamed.is_err() {
        // The temporary file is useless now. An error of its removal is ignored, because the first
        // error is the one to report.
        let _ = fs::remove_file(&beside);
        return renamed;
    }
    sync_directory(target);
    Ok(())
}

/// Syncs the directory of `target`, because a new name is durable only after that. An error is
/// ignored, because some file systems cannot sync a directory.
fn sync_directory(target: &Path) {
    let _ = File::open(directory_of(target)).and_then(|directory| directory.sync_all());
}

/// Moves `from` to `target`. `from` gets the permissions of an existing `target`, and keeps its own
/// otherwise. Returns `false` if the move is impossible, for example because the files are on
/// different file systems.
pub(crate) fn adopt(from: &Path, target: &Path) -> io::Result<bool> {
    let file = OpenOptions::new().write(true).open(from)?;
    if let Ok(old) = fs::metadata(target) {
        keep_permissions(&file, &old)?;
    }
    file.sync_all()?;
    match fs::rename(from, target) {
        Ok(()) => {
            sync_directory(target);
            Ok(true)
        }
        Err(error) if is_forbidden(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Checks whether [`replace`] can write `target`, as far as this can be found before the write.
/// Creates and removes a temporary file, and leaves `target` unchanged.
pub(crate) fn check(target: &Path) -> io::Result<()> {
    let old = fs::metadata(target).ok();
    if old.is_some() {
        // A process that may not write a file must not replace the file either.
        OpenOptions::new().write(true).open(target)?;
    }
    match temporary(target, old.as_ref()) {
        Ok((beside, _)) => fs::remove_file(beside),
        Err(error) if old.is_some() && is_forbidden(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a new file in the target's directory. Its permissions are at most those of the old file,
/// because the content may be secret.
fn temporary(target: &Path, old: Option<&fs::Metadata>) -> io::Result<(PathBuf, File)> {
    let directory = directory_of(target);
    let mode = old.map_or(0o666, |old| old.permissions().mode() & 0o777);
    for number in 0..NAMES_MAX {
        // The name does not contain the target's name, which may already have the greatest possible
        // length.
        let name = format!(".latchwork-{}-{number}.partial", std::process::id());
        let beside = directory.join(name);
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (beside, file)),
        }
    }
    Err(io::Error::other(format!("remove .latchwork-*.partial in {}", directory.display())))
}

fn filled(file: &File, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.flush()
}

fn in_place(
    target: &Path,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let file = OpenOptions::new().write(true).truncate(true).open(target)?;
    filled(&file, write)?;
    file.sync_all()
}

/// Copies the owner of the old file, if this process may, and afterwards the mode. A change of the
/// owner may change the mode, so the mode comes second.
fn keep_permissions(file: &File, old: &fs::Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        // A failure is ignored: only a privileged process may give a file to another owner.
        let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    }
    if new.permissions().mode() != old.permissions().mode() {
        file.set_permissions(old.permissions())?;
    }
    Ok(())
}

/// Whether the error means that the directory, a mount point or a second file system does not
/// permit the rename.
fn is_forbidden(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    let forbidden = [Errno::ACCESS, Errno::PERM, Errno::BUSY, Errno::ROFS, Errno::XDEV];
    errno.is_some_and(|errno| forbidden.contains(&errno))
}
