//! [`FileStore`]: a store in a directory, for the processes of one machine.

mod format;
mod lock;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use latchwork_strict::strict_assert;

use crate::error::MembershipError;
use crate::store::state::State;
use crate::store::{Compare, Grant, KeyChange, LeaseId, Snapshot, Store, StoreEntry};
use crate::time::{Deadline, since_boot};

use format::{HEADER_MAX, Header, Image};
use lock::{Lock, sleep};

/// The interval at which a waiter checks whether the state file was replaced. A check is one system
/// call.
const LOOK: Duration = Duration::from_millis(5);
/// The waiter also reads the first line once in this many checks, in case the file system does not
/// report the replacement.
const LOOKS: u32 = 10;
const _: () = assert!(LOOKS > 0 && LOOK.as_millis() > 0, "a waiting process spins");

/// The time that a call waits before it fails because of the files.
const RETRY: Duration = Duration::from_millis(20);

/// A store in a directory, for processes of one machine.
///
/// A transaction takes the directory's lock and reads the state file. If the transaction changes
/// the state, it replaces the file by a new one. Leases end by the machine's clock since its boot.
/// The next process that reads the store deletes the keys of ended leases. There is no server. When
/// a process crashes, the kernel frees the lock, and the node's lease ends in time or earlier.
///
/// The file is not synced to the disk. When the machine goes down, all nodes of the cluster go down
/// too. After the next start, the file may be older, damaged or missing. If the file is damaged,
/// calls fail. If the file is missing, [`FileStore::open`] makes an empty one.
///
/// The file says for which boot its leases count. A process with another boot id watches the file
/// for the length of the longest lease. If no node renews its lease, the machine has booted since,
/// and the process ends all leases. Otherwise the nodes live on another machine, or in another
/// container, and the process is refused.
pub struct FileStore {
    directory: PathBuf,
    boot: String,
}

impl FileStore {
    /// Opens the store in `directory`. The call makes the directory if it does not exist. The
    /// directory's parent must exist. The call waits for the directory's lock for at most `limit`.
    ///
    /// # Errors
    /// [`MembershipError::Directory`], [`MembershipError::Damaged`], [`MembershipError::Locked`].
    pub fn open(directory: impl Into<PathBuf>, limit: Duration) -> Result<Self, MembershipError> {
        let directory = directory.into();
        let refuse = |why: String| MembershipError::Directory { path: directory.clone(), why };
        match fs::create_dir(&directory) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let parent = directory.parent().unwrap_or(&directory);
                return Err(refuse(if parent.exists() || parent.is_symlink() {
                    format!("it cannot be made ({error}); name another place")
                } else {
                    format!("{} is not there; make it, or correct the path", parent.display())
                }));
            }
        }
        if !directory.is_dir() {
            return Err(refuse("it is a file; name another place".into()));
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_err(|error| refuse(format!("the machine does not say its boot id ({error})")))?;
        if has_clock_of_its_own() {
            return Err(refuse(
                "this process has a boot clock of its own, so leases would end at other times than for other processes; \
                 start it without a time namespace, or use etcd"
                    .into(),
            ));
        }
        FileStore::open_at_boot(directory, boot.trim().to_owned(), limit)
    }

    fn open_at_boot(
        directory: PathBuf,
        boot: String,
        limit: Duration,
    ) -> Result<Self, MembershipError> {
        let store = FileStore { boot, directory };
        File::options().create(true).append(true).open(store.lock_path()).map_err(|error| {
            MembershipError::Directory {
                path: store.directory.clone(),
                why: format!(
                    "it is not writable ({error}); change its mode, or name another place"
                ),
            }
        })?;
        let lock = store.lock(limit)?;
        if !store.state_path().try_exists().map_err(|error| store.failed(&error))? {
            store.write(&Image { boot: store.boot.clone(), state: State::default() })?;
        }
        let image = store.read()?;
        drop(lock);
        if image.boot != store.boot {
            store.take_over(image, limit)?;
        }
        Ok(store)
    }

    /// Ends all leases of `old`, the state of another boot, if no node renews one of them.
    fn take_over(&self, old: Image, limit: Duration) -> Result<(), MembershipError> {
        let longest = old.state.leases.values().map(|term| term.ttl).max().unwrap_or_default();
        let watched = Deadline::after(longest);
        if !longest.is_zero() {
            tracing::info!(
                directory = %self.directory.display(), lease = ?longest,
                "the store is from before a reboot, or its nodes run elsewhere: waits for a lease to see which"
            );
        }
        loop {
            let lock = self.lock(limit)?;
            let mut now = self.read()?;
            if now.boot == self.boot {
                return Ok(());
            }
            if now != old {
                return Err(self.of_another_boot());
            }
            let Some(left) = watched.left() else {
                // The clock began anew, and no process that held a lease exists any more.
                now.boot.clone_from(&self.boot);
                now.state.expire_all();
                return self.write(&now);
            };
            drop(lock);
            sleep(left.min(LOOKS * LOOK));
        }
    }

    fn of_another_boot(&self) -> MembershipError {
        MembershipError::OtherBoot { path: self.directory.clone() }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn lock_path(&self) -> PathBuf {
        self.directory.join("lock")
    }

    fn state_path(&self) -> PathBuf {
        self.directory.join("state")
    }

    fn lock(&self, limit: Duration) -> Result<Lock, MembershipError> {
        Lock::acquire(&self.describe(), &self.lock_path(), limit)
    }

    fn failed(&self, error: &io::Error) -> MembershipError {
        MembershipError::Files {
            path: self.directory.clone(),
            why: format!("its state file: {error}; was it removed while its processes ran?"),
        }
    }

    fn damaged(&self, why: String) -> MembershipError {
        MembershipError::Damaged { path: self.state_path(), why }
    }

    /// The present state. It is complete even without the lock, because every change replaces the
    /// whole file by a rename.
    fn read(&self) -> Result<Image, MembershipError> {
        let bytes = fs::read(self.state_path()).map_err(|error| self.failed(&error))?;
        Image::decode(&bytes).map_err(|why| self.damaged(why))
    }

    /// The present state file, and its first line.
    fn header(&self) -> Result<(File, Header), MembershipError> {
        let mut first = Vec::with_capacity(HEADER_MAX);
        let file = File::open(self.state_path()).map_err(|error| self.failed(&error))?;
        let read = (&file).take(HEADER_MAX as u64).read_to_end(&mut first);
        read.map_err(|error| self.failed(&error))?;
        let header = Header::decode(&first).map_err(|why| self.damaged(why))?;
        Ok((file, header))
    }

    /// Replaces the state file. The caller holds the lock.
    fn write(&self, image: &Image) -> Result<(), MembershipError> {
        let new = self.directory.join("state.new");
        fs::write(&new, image.encode()).and_then(|()| fs::rename(&new, self.state_path())).map_err(
            |error| MembershipError::Files {
                path: self.directory.clone(),
                why: format!("it cannot be written ({error}); is there space left?"),
            },
        )
    }

    /// Changes the state under the lock. `change` gets the time since the boot, read after the lock
    /// was taken.
    fn change<R>(
        &self,
        limit: Duration,
        change: impl FnOnce(&mut State, Duration) -> R,
    ) -> Result<R, MembershipError> {
        let changed = self.change_now(limit, change);
        if let Err(MembershipError::Files { .. }) = changed {
            // Callers try again.
            sleep(RETRY.min(limit));
        }
        changed
    }

    fn change_now<R>(
        &self,
        limit: Duration,
        change: impl FnOnce(&mut State, Duration) -> R,
    ) -> Result<R, MembershipError> {
        let _lock = self.lock(limit)?;
        let old = self.read()?;
        if old.boot != self.boot {
            return Err(self.of_another_boot());
        }
        let mut new = old.clone();
        let now = since_boot();
        new.state.expire(now);
        let result = change(&mut new.state, now);
        strict_assert!(new.state.revision >= old.state.revision, "the revision of a store falls");
        strict_assert!(
            new.state.last_lease >= old.state.last_lease,
            "a lease number is given twice"
        );
        if new != old {
            self.write(&new)?;
        }
        Ok(result)
    }

    /// Reads the state without the keys of ended leases.
    fn look<R>(
        &self,
        limit: Duration,
        look: impl FnOnce(&State) -> R,
    ) -> Result<R, MembershipError> {
        let image = self.read()?;
        if image.boot != self.boot {
            return Err(self.of_another_boot());
        }
        if image.state.next_end().is_some_and(|end| end <= since_boot()) {
            return self.change(limit, |state, _| look(state));
        }
        Ok(look(&image.state))
    }
}

/// Whether the clock since the boot is another one for this process than for the machine.
fn has_clock_of_its_own() -> bool {
    // Without the file there are no time namespaces. A line: clock, seconds, nanoseconds.
    let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let mut lines = offsets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.any(|words| matches!(words[..], ["boottime", ref offset @ ..] if offset.iter().any(|part| *part != "0")))
}

impl Store for FileStore {
    fn describe(&self) -> String {
        format!("the store in {}", self.directory.display())
    }

    fn grant(&self, ttl: Duration, limit: Duration) -> Result<Grant, MembershipError> {
        let id = self.change(limit, |state, now| state.grant(ttl, now))?;
        Ok(Grant { id, ttl })
    }

    fn keep_alive(&self, lease: LeaseId, limit: Duration) -> Result<Duration, MembershipError> {
        self.change(limit, |state, now| state.keep_alive(lease, now))?
    }

    fn revoke(&self, lease: LeaseId, limit: Duration) -> Result<(), MembershipError> {
        self.change(limit, |state, _| state.revoke(lease))
    }

    fn commit(
        &self,
        compares: &[Compare],
        changes: &[KeyChange],
        limit: Duration,
    ) -> Result<Option<u64>, MembershipError> {
        self.change(limit, |state, _| state.commit(compares, changes))?
    }

    fn get(&self, key: &str, limit: Duration) -> Result<Option<StoreEntry>, MembershipError> {
        self.look(limit, |state| state.get(key))
    }

    fn range(&self, prefix: &str, limit: Duration) -> Result<Snapshot, MembershipError> {
        self.look(limit, |state| state.range(prefix))
    }

    fn wait(&self, _prefix: &str, after: u64, limit: Duration) -> Result<bool, MembershipError> {
        let deadline = Deadline::after(limit);
        let (mut file, mut header) = self.header()?;
        let mut looks = 0;
        loop {
            if header.revision != after {
                return Ok(true);
            }
            let Some(left) = deadline.left() else { return Ok(false) };
            if header.next_end.is_some_and(|end| end <= since_boot()) {
                // This process ends the lease.
                match self.change(left, |state, _| state.revision) {
                    Ok(_) | Err(MembershipError::Locked { .. }) => {}
                    Err(error) => return Err(error),
                }
                (file, header) = self.header()?;
                continue;
            }
            sleep(LOOK.min(left));
            looks += 1;
            // A replaced file has no name any more. This process keeps the file open, so no other
            // file can get its inode.
            let replaced = file.metadata().map_or(true, |metadata| metadata.nlink() == 0);
            if replaced || looks % LOOKS == 0 {
                (file, header) = self.header()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(500);

    fn open(directory: &Path, boot: &str) -> Result<FileStore, MembershipError> {
        FileStore::open_at_boot(directory.to_owned(), boot.to_owned(), Duration::from_secs(5))
    }

    #[test]
    fn a_newcomer_with_another_boot_id_changes_nothing_while_nodes_live() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path(), "one").unwrap();
        let lease = store.grant(TTL, TTL).unwrap().id;
        let state = || fs::read(directory.path().join("state")).unwrap();
        std::thread::scope(|scope| {
            let newcomer = scope.spawn(|| open(directory.path(), "another").map(drop));
            while !newcomer.is_finished() {
                store.keep_alive(lease, TTL).unwrap();
                sleep(TTL / 5);
            }
            let refused = newcomer.join().unwrap();
            assert!(matches!(refused, Err(MembershipError::OtherBoot { .. })), "{refused:?}");
        });
        assert!(String::from_utf8(state()).unwrap().contains("boot one\n"));
        store.keep_alive(lease, TTL).unwrap();
    }

    #[test]
    fn after_a_reboot_the_first_process_ends_all_leases_and_the_old_boot_writes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let before = open(directory.path(), "one").unwrap();
        let lease = before.grant(TTL, TTL).unwrap().id;
        let begin = since_boot();
        let after = open(directory.path(), "two").unwrap();
        assert!(since_boot() - begin >= TTL, "it watched for a whole lease");
        assert_eq!(after.keep_alive(lease, TTL), Err(MembershipError::LeaseEnded));
        let late = before.keep_alive(lease, TTL);
        assert!(matches!(late, Err(MembershipError::OtherBoot { .. })), "{late:?}");
        // Without leases there is no node to wait for.
        after.revoke(after.grant(TTL, TTL).unwrap().id, TTL).unwrap();
        let begin = since_boot();
        open(directory.path(), "three").unwrap();
        assert!(since_boot() - begin < TTL);
    }
}
