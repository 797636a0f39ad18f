//! A distribution with a hot set and a cold set of items.

use latchwork_strict::strict_assert;

use super::refuse;
use crate::WorkloadError;
use crate::random::WorkloadRandom;

/// A fraction of the items, the lowest numbers, receives a fraction of the draws. Each of the two
/// sets is uniform.
#[derive(Clone, Debug)]
pub struct Hotspot {
    items: u64,
    hot_items: u64,
    hot_draws: f64,
}

impl Hotspot {
    /// The first `hot_data` (a fraction) of `items` receive `hot_operations` (a fraction) of the
    /// draws.
    ///
    /// A hot fraction above zero gives at least one hot item. A hot fraction below one gives at
    /// least one cold item, if there are enough items.
    ///
    /// # Errors
    ///
    /// Fails without items, or when a fraction lies outside 0 to 1.
    pub fn new(items: u64, hot_data: f64, hot_operations: f64) -> Result<Hotspot, WorkloadError> {
        if items == 0 {
            return refuse("hotspot", "it needs at least one item");
        }
        for (name, fraction) in [("data", hot_data), ("operation", hot_operations)] {
            if !(0.0..=1.0).contains(&fraction) {
                return refuse(
                    "hotspot",
                    format!(
                        "its {name} fraction must lie between 0 and 1, and {fraction} does not"
                    ),
                );
            }
        }
        let least = u64::from(hot_data > 0.0);
        let most = items - u64::from(hot_data < 1.0 && items > 1);
        let hot_items = ((items as f64 * hot_data) as u64).clamp(least, most);
        strict_assert!(hot_items <= items, "more hot items than items");
        // If one of the sets is empty, the other set receives all draws.
        let hot_draws = match hot_items {
            0 => 0.0,
            all if all == items => 1.0,
            _ => hot_operations,
        };
        Ok(Hotspot { items, hot_items, hot_draws })
    }

    /// Draws an item number.
    #[inline]
    pub fn draw(&self, random: &mut WorkloadRandom) -> u64 {
        if random.next_f64() < self.hot_draws {
            strict_assert!(
                self.hot_items < self.items || self.hot_draws >= 1.0,
                "a cold item is drawn, and there is none"
            );
            strict_assert!(
                self.hot_items > 0 || self.hot_draws <= 0.0,
                "a hot item is drawn, and there is none"
            );
            random.below(self.hot_items)
        } else {
            self.hot_items + random.below(self.items - self.hot_items)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hot_set_receives_its_share() {
        let hotspot = Hotspot::new(1000, 0.2, 0.8).unwrap();
        let mut random = WorkloadRandom::new(11);
        let mut hot = 0;
        let mut seen = vec![false; 1000];
        for _ in 0..100_000 {
            let item = hotspot.draw(&mut random);
            seen[item as usize] = true;
            hot += u32::from(item < 200);
        }
        assert!((79_400..80_600).contains(&hot), "{hot}");
        assert!(seen.iter().all(|&s| s));
    }

    #[test]
    fn extreme_fractions_stay_inside() {
        let mut random = WorkloadRandom::new(11);
        for items in [1, 2, 3] {
            for data in [0.0, 0.001, 0.5, 0.999, 1.0] {
                for operations in [0.0, 0.5, 1.0] {
                    let hotspot = Hotspot::new(items, data, operations).unwrap();
                    assert!((0..100).all(|_| hotspot.draw(&mut random) < items));
                }
            }
        }
    }

    #[test]
    fn impossible_parameters_are_refused() {
        assert!(Hotspot::new(0, 0.2, 0.8).is_err());
        assert!(Hotspot::new(10, 1.2, 0.8).is_err());
        assert!(Hotspot::new(10, 0.2, -0.8).is_err());
        assert!(Hotspot::new(10, f64::NAN, 0.8).is_err());
    }
}
