//! [`Catalogue`]: named objects that a joining node can find.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use latchwork_fabric::Port;
use latchwork_runtime::sync::Mutex;
use latchwork_runtime::{Handle, Time};
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::WORD;

use crate::PoolError;
use crate::again::repeatedly;
use crate::layout::{self, NAME_MAX, NAMES, RECORD_WORDS, RECORDS};

const _: () =
    assert!(NAME_MAX > 0 && NAME_MAX <= 48, "the page of the catalogue draws 48 bytes for a name");
const _: () = assert!(NAMES as u64 <= RECORDS, "each name has a record");

/// The kind of the object that an entry names. The users of the catalogue define the numbers. The
/// kinds that several programs share have their numbers here, so that no two are the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectKind(pub u32);

impl ObjectKind {
    /// A B-link tree. The value is the address of its root.
    pub const TREE: ObjectKind = ObjectKind(1);
    /// A database without a log. The value is the address of its root.
    pub const DATABASE: ObjectKind = ObjectKind(2);
    /// A database with a log. The value is the address of its root.
    pub const LOGGED_DATABASE: ObjectKind = ObjectKind(3);
    /// An R-tree. The value is the address of its root.
    pub const RTREE: ObjectKind = ObjectKind(4);
    /// A tree without a coherent cache. The value is the address of its anchor.
    pub const SHERMAN: ObjectKind = ObjectKind(5);
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ObjectKind::TREE => f.write_str("a tree"),
            ObjectKind::DATABASE => f.write_str("a database without a log"),
            ObjectKind::LOGGED_DATABASE => f.write_str("a database with a log"),
            ObjectKind::RTREE => f.write_str("an R-tree"),
            ObjectKind::SHERMAN => f.write_str("a tree without a coherent cache"),
            ObjectKind(number) => write!(f, "an object of kind {number}"),
        }
    }
}

/// A registered object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatalogueEntry {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: ObjectKind,
    /// The value by which its kind finds the object: in general the address of the root line.
    pub value: u64,
}

/// The table of named objects on memory node 0: tree roots, tables, counters. A name stays
/// permanently, and the number of names is limited. The object of a name can be removed, and
/// another object registered under the name. [`Pool::catalogue`](crate::Pool::catalogue) creates a
/// `Catalogue`, which keeps a copy of all entries that it has read. So a caller that removes an
/// object must ensure that no node uses a copy of the entry.
///
/// ```text
///   directory  | 3 | 1 | 4 | 0 | 0 ..      a word names a record, number plus one; filled in order
///                │   │   │
///   records   | . | b | . | a | c |        | length u32, kind u32 | value | name, 48 bytes |
/// ```
///
/// Registration has three steps:
///
/// 1. The node takes a record for itself by a fetch-and-add.
/// 2. The node fills the record.
/// 3. The node enters the record by one compare-and-swap of the first empty directory word. The
///    node has read all earlier words, so the node knows that this word is the first empty one.
///
/// Hence:
///
/// - An entry is complete when it is visible.
/// - Two entries never have the same name. The node of the later entry has read all earlier
///   directory words, and so the earlier entry with its name.
/// - No node waits for another.
/// - A registration with a dropped future takes effect or not. Such a registration costs at most
///   one record.
///
/// Only the value of a record changes, by compare-and-swap. The removal of the object sets the
/// value to [`u64::MAX`], which stands for no object. The next registration of the name sets the
/// value of the new object. So a name keeps its record permanently, and the reuse of a name takes
/// no further record.
///
/// ```
/// # use latchwork_fabric::{AnyFabric, Port};
/// # use latchwork_memnode::{Geometry, ObjectKind, Pool, PoolError};
/// # use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
/// # use latchwork_verbs::ComputeNodeId;
/// # let fabric = AnyFabric::from(latchwork_verbs_shm::ShmFabric::default());
/// # let bytes = 1 << 20;
/// # let memory = fabric.add_memory_node(bytes).unwrap();
/// # let node = ComputeNodeId::new(1).unwrap();
/// # fabric.add_compute_node(node).unwrap();
/// # let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
/// # let port = Port::new(&fabric, node, &executor.handle()).unwrap();
/// # executor.handle().add_poller(port.poller());
/// # executor.block_on(async {
/// let geometry = Geometry::new(64 << 10, 512)?;
/// let pool = Pool::format(&port, &[(memory, bytes as u64)], geometry, 1).await?;
/// let catalogue = pool.catalogue();
/// catalogue.register(&port, "usertable", ObjectKind(1), 0x10400).await?;
/// let entry = catalogue.lookup(&port, "usertable").await?.expect("just registered");
/// assert_eq!(entry.value, 0x10400);
/// # Ok::<(), PoolError>(())
/// # }).unwrap();
/// ```
pub struct Catalogue {
    known: Mutex<Known>,
}

/// The value of a record without an object. No object has this value.
const NONE: u64 = u64::MAX;

#[derive(Default)]
struct Known {
    /// The entries of the directory, in its order.
    entries: Vec<CatalogueEntry>,
    /// The records of the entries.
    records: Vec<u64>,
    /// Records of this node that no directory word names, left by registrations that lost a race.
    spare: Vec<u64>,
}

impl Known {
    fn find(&self, name: &str) -> Option<usize> {
        strict_assert_eq!(self.entries.len(), self.records.len(), "each entry has a record");
        self.entries.iter().position(|entry| entry.name == name)
    }

    /// The entry at this index if it has an object, and otherwise its record.
    fn object(&self, at: usize) -> Result<CatalogueEntry, u64> {
        let entry = &self.entries[at];
        if entry.value == NONE { Err(self.records[at]) } else { Ok(entry.clone()) }
    }
}

impl Catalogue {
    /// The time between two lookups of [`Catalogue::wait_for`], except before its deadline.
    const LOOK_EVERY: Duration = Duration::from_millis(1);

    pub(crate) fn new() -> Catalogue {
        Catalogue { known: Mutex::default() }
    }

    /// Registers an object. When several nodes register one name at the same time with different
    /// values, one of them succeeds. A name whose object was removed is free for another object of
    /// the same kind.
    ///
    /// # Errors
    /// [`PoolError::AlreadyExists`], [`PoolError::Name`], [`PoolError::Value`],
    /// [`PoolError::CatalogueFull`], [`PoolError::Corrupt`], and failures of the fabric, after
    /// which the object may be registered or not.
    pub async fn register(
        &self,
        port: &Port,
        name: &str,
        kind: ObjectKind,
        value: u64,
    ) -> Result<(), PoolError> {
        let words = to_record(name, kind, value)?;
        if value == NONE {
            return Err(PoolError::Value { value });
        }
        let mut record = None;
        // Each iteration finds at least one entry more than the last.
        for _ in 0..=NAMES {
            self.refresh(port).await?;
            let (index, found) = {
                let mut known = self.known.lock();
                let found = known.find(name);
                strict_assert!(
                    known.records.iter().all(|&record| record < RECORDS),
                    "a record outside the table"
                );
                known.spare.extend(record.take_if(|_| found.is_some()));
                strict_assert!(
                    known.entries.len() <= NAMES,
                    "more names than the directory has words"
                );
                (known.entries.len(), found)
            };
            if let Some(at) = found {
                return self.register_again(port, at, kind, value).await;
            }
            if index == NAMES {
                break;
            }
            let mine = match record {
                Some(mine) => mine,
                None => {
                    let mine = self.take_record(port).await?;
                    port.write_words(layout::record(mine), &words).await?;
                    *record.insert(mine)
                }
            };
            strict_assert!(mine < RECORDS, "a record outside the table was taken");
            // No other node enters this record. So after an ambiguous outcome the word shows
            // whether this registration took effect.
            let enter = async || port.compare_swap(layout::directory(index), 0, mine + 1).await;
            let found = repeatedly(enter).await?;
            if found == 0 || found == mine + 1 {
                return Ok(());
            }
        }
        self.known.lock().spare.extend(record);
        Err(PoolError::CatalogueFull { room: NAMES as u64, what: "names" })
    }

    /// Registers an object under a name that has a directory entry.
    async fn register_again(
        &self,
        port: &Port,
        at: usize,
        kind: ObjectKind,
        value: u64,
    ) -> Result<(), PoolError> {
        let (entry, record) = {
            let known = self.known.lock();
            strict_assert!(at < known.entries.len(), "an entry disappeared");
            (known.entries[at].clone(), known.records[at])
        };
        let exists = Err(PoolError::AlreadyExists { name: entry.name });
        if entry.value != NONE || entry.kind != kind {
            return exists;
        }
        // Of two nodes that register the name, the second finds the value of the first. After an
        // ambiguous outcome, a node may find its own value. Then its registration took effect: the
        // value of another object would differ.
        let enter = async || port.compare_swap(layout::record_value(record), NONE, value).await;
        let found = repeatedly(enter).await?;
        strict_assert!(value != NONE, "an object is registered as none");
        let is_mine = found == NONE || found == value;
        self.known.lock().entries[at].value = if is_mine { value } else { found };
        if is_mine { Ok(()) } else { exists }
    }

    /// Removes the object of a name, if there is one. Then the name is free for another object.
    /// Returns `false` if this catalogue finds no object, if another node has removed the object,
    /// or if the name has another object by now. After an unknown outcome of its verb, a call that
    /// finds no object returns `true`, although another node may have removed the object. The
    /// caller must ensure that no node uses the object any more, whenever that node found it.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`], and failures of the fabric.
    pub async fn remove(&self, port: &Port, name: &str) -> Result<bool, PoolError> {
        let Some(entry) = self.lookup(port, name).await? else { return Ok(false) };
        let (at, record) = {
            let known = self.known.lock();
            strict_assert!(known.find(&entry.name).is_some(), "a name that was found is not known");
            let at = known.find(name).unwrap_or_default();
            (at, known.records[at])
        };
        let value = layout::record_value(record);
        let tries = Cell::new(0);
        let attempt = async || {
            tries.set(tries.get() + 1);
            port.compare_swap(value, entry.value, NONE).await
        };
        let found = repeatedly(attempt).await?;
        // The next lookup of this name reads the present value again.
        self.known.lock().entries[at].value = NONE;
        // After an unknown outcome, the earlier attempt may have removed the object.
        Ok(found == entry.value || found == NONE && tries.get() > 1)
    }

    /// Replaces the object `old` of a name, as this catalogue has read it, by `new`, and removes
    /// the objects of all names for which `goes` says so. Returns `false`, and changes nothing, if
    /// the name has another object by now. Of two nodes that replace an object, one succeeds; `new`
    /// is no object that another node registers under this name. The caller must ensure what
    /// [`remove`](Catalogue::remove) asks for.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`], and failures of the fabric.
    pub async fn replace(
        &self,
        port: &Port,
        name: &str,
        (old, new): (u64, u64),
        goes: impl Fn(&str) -> bool,
    ) -> Result<bool, PoolError> {
        let Some(entry) = self.lookup(port, name).await? else { return Ok(false) };
        let at = self.known.lock().find(&entry.name).unwrap_or_default();
        let record = self.known.lock().records[at];
        let value = layout::record_value(record);
        let found = repeatedly(async || port.compare_swap(value, old, new).await).await?;
        if found != old && found != new {
            return Ok(false);
        }
        self.known.lock().entries[at].value = new;
        self.refresh(port).await?;
        let all: Vec<_> = {
            let known = self.known.lock();
            let all = known.entries.iter().zip(&known.records).enumerate();
            all.filter(|(_, (entry, _))| goes(&entry.name)).map(|(at, (_, &it))| (at, it)).collect()
        };
        for (at, record) in all {
            // The copies may be older than the objects.
            let entry = read_record(port, record).await?;
            let value = layout::record_value(record);
            repeatedly(async || port.compare_swap(value, entry.value, NONE).await).await?;
            self.known.lock().entries[at].value = NONE;
        }
        Ok(true)
    }

    /// The object with this name, if there is one. An object that this catalogue has read before is
    /// returned from the copy, even if another node has removed the object since.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`], and failures of the fabric.
    pub async fn lookup(
        &self,
        port: &Port,
        name: &str,
    ) -> Result<Option<CatalogueEntry>, PoolError> {
        let known = |known: &Known| known.find(name).map(|at| (at, known.object(at)));
        let mut found = known(&self.known.lock());
        if found.is_none() {
            self.refresh(port).await?;
            found = known(&self.known.lock());
        }
        match found {
            None => Ok(None),
            Some((_, Ok(entry))) => Ok(Some(entry)),
            // The name may have another object by now.
            Some((at, Err(record))) => {
                let entry = read_record(port, record).await?;
                self.known.lock().entries[at].clone_from(&entry);
                Ok((entry.value != NONE).then_some(entry))
            }
        }
    }

    /// All objects, in the order of the first registration of their names. New names are read from
    /// the memory node. For a known name the result has the object, or none, that was read last.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`], and failures of the fabric.
    pub async fn list(&self, port: &Port) -> Result<Vec<CatalogueEntry>, PoolError> {
        self.refresh(port).await?;
        let known = self.known.lock();
        Ok(known.entries.iter().filter(|entry| entry.value != NONE).cloned().collect())
    }

    /// Waits until an object with this name is registered: for a node that joins while another node
    /// still builds the object.
    ///
    /// # Errors
    /// [`PoolError::NotFound`] at `deadline`, [`PoolError::Corrupt`], and failures of the fabric.
    pub async fn wait_for(
        &self,
        port: &Port,
        handle: &Handle,
        name: &str,
        deadline: Time,
    ) -> Result<CatalogueEntry, PoolError> {
        let start = handle.now();
        loop {
            if let Some(entry) = self.lookup(port, name).await? {
                return Ok(entry);
            }
            let now = handle.now();
            if now >= deadline {
                return Err(PoolError::NotFound { name: name.to_owned(), waited: now - start });
            }
            handle.sleep_until(deadline.min(now + Self::LOOK_EVERY)).await;
        }
    }

    /// Reads the directory from the last known entry to its end.
    async fn refresh(&self, port: &Port) -> Result<(), PoolError> {
        const WINDOW: usize = 16;
        loop {
            let first = self.known.lock().entries.len();
            let count = WINDOW.min(NAMES - first);
            strict_assert!(first <= NAMES, "more names than the directory has words");
            if count == 0 {
                return Ok(());
            }
            let words = port.read_words(layout::directory(first), count).await?;
            for (index, &word) in (first..).zip(&words) {
                let Some(record) = word.checked_sub(1) else { return Ok(()) };
                let entry = read_record(port, record).await?;
                let mut known = self.known.lock();
                // Another task may have added the entry during the read.
                if known.entries.len() == index {
                    known.entries.push(entry);
                    strict_assert!(
                        known.records.iter().all(|&other| other != record),
                        "two names share record {record}"
                    );
                    known.records.push(record);
                }
                strict_assert!(
                    known.entries.len() > index,
                    "an entry that another task added is missing"
                );
            }
        }
    }

    async fn take_record(&self, port: &Port) -> Result<u64, PoolError> {
        if let Some(record) = self.known.lock().spare.pop() {
            return Ok(record);
        }
        let record = port.advance(layout::RECORD_COUNTER, 1).await?;
        if record < RECORDS {
            Ok(record)
        } else {
            Err(PoolError::CatalogueFull { room: RECORDS, what: "registrations" })
        }
    }
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.known.lock().entries).finish()
    }
}

fn to_record(name: &str, kind: ObjectKind, value: u64) -> Result<[u64; RECORD_WORDS], PoolError> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(PoolError::Name { name: name.to_owned() });
    }
    let mut words = [0; RECORD_WORDS];
    words[0] = name.len() as u64 | u64::from(kind.0) << 32;
    words[1] = value;
    for (word, bytes) in words[2..].iter_mut().zip(name.as_bytes().chunks(WORD)) {
        let mut padded = [0; WORD];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(padded);
    }
    Ok(words)
}

async fn read_record(port: &Port, record: u64) -> Result<CatalogueEntry, PoolError> {
    let corrupt = |addr| PoolError::Corrupt { what: "catalogue", addr };
    if record >= RECORDS {
        return Err(corrupt(layout::directory(0)));
    }
    let addr = layout::record(record);
    let words = port.read_words(addr, RECORD_WORDS).await?;
    let len = words[0] as u32 as usize;
    let bytes: Vec<u8> = words[2..].iter().flat_map(|word| word.to_le_bytes()).take(len).collect();
    match String::from_utf8(bytes) {
        Ok(name) if (1..=NAME_MAX).contains(&len) => {
            Ok(CatalogueEntry { name, kind: ObjectKind((words[0] >> 32) as u32), value: words[1] })
        }
        _ => Err(corrupt(addr)),
    }
}
