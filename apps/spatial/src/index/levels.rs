//! The boxes of all levels of the tree.

use latchwork_rtree::{RTreeError, WalkedPage};
use serde::{Deserialize, Serialize};

use super::Index;

/// A box, as its west, south, east and north.
pub(crate) type Sides = [f64; 4];

/// The boxes of pages and entries, each level from the root down.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Levels {
    /// The boxes of the pages of each level above the entries, the children of the root first.
    pub(crate) pages: Vec<Vec<Sides>>,
    /// The boxes of the entries.
    pub(crate) entries: Vec<Sides>,
}

/// Reads all levels.
pub(crate) async fn levels(index: &Index) -> Result<Levels, RTreeError> {
    let walk = index.walk().await?;
    let (mut found, mut here) = (Levels::default(), vec![walk.root()]);
    while !here.is_empty() {
        let (mut below, mut boxes) = (Vec::new(), Vec::new());
        for page in here {
            match walk.read(page).await? {
                WalkedPage::Inner { children, .. } => {
                    boxes.extend(children.iter().map(|(area, _)| sides(area)));
                    below.extend(children.into_iter().map(|(_, child)| child));
                }
                WalkedPage::Leaf(entries) => {
                    found.entries.extend(entries.iter().map(|entry| sides(&entry.rect)));
                }
            }
        }
        if !boxes.is_empty() {
            found.pages.push(boxes);
        }
        here = below;
    }
    Ok(found)
}

fn sides(area: &crate::geometry::Area) -> Sides {
    let [[west, south], [east, north]] = [area.low(), area.high()];
    [west, south, east, north]
}
