//! Files that are replaced as a whole: the new version is written beside the old one, and renamed.

use std::io;

use crate::WalError;
use crate::format::names;
use crate::storage::Storage;

/// The durable new version of a file, under a name of its own.
pub(crate) struct Fresh<'a> {
    storage: &'a dyn Storage,
    name: &'static str,
    fresh: String,
}

impl<'a> Fresh<'a> {
    /// Writes the new version of the file `name`, and syncs it. After an error nothing has changed.
    pub(crate) fn write(
        storage: &'a dyn Storage,
        name: &'static str,
        bytes: &[u8],
    ) -> Result<Fresh<'a>, WalError> {
        let this = Fresh { storage, name, fresh: format!("{name}{}", names::FRESH) };
        let file = match storage.create(&this.fresh) {
            // An earlier attempt left this file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                storage.remove(&this.fresh).map_err(|e| this.error("removing", e))?;
                storage.create(&this.fresh)
            }
            made => made,
        };
        let file = file.map_err(|e| this.error("making", e))?;
        let written = file.append(bytes).map_err(|e| this.error("writing", e));
        let written = written.and_then(|()| file.sync().map_err(|e| this.error("syncing", e)));
        if let Err(error) = written {
            this.remove();
            return Err(error);
        }
        Ok(this)
    }

    /// Replaces the file by its new version. The name is durable after the next sync of the
    /// directory. Until then, and after an error, a crash may leave either version.
    pub(crate) fn put_in_place(self) -> Result<(), WalError> {
        let renamed = self.storage.rename(&self.fresh, self.name);
        renamed.map_err(|error| {
            self.remove();
            self.error("renaming", error)
        })
    }

    /// Removes the new version, because it takes room. If this fails, the next attempt or the next
    /// opening removes it.
    fn remove(&self) {
        let _ = self.storage.remove(&self.fresh);
    }

    fn error(&self, doing: &'static str, cause: io::Error) -> WalError {
        WalError::io(doing, &self.fresh, cause)
    }
}
