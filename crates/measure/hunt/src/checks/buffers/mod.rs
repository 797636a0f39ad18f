//! Checks that reads of buffered writes agree with the order that the write buffer promises
//! (docs/concepts/consistency.md).
//!
//! Every task has one word in every line, its *slot*, and numbers its writes 1, 2, 3... The tasks
//! of one worker share a write buffer, and together are one *writer*. A reader of a line sees, for
//! each task, the number of the task's last visible write. For every slot, the check computes the
//! lowest number that a reader may see: the *floor* of the slot. Events raise floors:
//!
//! | event | visible to all readers after the event |
//! | --- | --- |
//! | a task of another writer sees a write | that write; with a total order also all earlier writes of its writer |
//! | a fence, an update or a `leave` ends | all writes of the writer before it began, and the update itself |
//! | a write's deadline passes, and its writer leaves later | that write, if it is not lost |
//!
//! Where lines of dead nodes are recovered, writes of a dead node may be undone, each line by
//! itself, unless a living node has seen them. Until a node dies nothing of it is undone. From then
//! on only what living nodes see raises floors of its writers, and no floor of another line.
//!
//! The check has three more rules. No other writer's task sees a write that is reported as lost.
//! Each lost write is reported once. A writer sees the last of its own writes that is not lost.

use std::collections::{BTreeMap, BTreeSet};

use latchwork_runtime::Time;

use super::Verdict;
use crate::WorldCheck;
use crate::scenario::ScenarioStoreOrder;

/// The time of an event, and its number among all events of its thread. A world has one thread, so
/// the stamps order all events of a world.
pub(crate) type Stamp = (Time, u64);

/// A task's slot in a line: the numbers of the line and the task.
type Slot = (usize, usize);

/// An action of a task.
#[derive(Clone, Debug)]
pub(crate) enum BufferAction {
    /// A write was issued. The write is visible at the time `by`, if the write is not lost.
    Wrote { line: usize, number: u64, issued: Time, by: Time },
    /// An update has begun. If it does not end, it may have written this number or not.
    Updating { line: usize, number: u64 },
    /// The update has ended.
    Updated { line: usize, number: u64 },
    /// A fence has ended, or the writer has left.
    Fenced { left: bool },
    /// All slots of a line were read.
    Saw { line: usize, slots: Vec<u64> },
    /// Writes to one slot were reported as lost: the writes issued at `from` or later, with numbers
    /// up to `last`.
    Lost { line: usize, task: usize, last: u64, from: Time },
}

/// An action with its begin and its end. The events of one thread are kept in the order of their
/// ends.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// The task, or `None` for the reader at the end.
    pub(crate) who: Option<Who>,
    pub(crate) began: Stamp,
    pub(crate) ended: Stamp,
    pub(crate) deed: BufferAction,
}

/// A task, and its writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Who {
    pub(crate) task: usize,
    pub(crate) writer: usize,
    pub(crate) node: usize,
}

/// The record of all tasks.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) all: Vec<Event>,
    /// The nodes whose writes may be undone, and the time of their death.
    pub(crate) dead: BTreeMap<usize, Time>,
}

/// A write that was issued.
struct Issued {
    slot: Slot,
    number: u64,
    issued: Time,
    by: Time,
    ended: Stamp,
    lost: bool,
    /// Whether the write is an update, which is visible when it ends.
    update: bool,
}

#[derive(Default)]
struct Writer {
    node: usize,
    /// All writes of the writer, in the order in which they were issued.
    writes: Vec<Issued>,
    /// The number of first writes that are visible to all readers.
    visible: usize,
    left: bool,
}

/// A step of the check: it raises floors, or compares a read with floors.
enum Step<'a> {
    /// The first `count` writes of a writer are visible.
    First { writer: usize, count: usize },
    /// One write is visible.
    One { slot: Slot, number: u64 },
    /// A read began. The read must not see less than the floors of this time.
    Read(&'a Event),
    /// A read ended. The read raises the floors of the writes that the read saw.
    Seen(&'a Event),
}

struct Judge<'a> {
    order: ScenarioStoreOrder,
    events: &'a [Event],
    /// The time up to which reads and fences count.
    until: Time,
    /// The nodes whose writes may be undone.
    dead: BTreeSet<usize>,
    writers: BTreeMap<usize, Writer>,
    /// For each write, its writer and its index among the writer's writes.
    places: BTreeMap<(Slot, u64), (usize, usize)>,
    /// The writes of updates that have begun, which may have taken effect or not.
    perhaps: BTreeSet<(Slot, u64)>,
    floors: BTreeMap<Slot, u64>,
}

/// Checks all reads.
pub(crate) fn check(order: ScenarioStoreOrder, events: &Events) -> Verdict {
    for death in events.dead.values() {
        let before = events.dead.iter().filter(|(_, since)| *since < death);
        check_until(order, &events.all, *death, before.map(|(node, _)| *node).collect())?;
    }
    check_until(order, &events.all, Time::MAX, events.dead.keys().copied().collect())
}

fn check_until(
    order: ScenarioStoreOrder,
    events: &[Event],
    until: Time,
    dead: BTreeSet<usize>,
) -> Verdict {
    let mut judge = Judge {
        order,
        events,
        until,
        dead,
        writers: BTreeMap::new(),
        places: BTreeMap::new(),
        perhaps: BTreeSet::new(),
        floors: BTreeMap::new(),
    };
    judge.gather()?;
    judge.own_writes()?;
    judge.go_through()
}

fn wrong(text: String) -> Verdict {
    Err((WorldCheck::StoreOrder, text))
}

impl<'a> Judge<'a> {
    /// Collects all writes of all writers, and marks the lost writes.
    fn gather(&mut self) -> Verdict {
        for Event { who, ended, deed, .. } in self.events {
            let Some(Who { task, writer, node }) = *who else { continue };
            let of = self.writers.entry(writer).or_default();
            of.node = node;
            let mut add = |line, number, (issued, by), update| {
                let slot = (line, task);
                self.places.insert((slot, number), (writer, of.writes.len()));
                let ended = *ended;
                let lost = false;
                of.writes.push(Issued { slot, number, issued, by, ended, lost, update });
            };
            match *deed {
                BufferAction::Wrote { line, number, issued, by } => {
                    add(line, number, (issued, by), false)
                }
                BufferAction::Updated { line, number } => {
                    add(line, number, (ended.0, ended.0), true)
                }
                BufferAction::Updating { line, number } => {
                    self.perhaps.insert(((line, task), number));
                }
                BufferAction::Fenced { left } => of.left |= left,
                BufferAction::Saw { .. } | BufferAction::Lost { .. } => {}
            }
        }
        for Event { who, deed, .. } in self.events {
            let (Some(Who { writer, .. }), &BufferAction::Lost { line, task, last, from }) =
                (*who, deed)
            else {
                continue;
            };
            let writes = self.writers.entry(writer).or_default().writes.iter_mut();
            let is_lost = |w: &&mut Issued| {
                w.slot == (line, task) && w.number <= last && w.issued >= from && !w.update
            };
            let mut any = false;
            for write in writes.filter(is_lost) {
                if std::mem::replace(&mut write.lost, true) {
                    return wrong(format!(
                        "write {} of task {} to line {line} was told twice as lost",
                        write.number,
                        task + 1
                    ));
                }
                any = true;
            }
            if !any {
                return wrong(format!(
                    "a write of task {} to line {line} was told as lost that was not issued: {last}",
                    task + 1
                ));
            }
        }
        Ok(())
    }

    /// Checks that a task that reads a slot of its own writer sees the last write that is not lost.
    fn own_writes(&self) -> Verdict {
        let mut last: BTreeMap<(usize, Slot), Vec<u64>> = BTreeMap::new();
        for event in self.events {
            let Some(Who { task, writer, .. }) = event.who else { continue };
            match &event.deed {
                BufferAction::Wrote { line, number, .. }
                | BufferAction::Updated { line, number } => {
                    last.entry((writer, (*line, task))).or_default().push(*number);
                }
                &BufferAction::Lost { line, task, last: end, from } => {
                    let numbers = last.entry((writer, (line, task))).or_default();
                    numbers.retain(|number| {
                        let (_, at) = self.places[&((line, task), *number)];
                        let write = &self.writers[&writer].writes[at];
                        !(write.lost && *number <= end && write.issued >= from)
                    });
                }
                BufferAction::Saw { line, slots } => {
                    for (task, saw) in slots.iter().enumerate() {
                        let slot = (*line, task);
                        let Some(numbers) = last.get(&(writer, slot)) else { continue };
                        let own = numbers.last().copied().unwrap_or(0);
                        // The number may be of an update in progress.
                        if *saw != own && !self.perhaps.contains(&(slot, *saw)) {
                            return wrong(format!(
                                "task {} of writer {writer} saw {saw} of its own writer's task {} in line {line} at {}, and {own} was the last",
                                event.who.map_or(0, |who| who.task + 1),
                                task + 1,
                                event.ended.0
                            ));
                        }
                    }
                }
                BufferAction::Updating { .. } | BufferAction::Fenced { .. } => {}
            }
        }
        Ok(())
    }

    /// Goes through all steps in the order of time.
    fn go_through(&mut self) -> Verdict {
        let mut steps: Vec<(Stamp, Step<'a>)> = Vec::new();
        for event in self.events.iter().filter(|event| event.ended.0 <= self.until) {
            match (&event.deed, event.who) {
                (
                    BufferAction::Fenced { .. } | BufferAction::Updated { .. },
                    Some(Who { writer, .. }),
                ) => {
                    let Writer { node, writes, .. } = &self.writers[&writer];
                    if self.dead.contains(node) {
                        continue;
                    }
                    let count = writes.partition_point(|write| write.ended < event.began);
                    steps.push((event.ended, Step::First { writer, count }));
                }
                (BufferAction::Saw { .. }, _) => {
                    steps.push((event.began, Step::Read(event)));
                    steps.push((event.ended, Step::Seen(event)));
                }
                _ => {}
            }
        }
        let living = self.writers.values().filter(|writer| !self.dead.contains(&writer.node));
        for Writer { writes, left, .. } in living {
            for write in writes.iter().filter(|write| !write.lost) {
                let (slot, number) = (write.slot, write.number);
                if write.update {
                    steps.push((write.ended, Step::One { slot, number }));
                } else if *left {
                    // Only for writers that left: a node that died could not report its lost
                    // writes.
                    steps.push(((write.by, u64::MAX), Step::One { slot, number }));
                }
            }
        }
        steps.sort_by_key(|(at, _)| *at);
        for (_, step) in steps {
            match step {
                Step::First { writer, count } => self.all_visible(writer, count),
                Step::One { slot, number } => self.raise(slot, number),
                Step::Read(event) => self.held_against_floors(event)?,
                Step::Seen(event) => self.seen(event)?,
            }
        }
        Ok(())
    }

    fn raise(&mut self, slot: Slot, number: u64) {
        let floor = self.floors.entry(slot).or_default();
        *floor = number.max(*floor);
    }

    /// Raises the floors for the first `count` writes of a writer, except lost writes.
    fn all_visible(&mut self, writer: usize, count: usize) {
        let Some(of) = self.writers.get_mut(&writer) else { return };
        let from = of.visible;
        of.visible = count.max(from);
        for write in of.writes[..of.visible].iter().skip(from).filter(|write| !write.lost) {
            let floor = self.floors.entry(write.slot).or_default();
            *floor = write.number.max(*floor);
        }
    }

    fn held_against_floors(&self, event: &Event) -> Verdict {
        let BufferAction::Saw { line, slots } = &event.deed else { return Ok(()) };
        for (task, saw) in slots.iter().enumerate() {
            let floor = self.floors.get(&(*line, task)).copied().unwrap_or(0);
            if *saw < floor {
                let reader = event.who.map_or_else(
                    || "somebody who looks at the end".to_owned(),
                    |who| format!("task {}", who.task + 1),
                );
                return wrong(format!(
                    "{reader} saw write {saw} of task {} in line {line}, from {} to {}, and {floor} was visible before",
                    task + 1,
                    event.began.0,
                    event.ended.0
                ));
            }
        }
        Ok(())
    }

    /// Raises the floors for the writes that a read saw, if another writer issued them.
    fn seen(&mut self, event: &Event) -> Verdict {
        let BufferAction::Saw { line, slots } = &event.deed else { return Ok(()) };
        for (task, saw) in slots.iter().enumerate().filter(|(_, saw)| **saw > 0) {
            let slot = (*line, task);
            let Some(&(writer, at)) = self.places.get(&(slot, *saw)) else {
                if self.perhaps.contains(&(slot, *saw)) {
                    continue;
                }
                return wrong(format!(
                    "write {saw} of task {} was seen in line {line} at {}, and was never issued",
                    task + 1,
                    event.ended.0
                ));
            };
            let Writer { node, writes, .. } = &self.writers[&writer];
            let may_be_undone = self.dead.contains(node);
            // A task sees the writes of its own writer before other tasks do.
            if event.who.is_some_and(|who| {
                who.writer == writer || may_be_undone && self.dead.contains(&who.node)
            }) {
                continue;
            }
            if writes[at].lost {
                return wrong(format!(
                    "write {saw} of task {} was seen in line {line} at {}, and told as lost",
                    task + 1,
                    event.ended.0
                ));
            }
            self.raise(slot, *saw);
            if self.order == ScenarioStoreOrder::Tso && !may_be_undone {
                self.all_visible(writer, at + 1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
