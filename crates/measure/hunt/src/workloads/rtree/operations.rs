//! The operations of a task on the R-tree.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use latchwork_rtree::{Entry, RTreeError, Rect};
use latchwork_runtime::Time;

use super::model::{BoxOperation, D, Place, Window};
use super::{ACCESSES_MAX, Belief, Boxes, Found};
use crate::workloads::client::Client;
use crate::workloads::indexes::{Indexed, Polls};
use crate::{SeededBug, WorldCheck};

impl Client<Indexed<Boxes>> {
    /// The number of polls that this operation gets. Mostly it is unlimited.
    fn polls(&self) -> Polls {
        self.percent(self.load().load.dropped).then(|| 1 + self.below(20))
    }

    pub(super) fn boxes<T>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<T, RTreeError>>,
    ) -> impl Future<Output = Option<T>> {
        self.observed(what, "boxes", ACCESSES_MAX, Box::pin(work))
    }

    pub(super) fn window(&self) -> Rect<D> {
        let low = [self.below(34) as f64 - 1.0, self.below(34) as f64 - 1.0];
        let size = [self.below(16) as f64, self.below(16) as f64];
        let high = [low[0] + size[0], low[1] + size[1]];
        Rect::new(low, high).unwrap_or(Rect::EVERYTHING)
    }

    /// Inserts a box of this task that is not there, or moves or removes one that may be there.
    pub(super) async fn change(&self) -> Option<()> {
        let count = self.own().boxes.borrow().len() as u64;
        if count == 0 {
            let window = self.window();
            return self.boxes("query", self.query(window, false)).await.map(drop);
        }
        let at = self.below(count) as usize;
        let (n, belief) =
            self.own().boxes.borrow().iter().nth(at).map(|(n, belief)| (*n, *belief))?;
        // An error leaves this.
        self.own().boxes.borrow_mut().insert(n, Belief::Unknown);
        let believe = |then| {
            self.own().boxes.borrow_mut().insert(n, then);
        };
        match belief {
            Belief::Absent => {
                let number = self.number();
                let at = Place { n, insert: number, number };
                let inserted = self.boxes("insert", self.insert(at)).await?;
                believe(if inserted { Belief::At(at) } else { Belief::Unknown });
            }
            Belief::At(at) if self.below(3) > 0 => {
                let to = Place { number: self.number(), ..at };
                let moved = self.boxes("move", self.shift(at, to)).await?;
                believe(if moved { Belief::At(to) } else { Belief::Unknown });
            }
            Belief::At(at) => {
                let removed = self.boxes("remove", self.remove(at)).await?;
                believe(if removed { Belief::Absent } else { Belief::Unknown });
            }
            // Only this task inserts the box. So a box that a query does not show stays absent.
            Belief::Unknown => {
                let all = self.boxes("look for", self.everything()).await?;
                let last = all.iter().filter(|at| at.n == n).max_by_key(|at| at.insert);
                believe(last.map_or(Belief::Absent, |at| Belief::At(*at)));
            }
        }
        Some(())
    }

    /// Moves or removes a box of any task, where a query showed it last.
    pub(super) async fn change_any(&self, n: u64) -> Option<()> {
        let Some(at) = self.own().shown.borrow().get(&n).copied() else { return Some(()) };
        let done = match self.below(2) {
            0 => {
                let to = Place { number: self.number(), ..at };
                self.boxes("move", self.shift(at, to)).await
            }
            _ => self.boxes("remove", self.remove(at)).await,
        };
        done.map(drop)
    }

    fn number(&self) -> u64 {
        let changes = &self.own().changes;
        changes.set(changes.get() + 1);
        changes.get()
    }

    /// Inserts a box. `false`: the call was dropped.
    async fn insert(&self, at: Place) -> Result<bool, RTreeError> {
        let answered = Cell::new(false);
        let (rect, payload) = (at.rect(), at.payload());
        let forget = self.has_bug(SeededBug::Forgets) && self.below(4) == 0;
        let insert = async {
            match forget {
                true => Ok(()),
                false => self.index().insert(&rect, at.n, &payload).await,
            }
        };
        let about = (at.n, self.polls());
        let told = |answer: Option<Result<(), RTreeError>>| {
            answered.set(answer.transpose()?.is_some());
            Ok(BoxOperation::Insert(at))
        };
        self.call(about, insert, told).await?;
        Ok(answered.get())
    }

    /// Moves a box. `false`: there was none, or the call was dropped.
    async fn shift(&self, from: Place, to: Place) -> Result<bool, RTreeError> {
        let done = Cell::new(false);
        let (old, new, payload) = (from.rect(), to.rect(), to.payload());
        let update = self.index().update(&old, from.n, &new, &payload);
        let about = (from.n, self.polls());
        let told = |answer: Option<Result<bool, RTreeError>>| {
            done.set(answer.transpose()?.unwrap_or_default());
            Ok(BoxOperation::Move(from, to, done.get()))
        };
        self.call(about, update, told).await?;
        Ok(done.get())
    }

    /// Removes a box. `false`: there was none, or the call was dropped.
    async fn remove(&self, at: Place) -> Result<bool, RTreeError> {
        let done = Cell::new(false);
        let rect = at.rect();
        let remove = self.index().remove(&rect, at.n);
        let about = (at.n, self.polls());
        let told = |answer: Option<Result<bool, RTreeError>>| {
            done.set(answer.transpose()?.unwrap_or_default());
            Ok(BoxOperation::Remove(at, done.get()))
        };
        self.call(about, remove, told).await?;
        Ok(done.get())
    }

    /// All boxes of the tree.
    pub(super) async fn everything(&self) -> Result<Found, RTreeError> {
        self.query(Rect::EVERYTHING, false).await
    }

    /// Queries a window, and records whether each box was found.
    pub(super) async fn query(&self, window: Rect<D>, inside: bool) -> Result<Found, RTreeError> {
        let invoked = self.now();
        let mut found = BTreeSet::new();
        let mut wrong = None;
        let visit = |entry: Entry<'_, D>| {
            self.found(&mut found, &mut wrong, entry.id, &entry.rect, entry.payload);
            ControlFlow::Continue(())
        };
        match inside {
            true => self.index().inside(&window, visit).await?,
            false => self.index().intersecting(&window, visit).await?,
        }
        let window = match inside {
            true => Window::Holds(window),
            false if window == Rect::EVERYTHING => Window::Everything,
            false => Window::Meets(window),
        };
        self.saw(invoked, &found, window, wrong);
        Ok(found)
    }

    /// Orders all boxes by their distance from a point.
    pub(super) async fn nearest(&self) -> Result<(), RTreeError> {
        let invoked = self.now();
        let point = self.window().low();
        let count = 4 * self.load().load.boxes as usize + 1;
        let near = self.index().nearest(point, count).await?;
        let mut wrong = None;
        if !near.is_sorted_by_key(|one| (one.distance_squared, one.id)) {
            wrong = Some(format!("boxes out of order around {point:?}"));
        }
        let mut found = BTreeSet::new();
        for one in &near {
            self.found(&mut found, &mut wrong, one.id, &one.rect, &one.payload);
        }
        self.saw(invoked, &found, Window::Everything, wrong);
        Ok(())
    }

    /// Adds an entry of an answer to `found`.
    fn found(
        &self,
        found: &mut Found,
        wrong: &mut Option<String>,
        n: u64,
        rect: &Rect<D>,
        payload: &[u8],
    ) {
        let at = Place::of(n, payload);
        let mut same = found.iter().filter(|other| other.n == n && other.insert == at.insert);
        if at.rect() != *rect || n >= self.load().load.boxes {
            *wrong = Some(format!("box {n} at {rect:?}, where it never was"));
        } else if let Some(other) = same.next() {
            *wrong = Some(format!("one box twice: {other:?} and {at:?}"));
        } else {
            found.insert(at);
        }
    }

    /// Records that each box was found or not since `invoked`.
    fn saw(&self, invoked: Time, found: &Found, window: Window, wrong: Option<String>) {
        let foreign = found.iter().find(|at| !window.belongs(&at.rect()));
        let foreign = foreign.map(|at| format!("{at:?}, which is outside of its window"));
        if let Some(what) = wrong.or(foreign) {
            self.wrong(WorldCheck::Tree, format!("a query shows {what}"));
        }
        let returned = Some(self.now());
        let add = |n, found| self.add(n, invoked, returned, BoxOperation::Look(window, found));
        let mut shown = self.own().shown.borrow_mut();
        for n in 0..self.load().load.boxes {
            let mut places = found.iter().filter(|at| at.n == n).peekable();
            if places.peek().is_none() {
                add(n, None);
            }
            places.for_each(|at| {
                shown.insert(n, *at);
                add(n, Some(*at));
            });
        }
    }
}
