//! A zipfian distribution folded onto fewer items.

use std::sync::Arc;

use latchwork_strict::strict_assert;

use super::alias::Weighted;
use super::refuse;
use super::zipfian::zeta_of;
use crate::WorkloadError;
use crate::random::WorkloadRandom;

/// After the first 1/16 of the items, each item has `scale` ranks, so shares are as at full size.
const EVEN_FROM: u64 = 16;

/// A zipfian distribution of any skew over `scale` times the number of items, folded onto the
/// items.
///
/// A benchmark with less data than a paper used cannot just shrink the zipfian. Over a thousandth
/// of the items, the hottest item gets a far larger share of the draws. The hottest tenth of the
/// items also gets another share than the hottest tenth at full size. So this distribution keeps
/// the ranks of the full size and maps several ranks to one item:
///
/// ```text
///   rank    0 ......... K ................ scale * N/16 ............... scale * N
///   item    0 ......... K ................ N/16 ........................ N
///           one to one    ever more ranks     scale ranks an item
///                         an item
/// ```
///
/// - The head maps one rank to one item. So the hottest items are as hot as at full size, and
///   threads meet at them as often.
/// - From a sixteenth of the items on, shares are equal to the shares at full size. For every `c`
///   of 1/16 or more, the hottest `c * N` items get the share of the hottest part `c` at full size.
///   So a cache that holds a given part of the data has the same hit ratio at any scale.
/// - Between these two parts, the number of ranks per item grows geometrically, so that no item is
///   much hotter than the previous item. A cache of more than a sixteenth of the data holds all
///   these items.
///
/// Draws come from a table with the probability of each item, which is the sum over its ranks. The
/// table serves every skew from 0 (uniform) to 100. Clones share the table.
///
/// ```
/// use latchwork_workload::{distribution::ScaledZipfian, random::WorkloadRandom};
///
/// // 24 thousand lines in place of 24 million.
/// let zipfian = ScaledZipfian::new(24_000, 1000, 0.99)?;
/// assert!((0.052..0.053).contains(&zipfian.share(1)));
/// assert!(zipfian.draw(&mut WorkloadRandom::new(1)) < 24_000);
/// # Ok::<(), latchwork_workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScaledZipfian {
    fold: Fold,
    theta: f64,
    table: Arc<Weighted>,
}

/// The mapping from ranks to items.
#[derive(Clone, Copy, Debug)]
struct Fold {
    items: u64,
    scale: u64,
    /// The number of items with one rank each.
    head: f64,
    /// The first item with `scale` ranks.
    even_from: f64,
}

impl Fold {
    fn new(items: u64, scale: u64) -> Fold {
        let even_from = (items as f64 / EVEN_FROM as f64).ceil().max(1.0);
        let ranks = even_from * scale as f64;
        // The head K must satisfy K (1 + ln(ranks / K)) = even_from:
        //
        // 1. K items have one rank each.
        // 2. After the head, the number of ranks grows by the factor e every K items.
        // 3. At item `even_from` the sum of the ranks is `ranks`.
        //
        // The left side grows with K for K below `ranks`, so a bisection finds K.
        let (mut low, mut high) = (0.0, even_from);
        for _ in 0..64 {
            let middle = (low + high) / 2.0;
            if middle * (1.0 + (ranks / middle).ln()) < even_from {
                low = middle;
            } else {
                high = middle;
            }
        }
        let head = if scale == 1 { even_from } else { high };
        strict_assert!(head <= even_from, "the ranks are even before they are spread");
        Fold { items, scale, head, even_from }
    }

    /// The first rank of an item.
    fn rank(&self, item: u64) -> u64 {
        let at = item as f64;
        if at < self.head {
            item
        } else if at < self.even_from {
            // Rounding must not give an item less than one rank.
            ((self.head * ((at - self.head) / self.head).exp()) as u64).max(item)
        } else {
            item * self.scale
        }
    }
}

impl ScaledZipfian {
    /// The distribution over the items `0..items`, with item 0 as the hottest, from a zipfian of
    /// skew `theta` over `items * scale` ranks.
    ///
    /// # Errors
    ///
    /// Fails without items, with 2^32 items or more, with scale 0, when `items * scale` overflows,
    /// or when `theta` is not from 0 to 100.
    pub fn new(items: u64, scale: u64, theta: f64) -> Result<ScaledZipfian, WorkloadError> {
        if !(1..1 << 32).contains(&items) || scale == 0 || items.checked_mul(scale).is_none() {
            return refuse(
                "scaled zipfian",
                "it needs 1 to 2^32 - 1 items, and a scale of at least 1",
            );
        }
        if !(0.0..=100.0).contains(&theta) {
            let problem = format!("its skew must be from 0 to 100, and {theta} is not");
            return refuse("scaled zipfian", problem);
        }
        let fold = Fold::new(items, scale);
        let weight = |item| zeta_of(fold.rank(item), fold.rank(item + 1), theta);
        strict_assert!(fold.rank(items) >= items, "an item has no rank");
        let weights: Vec<f64> = (0..items).map(weight).collect();
        Ok(ScaledZipfian { fold, theta, table: Arc::new(Weighted::new(&weights)?) })
    }

    /// The number of items.
    pub fn items(&self) -> u64 {
        self.fold.items
    }

    /// The share of the draws that fall on the hottest `items` items, 0 to 1.
    pub fn share(&self, items: u64) -> f64 {
        let ranks = self.fold.items * self.fold.scale;
        let first = self.fold.rank(items.min(self.fold.items)).min(ranks);
        zeta_of(0, first, self.theta) / zeta_of(0, ranks, self.theta)
    }

    /// Draws an item number. Item 0 is the hottest.
    #[inline]
    pub fn draw(&self, random: &mut WorkloadRandom) -> u64 {
        self.table.draw(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u64 = 24_000_000;

    /// The share of the draws that the hottest `items` of `of` get in a plain zipfian.
    fn plain(items: u64, of: u64, theta: f64) -> f64 {
        zeta_of(0, items, theta) / zeta_of(0, of, theta)
    }

    #[test]
    fn a_cache_of_a_part_gets_the_share_of_full_size() {
        for theta in [0.5, 0.99, 1.0, 1.2] {
            for scale in [100, 1000] {
                let items = FULL / scale;
                let zipfian = ScaledZipfian::new(items, scale, theta).unwrap();
                let mut random = WorkloadRandom::new(3);
                let mut seen = vec![0u32; items as usize];
                for _ in 0..300_000 {
                    seen[zipfian.draw(&mut random) as usize] += 1;
                }
                for (part, of) in [(1, 6), (1, 3), (1, 12), (1, 2)] {
                    let expected = plain(FULL * part / of, FULL, theta);
                    let hottest = (items * part / of) as usize;
                    let drawn: u32 = seen[..hottest].iter().sum();
                    let share = f64::from(drawn) / 300_000.0;
                    assert!((share - expected).abs() < 0.005, "{theta} {scale} {of}: {share}");
                    // A plain zipfian over the fewer items has another share, so the fold is
                    // necessary.
                    let shrunk = plain(items * part / of, items, theta);
                    if theta == 0.99 && of == 6 {
                        assert!((shrunk - expected).abs() > 0.02, "{shrunk} {expected}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_hottest_items_are_as_hot_as_at_full_size() {
        for (theta, items, scale) in [(0.99, 24_000, 1000), (0.99, 240_000, 100), (10.0, 1000, 7)] {
            let zipfian = ScaledZipfian::new(items, scale, theta).unwrap();
            for hottest in [1, 2, 3, 5, 10] {
                let expected = plain(hottest, items * scale, theta);
                assert!((zipfian.share(hottest) - expected).abs() < 1e-9, "{theta} {hottest}");
            }
            let mut random = WorkloadRandom::new(4);
            let firsts = (0..100_000).filter(|_| zipfian.draw(&mut random) == 0).count();
            let share = firsts as f64 / 100_000.0;
            assert!((share - plain(1, items * scale, theta)).abs() < 0.003, "{theta}: {share}");
        }
    }

    /// Two drawing threads meet at one item about as often as at full size. The measure is the sum
    /// of the squared probabilities.
    #[test]
    fn threads_meet_about_as_often_as_at_full_size() {
        let meet = |items: u64, scale: u64| {
            let zipfian = ScaledZipfian::new(items, scale, 0.99).unwrap();
            let share = |item| zipfian.share(item + 1) - zipfian.share(item);
            (0..items).map(|item| share(item).powi(2)).sum::<f64>()
        };
        let full = (0..100_000).map(|r| (plain(r + 1, FULL, 0.99) - plain(r, FULL, 0.99)).powi(2));
        let full: f64 = full.sum();
        for scale in [100, 400, 1000] {
            let ratio = meet(FULL / scale, scale) / full;
            assert!((0.99..1.10).contains(&ratio), "{scale}: {ratio}");
        }
    }

    #[test]
    fn no_item_is_much_hotter_than_the_one_before_it() {
        let zipfian = ScaledZipfian::new(24_000, 1000, 0.99).unwrap();
        let mut before = f64::MAX;
        for item in 0..24_000 {
            let share = zipfian.share(item + 1) - zipfian.share(item);
            assert!(share > 0.0, "{item}");
            // Ranks are whole numbers, so the shares of the first items with several ranks vary a
            // little.
            assert!(share < 2.1 * before, "{item}: {share} after {before}");
            before = share;
        }
    }

    #[test]
    fn every_size_and_skew_is_fine_and_nonsense_is_refused() {
        for items in [1, 2, 15, 16, 17, 100] {
            for scale in [1, 2, 1000] {
                for theta in [0.0, 0.99, 1.0, 10.0] {
                    let zipfian = ScaledZipfian::new(items, scale, theta).unwrap();
                    assert!((zipfian.share(items) - 1.0).abs() < 1e-9);
                    assert!(zipfian.draw(&mut WorkloadRandom::new(1)) < items);
                }
            }
        }
        assert!(ScaledZipfian::new(0, 1, 0.5).is_err());
        let error = ScaledZipfian::new(1 << 32, 1, 0.5).expect_err("the table has no such item");
        assert!(error.to_string().contains("1 to 2^32 - 1 items"), "{error}");
        assert!(ScaledZipfian::new(1, 0, 0.5).is_err());
        for theta in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(ScaledZipfian::new(10, 1, theta).is_err());
        }
    }
}
