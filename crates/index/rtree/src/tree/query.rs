//! Queries for boxes.

use std::ops::ControlFlow;

use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, CoherentMemory, Need};
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::drive::READS_MAX;
use super::moves::Answer;
use super::scratch::Scratch;
use super::stop::Stop;
use crate::page::{Broken, Page, Relation, Role, copied};
use crate::{Entry, RTreeError, Rect};

/// The limit for the pages of one query: far more than a tree has.
const VISITS_MAX: u64 = 1 << 40;
/// The pages that a query reads before other tasks of the worker have their turn.
const PAGES_PER_TURN: u32 = 32;

/// The pages that are prefetched while another one is read.
const AHEAD: usize = 3;

/// A page that a query has to read.
#[derive(Clone, Copy)]
struct Todo<'m> {
    addr: GlobalAddr,
    /// The sequence number that the parent expects; `None` for the root.
    expects: Option<u32>,
    hint: &'m Hint,
}

/// How a turn of a query ended.
enum Turn {
    /// The query is over.
    Over,
    /// Other tasks should have their turn.
    Yield,
    /// The page that was read last has hits with records.
    Ask,
}

type Stack<'m> = Vec<Todo<'m>>;
/// The room of a new stack: most queries never have more pages to read.
const STACK: usize = 32;

/// A query.
#[derive(Clone, Copy)]
struct Search<const D: usize> {
    query: Rect<D>,
    /// The relation of an entry of a leaf.
    entries: Relation,
    /// The relation of a child.
    children: Relation,
}

impl<const D: usize> Search<D> {
    fn new(entries: Relation, query: &Rect<D>) -> Search<D> {
        let children = match entries {
            Relation::Intersects | Relation::Inside => Relation::Intersects,
            Relation::Contains => Relation::Contains,
        };
        Search { query: *query, entries, children }
    }

    fn is_hit(&self, rect: &Rect<D>) -> bool {
        match self.entries {
            Relation::Intersects => rect.intersects(&self.query),
            Relation::Inside => self.query.contains(rect),
            Relation::Contains => rect.contains(&self.query),
        }
    }

    /// Whether every entry in a page with this cover is a hit.
    ///
    /// The box in the parent does not say that: it was read before, and may have grown since.
    #[inline]
    fn takes_all_in(&self, cover: &Rect<D>) -> bool {
        self.entries != Relation::Contains && self.query.contains(cover)
    }
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Visits the entries that have a common point with `window`, until `visit` breaks. Boxes that
    /// touch have a common point. The order is unspecified.
    ///
    /// # Errors
    /// [`RTreeError::Corrupt`], and when memory fails.
    pub async fn intersecting(
        &self,
        window: &Rect<D>,
        visit: impl FnMut(Entry<'_, D>) -> ControlFlow<()>,
    ) -> Result<(), RTreeError> {
        self.scan(Search::new(Relation::Intersects, window), visit).await
    }

    /// Visits the entries that are inside `window`, until `visit` breaks.
    ///
    /// # Errors
    /// As [`intersecting`](RTree::intersecting).
    pub async fn inside(
        &self,
        window: &Rect<D>,
        visit: impl FnMut(Entry<'_, D>) -> ControlFlow<()>,
    ) -> Result<(), RTreeError> {
        self.scan(Search::new(Relation::Inside, window), visit).await
    }

    /// Visits the entries that contain `rect`, until `visit` breaks. With the box of one point,
    /// these are the entries at that point.
    ///
    /// # Errors
    /// As [`intersecting`](RTree::intersecting).
    pub async fn containing(
        &self,
        rect: &Rect<D>,
        visit: impl FnMut(Entry<'_, D>) -> ControlFlow<()>,
    ) -> Result<(), RTreeError> {
        self.scan(Search::new(Relation::Contains, rect), visit).await
    }

    /// The number of entries that have a common point with `window`.
    ///
    /// # Errors
    /// As [`intersecting`](RTree::intersecting).
    pub async fn count(&self, window: &Rect<D>) -> Result<u64, RTreeError> {
        let mut count = 0;
        let visit = |_: Entry<'_, D>| {
            count += 1;
            ControlFlow::Continue(())
        };
        self.intersecting(window, visit).await?;
        Ok(count)
    }

    /// A box that contains all entries; `None` for an empty tree. After removes it may be larger
    /// than necessary.
    ///
    /// # Errors
    /// As [`intersecting`](RTree::intersecting).
    pub async fn bounds(&self) -> Result<Option<Rect<D>>, RTreeError> {
        let operation = self.memory.enter().await?;
        let bounds = self.read(self.root, |page| (page.count() > 0).then(|| page.union())).await?;
        drop(operation);
        Ok(bounds)
    }

    async fn scan(
        &self,
        search: Search<D>,
        mut visit: impl FnMut(Entry<'_, D>) -> ControlFlow<()>,
    ) -> Result<(), RTreeError> {
        let operation = match self.memory.try_enter() {
            Some(operation) => operation,
            None => self.memory.enter().await?,
        };
        let mut scratch = self.scratch.take().unwrap_or_default();
        let mut stack: Stack<'_> = Vec::with_capacity(STACK);
        stack.push(Todo { addr: self.root, expects: None, hint: &self.hints.root });
        let mut visits = 0;
        let mut _ticket = None;
        loop {
            match self.scan_cached(&search, &mut scratch, &mut stack, &mut visits, &mut visit) {
                Ok(Turn::Over) => break,
                Ok(Turn::Yield) => self.memory.handle().coop().await,
                Ok(Turn::Ask) => {
                    drop(_ticket.take());
                    self.answer_hits(&search, &mut scratch).await?;
                    if self.show(&mut scratch, &mut visit).is_break() {
                        break;
                    }
                }
                Err(Stop::Broken(page, broken)) => return Err(self.corrupt(page, broken.0)),
                Err(Stop::Need(need)) => {
                    drop(_ticket.take());
                    _ticket = Some(self.memory.ensure(need).await?);
                }
            }
        }
        self.scratch.set(Some(scratch));
        drop(operation);
        Ok(())
    }

    /// Goes on with a query while the pages are here.
    fn scan_cached<'m>(
        &'m self,
        search: &Search<D>,
        scratch: &mut Scratch<D>,
        stack: &mut Stack<'m>,
        visits: &mut u64,
        visit: &mut impl FnMut(Entry<'_, D>) -> ControlFlow<()>,
    ) -> Result<Turn, Stop> {
        for _ in 0..PAGES_PER_TURN {
            let Some(&next) = stack.last() else { return Ok(Turn::Over) };
            *visits += 1;
            if *visits > VISITS_MAX {
                let what = Broken("right links without end");
                return Err(Stop::Broken(next.addr, what));
            }
            let below = stack.len();
            if let Some(later) = stack.len().checked_sub(1 + AHEAD) {
                self.prefetch(&stack[later]);
            }
            self.visit_page(search, scratch, stack, next)?;
            // The page itself: what it led to stands behind it.
            stack.swap_remove(below - 1);
            for later in stack.iter().skip(below - 1).rev().take(AHEAD) {
                self.prefetch(later);
            }
            if !scratch.moving.is_empty() {
                return Ok(Turn::Ask);
            }
            if self.show(scratch, visit).is_break() {
                return Ok(Turn::Over);
            }
        }
        Ok(Turn::Yield)
    }

    /// Shows the hits of a page.
    fn show(
        &self,
        scratch: &mut Scratch<D>,
        visit: &mut impl FnMut(Entry<'_, D>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let len = self.config.payload_len;
        let padded = len.next_multiple_of(8);
        let Scratch { hits, columns, whole, payloads, skipped, answered, seen, .. } = scratch;
        for (hit, (rect, id)) in copied(columns, *whole).enumerate() {
            if !seen.was_elsewhere(&id) {
                seen.add(id);
                visit(Entry { rect, id, payload: &payloads[hit * padded..][..len] })?;
            }
        }
        for (hit, (rect, id)) in hits.drain(..).enumerate() {
            let skip = !skipped.is_empty() && skipped.contains(&hit);
            if skip || seen.was_elsewhere(&id) && !answered.contains(&hit) {
                continue;
            }
            seen.add(id);
            visit(Entry { rect, id, payload: &payloads[hit * padded..][..len] })?;
        }
        ControlFlow::Continue(())
    }

    /// Decides about the hits that move or have moved lately.
    async fn answer_hits(
        &self,
        search: &Search<D>,
        scratch: &mut Scratch<D>,
    ) -> Result<(), RTreeError> {
        let padded = self.config.payload_len.next_multiple_of(8);
        let Scratch { hits, payloads, page, moving, skipped, answered, seen, .. } = scratch;
        for (hit, record) in moving.drain(..) {
            let shown = match self.answer(*page, &record).await? {
                Answer::Counts => true,
                Answer::Nothing => false,
                Answer::Elsewhere(whole) => {
                    let belongs = search.is_hit(&whole.rect);
                    if belongs {
                        hits[hit] = (whole.rect, whole.id);
                        payloads[hit * padded..][..padded].copy_from_slice(&whole.payload);
                    }
                    belongs
                }
            };
            let id = hits[hit].1;
            if !shown || !seen.is_new(id) {
                skipped.push(hit);
            } else if record.role == Role::Departed {
                seen.add_elsewhere(id);
                answered.push(hit);
            }
        }
        Ok(())
    }

    /// Whether a query that expects a number goes on to the right sibling.
    #[inline]
    fn goes_right(&self, expects: u32, sequence: u32) -> bool {
        let all = || self.config.rules.queries_read_last;
        expects != sequence && (all() || expects.wrapping_add(1) != sequence)
    }

    #[inline]
    fn prefetch(&self, later: &Todo<'_>) {
        self.memory.prefetch(later.hint, 0..self.layout.ids_end());
    }

    /// Reads a page: its hits go to the scratch memory, and what it leads to onto the stack.
    fn visit_page<'m>(
        &'m self,
        search: &Search<D>,
        scratch: &mut Scratch<D>,
        stack: &mut Stack<'m>,
        next: Todo<'m>,
    ) -> Result<(), Stop> {
        let below = stack.len();
        for _ in 0..READS_MAX {
            let seen = self.memory.try_read_at(next.addr, next.hint).map_err(Stop::Need)?;
            scratch.clear();
            scratch.page = next.addr;
            let opened = Page::<D>::open(seen.words(), &self.layout);
            if let Ok(page) = &opened {
                if next.expects.is_none() {
                    scratch.seen.begin(page.moves() > 0);
                }
                if page.level() == 0 {
                    self.take_hits(search, page, scratch);
                } else {
                    self.take_children(search, page, self.memory.hints(&seen), stack);
                }
                if next.expects.is_some_and(|expects| self.goes_right(expects, page.sequence())) {
                    stack.push(Todo { addr: page.right(), hint: &self.hints.other, ..next });
                }
            }
            if seen.validate() {
                return opened.map(drop).map_err(|broken| Stop::Broken(next.addr, broken));
            }
            stack.truncate(below);
        }
        Err(Stop::Need(Need { addr: next.addr, mode: AccessMode::Shared }))
    }

    /// The hits of a leaf go to the scratch memory.
    // Apart from its caller: the loops get all registers.
    #[inline(never)]
    fn take_hits(&self, search: &Search<D>, page: &Page<'_, D>, to: &mut Scratch<D>) {
        let Scratch { hits, columns, whole, payloads, moving, .. } = to;
        let boxes = page.boxes();
        let has_records = page.record_count() > 0;
        if search.takes_all_in(&page.cover()) {
            if has_records {
                hits.extend(boxes.with_ids());
                let records = page.records().map(|(_, record)| (record.slot, record));
                moving.extend(records.filter(|(slot, _)| *slot < boxes.count()));
            } else {
                *whole = page.append_columns(columns);
            }
            if self.config.payload_len > 0 {
                (0..boxes.count()).for_each(|slot| page.append_payload(slot, payloads));
            }
            return;
        }
        hits.reserve(boxes.count());
        boxes.select(search.entries, &search.query, |slot| {
            if has_records {
                moving.extend(page.record_of(slot).map(|record| (hits.len(), record)));
            }
            hits.push((boxes.rect(slot), boxes.id(slot)));
            page.append_payload(slot, payloads);
        });
    }

    /// The children of an inner page that may have hits go onto the stack.
    #[inline(never)]
    fn take_children<'m>(
        &'m self,
        search: &Search<D>,
        page: &Page<'_, D>,
        hints: &'m [Hint],
        stack: &mut Stack<'m>,
    ) {
        let boxes = page.boxes();
        let all = search.takes_all_in(&page.cover());
        let found = |slot| {
            let hint = hints.get(slot).unwrap_or(&self.hints.other);
            let (addr, expects) = (boxes.id(slot), Some(boxes.link(slot).expects));
            stack.push(Todo { addr: GlobalAddr::from_bits(addr), expects, hint });
        };
        if all {
            (0..boxes.count()).for_each(found);
        } else {
            boxes.select(search.children, &search.query, found);
        }
    }
}
