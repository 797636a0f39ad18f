//! One task's operations on the R-tree.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::pin::Pin;

use latchwork_cluster::{Member, Worker};
use latchwork_rtree::{Entry, RTree, RTreeError, Rect};
use latchwork_runtime::Time;
use latchwork_workload::random::WorkloadRandom;

use super::model::{BoxOperation, D, Place, Window};
use super::record::Found;
use super::state::{ACCESSES_MAX, Boxes};
use crate::workloads::tree::Polls;
use crate::world::Process;
use crate::{SeededBug, WorldCheck};

/// What the owner of a box knows of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Belief {
    Absent,
    /// There, unless another task has moved or removed it.
    At(Place),
    /// An operation was dropped or has failed, or another task was faster.
    Unknown,
}

/// One task.
pub(super) struct Client<'a> {
    load: &'a Boxes,
    member: &'a Member,
    process: Process,
    tree: RTree<Worker, D>,
    random: RefCell<WorkloadRandom>,
    /// The boxes that only this task inserts.
    own: RefCell<BTreeMap<u64, Belief>>,
    /// The last places of boxes in answers of queries.
    shown: RefCell<BTreeMap<u64, Place>>,
    /// The number of the last insert or move. Each has its own number.
    changes: Cell<u64>,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        load: &'a Boxes,
        member: &'a Member,
        process: Process,
        tree: RTree<Worker, D>,
    ) -> Client<'a> {
        let number = u64::from(process.number);
        let random = RefCell::new(WorkloadRandom::for_stream(load.seed, number));
        let own = (0..load.load.boxes).filter(|n| n % load.tasks == (number - 1) % load.tasks);
        let own = RefCell::new(own.map(|n| (n, Belief::Absent)).collect());
        let changes = Cell::new(number << 32);
        let shown = RefCell::default();
        Client { load, member, process, tree, random, own, shown, changes }
    }

    pub(super) fn tree(&self) -> &RTree<Worker, D> {
        &self.tree
    }

    fn random(&self, below: u64) -> u64 {
        self.random.borrow_mut().below(below)
    }

    fn now(&self) -> Time {
        self.load.observer.time(&self.member.handle)
    }

    /// The number of polls that this operation gets. Mostly it is unlimited.
    fn polls(&self) -> Polls {
        (self.random(100) < self.load.load.dropped).then(|| 1 + self.random(20))
    }

    pub(super) async fn operation(&self) {
        let any = self.random(self.load.load.boxes);
        let _ended = match self.random(100) {
            0..50 => self.change().await,
            50..62 => self.change_any(any).await,
            62..85 => {
                let window = self.window();
                self.observed("query", Box::pin(self.query(window, false))).await.map(drop)
            }
            85..90 => {
                let window = self.window();
                self.observed("query the inside", Box::pin(self.query(window, true)))
                    .await
                    .map(drop)
            }
            90..95 => self.observed("order", Box::pin(self.nearest())).await,
            _ => self.observed("look at", Box::pin(self.everything())).await.map(drop),
        };
    }

    pub(super) async fn observed<T>(
        &self,
        what: &'static str,
        work: Pin<Box<impl Future<Output = Result<T, RTreeError>>>>,
    ) -> Option<T> {
        let about = (what, "boxes".to_owned(), ACCESSES_MAX);
        self.load.observer.operation(self.process, about, work).await
    }

    fn window(&self) -> Rect<D> {
        let low = [self.random(34) as f64 - 1.0, self.random(34) as f64 - 1.0];
        let size = [self.random(16) as f64, self.random(16) as f64];
        let high = [low[0] + size[0], low[1] + size[1]];
        Rect::new(low, high).unwrap_or(Rect::EVERYTHING)
    }

    /// Inserts a box of this task that is not there, or moves or removes one that may be there.
    async fn change(&self) -> Option<()> {
        let count = self.own.borrow().len() as u64;
        if count == 0 {
            let window = self.window();
            return self.observed("query", Box::pin(self.query(window, false))).await.map(drop);
        }
        let at = self.random(count) as usize;
        let (n, belief) = self.own.borrow().iter().nth(at).map(|(n, belief)| (*n, *belief))?;
        // An error leaves this.
        self.own.borrow_mut().insert(n, Belief::Unknown);
        let believe = |then| {
            self.own.borrow_mut().insert(n, then);
        };
        match belief {
            Belief::Absent => {
                let number = self.number();
                let at = Place { n, insert: number, number };
                let inserted = self.observed("insert", Box::pin(self.insert(at))).await?;
                believe(if inserted { Belief::At(at) } else { Belief::Unknown });
            }
            Belief::At(at) if self.random(3) > 0 => {
                let to = Place { number: self.number(), ..at };
                let moved = self.observed("move", Box::pin(self.shift(at, to))).await?;
                believe(if moved { Belief::At(to) } else { Belief::Unknown });
            }
            Belief::At(at) => {
                let removed = self.observed("remove", Box::pin(self.remove(at))).await?;
                believe(if removed { Belief::Absent } else { Belief::Unknown });
            }
            // Only this task inserts the box. So a box that a query does not show stays absent.
            Belief::Unknown => {
                let all = self.observed("look for", Box::pin(self.everything())).await?;
                let last = all.iter().filter(|at| at.n == n).max_by_key(|at| at.insert);
                believe(last.map_or(Belief::Absent, |at| Belief::At(*at)));
            }
        }
        Some(())
    }

    /// Moves or removes a box of any task, where a query showed it last.
    async fn change_any(&self, n: u64) -> Option<()> {
        let Some(at) = self.shown.borrow().get(&n).copied() else { return Some(()) };
        let done = match self.random(2) {
            0 => {
                let to = Place { number: self.number(), ..at };
                self.observed("move", Box::pin(self.shift(at, to))).await
            }
            _ => self.observed("remove", Box::pin(self.remove(at))).await,
        };
        done.map(drop)
    }

    fn number(&self) -> u64 {
        self.changes.set(self.changes.get() + 1);
        self.changes.get()
    }

    /// Inserts a box. `false`: the call was dropped.
    async fn insert(&self, at: Place) -> Result<bool, RTreeError> {
        let answered = Cell::new(false);
        let (rect, payload) = (at.rect(), at.payload());
        let forget = self.load.plant == Some(SeededBug::Forgets) && self.random(4) == 0;
        let insert = async {
            match forget {
                true => Ok(()),
                false => self.tree.insert(&rect, at.n, &payload).await,
            }
        };
        let about = (at.n, self.polls());
        let told = |answer: Option<Result<(), RTreeError>>| {
            answered.set(answer.transpose()?.is_some());
            Ok(BoxOperation::Insert(at))
        };
        self.load.recorder.call(&self.member.handle, about, insert, told).await?;
        Ok(answered.get())
    }

    /// Moves a box. `false`: there was none, or the call was dropped.
    async fn shift(&self, from: Place, to: Place) -> Result<bool, RTreeError> {
        let done = Cell::new(false);
        let (old, new, payload) = (from.rect(), to.rect(), to.payload());
        let update = self.tree.update(&old, from.n, &new, &payload);
        let about = (from.n, self.polls());
        let told = |answer: Option<Result<bool, RTreeError>>| {
            done.set(answer.transpose()?.unwrap_or_default());
            Ok(BoxOperation::Move(from, to, done.get()))
        };
        self.load.recorder.call(&self.member.handle, about, update, told).await?;
        Ok(done.get())
    }

    /// Removes a box. `false`: there was none, or the call was dropped.
    async fn remove(&self, at: Place) -> Result<bool, RTreeError> {
        let done = Cell::new(false);
        let rect = at.rect();
        let remove = self.tree.remove(&rect, at.n);
        let about = (at.n, self.polls());
        let told = |answer: Option<Result<bool, RTreeError>>| {
            done.set(answer.transpose()?.unwrap_or_default());
            Ok(BoxOperation::Remove(at, done.get()))
        };
        self.load.recorder.call(&self.member.handle, about, remove, told).await?;
        Ok(done.get())
    }

    /// All boxes of the tree.
    pub(super) async fn everything(&self) -> Result<Found, RTreeError> {
        self.query(Rect::EVERYTHING, false).await
    }

    /// Queries a window, and records whether each box was found.
    async fn query(&self, window: Rect<D>, inside: bool) -> Result<Found, RTreeError> {
        let invoked = self.now();
        let mut found = BTreeSet::new();
        let mut wrong = None;
        let visit = |entry: Entry<'_, D>| {
            self.add(&mut found, &mut wrong, entry.id, &entry.rect, entry.payload);
            ControlFlow::Continue(())
        };
        match inside {
            true => self.tree.inside(&window, visit).await?,
            false => self.tree.intersecting(&window, visit).await?,
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
    async fn nearest(&self) -> Result<(), RTreeError> {
        let invoked = self.now();
        let point = self.window().low();
        let count = 4 * self.load.load.boxes as usize + 1;
        let near = self.tree.nearest(point, count).await?;
        let mut wrong = None;
        if !near.is_sorted_by_key(|one| (one.distance_squared, one.id)) {
            wrong = Some(format!("boxes out of order around {point:?}"));
        }
        let mut found = BTreeSet::new();
        for one in &near {
            self.add(&mut found, &mut wrong, one.id, &one.rect, &one.payload);
        }
        self.saw(invoked, &found, Window::Everything, wrong);
        Ok(())
    }

    /// Adds an entry of an answer to `found`.
    fn add(
        &self,
        found: &mut Found,
        wrong: &mut Option<String>,
        n: u64,
        rect: &Rect<D>,
        payload: &[u8],
    ) {
        let at = Place::of(n, payload);
        let mut same = found.iter().filter(|other| other.n == n && other.insert == at.insert);
        if at.rect() != *rect || n >= self.load.load.boxes {
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
            let text = format!("{}: a query shows {what}", self.process);
            self.load.observer.fail(WorldCheck::Tree, text);
        }
        let returned = Some(self.now());
        let add = |n, found| {
            let look = BoxOperation::Look(window, found);
            self.load.recorder.add(n, invoked, returned, look);
        };
        let mut shown = self.shown.borrow_mut();
        for n in 0..self.load.load.boxes {
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
