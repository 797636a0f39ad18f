//! The random think time of a terminal (clause 5.2.5), for runs with the setting `wait`.

use std::time::Duration;

use super::TransactionKind;
use crate::random::WorkloadRandom;

/// The maximum of new orders per minute of one warehouse with ten waiting terminals. The number
/// follows from the keying times and mean think times in the standard's mix, with response times of
/// zero. Efficiency is tpmC relative to this maximum.
pub(crate) const TPMC_PER_WAREHOUSE_MAX: f64 = 12.86;

/// A random think time (clause 5.2.5.4): exponential with the mean of the transaction's type, and
/// at most ten times the mean.
///
/// ```
/// use latchwork_workload::{random::WorkloadRandom, tpcc::{TransactionKind, think_time}};
///
/// let time = think_time(TransactionKind::Payment, &mut WorkloadRandom::new(1));
/// assert!(time <= 10 * TransactionKind::Payment.mean_think_time());
/// ```
pub fn think_time(kind: TransactionKind, random: &mut WorkloadRandom) -> Duration {
    let mean = kind.mean_think_time();
    // In (0, 1], so the logarithm's argument is never zero.
    let uniform = 1.0 - random.next_f64();
    let times = (-natural_logarithm(uniform)).clamp(0.0, 10.0);
    Duration::from_nanos((mean.as_nanos() as f64 * times) as u64)
}

/// The natural logarithm of a normal number above zero, to about 15 digits. Basic arithmetic gives
/// the same result on every platform, which simulated worlds need. `f64::ln` does not promise that.
fn natural_logarithm(x: f64) -> f64 {
    const MANTISSA_BITS: u32 = 52;
    const BIAS: i64 = 1023;
    let bits = x.to_bits();
    let exponent = (bits >> MANTISSA_BITS) as i64 - BIAS;
    let mantissa =
        f64::from_bits(bits & ((1 << MANTISSA_BITS) - 1) | (BIAS as u64) << MANTISSA_BITS);
    // ln m = 2 artanh z with z = (m - 1) / (m + 1). For m in [1, 2), z is at most 1/3, so each term
    // of the series is at most 1/9 of the term before.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let squared = z * z;
    let mut series = 0.0;
    for odd in (0..17).rev().map(|term| 2 * term + 1) {
        series = series * squared + 1.0 / f64::from(odd);
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * z * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_the_platforms() {
        for x in [1.0, 0.5, 0.999_999, 1e-3, 1e-16, 1.0 / 3.0, 0.7, 2.0, 123.456] {
            let (ours, theirs) = (natural_logarithm(x), f64::ln(x));
            assert!((ours - theirs).abs() <= 1e-14 * theirs.abs().max(1.0), "{x}: {ours} {theirs}");
        }
    }

    #[test]
    fn think_times_are_exponential_and_cut() {
        let mut random = WorkloadRandom::new(5);
        for kind in TransactionKind::ALL {
            let mean = kind.mean_think_time().as_secs_f64();
            let times: Vec<f64> =
                (0..100_000).map(|_| think_time(kind, &mut random).as_secs_f64() / mean).collect();
            let average = times.iter().sum::<f64>() / times.len() as f64;
            // The standard error is 0.0032. The cut at ten means lowers the mean by 0.00005.
            assert!((0.985..1.015).contains(&average), "{average}");
            for (bound, share) in [(0.5, 0.6065), (1.0, 0.3679), (2.0, 0.1353), (4.0, 0.0183)] {
                let above = times.iter().filter(|time| **time > bound).count() as f64;
                assert!((above / times.len() as f64 - share).abs() < 0.006, "{bound}: {above}");
            }
            assert!(times.iter().all(|time| *time <= 10.0));
        }
    }

    #[test]
    fn ten_waiting_terminals_give_the_most_that_a_warehouse_can() {
        // With response times of zero, a terminal takes this long for a hundred transactions:
        let weights = [45, 43, 4, 4, 4];
        let hundred_s: f64 = TransactionKind::ALL
            .iter()
            .zip(weights)
            .map(|(kind, weight)| (kind.keying_time() + kind.mean_think_time()) * weight)
            .map(|time| time.as_secs_f64())
            .sum();
        let tpmc = 10.0 * 45.0 * 60.0 / hundred_s;
        assert!((tpmc - TPMC_PER_WAREHOUSE_MAX).abs() < 0.01, "{tpmc}");
    }
}
