//! Placement of new tuples: a worker's tail, its known lines with room, and its strays. The tail is
//! the line to which the worker adds tuples first. A stray is a tuple to which nothing leads, left
//! by an operation that did not end.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use latchwork_cache::Hint;
use latchwork_coherence::LineLocks;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;
use smallvec::SmallVec;

use super::places::{LINES_MAX, Places, Stray};
use super::stop::Stop;
use super::{Heap, Patience};
use crate::page::{Edit, New, Page, format, tuple_size};
use crate::{RowId, TxnError};

/// The number of locked lines that are skipped before a new line is taken.
const LOCKED_MAX: usize = 4;
/// The maximum number of tuples that are placed together.
pub(crate) const RUN: usize = 16;
const _: () = assert!(LOCKED_MAX < LINES_MAX, "a locked line leaves others to choose from");

/// A tuple to which nothing leads yet. If this value is dropped, the tuple becomes a stray.
#[derive(Debug)]
pub(crate) struct Placed {
    id: Option<RowId>,
    /// See [`Stray::led_here`].
    led_here: Option<GlobalAddr>,
    home: Rc<RefCell<Places>>,
}

impl Placed {
    /// Keeps the tuple, and returns its row id.
    pub(crate) fn keep(&mut self) -> Option<RowId> {
        self.id.take()
    }

    pub(crate) fn id(&self) -> Option<RowId> {
        self.id
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        let led_here = self.led_here;
        let stray = self.id.take().map(|id| Stray { id, led_here });
        self.home.borrow_mut().strays.extend(stray);
    }
}

impl<M: LineLocks> Heap<M> {
    /// The minimum room, in bytes, of a line that the worker notes.
    pub(super) fn worth(&self) -> usize {
        self.memory.payload_len() / 8
    }

    pub(crate) fn placed(&self, id: RowId) -> Placed {
        strict_assert!(
            !self.locations.borrow().strays.iter().any(|stray| stray.id == id),
            "a row location is given out while it is a stray"
        );
        Placed { id: Some(id), led_here: None, home: self.locations.clone() }
    }

    /// A tuple to which nothing leads any more.
    pub(super) fn stray(&self, Stray { id, led_here }: Stray) -> Placed {
        let mut placed = self.placed(id);
        placed.led_here = led_here;
        placed
    }

    /// Places a tuple in a line that has room and no lock of another node. Nothing leads to the
    /// tuple yet.
    pub(crate) async fn place(&self, new: New<'_>) -> Result<Placed, TxnError> {
        let mut placed = SmallVec::new();
        self.place_run(&[new], &mut placed).await?;
        placed.pop().ok_or(TxnError::Doomed)
    }

    /// The fast path of a placement, a plain function: places tuples side by side into the tail, as
    /// many as fit. Returns the line and the slots. The result is `None` if nothing was placed: for
    /// example, the tail is not here, or the worker has strays.
    pub(crate) fn place_here<'n>(
        &self,
        run: impl Iterator<Item = New<'n>>,
    ) -> Option<(GlobalAddr, Range<usize>)> {
        let line = {
            let places = self.locations.borrow();
            places.strays.is_empty().then(|| places.lines.last()).flatten()?.0
        };
        let mut guard = self.memory.try_write_at(line, &self.tail).ok()?;
        let mut page = Page::open(guard.words(), self.table.0).ok()?;
        let (slots, dirty) = page.append(run, self.rows_max.into());
        guard.mark_dirty(dirty.range());
        drop(guard);
        if slots.is_empty() {
            return None;
        }
        let left = page.room(self.rows_max);
        self.locations.borrow_mut().note(line, left, self.worth());
        Some((line, slots))
    }

    /// Like [`place`](Heap::place), for several tuples: side by side, as far as lines have room.
    pub(crate) async fn place_run(
        &self,
        run: &[New<'_>],
        placed: &mut SmallVec<[Placed; RUN]>,
    ) -> Result<(), TxnError> {
        for new in run {
            self.check_row(new.key, new.value)?;
        }
        if self.has_strays() {
            self.tidy().await?;
        }
        let mut locked: SmallVec<[GlobalAddr; LOCKED_MAX]> = SmallVec::new();
        let mut left = run;
        while let Some(new) = left.first() {
            let size = tuple_size(new.key.len(), new.value.len());
            strict_assert!(
                size <= self.memory.payload_len(),
                "a row that was checked is longer than a line"
            );
            let known = match locked.len() {
                LOCKED_MAX => None,
                _ => self.locations.borrow().line_for(size, &locked),
            };
            let line = match known {
                Some(line) => line,
                None => self.extend().await?,
            };
            let mut slots = SmallVec::new();
            let placing =
                self.drive(Patience::NoWait, || self.place_step(line, left, &mut slots)).await;
            strict_assert!(slots.len() <= left.len(), "more rows are placed than came");
            for &slot in &slots {
                placed.push(self.placed(RowId::new(line, slot)));
            }
            match placing {
                Ok(Ok(())) => left = &left[slots.len()..],
                // The line has less room than was noted. The new value is noted now, so the next
                // choice is another line.
                Ok(Err(room)) if room < size => {}
                Ok(Err(_)) => {
                    return Err(TxnError::Corrupt { line, what: "full with room".into() });
                }
                Err(TxnError::Conflict(_)) => locked.push(line),
                Err(error) => return Err(error),
            }
        }
        strict_assert!(placed.len() >= run.len(), "a row has no location");
        Ok(())
    }

    /// Adds tuples to a page, in order, until the page has no room for the next one. Returns their
    /// slots in `slots`. The inner error is the room, if it was not enough for the first tuple.
    fn place_step(
        &self,
        line: GlobalAddr,
        run: &[New<'_>],
        slots: &mut SmallVec<[usize; RUN]>,
    ) -> Result<Result<(), usize>, Stop> {
        let broken = |broken| Stop::Broken(line, broken);
        let mut guard = self.memory.try_write_at(line, &self.tail).map_err(Stop::Need)?;
        let mut page = Page::open(guard.words(), self.table.0).map_err(broken)?;
        let mut end = Ok(());
        for new in run {
            end = match page.room(self.rows_max) {
                0 => Err(0),
                room => match page.insert(*new) {
                    Ok((slot, dirty)) => {
                        guard.mark_dirty(dirty.range());
                        slots.push(slot);
                        Ok(())
                    }
                    Err(Edit::Full) => Err(room),
                    // The tuples placed so far are in `slots`.
                    Err(Edit::Broken(what)) => return Err(broken(what)),
                },
            };
            if end.is_err() {
                break;
            }
        }
        let left = page.room(self.rows_max);
        drop(guard);
        self.locations.borrow_mut().note(line, left, self.worth());
        strict_assert!(slots.len() <= run.len(), "more rows are placed than came");
        Ok(if slots.is_empty() { end } else { Ok(()) })
    }

    /// Makes a new line the tail.
    async fn extend(&self) -> Result<GlobalAddr, TxnError> {
        let blank = self.locations.borrow_mut().blank.pop();
        let line = match blank {
            Some(line) => line,
            None => self.memory.allocate().await?,
        };
        let blank = Blank { line: Some(line), home: self.locations.clone() };
        // No other task knows the line.
        let room = self
            .drive(Patience::Wait, || {
                let mut guard = self.memory.try_write(line).map_err(Stop::Need)?;
                let dirty = format(guard.words(), self.table.0);
                guard.mark_dirty(dirty.range());
                let page = Page::open(guard.words(), self.table.0);
                let page = page.map_err(|broken| Stop::Broken(line, broken))?;
                Ok(page.header.room(guard.words().len()))
            })
            .await?;
        // Otherwise the death of this node may leave an index entry that leads to no page.
        self.memory.persist(line).await?;
        blank.keep();
        let mut places = self.locations.borrow_mut();
        let worth = self.worth();
        // Lines that are nearly full, such as the old tail, are dropped from the list.
        places.lines.retain(|(_, room)| *room >= worth);
        if places.lines.len() >= LINES_MAX {
            places.lines.remove(0);
        }
        strict_assert!(
            !places.lines.iter().any(|(known, _)| *known == line),
            "a new line is known"
        );
        places.lines.push((line, room));
        strict_assert!(
            places.lines.len() <= LINES_MAX,
            "the list of lines is longer than its bound"
        );
        Ok(line)
    }

    /// Whether this worker has strays. An outdated index entry may lead to the slot of a stray. A
    /// reader of that entry takes the stray for a pending row, and gets a conflict. So strays must
    /// be removed.
    pub(crate) fn has_strays(&self) -> bool {
        !self.locations.borrow().strays.is_empty()
    }

    /// Removes strays, except those in lines that a transaction of another node has locked: see
    /// [`has_strays`](Heap::has_strays).
    pub(crate) async fn tidy(&self) -> Result<(), TxnError> {
        let strays = self.locations.borrow().strays.len();
        for _ in 0..strays {
            let stray = self.locations.borrow_mut().strays.pop();
            let Some(of) = stray else { return Ok(()) };
            let Stray { id, led_here } = of;
            let mut stray = self.stray(of);
            if let Some(home) = led_here {
                // Otherwise the death of this node may leave a stub that leads to nothing.
                self.memory.persist(home).await?;
            }
            let (line, slot) = (self.line_of(id), self.slot_of(id));
            let erase = || self.change(line, &Hint::default(), |page| page.erase(slot));
            match self.drive(Patience::NoWait, erase).await {
                Ok(()) => drop(stray.keep()),
                Err(TxnError::Conflict(_)) => {
                    // The stray moves to the front of the list. `pop` takes from the end, so this
                    // stray is tried last.
                    stray.keep();
                    self.locations.borrow_mut().strays.insert(0, Stray { id, led_here: None });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A line that is not yet a page. If this value is dropped, the line becomes the next tail.
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
