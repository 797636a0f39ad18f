//! The entries nearest to a place or a box, in any space: best first (Hjaltason and Samet, TODS
//! 1999).
//!
//! The queue has pages and entries. A page stands at a number that is not above the distance of any
//! entry below it, an entry at its distance. So an entry that leaves the queue is not farther than
//! all that is left, whatever the geometry is. The tree's own query for the nearest is planar.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use latchwork_rtree::{PageLink, RTreeError, WalkedPage};

use super::{Contents, Found, Index, Seen};
use crate::geometry::{Area, Space};

/// A page or an entry in the queue.
struct Candidate<'t> {
    /// A lower bound for a page, and the distance of an entry.
    distance: f64,
    /// Pages stand before entries at the same distance. Entries there are in the order of their
    /// ids.
    id: Option<u64>,
    page: Option<PageLink<'t>>,
}

impl Ord for Candidate<'_> {
    /// The nearest candidate is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.distance.total_cmp(&self.distance).then_with(|| other.id.cmp(&self.id))
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate<'_> {}

/// The `count` entries nearest to `from`, the nearest first. Those at the same distance are in the
/// order of their ids.
pub(crate) async fn nearest(
    index: &Index,
    space: Space,
    from: &Area,
    count: usize,
) -> Result<Seen, RTreeError> {
    let walk = index.walk().await?;
    let mut contents = Contents::default();
    let mut found = Vec::with_capacity(count.min(64));
    let mut queue = BinaryHeap::new();
    queue.push(Candidate { distance: f64::NEG_INFINITY, id: None, page: Some(walk.root()) });
    // The distance of the last of the nearest entries so far: what is beyond it is not queued.
    let mut nearest: BinaryHeap<Far> = BinaryHeap::new();
    while found.len() < count
        && let Some(Candidate { distance, id, page }) = queue.pop()
    {
        if let Some(id) = id {
            found.push(Found { id, distance });
        }
        let Some(page) = page else { continue };
        let limit = match nearest.peek() {
            Some(Far(limit)) if nearest.len() == count => *limit,
            _ => f64::INFINITY,
        };
        match walk.read(page).await? {
            WalkedPage::Inner { children, .. } => {
                for (cover, child) in children {
                    let distance = space.bound(from, &cover);
                    if distance <= limit {
                        queue.push(Candidate { distance, id: None, page: Some(child) });
                    }
                }
            }
            WalkedPage::Leaf(entries) => {
                for entry in entries {
                    contents.check(&entry.rect, entry.id, &entry.payload);
                    let distance = space.distance(from, &entry.rect);
                    if distance <= limit {
                        queue.push(Candidate { distance, id: Some(entry.id), page: None });
                        nearest.push(Far(distance));
                        if nearest.len() > count {
                            nearest.pop();
                        }
                    }
                }
            }
        }
    }
    Ok((found, contents))
}

/// A distance; the farthest is the greatest.
struct Far(f64);

impl Ord for Far {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Far {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Far {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Far {}
