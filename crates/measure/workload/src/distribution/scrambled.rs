//! The distribution that YCSB calls "zipfian".

use super::{YCSB_THETA, Zipfian, refuse};
use crate::WorkloadError;
use crate::hash::ycsb_hash;
use crate::random::WorkloadRandom;

/// The number of ranks that YCSB draws from, for any number of records.
const RANKS: u64 = 10_000_000_000;

/// YCSB's precomputed sum for [`RANKS`] ranks and a skew of 0.99.
const ZETA_OF_RANKS: f64 = 26.469_028_201_783_02;

/// YCSB's scrambled zipfian: a zipfian rank out of ten billion (skew 0.99), hashed with FNV-1a and
/// taken modulo the number of items.
///
/// The popular items are spread over the whole range. The distribution is flatter than a zipfian
/// over the items, because the long tail of the ten billion ranks is folded onto all items. With a
/// million items the hottest item receives 3.8 % of the draws. A zipfian over the items would give
/// that item 6.5 %.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    ranks: Zipfian,
    items: u64,
}

impl ScrambledZipfian {
    /// Item numbers `0..items`.
    ///
    /// # Errors
    ///
    /// Fails without items.
    pub fn new(items: u64) -> Result<ScrambledZipfian, WorkloadError> {
        if items == 0 {
            return refuse("scrambled zipfian", "it needs at least one item");
        }
        // YCSB's ranks are 0 to `RANKS`, both included, which is one rank more than `RANKS`. This
        // code keeps the extra rank, because the formula depends on the number of ranks.
        let ranks = Zipfian::with_zeta(RANKS + 1, YCSB_THETA, ZETA_OF_RANKS);
        Ok(ScrambledZipfian { ranks, items })
    }

    /// Draws an item number.
    #[inline]
    pub fn draw(&self, random: &mut WorkloadRandom) -> u64 {
        ycsb_hash(self.ranks.draw(random)) % self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_item_is_where_and_as_hot_as_ycsb_makes_it() {
        let items = 1_000_000;
        let scrambled = ScrambledZipfian::new(items).unwrap();
        let mut random = WorkloadRandom::new(3);
        let hottest = ycsb_hash(0) % items;
        let draws = 200_000;
        let hits = (0..draws).filter(|_| scrambled.draw(&mut random) == hottest).count();
        let share = hits as f64 / draws as f64;
        assert!((share - 1.0 / ZETA_OF_RANKS).abs() < 0.002, "{share}");
    }

    #[test]
    fn items_stay_inside_and_none_is_left_out() {
        let scrambled = ScrambledZipfian::new(7).unwrap();
        let mut random = WorkloadRandom::new(3);
        let mut seen = [false; 7];
        for _ in 0..10_000 {
            seen[scrambled.draw(&mut random) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert!(ScrambledZipfian::new(0).is_err());
    }
}
