//! The zipfian distribution by the formula of Gray et al., "Quickly Generating Billion-Record
//! Synthetic Databases" (SIGMOD 1994).

use latchwork_strict::strict_assert;

use super::refuse;
use crate::WorkloadError;
use crate::random::{WorkloadRandom, unit};

/// The skew of every distribution that YCSB calls "zipfian".
pub const YCSB_THETA: f64 = 0.99;

/// Number of terms that [`zeta`] adds one by one. The Euler-Maclaurin formula gives the sum of the
/// other terms.
const DIRECT_TERMS: u64 = 1000;

/// [`zeta_of`] adds the terms up to this number one by one. With 100, a sum from 0 at skew 10 has
/// twelve correct digits, and a sum of later terms has nine.
const SHORT_TERMS: u64 = 100;

/// When the number of items grows by at most this many, the new terms are added one by one. A
/// larger growth computes the whole sum anew.
const GROWTH_TERMS: u64 = 32;

/// The generalised harmonic number: the sum of `i^-theta` for `i` in `1..=items`, for `theta` other
/// than 1.
///
/// The computation takes microseconds for any `items`: a thousand terms are added one by one, and
/// the Euler-Maclaurin formula gives the rest. The error of the formula is far below the rounding
/// error of a plain sum.
///
/// ```
/// // The constant that YCSB carries for its ten billion ranks.
/// let ycsb = 26.46902820178302;
/// assert!((latchwork_workload::distribution::zeta(10_000_000_000, 0.99) - ycsb).abs() < 1e-6);
/// ```
pub fn zeta(items: u64, theta: f64) -> f64 {
    let direct = items.min(DIRECT_TERMS);
    // The smallest terms come first, so that rounding errors do not accumulate.
    let head: f64 = (1..=direct).rev().map(|i| (i as f64).powf(-theta)).sum();
    if items == direct { head } else { head + tail(direct as f64, items as f64, theta) }
}

/// The sum of `i^-theta` over the integers in `(from, to]`, for any `theta` that is not negative.
pub(super) fn zeta_of(from: u64, to: u64, theta: f64) -> f64 {
    let direct = to.min(from.max(SHORT_TERMS)).max(from);
    strict_assert!(direct >= from && direct <= to.max(from), "a term is added twice");
    let head: f64 = (from + 1..=direct).rev().map(|i| (i as f64).powf(-theta)).sum();
    if direct >= to {
        return head;
    }
    let (from, to) = (direct as f64, to as f64);
    if theta == 1.0 {
        // At skew 1 the integral in `tail` has no value. Its limit is the logarithm.
        let power = |exponent: i32| to.powi(exponent) - from.powi(exponent);
        return head + (to / from).ln() + power(-1) / 2.0 - power(-2) / 12.0 + power(-4) / 120.0;
    }
    head + tail(from, to, theta)
}

/// The sum of `i^-theta` over the integers in `(from, to]`, by the Euler-Maclaurin formula.
fn tail(from: f64, to: f64, theta: f64) -> f64 {
    let power = |exponent: f64| to.powf(exponent) - from.powf(exponent);
    // With theta near 1, the difference of the two powers would lose most digits. `exp_m1` loses
    // none.
    let integral =
        from.powf(1.0 - theta) * ((1.0 - theta) * (to / from).ln()).exp_m1() / (1.0 - theta);
    integral + power(-theta) / 2.0 - theta / 12.0 * power(-theta - 1.0)
        + theta * (theta + 1.0) * (theta + 2.0) / 720.0 * power(-theta - 3.0)
}

/// A zipfian distribution over the ranks `0..items`, with rank 0 as the most popular. The number of
/// items may grow.
///
/// Ranks 0 and 1 have exactly their zipfian probability. The other ranks follow Gray's closed
/// formula. With a million items and skew 0.99, the formula gives a fifth too much to the third
/// rank. The surplus falls to zero at about the 30th rank. All later ranks get one to two per cent
/// too little. YCSB draws by the same formula, so results are comparable.
///
/// ```
/// use latchwork_workload::{distribution::{YCSB_THETA, Zipfian}, random::WorkloadRandom};
///
/// let mut zipfian = Zipfian::new(1_000_000, YCSB_THETA)?;
/// let mut random = WorkloadRandom::new(1);
/// let hottest = (0..10_000).filter(|_| zipfian.draw(&mut random) == 0).count();
/// assert!((550..750).contains(&hottest)); // one draw in fifteen
/// zipfian.grow_to(1_000_001);
/// # Ok::<(), latchwork_workload::WorkloadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    alpha: f64,
    zeta_items: f64,
    /// The sum of the first two terms. A scaled draw below this sum is rank 0 or 1, without the
    /// formula.
    zeta_two: f64,
    eta: f64,
}

impl Zipfian {
    /// Ranks `0..items` with skew `theta`.
    ///
    /// # Errors
    ///
    /// Fails without items, or when `theta` is not strictly between 0 and 1. The formula has no
    /// value at 1, and it is inaccurate above.
    pub fn new(items: u64, theta: f64) -> Result<Zipfian, WorkloadError> {
        if items == 0 {
            return refuse("zipfian", "it needs at least one item");
        }
        if !(theta > 0.0 && theta < 1.0) {
            return refuse(
                "zipfian",
                format!("its skew must be above 0 and below 1, and {theta} is not"),
            );
        }
        Ok(Zipfian::with_zeta(items, theta, zeta(items, theta)))
    }

    /// As [`Zipfian::new`], for a valid `theta` and with a known sum.
    pub(super) fn with_zeta(items: u64, theta: f64, zeta_items: f64) -> Zipfian {
        let mut zipfian = Zipfian {
            items,
            theta,
            alpha: 1.0 / (1.0 - theta),
            zeta_items,
            zeta_two: 1.0 + 0.5f64.powf(theta),
            eta: 0.0,
        };
        zipfian.update_eta();
        zipfian
    }

    fn update_eta(&mut self) {
        // With one or two items `eta` has no meaning, and can be NaN. `rank` then decides all draws
        // without `eta`.
        self.eta = (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta))
            / (1.0 - self.zeta_two / self.zeta_items);
    }

    /// The number of items.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Raises the number of items to `items`. A smaller `items` changes nothing. Growth by one item
    /// costs tens of nanoseconds.
    ///
    /// Departure from YCSB: here `eta` follows from the new number of items. YCSB keeps the old
    /// number in one term of `eta`, `2 / items`.
    #[inline]
    pub fn grow_to(&mut self, items: u64) {
        if items > self.items {
            self.grow(items);
        }
    }

    #[cold]
    fn grow(&mut self, items: u64) {
        strict_assert!(items > self.items, "a distribution shrinks");
        if items - self.items <= GROWTH_TERMS {
            for i in self.items + 1..=items {
                self.zeta_items += (i as f64).powf(-self.theta);
            }
        } else {
            self.zeta_items = zeta(items, self.theta);
        }
        self.items = items;
        self.update_eta();
    }

    /// Draws a rank.
    #[inline]
    pub fn draw(&self, random: &mut WorkloadRandom) -> u64 {
        self.rank(random.next_f64())
    }

    /// The rank for the number in `[0, 1)` that these bits encode. The same bits give the same
    /// rank.
    #[inline]
    pub(crate) fn rank_of_bits(&self, bits: u64) -> u64 {
        self.rank(unit(bits))
    }

    #[inline]
    fn rank(&self, u: f64) -> u64 {
        let scaled = u * self.zeta_items;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.zeta_two {
            return 1.min(self.items - 1);
        }
        let rank = self.items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        strict_assert!(self.items > 1, "a rank beyond the second of one item");
        (rank as u64).min(self.items - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added_up(items: u64, theta: f64) -> f64 {
        (1..=items).rev().map(|i| (i as f64).powf(-theta)).sum()
    }

    #[test]
    fn zeta_agrees_with_adding_up() {
        for theta in [0.01, 0.5, 0.9, 0.99, 0.999_999] {
            for items in [1, 2, 999, 1000, 1001, 5000, 200_000] {
                let (fast, slow) = (zeta(items, theta), added_up(items, theta));
                assert!((fast - slow).abs() / slow < 1e-12, "{items} {theta}: {fast} {slow}");
            }
        }
    }

    #[test]
    fn sums_of_a_part_agree_with_adding_up_for_every_skew() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.2, 3.0, 10.0] {
            for (from, to) in [(0, 1), (0, 5000), (99, 101), (700, 4000), (5, 5), (50_000, 51_000)]
            {
                let slow: f64 = (from + 1..=to).rev().map(|i| (i as f64).powf(-theta)).sum();
                let fast = zeta_of(from, to, theta);
                assert!((fast - slow).abs() <= 1e-9 * slow, "{theta} {from} {to}: {fast} {slow}");
            }
        }
    }

    #[test]
    fn growing_gives_the_distribution_of_the_larger_number() {
        let mut grown = Zipfian::new(1, YCSB_THETA).unwrap();
        for items in (1..3000).chain([3001, 50_000, 50_001]) {
            grown.grow_to(items);
        }
        let built = Zipfian::new(50_001, YCSB_THETA).unwrap();
        assert_eq!(grown.items(), built.items());
        assert!((grown.zeta_items - built.zeta_items).abs() < 1e-9);
        assert!((grown.eta - built.eta).abs() < 1e-9);
        grown.grow_to(10);
        assert_eq!(grown.items(), 50_001, "it never shrinks");
    }

    #[test]
    fn ranks_stay_inside_even_for_very_few_items() {
        for items in 1..6 {
            let zipfian = Zipfian::new(items, YCSB_THETA).unwrap();
            for step in 0..=1000u64 {
                let u = (step as f64 / 1000.0).min(1.0 - f64::EPSILON / 2.0);
                assert!(zipfian.rank(u) < items, "{items} {u}");
            }
        }
    }

    #[test]
    fn impossible_parameters_are_refused() {
        assert!(Zipfian::new(0, 0.5).is_err());
        for theta in [0.0, 1.0, 1.5, -0.1, f64::NAN] {
            assert!(Zipfian::new(10, theta).is_err(), "{theta}");
        }
    }
}
