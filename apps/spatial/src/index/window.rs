//! All entries that meet a window.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use latchwork_rtree::{Entry, RTreeError};

use super::{Contents, Found, Index};
use crate::geometry::{Area, Space};

/// The answers of one query, and what was seen on the way.
pub(crate) type Seen = (Vec<Found>, Contents);

/// The entries that meet `area`, by id.
pub(crate) async fn window(index: &Index, space: Space, area: &Area) -> Result<Seen, RTreeError> {
    let (mut ids, mut contents) = (BTreeSet::new(), Contents::default());
    for window in space.windows(area) {
        let visit = |entry: Entry<'_, 2>| {
            contents.check(&entry.rect, entry.id, entry.payload);
            ids.insert(entry.id);
            ControlFlow::Continue(())
        };
        index.intersecting(&window, visit).await?;
    }
    Ok((ids.into_iter().map(|id| Found { id, distance: 0.0 }).collect(), contents))
}
