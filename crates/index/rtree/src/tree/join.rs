//! The pairs of near entries of two trees.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use latchwork_cache::Hint;
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::drive::CHAIN_MAX;
use super::moves::{Answer, Whole};
use super::seen::Seen;
use crate::page::{Link, Page, Record};
use crate::{Entry, RTreeError, Rect};

/// A page, and the right siblings that belong to the same entry of its parent.
#[derive(Clone, Copy)]
struct Chain<'m> {
    addr: GlobalAddr,
    /// The sequence number that the parent expects; `None` for the root.
    expects: Option<u32>,
    hint: &'m Hint,
}

/// The entries of a chain.
struct Gathered<'m, const D: usize> {
    is_leaf: bool,
    rects: Vec<Rect<D>>,
    /// Ids in leaves.
    ids: Vec<u64>,
    payloads: Vec<u8>,
    children: Vec<Chain<'m>>,
    /// The entries that move or have moved lately: their positions, leaves and records.
    moving: Vec<(usize, GlobalAddr, Record)>,
    /// The positions of the entries that do not count.
    absent: Vec<usize>,
}

impl<'m, const D: usize> Gathered<'m, D> {
    fn truncate(&mut self, count: usize, payload: usize) {
        self.rects.truncate(count);
        self.ids.truncate(count);
        self.children.truncate(count);
        self.payloads.truncate(payload);
        self.moving.retain(|(at, ..)| *at < count);
    }

    fn is_moving(&self, at: usize) -> bool {
        self.moving.iter().any(|(moving, ..)| *moving == at)
    }

    fn entry(&self, at: usize, payload_len: usize) -> Entry<'_, D> {
        let from = at * payload_len.next_multiple_of(8);
        let payload = &self.payloads[from..from + payload_len];
        Entry { rect: self.rects[at], id: self.ids[at], payload }
    }
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Visits each pair of an entry of this tree and one of `other` whose boxes are at most
    /// `distance` apart, until `visit` breaks. With 0 these are the boxes with a common point. The
    /// order is unspecified.
    ///
    /// A pair of two entries that stay is visited once, whatever changes meanwhile. A pair with an
    /// entry that an update moves is visited once if the entries are near at both places.
    ///
    /// # Errors
    /// [`RTreeError::NotANumber`], [`RTreeError::Corrupt`], and when memory fails.
    pub async fn join(
        &self,
        other: &RTree<M, D>,
        distance: f64,
        mut visit: impl FnMut(Entry<'_, D>, Entry<'_, D>) -> ControlFlow<()>,
    ) -> Result<(), RTreeError> {
        if distance.is_nan() {
            return Err(RTreeError::NotANumber { axis: 0 });
        }
        let operation = self.memory.enter().await?;
        let mut seen = Seen::default();
        let moves = |page: &Page<'_, D>| page.moves() > 0;
        let moving = (self.read(self.root, moves).await?, other.read(other.root, moves).await?);
        seen.begin(moving.0 || moving.1);
        let mut todo = vec![(self.whole(), other.whole())];
        while let Some((left, right)) = todo.pop() {
            let (a, b) = (self.gather(left).await?, other.gather(right).await?);
            // Nothing is at a negative distance.
            let near = |a: &Rect<D>, b: &Rect<D>| a.gap_squared(b) <= distance * distance.abs();
            match (a.is_leaf, b.is_leaf) {
                (true, true) => {
                    for (i, j) in pairs(&a.rects, &b.rects, near) {
                        let (one, two) = (
                            a.entry(i, self.config.payload_len),
                            b.entry(j, other.config.payload_len),
                        );
                        if a.absent.contains(&i) || b.absent.contains(&j) {
                            continue;
                        }
                        let pair = (one.id, two.id);
                        if a.is_moving(i) || b.is_moving(j) || seen.was_elsewhere(&pair) {
                            if !seen.is_new(pair) {
                                continue;
                            }
                            // Either entry may come again without a record.
                            seen.add_elsewhere(pair);
                        } else {
                            seen.add(pair);
                        }
                        if visit(one, two).is_break() {
                            return Ok(());
                        }
                    }
                }
                (false, false) => {
                    let below = pairs(&a.rects, &b.rects, near);
                    todo.extend(below.map(|(i, j)| (a.children[i], b.children[j])));
                }
                // The trees have different heights.
                (true, false) => {
                    let cover = union(&a.rects);
                    let below = b.rects.iter().zip(&b.children);
                    let below = below.filter(|(rect, _)| near(&cover, rect));
                    todo.extend(below.map(|(_, child)| (left, *child)));
                }
                (false, true) => {
                    let cover = union(&b.rects);
                    let below = a.rects.iter().zip(&a.children);
                    let below = below.filter(|(rect, _)| near(rect, &cover));
                    todo.extend(below.map(|(_, child)| (*child, right)));
                }
            }
            self.memory.handle().coop().await;
        }
        drop(operation);
        Ok(())
    }

    fn whole(&self) -> Chain<'_> {
        Chain { addr: self.root, expects: None, hint: &self.hints.root }
    }

    /// Reads a page and the right siblings that its parent does not know.
    async fn gather<'m>(&'m self, chain: Chain<'m>) -> Result<Gathered<'m, D>, RTreeError> {
        let mut all = Gathered {
            is_leaf: true,
            rects: Vec::new(),
            ids: Vec::new(),
            payloads: Vec::new(),
            children: Vec::new(),
            moving: Vec::new(),
            absent: Vec::new(),
        };
        let mut at = chain;
        for _ in 0..CHAIN_MAX {
            let (count, bytes) = (all.rects.len(), all.payloads.len());
            let read = |page: &Page<'_, D>, hints: &'m [Hint]| {
                all.truncate(count, bytes);
                all.is_leaf = page.level() == 0;
                all.rects.extend(page.boxes().iter());
                let ids = page.column(2 * D).iter().map(|id| id.load(Ordering::Relaxed));
                if all.is_leaf {
                    let records = page.records().map(|(_, record)| record);
                    let moving = records.map(|record| (count + record.slot, at.addr, record));
                    all.moving.extend(moving);
                    all.ids.extend(ids);
                    (0..page.count()).for_each(|slot| page.append_payload(slot, &mut all.payloads));
                } else {
                    let child = |(slot, id): (usize, u64)| {
                        let Link { expects, .. } = page.link(slot);
                        let hint = hints.get(slot).unwrap_or(&self.hints.other);
                        Chain { addr: GlobalAddr::from_bits(id), expects: Some(expects), hint }
                    };
                    all.children.extend(ids.enumerate().map(child));
                }
                let is_split = at.expects.is_some_and(|expects| expects != page.sequence());
                (is_split && self.config.rules.joins_read_siblings).then(|| page.right())
            };
            let mut read = read;
            match self.drive(|| self.try_page(at.addr, at.hint, &mut read)).await? {
                None => {
                    if !all.moving.is_empty() {
                        self.answer_all(&mut all).await?;
                    }
                    return Ok(all);
                }
                Some(right) => at = Chain { addr: right, hint: &self.hints.other, ..at },
            }
        }
        Err(self.corrupt(chain.addr, "right links without end"))
    }
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Replaces the entries that have departed by those at the other places, and lists those that
    /// do not count.
    async fn answer_all(&self, all: &mut Gathered<'_, D>) -> Result<(), RTreeError> {
        let padded = self.config.payload_len.next_multiple_of(8);
        for (at, leaf, record) in all.moving.clone() {
            match self.answer(leaf, &record).await? {
                Answer::Counts => {}
                Answer::Nothing => all.absent.push(at),
                Answer::Elsewhere(Whole { rect, id, payload }) => {
                    all.rects[at] = rect;
                    all.ids[at] = id;
                    all.payloads[at * padded..][..padded].copy_from_slice(&payload);
                }
            }
        }
        Ok(())
    }
}

fn union<const D: usize>(rects: &[Rect<D>]) -> Rect<D> {
    rects.iter().fold(Rect::NOTHING, |so_far, rect| so_far.union(rect))
}

/// The pairs of near boxes, by their positions.
fn pairs<'a, const D: usize>(
    a: &'a [Rect<D>],
    b: &'a [Rect<D>],
    near: impl Fn(&Rect<D>, &Rect<D>) -> bool + Copy + 'a,
) -> impl Iterator<Item = (usize, usize)> + 'a {
    let cover = union(b);
    let left = a.iter().enumerate().filter(move |(_, rect)| near(rect, &cover));
    left.flat_map(move |(i, one)| {
        let right = b.iter().enumerate().filter(move |(_, two)| near(one, two));
        right.map(move |(j, _)| (i, j))
    })
}
