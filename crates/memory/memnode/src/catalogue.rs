//! [`Catalogue`]: named objects that a node which joins can find.

use std::fmt;
use std::time::Duration;

use latchwork_fabric::Port;
use latchwork_runtime::sync::Mutex;
use latchwork_runtime::{Handle, Time};
use latchwork_verbs::WORD;

use crate::PoolError;
use crate::again::repeatedly;
use crate::layout::{self, NAMES, RECORD_WORDS, RECORDS};

/// Longest name in bytes.
pub(crate) const NAME_MAX: usize = (RECORD_WORDS - 2) * WORD;

/// What kind of object an entry names. The numbers are the users' own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectKind(pub u32);

/// A registered object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ObjectKind,
    /// What its kind needs to find it: in general the address of its root line.
    pub value: u64,
}

/// The table of named objects on memory node 0: tree roots, tables, counters. Names stay for good,
/// of which there are so many and no more; the object of a name can be removed, and another one
/// registered under it. Made by [`Pool::catalogue`](crate::Pool::catalogue). It remembers what it
/// has read: whoever removes an object has seen to it that nobody goes on with what he found
/// before.
///
/// ```text
///   directory  | 3 | 1 | 4 | 0 | 0 ..      a word names a record, number plus one; filled in order
///                │   │   │
///   records   | . | b | . | a | c |        | length u32, kind u32 | value | name, 48 bytes |
/// ```
///
/// To register, a node takes a record for itself by a fetch-and-add, fills it, and then enters it
/// by one compare-and-swap of the first empty directory word, which it knows to be the first since
/// it has read all before. So an entry is complete when it is visible, two entries never have the
/// same name (both would have to be the first behind the same words), and nobody ever waits for
/// another. A registration that is dropped half way costs a record and nothing else.
///
/// The value of a record is the only word that changes: to a value that stands for none when the
/// object is removed, and from there to that of another one, by compare-and-swap. So a name has its
/// place for good, which is what makes it one of a kind, and names that are used again use up
/// nothing.
///
/// ```
/// # use latchwork_fabric::{Fabric, Port};
/// # use latchwork_memnode::{Geometry, ObjectKind, Pool, PoolError};
/// # use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
/// # use latchwork_verbs::ComputeNodeId;
/// # let fabric = Fabric::from(latchwork_verbs_shm::Fabric::default());
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

/// The value of a record whose object was removed. No object has it.
const NONE: u64 = u64::MAX;

#[derive(Default)]
struct Known {
    /// The directory's entries, in its order.
    entries: Vec<Entry>,
    /// Their records.
    records: Vec<u64>,
    /// Records of this node that are in no directory word, left by registrations that lost.
    spare: Vec<u64>,
}

impl Known {
    fn find(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.name == name)
    }

    /// The entry at this place, if it has an object, and else its record.
    fn object(&self, at: usize) -> Result<Entry, u64> {
        let entry = &self.entries[at];
        if entry.value == NONE { Err(self.records[at]) } else { Ok(entry.clone()) }
    }
}

impl Catalogue {
    /// How often [`Catalogue::wait_for`] looks, at most.
    const LOOK_EVERY: Duration = Duration::from_millis(1);

    pub(crate) fn new() -> Catalogue {
        Catalogue { known: Mutex::default() }
    }

    /// Registers an object. When several nodes register one name at a time, one of them succeeds. A
    /// name whose object was removed is free for another one of that kind.
    ///
    /// # Errors
    /// [`PoolError::AlreadyExists`], [`PoolError::Name`], [`PoolError::Value`],
    /// [`PoolError::CatalogueFull`], and failures of the fabric, after which the object may be
    /// registered or not.
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
        // Each turn finds an entry more than the last.
        for _ in 0..=NAMES {
            self.refresh(port).await?;
            let (index, found) = {
                let mut known = self.known.lock();
                let found = known.find(name);
                known.spare.extend(record.take_if(|_| found.is_some()));
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
            // Nobody else enters this record: what stands there after an ambiguous end tells whose
            // it is.
            let enter = async || port.compare_swap(layout::directory(index), 0, mine + 1).await;
            let found = repeatedly(enter).await?;
            if found == 0 || found == mine + 1 {
                return Ok(());
            }
        }
        self.known.lock().spare.extend(record);
        Err(PoolError::CatalogueFull { room: NAMES as u64, what: "names" })
    }

    /// Registers an object under a name that has its place already.
    async fn register_again(
        &self,
        port: &Port,
        at: usize,
        kind: ObjectKind,
        value: u64,
    ) -> Result<(), PoolError> {
        let (entry, record) = {
            let known = self.known.lock();
            (known.entries[at].clone(), known.records[at])
        };
        let exists = Err(PoolError::AlreadyExists { name: entry.name });
        if entry.value != NONE || entry.kind != kind {
            return exists;
        }
        // Of two that do this the second finds the first one's value. Its own, where the end was
        // ambiguous: two objects with one value would be one.
        let enter = async || port.compare_swap(layout::record_value(record), NONE, value).await;
        let found = repeatedly(enter).await?;
        let is_mine = found == NONE || found == value;
        self.known.lock().entries[at].value = if is_mine { value } else { found };
        if is_mine { Ok(()) } else { exists }
    }

    /// Removes the object of a name, if it has one; the name is free for another one then. The
    /// caller has seen to it that nobody goes on with it, found earlier or not.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`], and failures of the fabric.
    pub async fn remove(&self, port: &Port, name: &str) -> Result<bool, PoolError> {
        let Some(entry) = self.lookup(port, name).await? else { return Ok(false) };
        let (at, record) = {
            let known = self.known.lock();
            let at = known.find(name).unwrap_or_default();
            (at, known.records[at])
        };
        let value = layout::record_value(record);
        let found = repeatedly(async || port.compare_swap(value, entry.value, NONE).await).await?;
        // Whatever stands there now is read again when somebody asks.
        self.known.lock().entries[at].value = NONE;
        Ok(found == entry.value || found == NONE)
    }

    /// The object with this name, if there is one.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`], and failures of the fabric.
    pub async fn lookup(&self, port: &Port, name: &str) -> Result<Option<Entry>, PoolError> {
        let known = |known: &Known| known.find(name).map(|at| (at, known.object(at)));
        let mut found = known(&self.known.lock());
        if found.is_none() {
            self.refresh(port).await?;
            found = known(&self.known.lock());
        }
        match found {
            None => Ok(None),
            Some((_, Ok(entry))) => Ok(Some(entry)),
            // Another one may be there by now.
            Some((at, Err(record))) => {
                let entry = read_record(port, record).await?;
                self.known.lock().entries[at].clone_from(&entry);
                Ok((entry.value != NONE).then_some(entry))
            }
        }
    }

    /// All objects, in the order in which their names were registered first.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`], and failures of the fabric.
    pub async fn list(&self, port: &Port) -> Result<Vec<Entry>, PoolError> {
        self.refresh(port).await?;
        let known = self.known.lock();
        Ok(known.entries.iter().filter(|entry| entry.value != NONE).cloned().collect())
    }

    /// Waits until an object with this name is registered: for a node that joins while another
    /// still builds.
    ///
    /// # Errors
    /// [`PoolError::NotFound`] at `deadline`, [`PoolError::Corrupt`], and failures of the fabric.
    pub async fn wait_for(
        &self,
        port: &Port,
        handle: &Handle,
        name: &str,
        deadline: Time,
    ) -> Result<Entry, PoolError> {
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

    /// Reads the directory from what is known up to its end.
    async fn refresh(&self, port: &Port) -> Result<(), PoolError> {
        const WINDOW: usize = 16;
        loop {
            let first = self.known.lock().entries.len();
            let count = WINDOW.min(NAMES - first);
            if count == 0 {
                return Ok(());
            }
            let words = port.read_words(layout::directory(first), count).await?;
            for (index, &word) in (first..).zip(&words) {
                let Some(record) = word.checked_sub(1) else { return Ok(()) };
                let entry = read_record(port, record).await?;
                let mut known = self.known.lock();
                // Another task may have been here meanwhile.
                if known.entries.len() == index {
                    known.entries.push(entry);
                    known.records.push(record);
                }
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

async fn read_record(port: &Port, record: u64) -> Result<Entry, PoolError> {
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
            Ok(Entry { name, kind: ObjectKind((words[0] >> 32) as u32), value: words[1] })
        }
        _ => Err(corrupt(addr)),
    }
}
