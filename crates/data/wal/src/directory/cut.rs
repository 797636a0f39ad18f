//! Repairs a directory after a crash, so that its logs can be continued.

use super::plan::Plan;
use super::scan::Found;
use crate::WalError;
use crate::checkpoint::Manifest;
use crate::format::names;
use crate::storage::Storage;
use crate::witness::Witness;

/// Bytes that are copied at once.
const COPY: usize = 256 << 10;

impl Found {
    /// Repairs the directory. After a crash at any point, the next opening finds the same state.
    pub(super) fn settle(&self, storage: &dyn Storage) -> Result<(), WalError> {
        let Found { manifest, all, plans, .. } = self;
        for name in all.iter().filter(|name| is_unfinished(name)) {
            remove(storage, name)?;
        }
        let sync = || {
            let synced = storage.sync_directory();
            synced.map_err(|e| WalError::io("syncing", &storage.describe(), e))
        };
        if let Some(decided) = &self.decided {
            // From here on the logs end at the decided ends, even if this process crashes.
            decided.write(storage)?;
            sync()?;
        }
        for plan in plans {
            plan.carry_out(storage)?;
        }
        if let Some(manifest) = manifest {
            manifest.write(storage)?.put_in_place()?;
        }
        // This sync also makes the names of existing files durable. Before a crash they may not
        // have been synced.
        sync()?;
        if self.is_known() || self.decided.is_some() {
            let ends = self.nodes.iter().map(|(node, log)| (*node, log.end)).collect();
            let checkpoint = manifest.is_some();
            Witness { checkpoint, ..Witness::of(self.database, ends) }.write(storage)?;
            // A crash must not bring back the witness with the cut, because the cut would remove
            // the records that are appended from now on.
            sync()?;
        }
        // This removal comes last. Until this checkpoint is durable, a crash may bring back another
        // checkpoint, which needs its own parts and segments.
        let parts = all.iter().filter(|name| is_leftover(name, manifest.as_ref()));
        let segments = plans.iter().filter_map(|plan| match plan {
            Plan::Forget(name) => Some(name),
            _ => None,
        });
        let mut unneeded = parts.chain(segments).peekable();
        if unneeded.peek().is_some() {
            unneeded.try_for_each(|name| remove(storage, name))?;
            sync()?;
        }
        Ok(())
    }
}

fn remove(storage: &dyn Storage, name: &str) -> Result<(), WalError> {
    storage.remove(name).map_err(|e| WalError::io("removing", name, e))
}

/// Whether the file is an incomplete new version of a file, which was not renamed into place.
fn is_unfinished(name: &str) -> bool {
    let is_ours = |stem: &str| {
        [names::MANIFEST, names::WITNESS].contains(&stem) || names::as_segment(stem).is_some()
    };
    name.strip_suffix(names::FRESH).is_some_and(is_ours)
}

/// Whether the file is a part of a checkpoint that is not in place.
fn is_leftover(name: &str, manifest: Option<&Manifest>) -> bool {
    names::as_part(name)
        .is_some_and(|(number, _)| manifest.is_none_or(|manifest| manifest.number != number))
}

impl Plan {
    fn carry_out(&self, storage: &dyn Storage) -> Result<(), WalError> {
        match self {
            Plan::Forget(_) => Ok(()),
            Plan::Remove(name) => remove(storage, name),
            Plan::Rewrite(name, length) => {
                let written = rewrite(storage, name, *length);
                if written.is_err() {
                    // The incomplete copy does no harm except that it takes room. If this removal
                    // fails, the next opening removes the copy.
                    let _ = storage.remove(&format!("{name}{}", names::FRESH));
                }
                written
            }
        }
    }
}

/// Replaces `name` by a durable copy of its first `length` bytes.
fn rewrite(storage: &dyn Storage, name: &str, length: u64) -> Result<(), WalError> {
    let old = storage.open(name).map_err(|e| WalError::io("opening", name, e))?;
    let fresh = format!("{name}{}", names::FRESH);
    let new = storage.create(&fresh).map_err(|e| WalError::io("making", &fresh, e))?;
    let mut buffer = vec![0; COPY.min(length as usize)];
    let mut at = 0;
    while at < length {
        let part = &mut buffer[..COPY.min((length - at) as usize)];
        let read = old.read(at, part).map_err(|e| WalError::io("reading", name, e))?;
        if read < part.len() {
            return Err(WalError::damaged(name, at + read as u64, "the file shrank"));
        }
        new.append(part).map_err(|e| WalError::io("writing", &fresh, e))?;
        at += read as u64;
    }
    new.sync().map_err(|e| WalError::io("syncing", &fresh, e))?;
    storage.rename(&fresh, name).map_err(|e| WalError::io("renaming", &fresh, e))
}
