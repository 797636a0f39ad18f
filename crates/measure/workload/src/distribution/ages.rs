//! Distributions over ages: how long ago an item was inserted.

use latchwork_strict::strict_assert;

use super::{Zipfian, refuse};
use crate::WorkloadError;
use crate::random::WorkloadRandom;

/// A zipfian distribution over ages, with the newest item as the most popular one. The range grows
/// with the number of items.
#[derive(Clone, Debug)]
pub struct LatestDistribution {
    ages: Zipfian,
}

impl LatestDistribution {
    /// Starts with `items` items and skew `theta`.
    ///
    /// # Errors
    ///
    /// As [`Zipfian::new`].
    pub fn new(items: u64, theta: f64) -> Result<LatestDistribution, WorkloadError> {
        Ok(LatestDistribution { ages: Zipfian::new(items, theta)? })
    }

    /// Draws an item number out of `0..items`; `items - 1` is the most popular.
    ///
    /// `items` may grow from draw to draw. A smaller number than before is allowed. In this case an
    /// age that exceeds the number yields the oldest item.
    #[inline]
    pub fn draw(&mut self, random: &mut WorkloadRandom, items: u64) -> u64 {
        self.ages.grow_to(items);
        strict_assert!(self.ages.items() >= items, "an age beyond the oldest");
        items.saturating_sub(1).saturating_sub(self.ages.draw(random))
    }
}

/// A distribution in which popularity falls exponentially with age: YCSB's `exponential`.
#[derive(Clone, Debug)]
pub struct Exponential {
    mean_age: f64,
}

impl Exponential {
    /// With many more than `range` items, `percentile` percent of the draws fall on the newest
    /// `range` items.
    ///
    /// # Errors
    ///
    /// Fails when `percentile` is not strictly between 0 and 100 or `range` is not positive.
    pub fn new(percentile: f64, range: f64) -> Result<Exponential, WorkloadError> {
        if !(percentile > 0.0 && percentile < 100.0) {
            return refuse(
                "exponential",
                format!("its percentile must be above 0 and below 100, and {percentile} is not"),
            );
        }
        if !(range > 0.0 && range.is_finite()) {
            return refuse(
                "exponential",
                format!("its range must be positive, and {range} is not"),
            );
        }
        Ok(Exponential { mean_age: -range / (1.0 - percentile / 100.0).ln() })
    }

    /// Draws an item number out of `0..items`; `items - 1` is the most popular.
    #[inline]
    pub fn draw(&self, random: &mut WorkloadRandom, items: u64) -> u64 {
        let newest = items.saturating_sub(1);
        // The code draws from the distribution cut at `items`, so that no draw must be repeated.
        let inside = -(-(items as f64) / self.mean_age).exp_m1();
        let age = -(-random.next_f64() * inside).ln_1p() * self.mean_age;
        newest - (age as u64).min(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::YCSB_THETA;

    #[test]
    fn latest_follows_the_newest_item() {
        let mut latest = LatestDistribution::new(1000, YCSB_THETA).unwrap();
        let mut random = WorkloadRandom::new(5);
        for items in [1000, 1001, 1500, 10_000] {
            let mut newest = 0;
            for _ in 0..10_000 {
                let item = latest.draw(&mut random, items);
                assert!(item < items);
                newest += u32::from(item == items - 1);
            }
            assert!(newest > 900, "{newest} of 10000 draws fell on the newest of {items}");
        }
        assert_eq!(latest.draw(&mut random, 1), 0);
    }

    #[test]
    fn exponential_keeps_its_percentile() {
        let exponential = Exponential::new(95.0, 100.0).unwrap();
        let mut random = WorkloadRandom::new(5);
        let items = 10_000;
        let recent =
            (0..100_000).filter(|_| exponential.draw(&mut random, items) >= items - 100).count();
        assert!((94_600..95_400).contains(&recent), "{recent}");
    }

    #[test]
    fn exponential_stays_inside_when_its_range_is_wider_than_the_items() {
        let exponential = Exponential::new(95.0, 1e6).unwrap();
        let mut random = WorkloadRandom::new(5);
        let mut seen = [0; 4];
        for _ in 0..40_000 {
            seen[exponential.draw(&mut random, 4) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 9_000), "{seen:?}");
        assert_eq!(exponential.draw(&mut random, 0), 0);
    }

    #[test]
    fn impossible_parameters_are_refused() {
        assert!(Exponential::new(100.0, 10.0).is_err());
        assert!(Exponential::new(0.0, 10.0).is_err());
        assert!(Exponential::new(95.0, 0.0).is_err());
        assert!(LatestDistribution::new(0, YCSB_THETA).is_err());
    }
}
