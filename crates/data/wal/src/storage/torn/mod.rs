//! [`Torn`]: storage in memory that records which bytes were synced, and may lose the others in a
//! simulated crash.
//!
//! `Torn` can inject these faults:
//!
//! - *Crash*, at any operation. Each sector of 512 bytes that was not synced has its old content or
//!   the content after any later write, independently of all other sectors. The length of the file
//!   is one that it has had since its last sync, or a whole number of sectors between these
//!   lengths. A sector never written holds zeros or old bytes of another file. Each change of a
//!   name that was not synced is there or not, independently.
//! - *Kill*: the process ends. The operating system goes on, and loses nothing.
//! - *Fill up*, in the middle of a write, and *fail* any one [operation](StorageOperation). A
//!   failed sync has written some sectors. The system then treats the other sectors as written,
//!   too, as Linux does. So a second sync succeeds, and the next crash loses these sectors.
//! - *Lie*: report a sync as done without doing it. This tests the tests.
//!
//! All faults are drawn from seeds. So the same seeds and calls have the same losses.

mod calls;
mod inode;

use std::collections::BTreeMap;
use std::io;

use latchwork_runtime::sync::{Arc, Mutex};
use latchwork_simulation::Random;
use latchwork_strict::strict_assert;

use inode::Inode;

/// The operations that can be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageOperation {
    /// Making a file.
    Create,
    /// Writing behind the end of a file: some of the bytes are written.
    Append,
    /// Making bytes durable.
    Sync,
    /// Shortening a file.
    Truncate,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Making names durable.
    SyncDirectory,
}

/// A sync that the device reports as done and does not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// Syncs of files with names that end in this text.
    Sync(&'static str),
    /// Syncs of the directory.
    SyncDirectory,
}

/// Storage that may lose unsynced data. Clones share one storage, and so do the values that
/// [`crash`](Torn::crash) and [`kill`](Torn::kill) return. After these two calls, every operation
/// of an earlier value fails.
#[derive(Clone, Debug)]
pub struct Torn {
    world: Arc<Mutex<World>>,
    /// The life of the process to which this value belongs: the number of crashes and kills before
    /// it.
    life: u64,
}

#[derive(Debug)]
struct World {
    life: u64,
    off: bool,
    locked: bool,
    random: Random,
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    lasting: BTreeMap<String, usize>,
    /// Changes of names since the directory was synced.
    moves: Vec<Move>,
    capacity: u64,
    fault: Option<(StorageOperation, u64)>,
    lie: Option<Lie>,
    operations: u64,
    off_at: u64,
}

#[derive(Clone, Debug)]
enum Move {
    Create(String, usize),
    Rename(String, String, usize),
    Remove(String),
}

impl Move {
    fn apply(self, names: &mut BTreeMap<String, usize>) {
        match self {
            Move::Create(name, inode) => {
                names.insert(name, inode);
            }
            Move::Rename(from, to, inode) => {
                if names.get(&from) == Some(&inode) {
                    names.remove(&from);
                }
                names.insert(to, inode);
            }
            Move::Remove(name) => {
                names.remove(&name);
            }
        }
    }
}

fn power_off() -> io::Error {
    io::Error::other("the power is off")
}

impl World {
    /// Counts one more operation; `false` makes the operation fail. The last operation before the
    /// power goes off may take effect, but its outcome is not reported.
    fn step(&mut self, life: u64, operation: StorageOperation) -> io::Result<bool> {
        if self.off || self.life != life {
            return Err(power_off());
        }
        self.operations += 1;
        self.off = self.operations >= self.off_at;
        if let Some((which, left)) = &mut self.fault
            && *which == operation
        {
            if *left == 0 {
                self.fault = None;
                return Ok(false);
            }
            *left -= 1;
        }
        Ok(true)
    }

    /// The result of an operation that was carried out; an error when the power is off.
    fn outcome<T>(&self, value: T) -> io::Result<T> {
        if self.off { Err(power_off()) } else { Ok(value) }
    }

    fn failed<T>(&self, what: &str) -> io::Result<T> {
        Err(io::Error::other(format!("{what} failed, as it was told to")))
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn used(&self) -> u64 {
        self.names.values().map(|&inode| self.inodes[inode].content.len() as u64).sum()
    }

    /// The names that a crash leaves.
    fn torn_names(&mut self) -> BTreeMap<String, usize> {
        let mut names = self.lasting.clone();
        let keep = self.random.below(5);
        for change in std::mem::take(&mut self.moves) {
            if self.random.below(4) < keep {
                change.apply(&mut names);
            }
        }
        names
    }
}

impl Torn {
    /// An empty directory without limits or faults.
    pub fn new(seed: u64) -> Torn {
        let world = World {
            life: 0,
            off: false,
            locked: false,
            random: Random::new(seed),
            inodes: Vec::new(),
            names: BTreeMap::new(),
            lasting: BTreeMap::new(),
            moves: Vec::new(),
            capacity: u64::MAX,
            fault: None,
            lie: None,
            operations: 0,
            off_at: u64::MAX,
        };
        Torn { world: Arc::new(Mutex::new(world)), life: 0 }
    }

    /// Turns the power off, if it is on, and on again. Of the changes that were not synced, a part
    /// is lost, as drawn from `seed`. Faults that were set and have not occurred are dropped;
    /// capacity and lies stay.
    pub fn crash(&self, seed: u64) -> Torn {
        let mut world = self.world.lock();
        world.random = Random::new(seed);
        let names = world.torn_names();
        world.lasting = names.clone();
        world.names = names;
        let World { random, inodes, .. } = &mut *world;
        inodes.iter_mut().for_each(|inode| inode.crash(random));
        self.next_life(&mut world)
    }

    /// Ends the process and starts it again. The system keeps everything, synced or not.
    pub fn kill(&self) -> Torn {
        self.next_life(&mut self.world.lock())
    }

    fn next_life(&self, world: &mut World) -> Torn {
        world.life += 1;
        strict_assert!(self.life <= world.life, "a life of the future");
        world.off = false;
        world.off_at = u64::MAX;
        world.locked = false;
        world.fault = None;
        Torn { world: self.world.clone(), life: world.life }
    }

    /// Sets how many bytes fit in all files together; [`u64::MAX`] is no limit.
    pub fn set_capacity(&self, bytes: u64) {
        self.world.lock().capacity = bytes;
    }

    /// Makes one operation of this kind fail, after `after` other operations of this kind.
    pub fn fail(&self, operation: StorageOperation, after: u64) {
        self.world.lock().fault = Some((operation, after));
    }

    /// Turns the power off during the operation that follows the next `operations` operations. The
    /// [operations](StorageOperation) of all kinds count.
    pub fn power_off_after(&self, operations: u64) {
        let mut world = self.world.lock();
        world.off_at = world.operations + operations + 1;
    }

    /// Turns the power off now.
    pub fn power_off(&self) {
        self.world.lock().off = true;
    }

    /// The count of [operations](StorageOperation) so far.
    pub fn operations(&self) -> u64 {
        self.world.lock().operations
    }

    /// Whether the power is on.
    pub fn is_on(&self) -> bool {
        let world = self.world.lock();
        !world.off && world.life == self.life
    }

    /// Makes the device lie from now on.
    pub fn lie(&self, lie: Lie) {
        self.world.lock().lie = Some(lie);
    }

    /// Cuts a durable file down to `length` bytes, as a bad disk or an operator might. `false` when
    /// there is no such file.
    pub fn cut(&self, name: &str, length: u64) -> bool {
        let mut world = self.world.lock();
        let Ok(inode) = world.inode(name) else { return false };
        world.inodes[inode].cut(length as usize);
        true
    }

    /// Damages a durable byte, as bad memory or a bad disk might: the byte at `offset` is
    /// exclusive-ored with `bits`. `false` when there is no such byte.
    pub fn damage(&self, name: &str, offset: u64, bits: u8) -> bool {
        let mut world = self.world.lock();
        let Ok(inode) = world.inode(name) else { return false };
        world.inodes[inode].damage(offset as usize, bits)
    }
}
