//! The names of a directory's files, and the removal of the files of ended processes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use latchwork_verbs::{ComputeNodeId, MemoryNodeId};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::owner::{large_of, take_over};
use super::ring::Ends;
use crate::{Cleaned, ShmError};

/// The start of every name. Next come the incarnation of a process, which is a random number that
/// the process drew at its start, and a dash.
const PREFIX: &str = "latchwork-";
/// The number of hexadecimal digits of an incarnation in a name.
const DIGITS: usize = 16;

fn name(incarnation: u64, rest: &str) -> String {
    format!("{PREFIX}{incarnation:016x}-{rest}")
}

/// The name of a process's owner's file: its lock shows that the process lives.
pub(crate) fn owner_name(incarnation: u64) -> String {
    name(incarnation, "owner")
}

/// The name of the file with the memory of a memory node.
pub(crate) fn memory_name(incarnation: u64, id: MemoryNodeId) -> String {
    name(incarnation, &format!("memory-{}", id.0))
}

/// The name of the file with the page of a compute node.
pub(crate) fn page_name(incarnation: u64, id: ComputeNodeId) -> String {
    name(incarnation, &format!("compute-{}", id.get()))
}

/// The name of the file of a region. `number` counts the regions of the process.
pub(crate) fn region_name(incarnation: u64, number: u64) -> String {
    name(incarnation, &format!("region-{number}"))
}

/// The name of the ring between two nodes. Both nodes use the same name.
pub(crate) fn ring_name(ends: Ends) -> String {
    let Ends { receiver, sender } = ends;
    let rest = format!("ring-{}-{:016x}-{}", receiver.1.get(), sender.0, sender.1.get());
    name(receiver.0, &rest)
}

/// The name of a file that no other process opens.
pub(crate) fn temporary_name(incarnation: u64, number: u64) -> String {
    name(incarnation, &format!("temporary-{number}"))
}

/// The incarnations of all processes that use a file, read from the name of the file. `None` when
/// the name has another form.
fn incarnations(name: &str) -> Option<Vec<u64>> {
    let hex = |digits: &str| {
        let fits = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (fits && digits.len() == DIGITS).then(|| u64::from_str_radix(digits, 16).ok())?
    };
    let (first, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let mut found = vec![hex(first)?];
    let mut parts = rest.split('-');
    match parts.next()? {
        "ring" => found.push(hex(parts.nth(1)?)?),
        "owner" | "memory" | "compute" | "region" | "temporary" => {}
        _ => return None,
    }
    Some(found)
}

/// The state of a process while its files are checked.
enum Of {
    /// The process lives, or its state is unknown: the owner's file belongs to another user, or
    /// another process holds its lock.
    Somebody,
    /// The process has ended. The value holds the lock of the process's owner's file, if that file
    /// exists.
    Nobody { _lock: Option<File> },
}

impl Of {
    fn find(owner: &Path) -> Of {
        match fs::symlink_metadata(owner) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Of::Nobody { _lock: None },
            Err(_) => Of::Somebody,
            Ok(_) => match take_over(owner) {
                Some(lock) => Of::Nobody { _lock: Some(lock) },
                None => Of::Somebody,
            },
        }
    }
}

/// The error of a failed action on a directory: [`ShmError::OtherUser`] when the system denied
/// access to a directory of another user, otherwise [`ShmError::File`].
pub(crate) fn refused(action: &'static str, path: &Path, error: io::Error) -> ShmError {
    let denied = [Errno::ACCESS, Errno::PERM].map(|errno| Some(errno.raw_os_error()));
    let user = geteuid().as_raw();
    match fs::metadata(path) {
        Ok(found) if denied.contains(&error.raw_os_error()) && found.uid() != user => {
            ShmError::OtherUser { path: path.to_owned(), owner: found.uid(), user }
        }
        _ => ShmError::File { action, path: path.to_owned(), error },
    }
}

/// Removes the files of ended processes, and counts them. The files of other users stay, unless
/// this process is root.
///
/// Every process makes and locks its owner's file first, and a cleaner removes the owner's file
/// last. So a file without an owner's file belongs to no living process. If a cleaner dies, the
/// next cleaner finds all remaining files.
pub(crate) fn clean(directory: &Path) -> io::Result<Cleaned> {
    let mut cleaned = Cleaned::default();
    let mut known = BTreeMap::new();
    let mut owners = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(of) = name.to_str().and_then(incarnations) else { continue };
        let mut dead = false;
        for incarnation in of {
            let find = || Of::find(&owner_path(directory, incarnation));
            dead |= matches!(known.entry(incarnation).or_insert_with(find), Of::Nobody { .. });
        }
        let owner = entry.metadata().ok().map(|found| found.uid());
        let user = geteuid().as_raw();
        if let Some(owner) = owner.filter(|owner| *owner != user)
            && (!dead || user != 0)
        {
            cleaned.foreign += 1;
            cleaned.foreign_user = Some(owner);
            continue;
        }
        if !dead {
            continue;
        }
        if name.to_str().is_some_and(|name| name.ends_with("-owner")) {
            owners.push(entry.path());
        } else {
            cleaned.remove(&entry.path())?;
        }
    }
    for owner in owners {
        if let Some(large) = large_of(&owner) {
            clean_large(&large, &owner, &mut cleaned)?;
        }
        cleaned.remove(&owner)?;
    }
    Ok(cleaned)
}

impl Cleaned {
    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let bytes = fs::symlink_metadata(path).map_or(0, |found| found.len());
        if remove(path)? {
            self.files += 1;
            self.bytes += bytes;
        }
        Ok(())
    }
}

/// Removes the files that the process of this owner's file has in `large`, its directory of huge
/// pages.
fn clean_large(large: &Path, owner: &Path, cleaned: &mut Cleaned) -> io::Result<()> {
    let of = |path: &Path| path.file_name()?.to_str().and_then(incarnations)?.first().copied();
    let files = match fs::read_dir(large) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in files {
        let path = entry?.path();
        if of(&path).is_some() && of(&path) == of(owner) {
            cleaned.remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a file. Returns whether the file existed.
pub(crate) fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The path of the owner's file of the process with this incarnation.
pub(crate) fn owner_path(directory: &Path, incarnation: u64) -> PathBuf {
    directory.join(owner_name(incarnation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_file_cannot_be_looked_at_is_taken_to_live() {
        let gone = Of::find(Path::new("/nowhere/at/all"));
        assert!(matches!(gone, Of::Nobody { .. }), "without a file it has ended");
        // `/dev/null` is no directory, so the system cannot report whether the file exists.
        let unknown = Of::find(Path::new("/dev/null/owner"));
        assert!(matches!(unknown, Of::Somebody));
    }

    #[test]
    fn names_tell_whose_files_they_are_and_foreign_ones_tell_nothing() {
        let node = |id| ComputeNodeId::new(id).unwrap();
        let ends = Ends { receiver: (0xabc, node(1)), sender: (0xdef, node(58)) };
        let of = [
            (owner_name(0xabc), vec![0xabc]),
            (memory_name(0xabc, MemoryNodeId(9)), vec![0xabc]),
            (page_name(u64::MAX, node(3)), vec![u64::MAX]),
            (region_name(0, 7), vec![0]),
            (temporary_name(1, 7), vec![1]),
            (ring_name(ends), vec![0xabc, 0xdef]),
        ];
        for (name, expected) in of {
            assert_eq!(incarnations(&name), Some(expected), "{name}");
        }
        for name in [
            "latchwork",
            "latchwork-",
            "latchwork-12-owner",
            "latchwork-000000000000000G-owner",
            "latchwork-0000000000000001-notes",
            "latchwork-0000000000000001",
            "sem.0000000000000001-owner",
            "latchwork-0000000000000001-ring-1-2-3",
            "latchwork-000000000000000A-owner",
        ] {
            assert_eq!(incarnations(name), None, "{name}");
        }
    }
}
