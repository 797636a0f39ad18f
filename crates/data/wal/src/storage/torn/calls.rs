//! The [`Storage`] and [`File`] operations of a [`Torn`] storage.

use std::io;

use latchwork_strict::{strict_assert, strict_assert_eq};

use super::{Lie, Move, StorageOperation, Torn, World, power_off};
use crate::storage::torn::inode::Inode;
use crate::storage::{DirectoryLock, File, Locked, Storage};

impl Torn {
    fn file(&self, name: &str, inode: usize) -> Box<dyn File> {
        Box::new(TornFile { torn: self.clone(), inode, name: name.to_owned() })
    }
}

impl Storage for Torn {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let world = self.world.lock();
        if world.life != self.life {
            return Err(power_off());
        }
        world.outcome(world.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut world = self.world.lock();
        if !world.step(self.life, StorageOperation::Create)? {
            return world.failed("making a file");
        }
        if world.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = world.inodes.len();
        world.inodes.push(Inode::default());
        world.names.insert(name.to_owned(), inode);
        world.moves.push(Move::Create(name.to_owned(), inode));
        strict_assert_eq!(world.names.get(name), Some(&inode), "a new file has its name");
        world.outcome(self.file(name, inode))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let world = self.world.lock();
        if world.life != self.life {
            return Err(power_off());
        }
        let inode = world.inode(name)?;
        world.outcome(self.file(name, inode))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.world.lock();
        if !world.step(self.life, StorageOperation::Rename)? {
            return world.failed("renaming");
        }
        let inode = world.inode(from)?;
        let change = Move::Rename(from.to_owned(), to.to_owned(), inode);
        change.clone().apply(&mut world.names);
        world.moves.push(change);
        strict_assert!(
            world.names.contains_key(to) && !world.names.contains_key(from),
            "a renamed file has its old name"
        );
        world.outcome(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.world.lock();
        if !world.step(self.life, StorageOperation::Remove)? {
            return world.failed("removing a file");
        }
        world.inode(name)?;
        let change = Move::Remove(name.to_owned());
        change.clone().apply(&mut world.names);
        world.moves.push(change);
        strict_assert!(!world.names.contains_key(name), "a removed file has its name");
        world.outcome(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut world = self.world.lock();
        if !world.step(self.life, StorageOperation::SyncDirectory)? {
            // Some of the changes of names are durable, and no later sync writes the others.
            world.lasting = world.torn_names();
            return world.failed("syncing the directory");
        }
        if world.off {
            return Err(power_off());
        }
        if world.lie != Some(Lie::SyncDirectory) {
            for change in std::mem::take(&mut world.moves) {
                change.apply(&mut world.lasting);
            }
        }
        strict_assert!(
            world.moves.is_empty() || world.lie == Some(Lie::SyncDirectory),
            "a synced directory has changes to write"
        );
        Ok(())
    }

    fn lock(&self, _name: &str) -> io::Result<Locked> {
        let mut world = self.world.lock();
        if world.life != self.life {
            return Err(power_off());
        }
        if std::mem::replace(&mut world.locked, true) {
            return Ok(Locked::Held { by: "this process".to_owned() });
        }
        Ok(Locked::Taken(Box::new(TornLock(self.clone()))))
    }

    fn lock_to_read(&self, name: &str) -> io::Result<Option<Locked>> {
        // The tests need only one reader at a time.
        self.lock(name).map(Some)
    }
}

#[derive(Debug)]
struct TornLock(Torn);

impl DirectoryLock for TornLock {}

impl Drop for TornLock {
    fn drop(&mut self) {
        let mut world = self.0.world.lock();
        if world.life == self.0.life {
            world.locked = false;
        }
    }
}

#[derive(Debug)]
struct TornFile {
    torn: Torn,
    inode: usize,
    name: String,
}

impl File for TornFile {
    fn length(&self) -> io::Result<u64> {
        let world = self.torn.world.lock();
        if world.life != self.torn.life {
            return Err(power_off());
        }
        world.outcome(world.inodes[self.inode].content.len() as u64)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let world = self.torn.world.lock();
        if world.life != self.torn.life {
            return Err(power_off());
        }
        let rest = world.inodes[self.inode].content.get(offset as usize..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        world.outcome(n)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.torn.world.lock();
        let works = world.step(self.torn.life, StorageOperation::Append)?;
        let room = world.capacity.saturating_sub(world.used()).min(bytes.len() as u64) as usize;
        strict_assert!(
            world.used() <= world.capacity || room == 0,
            "the device holds more than it can"
        );
        let written = match works {
            true => room,
            false => world.random.below(room as u64 + 1) as usize,
        };
        world.inodes[self.inode].append(&bytes[..written]);
        if !works {
            return world.failed("writing");
        }
        if written < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        world.outcome(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.torn.world.lock();
        let works = world.step(self.torn.life, StorageOperation::Sync)?;
        if works && world.off {
            return Err(power_off());
        }
        let lie = matches!(world.lie, Some(Lie::Sync(ending)) if self.name.ends_with(ending));
        let World { random, inodes, .. } = &mut *world;
        match works {
            true if lie => {}
            true => inodes[self.inode].sync(),
            false => inodes[self.inode].sync_badly(random),
        }
        if works { Ok(()) } else { world.failed("syncing") }
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut world = self.torn.world.lock();
        if !world.step(self.torn.life, StorageOperation::Truncate)? {
            return world.failed("truncating");
        }
        world.inodes[self.inode].truncate(length as usize);
        world.outcome(())
    }
}
