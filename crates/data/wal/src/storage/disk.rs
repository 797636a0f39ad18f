//! [`Disk`]: a directory of the file system.

use std::fs;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{DirectoryLock, File, Locked, Storage};

/// A directory of the file system. Files are synced by `fdatasync`, which also makes a changed
/// length durable. Directories are synced by `fsync`.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
}

impl Disk {
    /// The directory at `path`, which is made when there is none.
    ///
    /// # Errors
    /// The system's errors.
    pub fn new(path: impl Into<PathBuf>) -> io::Result<Disk> {
        let path: PathBuf = path.into();
        // The last ancestor of a relative path is empty: the working directory.
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
        fs::create_dir_all(&path)?;
        // The names of new directories must be durable as well.
        for new in missing {
            if let Some(parent) = new.canonicalize()?.parent() {
                fs::File::open(parent)?.sync_all()?;
            }
        }
        Ok(Disk { path })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Storage for Disk {
    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is not a file of the log.
            names.extend(entry?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        let file = options.read(true).append(true).create_new(true).open(self.at(name))?;
        Ok(Box::new(DiskFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        // The file is opened to read only, because the file system may be read-only.
        Ok(Box::new(DiskFile(fs::File::open(self.at(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.at(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        fs::File::open(&self.path)?.sync_all()
    }

    fn lock(&self, name: &str) -> io::Result<Locked> {
        let mut options = fs::OpenOptions::new();
        let path = self.at(name);
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        // The system releases the lock when the process ends, for whatever reason.
        if !take(&file, FlockOperation::NonBlockingLockExclusive)? {
            return Ok(Locked::Held { by: owner(file)? });
        }
        // The process id, for the error that other processes get. Nothing else depends on it, and
        // the disk may be full, so a failure is ignored.
        let said = file.set_len(0).and_then(|()| file.rewind());
        let _ = said.and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Locked::Taken(Box::new(Flock(file))))
    }

    fn lock_to_read(&self, name: &str) -> io::Result<Option<Locked>> {
        let file = match fs::File::open(self.at(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        // The lock is shared, because some file systems give no exclusive lock on a file that is
        // opened to read only.
        match take(&file, FlockOperation::NonBlockingLockShared)? {
            true => Ok(Some(Locked::Taken(Box::new(Flock(file))))),
            false => Ok(Some(Locked::Held { by: owner(file)? })),
        }
    }
}

/// Requests a lock of a file; `false` when another process, or another open file of this process,
/// has it.
fn take(file: &fs::File, how: FlockOperation) -> io::Result<bool> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(error) if error == rustix::io::Errno::WOULDBLOCK => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The process id in the lock file, if that process still runs.
fn owner(file: fs::File) -> io::Result<String> {
    let mut by = String::new();
    file.take(64).read_to_string(&mut by)?;
    // The holder may not have written its id yet. A holder that only reads writes no id.
    let runs = by.trim().parse::<u32>().is_ok_and(|id| Path::new(&format!("/proc/{id}")).exists());
    Ok(if runs { by.trim().to_owned() } else { "(unknown)".to_owned() })
}

#[derive(Debug)]
struct Flock(fs::File);

impl DirectoryLock for Flock {}

impl Drop for Flock {
    /// Unlocks the file. To close the file is not enough: a child process that was just forked
    /// shares the open file until it executes its own program. A failed unlock is ignored, because
    /// the end of the process releases the lock.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[derive(Debug)]
struct DiskFile(fs::File);

impl File for DiskFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.0).write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}
