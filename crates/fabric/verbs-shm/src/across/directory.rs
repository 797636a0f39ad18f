//! [`Directory`]: makes and removes the files of this process, and maps the files of other
//! processes.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering};
use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, Extent, MemoryNodeId, Region};
use rustix::fs::OFlags;

use super::clean::{
    clean, memory_name, owner_path, page_name, refused, region_name, remove, ring_name,
    temporary_name,
};
use super::contact::Contact;
use super::owner::{Owner, lives, open_checked};
use super::page::Page;
use super::ring::{Ends, Ring};
use super::room::{page_bytes, reserve};
use crate::ShmError;
use crate::config::{HugePages, Place};
use crate::name::ShmNodeName;
use crate::node::Mapped;

/// The number of names that a process tries before it reports the directory as unusable.
const NAMES_MAX: usize = 100;
const _: () = assert!(NAMES_MAX > 1, "a name that is taken is tried again");

/// Set in the number of a file that is the memory of a memory node. The other bits are its id.
const OF_MEMORY: u64 = 1 << 63;

/// The files of one process in a directory. Dropping the value removes these files, as far as the
/// system permits.
pub(crate) struct Directory {
    path: PathBuf,
    handle: File,
    /// The directory of huge pages for memory nodes and regions, if these have a directory of their
    /// own.
    large: Option<(PathBuf, File)>,
    advise: bool,
    incarnation: u64,
    numbers: AtomicU64,
    made: Mutex<Made>,
    _owner: Owner,
}

#[derive(Default)]
struct Made {
    files: BTreeSet<PathBuf>,
    /// Regions that peers can map, with the numbers of their files.
    regions: Vec<(Weak<Region>, u64)>,
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> ShmError {
    move |error| ShmError::File { action, path: path.to_owned(), error }
}

fn open_directory(path: &Path) -> Result<(PathBuf, File), ShmError> {
    let path = path.canonicalize().map_err(failed("find the directory", path))?;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::DIRECTORY.bits() as i32);
    let handle =
        options.open(&path).map_err(|error| refused("open the directory", &path, error))?;
    Ok((path, handle))
}

impl Directory {
    /// Opens the directory, makes it if it is missing, and removes the files of ended processes.
    pub(crate) fn open(place: &Place) -> Result<Directory, ShmError> {
        let large = match &place.huge_pages {
            HugePages::Directory(large) => Some(open_directory(large)?),
            HugePages::Never | HugePages::Advised => None,
        };
        for _ in 0..NAMES_MAX {
            let made = fs::DirBuilder::new().mode(0o700).create(&place.path);
            match made {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed("make the directory", &place.path)(error));
                }
                _ => {}
            }
            let (path, handle) = open_directory(&place.path)?;
            let incarnation = draw();
            let owner_path = owner_path(&path, incarnation);
            let cleaned =
                clean(&path).map_err(|error| ("remove files of processes that ended", error));
            let owner = cleaned.and_then(|_| {
                Owner::create(&owner_path, large.as_ref().map(|(path, _)| path.as_path()))
                    .map_err(|error| ("make a file", error))
            });
            match owner {
                Ok(Some(owner)) => {
                    return Ok(Directory {
                        path,
                        handle,
                        large,
                        advise: place.huge_pages == HugePages::Advised,
                        incarnation,
                        numbers: AtomicU64::new(0),
                        made: Mutex::default(),
                        _owner: owner,
                    });
                }
                // The name is taken, or another process removed the empty directory: try again.
                Ok(None) => {}
                Err((_, error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err((action, error)) => return Err(refused(action, &path, error)),
            }
        }
        Err(failed("find a free name", &place.path)(io::ErrorKind::AlreadyExists.into()))
    }

    /// The incarnation: the random number that this opening of the directory drew.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a file of zeros, allocates all of its memory, and maps it.
    fn make(&self, name: &str, bytes: usize, large: bool) -> Result<Arc<Region>, ShmError> {
        let (directory, handle) = match &self.large {
            Some((path, handle)) if large => (path, handle),
            _ => (&self.path, &self.handle),
        };
        let path = directory.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let file = options.open(&path).map_err(failed("make a file", &path))?;
        self.made.lock().files.insert(path.clone());
        // Round up to whole pages, because a file of huge pages has no other length.
        let whole = (bytes as u64).next_multiple_of(page_bytes(handle));
        let mapped = reserve(&file, &path, (handle, directory), whole)
            .and_then(|()| Ok(Region::map(&file, bytes, self.advise && large)?));
        if mapped.is_err() {
            self.remove(&path);
        }
        mapped
    }

    fn remove(&self, path: &Path) {
        if self.made.lock().files.remove(path) {
            // A file that cannot be removed now stays until this process has ended. The next start
            // of another process removes it.
            let _ = remove(path);
        }
    }

    // ---- nodes of this process ------------------------------------------------------------------

    /// Makes the memory of a memory node.
    pub(crate) fn make_memory(
        &self,
        id: MemoryNodeId,
        bytes: usize,
    ) -> Result<Arc<Region>, ShmError> {
        let region = self.make(&memory_name(self.incarnation, id), bytes, true)?;
        self.made.lock().regions.push((Arc::downgrade(&region), OF_MEMORY | u64::from(id.0)));
        Ok(region)
    }

    /// Makes the page of a compute node: the file that shows the node's state to peers.
    pub(crate) fn make_page(&self, id: ComputeNodeId) -> Result<Arc<Page>, ShmError> {
        let region = self.make(&page_name(self.incarnation, id), Page::BYTES, false)?;
        Ok(Arc::new(Page::create(region, self.incarnation, id)))
    }

    /// Makes a region that peers can map after the region's registration.
    pub(crate) fn make_region(&self, bytes: usize) -> Result<Arc<Region>, ShmError> {
        let number = self.number();
        let region = self.make(&region_name(self.incarnation, number), bytes, true)?;
        strict_assert!(
            !self.made.lock().regions.iter().any(|&(_, other)| other == number),
            "two regions have number {number}"
        );
        let mut made = self.made.lock();
        made.regions.retain(|(region, _)| region.strong_count() > 0);
        made.regions.push((Arc::downgrade(&region), number));
        Ok(region)
    }

    /// The number of the file of a region or of a memory node's memory; `None` when the region is
    /// private memory of this process.
    pub(crate) fn number_of(&self, region: &Arc<Region>) -> Option<u64> {
        let made = self.made.lock();
        let found = made.regions.iter().find(|(made, _)| made.as_ptr() == Arc::as_ptr(region));
        found.map(|(_, number)| *number)
    }

    /// The contact of a memory node of this process.
    pub(crate) fn memory_contact(&self, id: MemoryNodeId, extent: Extent) -> Contact {
        let directory = self.large.as_ref().map_or(&self.path, |(path, _)| path);
        let path = directory.join(memory_name(self.incarnation, id));
        Contact { incarnation: self.incarnation, extent, path }
    }

    /// The contact of a compute node of this process.
    pub(crate) fn compute_contact(&self, id: ComputeNodeId) -> Contact {
        let path = self.path.join(page_name(self.incarnation, id));
        Contact { incarnation: self.incarnation, extent: Extent::of(Page::BYTES as u64), path }
    }

    /// Whether this process has made the file at `path`, or has opened the file as a ring.
    pub(crate) fn has_made(&self, path: &Path) -> bool {
        self.made.lock().files.contains(path)
    }

    // ---- nodes of others ------------------------------------------------------------------------

    /// The name of the file of a node.
    pub(crate) fn name_of(&self, node: ShmNodeName, incarnation: u64) -> String {
        match node {
            ShmNodeName::Memory(id) => memory_name(incarnation, id),
            ShmNodeName::Compute(id) => page_name(incarnation, id),
        }
    }

    /// The path of the owner's file of the process that made a contact. An error when the contact's
    /// file is in another directory or has another name.
    pub(crate) fn owner_of(&self, contact: &Contact, name: &str) -> Result<PathBuf, ShmError> {
        let owner = owner_path(&self.path, contact.incarnation);
        let directory = contact.path.parent();
        let ours = directory == Some(&self.path)
            || directory.map(Path::to_owned) == super::owner::large_of(&owner)
            || (self.large.as_ref()).is_some_and(|(large, _)| directory == Some(large));
        if !ours || contact.path.file_name() != Some(name.as_ref()) {
            let (path, directory) = (contact.path.clone(), self.path.clone());
            return Err(ShmError::OtherDirectory { path, directory });
        }
        Ok(owner)
    }

    /// Opens and maps the file of a contact. An error when the process of the contact has ended.
    fn map(&self, contact: &Contact, name: &str, large: bool) -> Result<Arc<Region>, ShmError> {
        let owner = self.owner_of(contact, name)?;
        let ended = || ShmError::Ended { path: contact.path.clone() };
        if !lives(&owner)? {
            return Err(ended());
        }
        let file = open_checked(&contact.path, true)?.ok_or_else(ended)?;
        let layout = || ShmError::Layout { path: contact.path.clone() };
        let Extent { bytes, chip_bytes } = contact.extent;
        let bytes = bytes.checked_add(chip_bytes).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(layout)?;
        Region::map(&file, bytes, self.advise && large).map_err(|error| match error {
            latchwork_verbs::RegionError::OutOfMemory { .. } => error.into(),
            _ => layout(),
        })
    }

    pub(crate) fn map_memory(
        &self,
        id: MemoryNodeId,
        contact: &Contact,
    ) -> Result<Mapped, ShmError> {
        let region = self.map(contact, &memory_name(contact.incarnation, id), true)?;
        Ok(Mapped { region, chip_bytes: contact.extent.chip_bytes })
    }

    pub(crate) fn map_page(
        &self,
        id: ComputeNodeId,
        contact: &Contact,
    ) -> Result<Arc<Page>, ShmError> {
        let region = self.map(contact, &page_name(contact.incarnation, id), false)?;
        let page = Page::open(region, contact.incarnation, id);
        Ok(Arc::new(page.ok_or_else(|| ShmError::Layout { path: contact.path.clone() })?))
    }

    /// Maps a region that a compute node has published on its page.
    pub(crate) fn map_region(
        &self,
        incarnation: u64,
        number: u64,
        bytes: usize,
    ) -> Option<Arc<Region>> {
        let owner = owner_path(&self.path, incarnation);
        let large = super::owner::large_of(&owner);
        let name = match number & OF_MEMORY {
            0 => region_name(incarnation, number),
            _ => memory_name(incarnation, MemoryNodeId((number & !OF_MEMORY).try_into().ok()?)),
        };
        let path = large.unwrap_or_else(|| self.path.clone()).join(name);
        let file = open_checked(&path, true).ok()??;
        Region::map(&file, bytes, self.advise).ok()
    }

    /// Opens the ring between a node of this process and a node of another process. The process
    /// that comes first makes the ring, so neither process waits for the other. The ring gets its
    /// name only when its content is complete.
    pub(crate) fn ring(&self, ends: Ends, capacity: usize) -> Result<Ring, ShmError> {
        let path = self.path.join(ring_name(ends));
        let layout = || ShmError::Layout { path: path.clone() };
        for _ in 0..NAMES_MAX {
            if let Some(file) = open_checked(&path, true)? {
                self.made.lock().files.insert(path.clone());
                // The whole file is mapped, because only the content of the file has its capacity.
                let bytes = file.metadata().map_err(failed("look at", &path))?.len();
                let bytes = usize::try_from(bytes).map_err(|_| layout())?;
                let region = Region::map(&file, bytes, false).map_err(|_| layout())?;
                return Ring::open(region, ends).ok_or_else(layout);
            }
            let temporary = temporary_name(self.incarnation, self.number());
            let region = self.make(&temporary, Ring::bytes(capacity), false)?;
            Ring::create(&region, capacity, ends);
            let temporary = self.path.join(temporary);
            let linked = fs::hard_link(&temporary, &path);
            self.remove(&temporary);
            match linked {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed("name a file", &path)(error));
                }
                _ => {}
            }
        }
        Err(layout())
    }

    /// Removes the file of the ring between two nodes, after one of the nodes was cut off.
    pub(crate) fn remove_ring(&self, ends: Ends) {
        self.remove(&self.path.join(ring_name(ends)));
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let files = std::mem::take(&mut self.made.lock().files);
        // A file that cannot be removed here stays until a later start of another process removes
        // it.
        files.iter().for_each(|path| drop(remove(path)));
        let _ = remove(&owner_path(&self.path, self.incarnation));
    }
}

/// Draws a random number, to be the incarnation of this process.
fn draw() -> u64 {
    let state = std::collections::hash_map::RandomState::new();
    let mut hasher = state.build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish().max(1)
}
