//! Distances on a plane.

use super::area::Area;

/// The least distance between points of both boxes.
pub(super) fn distance(a: &Area, b: &Area) -> f64 {
    let gap =
        |axis: usize| (a.low()[axis] - b.high()[axis]).max(b.low()[axis] - a.high()[axis]).max(0.0);
    (gap(0) * gap(0) + gap(1) * gap(1)).sqrt()
}

#[cfg(test)]
mod tests {
    use latchwork_rtree::Rect;

    use super::*;

    #[test]
    fn the_distance_of_boxes_is_that_of_their_nearest_points() {
        let rect = |low, high| Rect::new(low, high).expect("a box");
        let a = rect([0.0, 0.0], [2.0, 3.0]);
        assert_eq!(distance(&a, &rect([5.0, 7.0], [6.0, 8.0])), 5.0);
        assert_eq!(distance(&a, &rect([1.0, -9.0], [1.0, -2.0])), 2.0);
        assert_eq!(distance(&a, &rect([2.0, 3.0], [9.0, 9.0])), 0.0);
    }
}
