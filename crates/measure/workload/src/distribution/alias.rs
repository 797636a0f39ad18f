//! Drawing from a table of weights.

use latchwork_strict::{strict_assert, strict_assert_eq};

use super::refuse;
use crate::WorkloadError;
use crate::random::Random;

/// Item numbers by weights of any kind, by Walker's alias method as Vose builds it: two looks at a
/// table a draw, however many items there are.
///
/// ```
/// use latchwork_workload::{distribution::Weighted, random::Random};
///
/// let weighted = Weighted::new(&[3.0, 0.0, 1.0])?;
/// let mut random = Random::new(1);
/// let firsts = (0..1000).filter(|_| weighted.draw(&mut random) == 0).count();
/// assert!((700..800).contains(&firsts));
/// # Ok::<(), latchwork_workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Weighted {
    columns: Vec<Column>,
}

/// An item, how much of its column belongs to it (of 2^32), and whose the rest is.
#[derive(Clone, Copy, Debug)]
struct Column {
    own: u32,
    other: u32,
}

impl Weighted {
    /// Items `0..weights.len()`.
    ///
    /// # Errors
    ///
    /// Fails without items or with more than 2^32, when a weight is negative or no number, or when
    /// all are 0.
    pub fn new(weights: &[f64]) -> Result<Weighted, WorkloadError> {
        let sum: f64 = weights.iter().sum();
        if weights.is_empty() || u32::try_from(weights.len()).is_err() {
            return refuse("weighted", "it needs 1 to 2^32 items");
        }
        if weights.iter().any(|weight| weight.is_nan() || *weight < 0.0)
            || !(sum > 0.0 && sum.is_finite())
        {
            return refuse("weighted", "its weights must be numbers, not negative, and not all 0");
        }
        // How full the column of an item would be by its own weight; 1 is full.
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
            // What is missing comes from one that has too much.
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
    pub fn draw(&self, random: &mut Random) -> u64 {
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
        let mut random = Random::new(5);
        let mut seen = [0u32; 6];
        for _ in 0..200_000 {
            seen[weighted.draw(&mut random) as usize] += 1;
        }
        for (item, weight) in weights.iter().enumerate() {
            let share = f64::from(seen[item]) / 200_000.0;
            assert!((share - weight / 10.0).abs() < 0.004, "{item}: {share}");
        }
        // 2^-32 of a column at most.
        assert!(seen[1] <= 1, "{seen:?}");
    }

    #[test]
    fn impossible_weights_are_refused() {
        for weights in [&[][..], &[0.0], &[1.0, -1.0], &[f64::NAN], &[f64::INFINITY]] {
            assert!(Weighted::new(weights).is_err(), "{weights:?}");
        }
        let mut random = Random::new(5);
        assert_eq!(Weighted::new(&[0.1]).unwrap().draw(&mut random), 0);
    }
}
