//! Where tuples go: a worker's tail, lines where it knows of room, and tuples that nobody knows of.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::Heap;
use crate::page::{Edit, New, Page, format, tuple_size};
use crate::{TupleId, TxnError};

/// How many lines with room a worker remembers for each table. Room that it forgets is used by those
/// who change rows there.
const LINES_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Places {
    /// Lines and the bytes of a tuple that they had room for. The last one is the tail.
    lines: Vec<(GlobalAddr, usize)>,
    /// Lines that were allocated and are no pages yet.
    blank: Vec<GlobalAddr>,
    /// Tuples that nothing leads to.
    strays: Vec<TupleId>,
}

impl Places {
    fn line_for(&self, size: usize) -> Option<GlobalAddr> {
        self.lines.iter().rev().find(|(_, room)| *room >= size).map(|(line, _)| *line)
    }

    /// Notes how much room a line has; `least` is what makes it worth it.
    pub(super) fn note(&mut self, line: GlobalAddr, room: usize, least: usize) {
        match self.lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, known)) => *known = room,
            None if room < least => {}
            None => {
                if self.lines.len() >= LINES_MAX {
                    let least = self.lines.iter().enumerate().min_by_key(|(_, (_, room))| *room);
                    if let Some((at, _)) = least {
                        self.lines.remove(at);
                    }
                }
                // In front of the tail, which stays the first choice.
                let at = self.lines.len().saturating_sub(1);
                self.lines.insert(at, (line, room));
            }
        }
    }
}

/// A tuple that nothing leads to yet. Dropped, it is taken away later.
#[derive(Debug)]
pub(crate) struct Placed {
    id: Option<TupleId>,
    home: Rc<RefCell<Places>>,
}

impl Placed {
    /// Its name, which becomes known.
    pub(crate) fn keep(mut self) -> Option<TupleId> {
        self.id.take()
    }

    pub(crate) fn id(&self) -> Option<TupleId> {
        self.id
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.home.borrow_mut().strays.extend(self.id.take());
    }
}

impl<M: CoherentMemory> Heap<M> {
    /// Bytes of room that make a line worth remembering.
    pub(super) fn worth(&self) -> usize {
        self.memory.payload_len() / 8
    }

    pub(super) fn placed(&self, id: TupleId) -> Placed {
        Placed { id: Some(id), home: self.places.clone() }
    }

    /// Puts a tuple where there is room for it. Nothing leads to it yet.
    pub(crate) async fn place(&self, new: New<'_>) -> Result<Placed, TxnError> {
        let (len, max) = (new.key.len() + new.value.len(), self.row_max());
        let size = tuple_size(new.key.len(), new.value.len());
        if len > max || size > tuple_size(0, max) {
            return Err(TxnError::RowTooLong { len, max });
        }
        self.tidy().await?;
        loop {
            let line = self.places.borrow().line_for(size);
            let line = match line {
                Some(line) => line,
                None => self.extend().await?,
            };
            let put = self.memory.write(line, |guard| {
                let page = Page::open(guard.words(), self.table.0)?;
                let done = page.insert(new);
                if let Ok((_, dirty)) = &done {
                    guard.mark_dirty(dirty.range());
                }
                let room =
                    Page::open(guard.words(), self.table.0)?.header.room(guard.words().len());
                Ok::<_, Edit>((done, room))
            });
            let (done, room) = match put.await? {
                Ok(put) => put,
                Err(Edit::Broken(broken)) => return Err(self.corrupt(line, broken)),
                Err(Edit::Full) => return Err(TxnError::Corrupt { line, what: "no page".into() }),
            };
            self.places.borrow_mut().note(line, room, self.worth());
            match done {
                Ok((slot, _)) => return Ok(self.placed(TupleId::new(line, slot))),
                // Its room is less than was thought, which is noted now: the next choice is another.
                Err(Edit::Full) if room < size => {}
                Err(Edit::Full) => {
                    return Err(TxnError::Corrupt { line, what: "full with room".into() });
                }
                Err(Edit::Broken(broken)) => return Err(self.corrupt(line, broken)),
            }
        }
    }

    /// Makes a new line the tail.
    async fn extend(&self) -> Result<GlobalAddr, TxnError> {
        let blank = self.places.borrow_mut().blank.pop();
        let line = match blank {
            Some(line) => line,
            None => self.memory.allocate().await?,
        };
        let blank = Blank { line: Some(line), home: self.places.clone() };
        let room = self
            .memory
            .write(line, |guard| {
                let dirty = format(guard.words(), self.table.0);
                guard.mark_dirty(dirty.range());
                Page::open(guard.words(), self.table.0)
                    .map(|page| page.header.room(guard.words().len()))
            })
            .await?
            .map_err(|broken| self.corrupt(line, broken))?;
        blank.keep();
        let mut places = self.places.borrow_mut();
        let worth = self.worth();
        // Lines that are as good as full, the old tail among them, are forgotten.
        places.lines.retain(|(_, room)| *room >= worth);
        if places.lines.len() >= LINES_MAX {
            places.lines.remove(0);
        }
        places.lines.push((line, room));
        Ok(line)
    }

    /// Takes tuples away that nothing leads to.
    pub(super) async fn tidy(&self) -> Result<(), TxnError> {
        loop {
            let stray = self.places.borrow_mut().strays.pop();
            let Some(id) = stray else { return Ok(()) };
            let stray = self.placed(id);
            let line = self.line_of(id);
            let erased = self.change(line, |page| page.erase(self.slot_of(id), true)).await?;
            stray.keep();
            if let Err(Edit::Broken(broken)) = erased {
                return Err(self.corrupt(line, broken));
            }
        }
    }
}

/// A line that is no page yet. Dropped, it becomes the next tail.
struct Blank {
    line: Option<GlobalAddr>,
    home: Rc<RefCell<Places>>,
}

impl Blank {
    fn keep(mut self) {
        self.line = None;
    }
}

impl Drop for Blank {
    fn drop(&mut self) {
        self.home.borrow_mut().blank.extend(self.line.take());
    }
}
