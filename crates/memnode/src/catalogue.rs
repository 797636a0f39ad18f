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

/// The table of named objects on memory node 0: tree roots, tables, counters. Entries are registered
/// once and never change. One per compute node, made by
/// [`Pool::catalogue`](crate::Pool::catalogue) and shared by its workers; it remembers what it has read.
///
/// ```text
///   directory  | 3 | 1 | 4 | 0 | 0 ..      a word names a record, number plus one; filled in order
///                │   │   │
///   records   | . | b | . | a | c |        | length u32, kind u32 | value | name, 48 bytes |
/// ```
///
/// To register, a node takes a record for itself by a fetch-and-add, fills it, and then enters it by
/// one compare-and-swap of the first empty directory word, which it knows to be the first since it
/// has read all before. So an entry is complete when it is visible, two entries never have the same
/// name (both would have to be the first behind the same words), and nobody ever waits for another. A
/// registration that is dropped half way costs a record and nothing else.
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

#[derive(Default)]
struct Known {
    /// The directory's entries, in its order.
    entries: Vec<Entry>,
    /// Records of this node that are in no directory word, left by registrations that lost.
    spare: Vec<u64>,
}

impl Known {
    fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

impl Catalogue {
    /// How often [`Catalogue::wait_for`] looks, at most.
    const LOOK_EVERY: Duration = Duration::from_millis(1);

    pub(crate) fn new() -> Catalogue {
        Catalogue { known: Mutex::default() }
    }

    /// Registers an object. When several nodes register one name at a time, one of them succeeds.
    ///
    /// # Errors
    /// [`PoolError::AlreadyExists`], [`PoolError::Name`], [`PoolError::CatalogueFull`], and failures of
    /// the fabric, after which the object may be registered or not.
    pub async fn register(
        &self,
        port: &Port,
        name: &str,
        kind: ObjectKind,
        value: u64,
    ) -> Result<(), PoolError> {
        let words = to_record(name, kind, value)?;
        let mut record = None;
        // Each turn finds an entry more than the last.
        for _ in 0..=NAMES {
            self.refresh(port).await?;
            let index = {
                let mut known = self.known.lock();
                if known.find(name).is_some() {
                    known.spare.extend(record);
                    return Err(PoolError::AlreadyExists { name: name.to_owned() });
                }
                known.entries.len()
            };
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
            // Nobody else enters this record: what stands there after an ambiguous end tells whose it is.
            let enter = async || port.compare_swap(layout::directory(index), 0, mine + 1).await;
            let found = repeatedly(enter).await?;
            if found == 0 || found == mine + 1 {
                return Ok(());
            }
        }
        self.known.lock().spare.extend(record);
        Err(PoolError::CatalogueFull { room: NAMES as u64, what: "names" })
    }

    /// The object with this name, if there is one.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`], and failures of the fabric.
    pub async fn lookup(&self, port: &Port, name: &str) -> Result<Option<Entry>, PoolError> {
        if let Some(entry) = self.known.lock().find(name) {
            return Ok(Some(entry.clone()));
        }
        self.refresh(port).await?;
        Ok(self.known.lock().find(name).cloned())
    }

    /// All objects, in the order in which they were registered.
    ///
    /// # Errors
    /// [`PoolError::Corrupt`], and failures of the fabric.
    pub async fn list(&self, port: &Port) -> Result<Vec<Entry>, PoolError> {
        self.refresh(port).await?;
        Ok(self.known.lock().entries.clone())
    }

    /// Waits until an object with this name is registered: for a node that joins while another still
    /// builds.
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
