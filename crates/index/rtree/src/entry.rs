//! What a tree returns of its entries.

use crate::Rect;

/// An entry as a query sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Entry<'a, const D: usize> {
    /// The box.
    pub rect: Rect<D>,
    /// The id.
    pub id: u64,
    /// The payload, as long as the tree's configuration says.
    pub payload: &'a [u8],
}

/// An entry with its distance from a point.
#[derive(Clone, PartialEq, Debug)]
pub struct Neighbour<const D: usize> {
    /// The square of the least distance between the box and the point.
    pub distance_squared: f64,
    /// The box.
    pub rect: Rect<D>,
    /// The id.
    pub id: u64,
    /// The payload.
    pub payload: Vec<u8>,
}

/// An entry for [`bulk_load`](crate::RTree::bulk_load).
#[derive(Clone, PartialEq, Debug)]
pub struct NewEntry<const D: usize> {
    /// The box.
    pub rect: Rect<D>,
    /// The id.
    pub id: u64,
    /// The payload.
    pub payload: Vec<u8>,
}
