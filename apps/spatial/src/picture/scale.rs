//! Axes: from numbers of the data to points of the picture, and the lines of a grid.

use crate::geometry::Space;

/// One axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    /// The points of both ends.
    ends: [f64; 2],
}

impl Scale {
    pub(super) fn new((low, high): (f64, f64), ends: [f64; 2]) -> Scale {
        Scale { low, high, ends }
    }

    /// The point of a number.
    pub(super) fn at(&self, number: f64) -> f64 {
        let part = (number - self.low) / (self.high - self.low);
        self.ends[0] + (self.ends[1] - self.ends[0]) * part
    }

    /// Round numbers on the axis, about so many.
    pub(super) fn ticks(&self, about: f64) -> Vec<f64> {
        let step = step((self.high - self.low) / about);
        let first = (self.low / step).ceil() as i64;
        let ticks = (first..first + 1_000).map(|tick| tick as f64 * step);
        ticks.take_while(|tick| *tick <= self.high).collect()
    }
}

/// The round number next to `least`: steps of degrees up to a turn, else 1, 2 or 5 times a power of
/// ten.
fn step(least: f64) -> f64 {
    const DEGREES: [f64; 5] = [10.0, 15.0, 30.0, 45.0, 60.0];
    if (5.0..=60.0).contains(&least) {
        return DEGREES.into_iter().find(|step| *step >= least).unwrap_or(60.0);
    }
    let power = 10f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power);
    round.into_iter().find(|step| *step >= least).unwrap_or(least)
}

/// The range of an axis with a margin. Without a length the range gets one.
pub(super) fn widened((low, high): (f64, f64)) -> (f64, f64) {
    let length = high - low;
    let margin = if length > 0.0 { 0.02 * length } else { low.abs().max(1.0) * 0.5 };
    (low - margin, high + margin)
}

/// The name of a line of the grid.
pub(super) fn name(space: Space, axis: usize, number: f64) -> String {
    // Rounding of the ticks.
    let number = (number * 1e9).round() / 1e9 + 0.0;
    if space == Space::Plane {
        return format!("{number}");
    }
    let number = if axis == 0 && number > 180.0 { number - 360.0 } else { number };
    let (positive, negative) = if axis == 0 { ("E", "W") } else { ("N", "S") };
    let side = match number {
        n if n == 0.0 || axis == 0 && n.abs() == 180.0 => "",
        n if n > 0.0 => positive,
        _ => negative,
    };
    format!("{}°{side}", number.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_inside_of_the_axis() {
        let ticks = |low, high| Scale::new((low, high), [0.0, 1.0]).ticks(8.0);
        assert_eq!(ticks(-180.0, 180.0).len(), 9, "{:?}", ticks(-180.0, 180.0));
        assert_eq!(ticks(0.0, 1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert!(ticks(3.0e9, 3.1e9).len() > 3);
        assert!(ticks(5.0, 5.0 + 1e-12).len() < 20);
    }

    #[test]
    fn degrees_have_their_side() {
        let of = |axis, number| name(Space::Sphere, axis, number);
        assert_eq!([of(0, -30.0), of(0, 30.0), of(0, 190.0)], ["30°W", "30°E", "170°W"]);
        assert_eq!([of(1, -30.0), of(1, 0.0), of(0, 180.0)], ["30°S", "0°", "180°"]);
        assert_eq!(name(Space::Plane, 0, 0.6000000000000001), "0.6");
    }

    #[test]
    fn a_range_without_a_length_gets_one() {
        assert_eq!(widened((4.0, 4.0)), (2.0, 6.0));
        assert_eq!(widened((0.0, 100.0)), (-2.0, 102.0));
    }
}
