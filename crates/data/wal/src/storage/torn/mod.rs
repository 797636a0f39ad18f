//! [`Torn`]: storage in memory that remembers what was synced, and loses the rest when it is told to.
//!
//! What it may do to whoever stands on it:
//!
//! - *Crash*, at any operation: each sector of 512 bytes that was not synced is as any of the
//!   writes since then left it, or as before, independently of all others; a length that was not
//!   synced is any that the file had since; sectors that nobody wrote are zeros or old bytes of
//!   something else. Names that were not synced are there or not, each independently.
//! - *Kill*: the process ends, the system goes on, with all that it was given.
//! - *Fill up*, in the middle of a write, and *fail* any one operation. A sync that fails has
//!   written some sectors; the others are taken for written from then on, as Linux does it, so that
//!   a second sync succeeds and they are lost with the next crash.
//! - *Lie*: say that it synced and not do it. This is for tests of tests.
//!
//! Everything is drawn from seeds: the same calls give the same losses.

mod calls;
mod inode;

use std::collections::BTreeMap;
use std::io;

use latchwork_runtime::sync::{Arc, Mutex};
use latchwork_simulation::Random;

use inode::Inode;

/// What can be told to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Making a file.
    Create,
    /// Writing behind a file's end: some of the bytes are written.
    Append,
    /// Making bytes lasting.
    Sync,
    /// Shortening a file.
    Truncate,
    /// Giving a file another name.
    Rename,
    /// Removing a file.
    Remove,
    /// Making names lasting.
    SyncDirectory,
}

/// What the device says to have done, and has not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// Syncs of files whose name ends so.
    Sync(&'static str),
    /// Syncs of the directory.
    SyncDirectory,
}

/// Storage that forgets. Clones are the same; so is what [`crash`](Torn::crash) and
/// [`kill`](Torn::kill) return, after which everything opened before is dead.
#[derive(Clone, Debug)]
pub struct Torn {
    world: Arc<Mutex<World>>,
    /// Which life of the process this belongs to.
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
    fault: Option<(Operation, u64)>,
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
    /// One more operation. Whatever the last one before the power goes off does, nobody learns of
    /// it.
    fn step(&mut self, life: u64, operation: Operation) -> io::Result<bool> {
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

    /// What an operation says that was carried out.
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

    /// The power goes off, if it has not, and on again: loses what was not synced, by `seed`.
    /// Faults that were told and have not come are forgotten; capacity and lies stay.
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

    /// The process ends and comes again; the system keeps what it has, synced or not.
    pub fn kill(&self) -> Torn {
        self.next_life(&mut self.world.lock())
    }

    fn next_life(&self, world: &mut World) -> Torn {
        world.life += 1;
        world.off = false;
        world.off_at = u64::MAX;
        world.locked = false;
        world.fault = None;
        Torn { world: self.world.clone(), life: world.life }
    }

    /// So many bytes fit in all; [`u64::MAX`] is no limit.
    pub fn set_capacity(&self, bytes: u64) {
        self.world.lock().capacity = bytes;
    }

    /// The next such operation fails, or the one that comes after so many others of its kind.
    pub fn fail(&self, operation: Operation, after: u64) {
        self.world.lock().fault = Some((operation, after));
    }

    /// The power goes off during the operation that comes after so many others, of any kind but
    /// reads.
    pub fn power_off_after(&self, operations: u64) {
        let mut world = self.world.lock();
        world.off_at = world.operations + operations + 1;
    }

    /// The power goes off now.
    pub fn power_off(&self) {
        self.world.lock().off = true;
    }

    /// What changes there were so far.
    pub fn operations(&self) -> u64 {
        self.world.lock().operations
    }

    /// Whether the power is on.
    pub fn is_on(&self) -> bool {
        let world = self.world.lock();
        !world.off && world.life == self.life
    }

    /// The device lies from now on.
    pub fn lie(&self, lie: Lie) {
        self.world.lock().lie = Some(lie);
    }

    /// Takes the end of a durable file away, as a bad disk or a hand does: `length` bytes are left.
    /// `false` when there is no such file.
    pub fn cut(&self, name: &str, length: u64) -> bool {
        let mut world = self.world.lock();
        let Ok(inode) = world.inode(name) else { return false };
        world.inodes[inode].cut(length as usize);
        true
    }

    /// Changes bits of a file that lasts, as bad memory or a bad disk does: the byte at `offset`
    /// becomes itself exclusive-or `bits`. `false` when there is no such byte.
    pub fn damage(&self, name: &str, offset: u64, bits: u8) -> bool {
        let mut world = self.world.lock();
        let Ok(inode) = world.inode(name) else { return false };
        world.inodes[inode].damage(offset as usize, bits)
    }
}
