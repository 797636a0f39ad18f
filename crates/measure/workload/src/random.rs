//! The random generator of all draws: small, fast, seeded, and the same on every platform.

use crate::hash::{GOLDEN, mix};

/// A xoshiro256++ generator (Blackman and Vigna), owned by one worker.
///
/// The sequence is a function of the seed alone, so a run can be repeated from its seed. The
/// generator is not for cryptography.
///
/// ```
/// use latchwork_workload::random::WorkloadRandom;
///
/// let mut first = WorkloadRandom::for_stream(42, 0);
/// let mut again = WorkloadRandom::for_stream(42, 0);
/// let mut other = WorkloadRandom::for_stream(42, 1);
/// let drawn = first.next_u64();
/// assert_eq!(drawn, again.next_u64());
/// assert_ne!(drawn, other.next_u64());
/// assert!(first.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct WorkloadRandom {
    state: [u64; 4],
}

impl WorkloadRandom {
    /// A generator whose whole sequence follows from `seed`. Every seed is valid, including zero.
    pub fn new(seed: u64) -> WorkloadRandom {
        let mut at = seed;
        let mut next = || {
            at = at.wrapping_add(GOLDEN);
            mix(at)
        };
        WorkloadRandom { state: [next(), next(), next(), next()] }
    }

    /// The generator of stream number `stream` of a run with this `seed`. A worker or a phase has a
    /// stream of its own.
    pub fn for_stream(seed: u64, stream: u64) -> WorkloadRandom {
        WorkloadRandom::new(mix(seed ^ mix(stream.wrapping_add(GOLDEN))))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number in `[0, 1)` with 53 random bits.
    #[inline]
    pub(crate) fn next_f64(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// A number in `0..bound`, or 0 when `bound` is 0. The probabilities of two numbers differ by
    /// at most 2^-64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// Maps 64 random bits to `[0, 1)`.
#[inline]
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        // xoshiro256++ from the state {1, 2, 3, 4}: the reference implementation's first outputs.
        let mut random = WorkloadRandom { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| random.next_u64()).collect();
        assert_eq!(first, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    }

    #[test]
    fn below_reaches_every_number_about_equally() {
        let mut random = WorkloadRandom::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (9_600..10_400).contains(&n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn fractions_stay_below_one() {
        assert_eq!(unit(0), 0.0);
        assert!(unit(u64::MAX) < 1.0);
    }
}
