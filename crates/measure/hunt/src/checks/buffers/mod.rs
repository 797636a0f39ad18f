//! Whether what was seen of buffered writes is what their order promises (docs/consistency.md).
//!
//! Every task has one word in every line, its *slot*, and numbers its writes 1, 2, 3...; the tasks
//! of one worker share a buffer and are one *writer*. So a reader of a line sees, of each task,
//! which write it has come to, and the judge knows for every slot the least that may be seen there:
//! its *floor*.
//!
//! | what happens | what everybody sees from then on |
//! | --- | --- |
//! | somebody else sees a write | that write; with a total order also all writes of its writer before it |
//! | a fence, an update or a `leave` ends | all that the writer wrote before it began |
//! | a write's deadline passes | that write, if it is not lost |
//!
//! Writes that are told as lost are seen by nobody, and told once. A writer always sees its own
//! last write.

use std::collections::{BTreeMap, BTreeSet};

use latchwork_runtime::Time;

use super::Verdict;
use crate::Check;
use crate::scenario::StoreOrder;

/// When something happened, and its number among all things that happened on its thread. In a
/// world, which has one thread, that is the order of all.
pub(crate) type Stamp = (Time, u64);

/// A task's slot in a line, which both have a number.
type Slot = (usize, usize);

/// What a task did.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    /// A write was issued: the line, its number, and until when it is visible if it is not lost.
    Wrote { line: usize, number: u64, issued: Time, by: Time },
    /// An update has begun, which may write this or not.
    Updating { line: usize, number: u64 },
    /// It has ended.
    Updated { line: usize, number: u64 },
    /// A fence has ended, or the writer has left.
    Fenced { left: bool },
    /// All slots of a line were read.
    Saw { line: usize, slots: Vec<u64> },
    /// Writes to one slot were told as lost: those issued from then on, up to this number.
    Lost { line: usize, task: usize, last: u64, from: Time },
}

/// A deed. Kept in the order in which deeds of one thread took effect.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Who did it; `None` for somebody who only looks.
    pub(crate) who: Option<Who>,
    pub(crate) began: Stamp,
    pub(crate) ended: Stamp,
    pub(crate) deed: Deed,
}

/// A task, and whose writer it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Who {
    pub(crate) task: usize,
    pub(crate) writer: usize,
}

/// A write that was issued.
struct Issued {
    slot: Slot,
    number: u64,
    issued: Time,
    by: Time,
    ended: Stamp,
    lost: bool,
    /// It was visible when it ended.
    update: bool,
}

#[derive(Default)]
struct Writer {
    /// In the order in which they took effect.
    writes: Vec<Issued>,
    /// So many of the first are visible to all.
    visible: usize,
    left: bool,
}

/// Something that raises floors, or is held against them.
enum Step<'a> {
    /// So many first writes of a writer are visible.
    First { writer: usize, count: usize },
    /// One write is.
    One { slot: Slot, number: u64 },
    /// A read began.
    Read(&'a Event),
    /// A read ended.
    Seen(&'a Event),
}

struct Judge<'a> {
    order: StoreOrder,
    events: &'a [Event],
    writers: BTreeMap<usize, Writer>,
    /// Whose write it is, and which of them.
    places: BTreeMap<(Slot, u64), (usize, usize)>,
    /// What an update that did not end may have written.
    perhaps: BTreeSet<(Slot, u64)>,
    floors: BTreeMap<Slot, u64>,
}

/// Judges what was seen.
pub(crate) fn check(order: StoreOrder, events: &[Event]) -> Verdict {
    let mut judge = Judge {
        order,
        events,
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
    Err((Check::StoreOrder, text))
}

impl<'a> Judge<'a> {
    /// All writes of all writers, and which of them were lost.
    fn gather(&mut self) -> Verdict {
        for Event { who, ended, deed, .. } in self.events {
            let Some(Who { task, writer }) = *who else { continue };
            let of = self.writers.entry(writer).or_default();
            let mut add = |line, number, (issued, by), update| {
                let slot = (line, task);
                self.places.insert((slot, number), (writer, of.writes.len()));
                let ended = *ended;
                let lost = false;
                of.writes.push(Issued { slot, number, issued, by, ended, lost, update });
            };
            match *deed {
                Deed::Wrote { line, number, issued, by } => add(line, number, (issued, by), false),
                Deed::Updated { line, number } => add(line, number, (ended.0, ended.0), true),
                Deed::Updating { line, number } => {
                    self.perhaps.insert(((line, task), number));
                }
                Deed::Fenced { left } => of.left |= left,
                Deed::Saw { .. } | Deed::Lost { .. } => {}
            }
        }
        for Event { who, deed, .. } in self.events {
            let (Some(Who { writer, .. }), &Deed::Lost { line, task, last, from }) = (*who, deed)
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

    /// Whoever reads what its own writer wrote sees the last of it that is not lost.
    fn own_writes(&self) -> Verdict {
        let mut last: BTreeMap<(usize, Slot), Vec<u64>> = BTreeMap::new();
        for event in self.events {
            let Some(Who { task, writer }) = event.who else { continue };
            match &event.deed {
                Deed::Wrote { line, number, .. } | Deed::Updated { line, number } => {
                    last.entry((writer, (*line, task))).or_default().push(*number);
                }
                &Deed::Lost { line, task, last: end, from } => {
                    let numbers = last.entry((writer, (line, task))).or_default();
                    numbers.retain(|number| {
                        let (_, at) = self.places[&((line, task), *number)];
                        let write = &self.writers[&writer].writes[at];
                        !(write.lost && *number <= end && write.issued >= from)
                    });
                }
                Deed::Saw { line, slots } => {
                    for (task, saw) in slots.iter().enumerate() {
                        let slot = (*line, task);
                        let Some(numbers) = last.get(&(writer, slot)) else { continue };
                        let own = numbers.last().copied().unwrap_or(0);
                        // An update of a task that has not come back from it.
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
                Deed::Updating { .. } | Deed::Fenced { .. } => {}
            }
        }
        Ok(())
    }

    /// Goes through all that happened in the order of time.
    fn go_through(&mut self) -> Verdict {
        let mut steps: Vec<(Stamp, Step<'a>)> = Vec::new();
        for event in self.events {
            match (&event.deed, event.who) {
                (Deed::Fenced { .. } | Deed::Updated { .. }, Some(Who { writer, .. })) => {
                    let writes = &self.writers[&writer].writes;
                    let count = writes.partition_point(|write| write.ended < event.began);
                    steps.push((event.ended, Step::First { writer, count }));
                }
                (Deed::Saw { .. }, _) => {
                    steps.push((event.began, Step::Read(event)));
                    steps.push((event.ended, Step::Seen(event)));
                }
                _ => {}
            }
        }
        for Writer { writes, left, .. } in self.writers.values() {
            for write in writes.iter().filter(|write| !write.lost) {
                let (slot, number) = (write.slot, write.number);
                if write.update {
                    steps.push((write.ended, Step::One { slot, number }));
                } else if *left {
                    // A node that died had no time to tell.
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

    /// The first writes of a writer are visible, those aside that are lost.
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
        let Deed::Saw { line, slots } = &event.deed else { return Ok(()) };
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

    /// What others saw, everybody sees.
    fn seen(&mut self, event: &Event) -> Verdict {
        let Deed::Saw { line, slots } = &event.deed else { return Ok(()) };
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
            // Its own writer sees it before the others.
            if event.who.is_some_and(|who| who.writer == writer) {
                continue;
            }
            if self.writers[&writer].writes[at].lost {
                return wrong(format!(
                    "write {saw} of task {} was seen in line {line} at {}, and told as lost",
                    task + 1,
                    event.ended.0
                ));
            }
            self.raise(slot, *saw);
            if self.order == StoreOrder::Tso {
                self.all_visible(writer, at + 1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
