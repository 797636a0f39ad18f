//! A choice between a few alternatives with weights.

use latchwork_strict::strict_assert;

use super::refuse;
use crate::WorkloadError;
use crate::random::WorkloadRandom;

/// A choice between `N` alternatives in proportion to their weights. The weights need not add up to
/// one.
#[derive(Clone, Debug)]
pub struct Discrete<const N: usize> {
    /// The end of each alternative on the scale of all 64-bit numbers. An alternative begins where
    /// the previous one ends.
    ends: [u64; N],
    last: usize,
}

impl<const N: usize> Discrete<N> {
    /// Alternative `i` is drawn with probability `weights[i]` over the sum of all.
    ///
    /// # Errors
    ///
    /// Fails when a weight is negative or not finite, when no weight is above zero, or when the sum
    /// is not finite.
    pub fn new(weights: [f64; N]) -> Result<Discrete<N>, WorkloadError> {
        if weights.iter().any(|w| !(*w >= 0.0 && w.is_finite())) {
            return refuse("discrete", "its weights must be zero or positive numbers");
        }
        let sum: f64 = weights.iter().sum();
        let Some(last) = weights.iter().rposition(|w| *w > 0.0).filter(|_| sum.is_finite()) else {
            return refuse(
                "discrete",
                "at least one weight must be above zero, and their sum finite",
            );
        };
        let mut reached = 0.0;
        let ends = weights.map(|weight| {
            reached += weight;
            (reached / sum * u64::MAX as f64) as u64
        });
        Ok(Discrete { ends, last })
    }

    /// Draws the index of an alternative. An alternative with weight zero is never drawn.
    #[inline]
    pub fn draw(&self, random: &mut WorkloadRandom) -> usize {
        let at = random.next_u64();
        strict_assert!(self.last < N);
        self.ends.iter().position(|end| at < *end).unwrap_or(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_shares_of_their_sum() {
        let discrete = Discrete::new([0.0, 3.0, 0.0, 1.0, 0.0]).unwrap();
        let mut random = WorkloadRandom::new(4);
        let mut seen = [0; 5];
        for _ in 0..40_000 {
            seen[discrete.draw(&mut random)] += 1;
        }
        assert_eq!([seen[0], seen[2], seen[4]], [0, 0, 0]);
        assert!((29_600..30_400).contains(&seen[1]), "{seen:?}");
    }

    #[test]
    fn impossible_weights_are_refused() {
        for weights in
            [[0.0, 0.0], [-1.0, 2.0], [f64::NAN, 1.0], [f64::INFINITY, 1.0], [f64::MAX; 2]]
        {
            assert!(Discrete::new(weights).is_err(), "{weights:?}");
        }
    }
}
