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
//!
//! Each line may return to an older version after a death. So a task persists a line before it puts
//! it into a slot, and the slots before it frees the line of one.

use std::cell::Cell;
use std::collections::BTreeMap;

use latchwork_cache::WriteGuard;
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_history::calls::{Call, MapKey, MapOperation};
use latchwork_runtime::Time;
use latchwork_verbs::{GlobalAddr, Words};

use super::client::{Client, Phase, Work};
use crate::WorldCheck;
use crate::checks::CheckResult;
use crate::checks::objects::Calls;
use crate::scenario::{MemoryLoad, SeededBug};

/// Maximum number of waits for a line in one operation: for the slots, for the line, and for the
/// allocation.
const ACCESSES_MAX: u32 = 8;

/// The workload. Its root is the line with the slots.
pub(super) struct Memory {
    load: MemoryLoad,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Put,
    Take,
    Look,
}

/// An operation on a slot. The stamp is for a line that the operation puts.
pub(super) struct Operation {
    kind: Kind,
    slot: u64,
    stamp: u64,
}

/// The record of all tasks.
#[derive(Default)]
pub(super) struct MemoryRecord {
    /// The calls on slots, which have the stamps of their lines as values.
    calls: Calls<MapOperation<u64>>,
    /// The number of full slots at the end, as an inspecting worker has read it.
    full: Option<u64>,
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
    pub(super) fn new(load: &MemoryLoad) -> Memory {
        Memory { load: load.clone() }
    }
}

impl Work for Memory {
    /// The number of the task's last operation.
    type Task = Cell<u64>;
    type Operation = Operation;
    type Record = MemoryRecord;
    const ALLOCATES: bool = true;

    async fn begin(_client: &Client<Self>, _phase: Phase) -> Option<Cell<u64>> {
        Some(Cell::new(0))
    }

    fn draw(client: &Client<Self>) -> Operation {
        let slot = client.below(client.of().load.slots);
        let number = client.task().get() + 1;
        client.task().set(number);
        let stamp = u64::from(client.process.number) << 32 | number;
        let kind = [Kind::Put, Kind::Take, Kind::Look][client.below(3) as usize];
        Operation { kind, slot, stamp }
    }

    async fn apply(client: &Client<Self>, Operation { kind, slot, stamp }: Operation) {
        match kind {
            Kind::Put => _ = client.at("put into", slot, client.put(slot, stamp)).await,
            Kind::Take => _ = client.at("take from", slot, client.take(slot)).await,
            Kind::Look => _ = client.at("look at", slot, client.look(slot)).await,
        }
    }

    async fn inspect(client: &Client<Self>) {
        let (mut full, mut all) = (0, true);
        for at in 0..client.of().load.slots {
            match client.at("look at", at, client.look(at)).await {
                Some(slot) => full += u64::from(!slot.is_empty()),
                None => all = false,
            }
        }
        if all {
            client.record(|record| record.full = Some(full));
        }
    }

    fn roots(&self) -> u64 {
        1
    }

    fn lines_in_use(&self, record: &MemoryRecord) -> Option<u64> {
        record.full.map(|full| full + 1)
    }

    fn merge(record: &mut MemoryRecord, more: MemoryRecord) {
        record.calls.merge(more.calls);
        record.full = record.full.or(more.full);
    }

    fn forget_unseen(record: &mut MemoryRecord, dead: &BTreeMap<usize, Time>) {
        record.calls.may_be_undone(dead);
    }

    fn judge(&self, record: &MemoryRecord) -> CheckResult {
        record.calls.check(&MapKey::new(), &None, "slot")
    }
}

impl Client<Memory> {
    async fn at<T>(
        &self,
        what: &'static str,
        at: u64,
        work: impl Future<Output = Result<T, MemoryError>>,
    ) -> Option<T> {
        self.entered(what, format!("slot {at}"), ACCESSES_MAX, work).await
    }

    /// Fills a new line, which no other task knows, and puts it into a slot. If the slot is full,
    /// frees the line.
    async fn put(&self, at: u64, stamp: u64) -> Result<(), MemoryError> {
        let (memory, observer) = (&self.member.memory, &self.shared.observer);
        let line = memory.allocate().await?;
        let filled = memory.write(line, |guard| {
            let words = guard.words();
            (0..words.len()).step_by(8).for_each(|byte| words.set_u64(byte, stamp));
            guard.mark_dirty(0..words.len());
            observer.tell_by(self.process, line, stamp);
        });
        filled.await?;
        memory.persist(line).await?;
        let invoked = self.now();
        let shown = memory.write(self.root(0), |guard| {
            let inserted = Slot::read(guard.words(), at).is_empty();
            if inserted {
                Slot { line, stamp }.write(guard, at);
            }
            self.add(at, invoked, MapOperation::Insert { value: stamp, inserted });
            inserted
        });
        if shown.await? {
            return Ok(());
        }
        observer.tell(line, None);
        self.free(line).await
    }

    async fn take(&self, at: u64) -> Result<(), MemoryError> {
        let (memory, invoked) = (&self.member.memory, self.now());
        let taken = memory.write(self.root(0), |guard| {
            let slot = Slot::read(guard.words(), at);
            let removed = !slot.is_empty();
            if removed {
                Slot::EMPTY.write(guard, at);
            }
            self.add(at, invoked, MapOperation::Remove { removed });
            slot
        });
        let slot = taken.await?;
        if slot.is_empty() {
            return Ok(());
        }
        self.shared.observer.tell(slot.line, None);
        if self.has_bug(SeededBug::ForgetsToFree) {
            return Ok(());
        }
        memory.persist(self.root(0)).await?;
        self.free(slot.line).await
    }

    /// Records a call on a slot that takes effect now, while the slots are latched: a task that
    /// dies before it has its answer has changed them, too.
    fn add(&self, slot: u64, invoked: Time, operation: MapOperation<u64>) {
        let call = Call { invoked, returned: Some(self.now()), operation };
        self.record(|record| record.calls.add(self.process.node, slot, call));
    }

    async fn free(&self, line: GlobalAddr) -> Result<(), MemoryError> {
        self.member.memory.free(line).await
    }

    /// Reads a slot, and checks that its line has the stamp of the slot.
    async fn look(&self, at: u64) -> Result<Slot, MemoryError> {
        let (memory, invoked) = (&self.member.memory, self.now());
        let slot = memory.read(self.root(0), |words| Slot::read(words, at)).await?;
        let found = (!slot.is_empty()).then_some(slot.stamp);
        self.add(at, invoked, MapOperation::Get { found });
        if slot.is_empty() {
            return Ok(slot);
        }
        let stranger = |words: Words<'_>| {
            let mut all = (0..words.len()).step_by(8).map(|byte| words.u64(byte));
            all.find(|word| *word != slot.stamp)
        };
        if let Some(found) = memory.read(slot.line, stranger).await? {
            let text = format!(
                "slot {at} says that {} carries {:#x}, and there is {found:#x}",
                slot.line, slot.stamp
            );
            self.wrong(WorldCheck::Values, text);
        }
        Ok(slot)
    }
}
