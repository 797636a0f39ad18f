//! Axes.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// A vertical axis, which begins at 0 or is logarithmic. Positions on the axis are numbers from
/// `low` to `high`.
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    /// The positions that have a number beside them.
    pub(super) ticks: Vec<f64>,
    is_log: bool,
}

impl Axis {
    /// An axis for these values.
    pub(super) fn new(values: &[f64], is_log: bool) -> Axis {
        let most = values.iter().copied().fold(0.0, f64::max);
        if is_log {
            let positive = values.iter().copied().filter(|value| *value > 0.0);
            let least = positive.fold(f64::INFINITY, f64::min);
            let (low, high) =
                if least.is_finite() { (least.log10(), most.log10()) } else { (0.0, 1.0) };
            let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
            let ticks = (low as i32..=high as i32).map(f64::from).collect();
            return Axis { low, high, ticks, is_log };
        }
        let step = step(most);
        let count = (most / step).ceil().max(1.0);
        let ticks = (0..=count as u32).map(|tick| f64::from(tick) * step).collect();
        // A little room above the highest point.
        let high = if most > (count - 0.1) * step { (count + 0.3) * step } else { count * step };
        Axis { low: 0.0, high, ticks, is_log }
    }

    /// The position of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        if !self.is_log {
            value
        } else if value > 0.0 {
            value.log10().max(self.low)
        } else {
            self.low
        }
    }

    /// The number at a position.
    pub(super) fn label(&self, place: f64) -> String {
        let value = if self.is_log { 10f64.powf(place) } else { place };
        // Digits after the sixth decimal are rounding errors of the steps.
        let value = (value * 1e6).round() / 1e6;
        value.to_string()
    }
}

/// A range with marks at given positions.
pub(super) struct Ticks {
    pub(super) range: Range<f64>,
    pub(super) ticks: Vec<f64>,
}

impl Ranged for Ticks {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        limit.0 + (f64::from(limit.1 - limit.0) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// The smallest step of 1, 2 or 5 times a power of ten with at most six steps up to `most`.
fn step(most: f64) -> f64 {
    let mut decade = 1e-6;
    loop {
        for step in [1.0, 2.0, 5.0].map(|step| step * decade) {
            if most <= 6.0 * step {
                return step;
            }
        }
        decade *= 10.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_room_for_all_values_and_few_ticks() {
        for most in [0.02, 0.9, 1.0, 2.4, 7.3, 11.9, 160.0, 950.0] {
            let axis = Axis::new(&[most, most / 3.0], false);
            assert!(axis.high >= most && axis.high < 2.1 * most, "{most}: {}", axis.high);
            assert!((2..=7).contains(&axis.ticks.len()), "{most}: {:?}", axis.ticks);
        }
        assert_eq!(
            Axis::new(&[0.3], false)
                .ticks
                .iter()
                .map(|t| Axis::new(&[0.3], false).label(*t))
                .collect::<Vec<_>>(),
            ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"]
        );
    }

    #[test]
    fn a_logarithmic_axis_has_powers_of_ten() {
        let axis = Axis::new(&[0.09, 8.7], true);
        let labels: Vec<_> = axis.ticks.iter().map(|place| axis.label(*place)).collect();
        assert_eq!(labels, ["0.01", "0.1", "1", "10"]);
        assert_eq!((axis.place(10.0), axis.place(0.0)), (1.0, -2.0));
    }
}
