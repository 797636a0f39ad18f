//! Opening a directory: what a crash left becomes what can go on.

use super::survey::Found;
use crate::WalError;
use crate::checkpoint::Manifest;
use crate::format::names;
use crate::storage::Storage;
use crate::witness::Witness;

/// Bytes that are copied at once.
const COPY: usize = 256 << 10;

/// What is to be done about the end of a log.
pub(super) enum Plan {
    /// The segment was never begun, or lies behind an accepted loss.
    Remove(String),
    /// The checkpoint has all of the segment. It goes when the checkpoint is durable.
    Forget(String),
    /// Its first bytes are what counts.
    Rewrite(String, u64),
}

impl Found {
    /// Makes of it what can go on. A crash at any point leaves what the next opening finds the same
    /// in.
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
            // From here on the logs end there, whatever becomes of this process.
            decided.write(storage)?;
            sync()?;
        }
        for plan in plans {
            plan.carry_out(storage)?;
        }
        if let Some(manifest) = manifest {
            manifest.write(storage)?;
        }
        // Also names that were there already: they need not have been durable.
        sync()?;
        if self.is_known() || self.decided.is_some() {
            let ends = self.nodes.iter().map(|(node, log)| (*node, log.end)).collect();
            let checkpoint = manifest.is_some();
            Witness { checkpoint, ..Witness::of(self.database, ends) }.write(storage)?;
            // A cut that a crash brings back would take away what is appended from now on.
            sync()?;
        }
        // Not before: another checkpoint, with its parts and the segments that it needs, is what a
        // crash may go back to until this one is durable.
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

/// A file that would have got another name when it was whole.
fn is_unfinished(name: &str) -> bool {
    let is_ours = |stem: &str| {
        [names::MANIFEST, names::WITNESS].contains(&stem) || names::as_segment(stem).is_some()
    };
    name.strip_suffix(names::FRESH).is_some_and(is_ours)
}

/// A part of a checkpoint that is not the one in place.
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
                    // What there is of it only takes room. Otherwise the next start removes it.
                    let _ = storage.remove(&format!("{name}{}", names::FRESH));
                }
                written
            }
        }
    }
}

/// Puts a file with the first `length` bytes of `name` in its place, durable.
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
