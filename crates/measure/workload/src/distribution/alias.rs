//! Drawing from a table of weights.

use latchwork_strict::{strict_assert, strict_assert_eq};

use super::refuse;
use crate::WorkloadError;
use crate::random::WorkloadRandom;

/// Item numbers with arbitrary weights, by Walker's alias method with Vose's construction. One draw
/// costs one table lookup for any number of items.
///
/// ```
/// use latchwork_workload::{distribution::Weighted, random::WorkloadRandom};
///
/// let weighted = Weighted::new(&[3.0, 0.0, 1.0])?;
/// let mut random = WorkloadRandom::new(1);
/// let firsts = (0..1000).filter(|_| weighted.draw(&mut random) == 0).count();
/// assert!((700..800).contains(&firsts));
/// # Ok::<(), latchwork_workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Weighted {
    columns: Vec<Column>,
}

/// A column of the table, one for each item. A draw that meets the column takes its item with
/// probability (`own` + 1) / 2^32, else the item `other`.
#[derive(Clone, Copy, Debug)]
struct Column {
    own: u32,
    other: u32,
}

impl Weighted {
    /// A table for the items `0..weights.len()`.
    ///
    /// # Errors
    ///
    /// Fails without items or with 2^32 items or more. Fails when a weight is negative or not a
    /// number, when all weights are 0, or when their sum is infinite.
    pub fn new(weights: &[f64]) -> Result<Weighted, WorkloadError> {
        let sum: f64 = weights.iter().sum();
        if weights.is_empty() || u32::try_from(weights.len()).is_err() {
            return refuse("weighted", "it needs 1 to 2^32 - 1 items");
        }
        if weights.iter().any(|weight| weight.is_nan() || *weight < 0.0)
            || !(sum > 0.0 && sum.is_finite())
        {
            return refuse("weighted", "its weights must be numbers, not negative, and not all 0");
        }
        // Each item's weight as the height of a column. The mean height is 1, and a column of
        // height 1 is full.
        let mut heights: Vec<f64> =
            weights.iter().map(|weight| weight * weights.len() as f64 / sum).collect();
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for (item, height) in heights.iter().enumerate() {
            if *height < 1.0 { low.push(item) } else { high.push(item) }
        }
        let full = |item: usize| Column { own: u32::MAX, other: item as u32 };
        let mut columns: Vec<Column> = (0..weights.len()).map(full).collect();
        strict_assert_eq!(columns.len(), weights.len());
        while let (Some(item), Some(&other)) = (low.pop(), high.last()) {
            // The item `other` has more than a full column. Its excess fills the rest of this
            // column.
            let own = (heights[item] * 2f64.powi(32)) as u32;
            columns[item] = Column { own, other: other as u32 };
            heights[other] -= 1.0 - heights[item];
            if heights[other] < 1.0 {
                high.pop();
                low.push(other);
            }
        }
        Ok(Weighted { columns })
    }

    /// Draws an item number.
    #[inline]
    pub fn draw(&self, random: &mut WorkloadRandom) -> u64 {
        let item = random.below(self.columns.len() as u64);
        let column = self.columns[item as usize];
        strict_assert!(item < self.columns.len() as u64, "a column that is not there");
        if (random.next_u64() >> 32) as u32 <= column.own { item } else { u64::from(column.other) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_as_the_weights() {
        let weights = [1.0, 0.0, 5.0, 2.5, 0.5, 1.0];
        let weighted = Weighted::new(&weights).unwrap();
        let mut random = WorkloadRandom::new(5);
        let mut seen = [0u32; 6];
        for _ in 0..200_000 {
            seen[weighted.draw(&mut random) as usize] += 1;
        }
        for (item, weight) in weights.iter().enumerate() {
            let share = f64::from(seen[item]) / 200_000.0;
            assert!((share - weight / 10.0).abs() < 0.004, "{item}: {share}");
        }
        // An item of weight 0 keeps 2^-32 of its column.
        assert!(seen[1] <= 1, "{seen:?}");
    }

    #[test]
    fn impossible_weights_are_refused() {
        for weights in [&[][..], &[0.0], &[1.0, -1.0], &[f64::NAN], &[f64::INFINITY]] {
            assert!(Weighted::new(weights).is_err(), "{weights:?}");
        }
        let mut random = WorkloadRandom::new(5);
        assert_eq!(Weighted::new(&[0.1]).unwrap().draw(&mut random), 0);
    }
}
