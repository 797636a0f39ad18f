//! Comparisons of columns of numbers that other threads may write at the same time.

use crate::atomic::{AtomicU64, Ordering};

/// The most words of a column that [`bits_between`] compares.
pub const COLUMN_MAX: usize = u64::BITS as usize;

/// A bit for each position, the first position lowest: set if the word there in `upper` is, as an
/// `f64`, at most `most`, and the word there in `lower` at least `least`. What is not a number is
/// neither. Positions from [`COLUMN_MAX`] on, or beyond the end of a column, have no bit.
///
/// Each word is loaded once, relaxed, in any order.
#[inline]
pub fn bits_between(upper: &[AtomicU64], most: f64, lower: &[AtomicU64], least: f64) -> u64 {
    let count = upper.len().min(lower.len()).min(COLUMN_MAX);
    let (upper, lower) = (&upper[..count], &lower[..count]);
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions.
        return unsafe { vector::bits_between(upper, most, lower, least) };
    }
    bits_one_by_one(upper, most, lower, least)
}

#[inline]
fn bits_one_by_one(upper: &[AtomicU64], most: f64, lower: &[AtomicU64], least: f64) -> u64 {
    let number = |word: &AtomicU64| f64::from_bits(word.load(Ordering::Relaxed));
    let mut bits = 0;
    // From the end on: a shift by one place is cheaper than one by a number.
    for (a, b) in upper.iter().zip(lower).rev() {
        bits = bits << 1 | u64::from((number(a) <= most) & (number(b) >= least));
    }
    bits
}

#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod vector {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256d, _CMP_GE_OQ, _CMP_LE_OQ, _mm256_and_pd, _mm256_cmp_pd, _mm256_movemask_pd,
        _mm256_set1_pd,
    };

    use super::{AtomicU64, bits_one_by_one};

    /// The numbers in one register.
    const LANES: usize = 4;

    /// As [`super::bits_between`], of columns of the same length, at most
    /// [`COLUMN_MAX`](super::COLUMN_MAX).
    #[target_feature(enable = "avx2")]
    pub(super) fn bits_between(
        upper: &[AtomicU64],
        most: f64,
        lower: &[AtomicU64],
        least: f64,
    ) -> u64 {
        let (uppers, upper_rest) = upper.as_chunks::<LANES>();
        let (lowers, lower_rest) = lower.as_chunks::<LANES>();
        let (mosts, leasts) = (_mm256_set1_pd(most), _mm256_set1_pd(least));
        let mut bits = bits_one_by_one(upper_rest, most, lower_rest, least);
        for (a, b) in uppers.iter().zip(lowers).rev() {
            let below = _mm256_cmp_pd::<_CMP_LE_OQ>(load(a), mosts);
            let above = _mm256_cmp_pd::<_CMP_GE_OQ>(load(b), leasts);
            let both = _mm256_movemask_pd(_mm256_and_pd(below, above));
            bits = bits << LANES | u64::from(both.unsigned_abs());
        }
        bits
    }

    /// Loads four words. The compiler never makes one instruction of several atomic loads.
    ///
    /// The words are aligned quadwords, and a processor loads each of them at once, in any order
    /// among them. So for Rust these are four relaxed loads.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn load(words: &[AtomicU64; LANES]) -> __m256d {
        let loaded;
        // SAFETY: the reference is valid for reading four words.
        unsafe {
            asm!(
                "vmovupd {}, [{}]",
                out(ymm_reg) loaded,
                in(reg) words.as_ptr(),
                options(nostack, preserves_flags, readonly),
            );
        }
        loaded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_are_those_of_comparisons_one_by_one_at_any_length() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0, 2.0];
        let column = |seed: usize| -> Vec<AtomicU64> {
            let value = |i: usize| odd[(i * 7 + i / 5 + seed) % odd.len()];
            (0..COLUMN_MAX + 9).map(|i| AtomicU64::new(value(i).to_bits())).collect()
        };
        let (upper, lower) = (column(1), column(3));
        for len in 0..=upper.len() {
            for (most, least) in [(1.0, 0.0), (f64::INFINITY, f64::NEG_INFINITY), (0.0, f64::NAN)] {
                let bits = bits_between(&upper[..len], most, &lower, least);
                for i in 0..u64::BITS as usize {
                    let number = |word: &AtomicU64| f64::from_bits(word.load(Ordering::Relaxed));
                    let (a, b) = (number(&upper[i]), number(&lower[i]));
                    let expected = i < len && a <= most && b >= least;
                    assert_eq!(bits >> i & 1 == 1, expected, "{len} words, word {i}: {a} {b}");
                }
            }
        }
        assert_eq!(bits_between(&upper[..3], 1.0, &[], 0.0), 0);
    }
}
