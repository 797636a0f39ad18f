//! [`Area`]: a place or a box.

use latchwork_rtree::Rect;

/// A box with the longitude on axis 0 and the latitude on axis 1. A place is a box of size zero.
pub(crate) type Area = Rect<2>;
