//! [`Rect`]: a box in `D` dimensions.

use crate::RTreeError;

/// A closed box with sides parallel to the axes. A point is a box of size zero.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rect<const D: usize> {
    low: [f64; D],
    high: [f64; D],
}

impl<const D: usize> Rect<D> {
    /// The box that contains every point.
    pub const EVERYTHING: Rect<D> = Rect { low: [f64::NEG_INFINITY; D], high: [f64::INFINITY; D] };
    /// The box that contains no point. It is the neutral element of [`union`](Rect::union).
    pub(crate) const NOTHING: Rect<D> =
        Rect { low: [f64::INFINITY; D], high: [f64::NEG_INFINITY; D] };

    /// The box between two corners. Infinities are allowed here, for queries. An entry of a tree
    /// needs finite corners.
    ///
    /// # Errors
    /// [`RTreeError::NotANumber`], and [`RTreeError::Inverted`] if a low coordinate is above the
    /// high one.
    pub fn new(low: [f64; D], high: [f64; D]) -> Result<Rect<D>, RTreeError> {
        for axis in 0..D {
            let (low, high) = (low[axis], high[axis]);
            if low.is_nan() || high.is_nan() {
                return Err(RTreeError::NotANumber { axis });
            }
            if low > high {
                return Err(RTreeError::Inverted { axis, low, high });
            }
        }
        // Negative zero becomes zero: entries are compared bit by bit.
        Ok(Rect { low: low.map(|at| at + 0.0), high: high.map(|at| at + 0.0) })
    }

    /// The box of one point.
    ///
    /// # Errors
    /// [`RTreeError::NotANumber`].
    pub fn point(at: [f64; D]) -> Result<Rect<D>, RTreeError> {
        Rect::new(at, at)
    }

    /// A box of words that a page holds. Such a box may be torn or damaged.
    pub(crate) fn from_parts(low: [f64; D], high: [f64; D]) -> Rect<D> {
        Rect { low, high }
    }

    /// The least coordinates.
    pub fn low(&self) -> [f64; D] {
        self.low
    }

    /// The greatest coordinates.
    pub fn high(&self) -> [f64; D] {
        self.high
    }

    /// Whether all coordinates are finite.
    pub fn is_finite(&self) -> bool {
        self.low.iter().chain(&self.high).all(|at| at.is_finite())
    }

    /// Whether the boxes have a common point. Boxes that touch have one.
    pub fn intersects(&self, other: &Rect<D>) -> bool {
        (0..D).all(|d| (self.low[d] <= other.high[d]) & (other.low[d] <= self.high[d]))
    }

    /// Whether every point of `other` is a point of this box.
    pub fn contains(&self, other: &Rect<D>) -> bool {
        (0..D).all(|d| (self.low[d] <= other.low[d]) & (other.high[d] <= self.high[d]))
    }

    /// The least box that contains both.
    #[must_use]
    pub fn union(&self, other: &Rect<D>) -> Rect<D> {
        Rect {
            low: std::array::from_fn(|d| less(self.low[d], other.low[d])),
            high: std::array::from_fn(|d| more(self.high[d], other.high[d])),
        }
    }

    /// The product of the lengths of the sides: the area of a box in two dimensions.
    pub fn area(&self) -> f64 {
        (0..D).map(|d| self.side(d)).product()
    }

    /// The sum of the lengths of the sides.
    pub(crate) fn margin(&self) -> f64 {
        (0..D).map(|d| self.side(d)).sum()
    }

    /// The area of the common part of both boxes.
    pub(crate) fn overlap(&self, other: &Rect<D>) -> f64 {
        let side = |d: usize| {
            more(less(self.high[d], other.high[d]) - more(self.low[d], other.low[d]), 0.0)
        };
        (0..D).map(side).product()
    }

    /// Whether a side of this box is on the same side of `other`.
    pub(crate) fn has_side_of(&self, other: &Rect<D>) -> bool {
        (0..D).any(|d| (self.low[d] == other.low[d]) | (self.high[d] == other.high[d]))
    }

    /// The middle of the box on an axis.
    pub(crate) fn middle(&self, axis: usize) -> f64 {
        // Halved first: the sum of two large coordinates may be infinite.
        self.low[axis] / 2.0 + self.high[axis] / 2.0
    }

    /// The square of the least distance between a point of the box and `point`.
    pub fn distance_squared(&self, point: &[f64; D]) -> f64 {
        let gap = |d: usize| more(more(self.low[d] - point[d], point[d] - self.high[d]), 0.0);
        (0..D).map(|d| gap(d) * gap(d)).sum()
    }

    /// The square of the least distance between points of both boxes.
    pub(crate) fn gap_squared(&self, other: &Rect<D>) -> f64 {
        let gap =
            |d: usize| more(more(self.low[d] - other.high[d], other.low[d] - self.high[d]), 0.0);
        (0..D).map(|d| gap(d) * gap(d)).sum()
    }

    fn side(&self, axis: usize) -> f64 {
        self.high[axis] - self.low[axis]
    }
}

/// The smaller number, by one instruction: coordinates are numbers, and need no rule for others.
#[inline]
pub(crate) fn less(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// The larger number.
#[inline]
pub(crate) fn more(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rect(low: [f64; 2], high: [f64; 2]) -> Rect<2> {
        Rect::new(low, high).expect("a box")
    }

    #[test]
    fn what_is_no_box_is_an_error_that_names_the_axis() {
        let error = Rect::new([0.0, f64::NAN], [1.0, 1.0]).unwrap_err();
        assert!(matches!(error, RTreeError::NotANumber { axis: 1 }));
        let error = Rect::new([0.0, 2.0], [1.0, 1.0]).unwrap_err();
        assert!(matches!(error, RTreeError::Inverted { axis: 1, .. }));
        assert!(!Rect::<3>::EVERYTHING.is_finite() && rect([0.0; 2], [1.0; 2]).is_finite());
    }

    #[test]
    fn boxes_that_touch_intersect() {
        let a = rect([0.0, 0.0], [1.0, 1.0]);
        assert!(a.intersects(&rect([1.0, 1.0], [2.0, 2.0])));
        assert!(!a.intersects(&rect([1.1, 0.0], [2.0, 1.0])));
        assert!(a.contains(&a) && !a.contains(&rect([0.0, 0.0], [1.0, 1.1])));
        assert!(!Rect::NOTHING.intersects(&a));
        assert_eq!(Rect::NOTHING.union(&a), a);
    }

    #[test]
    fn measures_are_those_of_geometry() {
        let a = rect([0.0, 0.0], [2.0, 3.0]);
        assert_eq!((a.area(), a.margin(), a.middle(1)), (6.0, 5.0, 1.5));
        assert_eq!(a.overlap(&rect([1.0, 1.0], [4.0, 4.0])), 2.0);
        assert_eq!(a.overlap(&rect([2.5, 0.0], [3.0, 1.0])), 0.0);
        assert!(a.has_side_of(&rect([-1.0, 2.0], [2.0, 4.0])));
        assert!(!a.has_side_of(&rect([2.0, 3.0], [4.0, 5.0])));
        assert_eq!(a.distance_squared(&[5.0, 7.0]), 25.0);
        assert_eq!(a.distance_squared(&[1.0, 1.0]), 0.0);
        assert_eq!(a.gap_squared(&rect([5.0, 7.0], [6.0, 8.0])), 25.0);
        assert_eq!(a.gap_squared(&rect([2.0, 0.0], [6.0, 8.0])), 0.0);
    }
}
