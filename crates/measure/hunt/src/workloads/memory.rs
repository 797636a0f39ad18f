//! The workload `memory`: all nodes allocate lines, use them and free them.
//!
//! ```text
//!   slots, known to all:  | line, stamp | line, stamp | empty | ..     on one line of their own
//!
//!   put    allocate a line, write its stamp all over it, put it into an empty slot
//!   look   read a slot, then the line in it: it carries the stamp of the slot
//!   take   empty a slot, then free its line
//! ```
//!
//! An operation that has read a slot may read the slot's line, even if another task frees the line
//! meanwhile. The epochs prevent the reuse of the line until the operation has ended. So a reader
//! that finds another stamp has found a bug.

mod record;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use latchwork_cache::WriteGuard;
use latchwork_cluster::Member;
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_memnode::ObjectKind;
use latchwork_verbs::{GlobalAddr, Words};
use latchwork_workload::random::WorkloadRandom;

use super::load::{FIND_LIMIT, Load, Work, pass_time};
use super::record::Record;
use crate::WorldCheck;
use crate::scenario::{MemoryLoad, Scenario, SeededBug};
use crate::world::{Observer, Process};

pub(crate) use record::MemoryRecord;

const SLOTS: ObjectKind = ObjectKind(7);
const NAME: &str = "slots";

/// Maximum number of waits for a line in one operation: for the slots, for the line, and for the
/// allocation.
const ACCESSES_MAX: u32 = 8;

/// The workload.
pub(crate) struct Memory {
    load: MemoryLoad,
    operations: u64,
    seed: u64,
    plant: Option<SeededBug>,
    observer: Rc<Observer>,
    slots: Cell<GlobalAddr>,
    /// The number of full slots at the end, as an inspecting worker has read it.
    full: Cell<Option<u64>>,
    record: RefCell<MemoryRecord>,
}

/// The content of a slot: a line and its stamp.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot {
    line: GlobalAddr,
    stamp: u64,
}

impl Slot {
    const EMPTY: Slot = Slot { line: GlobalAddr::NULL, stamp: 0 };
    const LEN: usize = 16;

    fn read(words: Words<'_>, at: u64) -> Slot {
        let at = at as usize * Slot::LEN;
        Slot { line: GlobalAddr::from_bits(words.u64(at)), stamp: words.u64(at + 8) }
    }

    fn write(self, guard: &mut WriteGuard<'_>, at: u64) {
        let at = at as usize * Slot::LEN;
        guard.words().set_u64(at, self.line.bits());
        guard.words().set_u64(at + 8, self.stamp);
        guard.mark_dirty(at..at + Slot::LEN);
    }

    fn is_empty(self) -> bool {
        self == Slot::EMPTY
    }
}

impl Memory {
    pub(crate) fn new(scenario: &Scenario, load: &MemoryLoad, observer: &Rc<Observer>) -> Memory {
        Memory {
            operations: scenario.operations,
            seed: scenario.seed,
            plant: scenario.plant,
            observer: observer.clone(),
            slots: Cell::new(GlobalAddr::NULL),
            full: Cell::new(None),
            record: RefCell::default(),
            load: load.clone(),
        }
    }

    fn count(&self, count: impl FnOnce(&mut MemoryRecord)) {
        count(&mut self.record.borrow_mut());
    }
}

impl Load for Memory {
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            let make = async {
                let line = member.memory.allocate().await?;
                let clear = |guard: &mut WriteGuard<'_>| {
                    let end = guard.words().len();
                    guard.words().clear(0..end);
                    guard.mark_dirty(0..end);
                };
                member.memory.write(line, clear).await.map(|()| line)
            };
            self.slots.set(make.await.map_err(|error: MemoryError| error.to_string())?);
            Ok(())
        })
    }

    fn publish(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            let (port, slots) = (member.memory.port(), self.slots.get().bits());
            let done = member.catalogue.register(port, NAME, SLOTS, slots).await;
            done.map(drop).map_err(|error| error.to_string())
        })
    }

    fn find(self: Rc<Self>, member: Member) -> Work<Result<(), String>> {
        Box::pin(async move {
            let deadline = member.handle.now() + FIND_LIMIT;
            let port = member.memory.port();
            let found = member.catalogue.wait_for(port, &member.handle, NAME, deadline).await;
            let found = found.map_err(|error| error.to_string())?;
            self.slots.set(GlobalAddr::from_bits(found.value));
            Ok(())
        })
    }

    fn task(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let mut random = WorkloadRandom::for_stream(self.seed, u64::from(process.number));
            let client = Client { load: &self, member: &member, process };
            for number in 0..self.operations {
                let at = random.below(self.load.slots);
                let stamp = u64::from(process.number) << 32 | (number + 1);
                client.operation(at, stamp, random.below(3)).await;
                pass_time(&member).await;
            }
        })
    }

    fn finish(self: Rc<Self>, _member: Member, _process: Process) -> Work<()> {
        Box::pin(async {})
    }

    fn inspect(self: Rc<Self>, member: Member, process: Process) -> Work<()> {
        Box::pin(async move {
            let client = Client { load: &self, member: &member, process };
            let (mut full, mut all) = (0, true);
            for at in 0..self.load.slots {
                match client.observed("look at", at, client.look(at)).await {
                    Some(slot) => full += u64::from(!slot.is_empty()),
                    None => all = false,
                }
            }
            if all {
                self.full.set(Some(full));
            }
        })
    }

    fn lines_in_use(&self) -> Option<u64> {
        self.full.get().map(|full| full + 1)
    }

    fn take(&self) -> Record {
        Record::Memory(MemoryRecord { full: self.full.get(), ..self.record.take() })
    }
}

struct Client<'a> {
    load: &'a Memory,
    member: &'a Member,
    process: Process,
}

impl Client<'_> {
    async fn operation(&self, at: u64, stamp: u64, kind: u64) {
        match kind {
            0 => drop(self.observed("put into", at, self.put(at, stamp)).await),
            1 => drop(self.observed("take from", at, self.take(at)).await),
            _ => drop(self.observed("look at", at, self.look(at)).await),
        }
    }

    async fn observed<T>(
        &self,
        what: &'static str,
        at: u64,
        work: impl Future<Output = Result<T, MemoryError>>,
    ) -> Option<T> {
        let entered = async {
            let _operation = self.member.memory.enter().await?;
            work.await
        };
        let about = (what, format!("slot {at}"), ACCESSES_MAX);
        self.load.observer.operation(self.process, about, entered).await
    }

    /// Fills a new line, which no other task knows, and puts it into a slot. If the slot is full,
    /// frees the line.
    async fn put(&self, at: u64, stamp: u64) -> Result<(), MemoryError> {
        let (memory, observer) = (&self.member.memory, &self.load.observer);
        let line = memory.allocate().await?;
        let filled = memory.write(line, |guard| {
            let words = guard.words();
            (0..words.len()).step_by(8).for_each(|byte| words.set_u64(byte, stamp));
            guard.mark_dirty(0..words.len());
            observer.tell(line, Some(stamp));
        });
        filled.await?;
        let shown = memory.write(self.load.slots.get(), |guard| {
            let empty = Slot::read(guard.words(), at).is_empty();
            if empty {
                Slot { line, stamp }.write(guard, at);
            }
            empty
        });
        if shown.await? {
            self.load.count(|record| record.put += 1);
            return Ok(());
        }
        observer.tell(line, None);
        self.free(line).await
    }

    async fn take(&self, at: u64) -> Result<(), MemoryError> {
        let taken = self.member.memory.write(self.load.slots.get(), |guard| {
            let slot = Slot::read(guard.words(), at);
            if !slot.is_empty() {
                Slot::EMPTY.write(guard, at);
            }
            slot
        });
        let slot = taken.await?;
        if slot.is_empty() {
            return Ok(());
        }
        self.load.count(|record| record.taken += 1);
        self.load.observer.tell(slot.line, None);
        if self.load.plant == Some(SeededBug::ForgetsToFree) {
            return Ok(());
        }
        self.free(slot.line).await
    }

    async fn free(&self, line: GlobalAddr) -> Result<(), MemoryError> {
        self.member.memory.free(line).await
    }

    /// Reads a slot, and checks that its line has the stamp of the slot.
    async fn look(&self, at: u64) -> Result<Slot, MemoryError> {
        let memory = &self.member.memory;
        let slot = memory.read(self.load.slots.get(), |words| Slot::read(words, at)).await?;
        if slot.is_empty() {
            return Ok(slot);
        }
        let stranger = |words: Words<'_>| {
            let mut all = (0..words.len()).step_by(8).map(|byte| words.u64(byte));
            all.find(|word| *word != slot.stamp)
        };
        if let Some(found) = memory.read(slot.line, stranger).await? {
            let text = format!(
                "{}: slot {at} says that {} carries {:#x}, and there is {found:#x}",
                self.process, slot.line, slot.stamp
            );
            self.load.observer.fail(WorldCheck::Values, text);
        }
        Ok(slot)
    }
}
