//! [`Random`]: the seeded random generator of worlds and executors.

use latchwork_strict::{strict_assert, strict_assert_ne};

/// A small random generator (xoshiro256++, seeded through splitmix64). The generator is written
/// here so that no library update changes the numbers of a seed. Its numbers are predictable, so it
/// is not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Makes the generator of `seed`. Every seed is valid, including zero.
    pub fn new(seed: u64) -> Self {
        let mut counter = seed;
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(counter)
        });
        strict_assert_ne!(state, [0; 4], "xoshiro never leaves the state of zeros");
        Random { state }
    }

    /// The next 64 bits.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        strict_assert!(
            self.state.iter().any(|&word| word != 0),
            "the generator has lost its state"
        );
        result
    }

    /// A random number from 0 to `n - 1`. The bias of a number's probability is below `n / 2^64`,
    /// relative to `1 / n`.
    ///
    /// # Panics
    /// When `n` is zero.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no number is below zero");
        ((u128::from(self.draw()) * u128::from(n)) >> 64) as u64
    }
}

/// The finaliser of splitmix64: a bijection that spreads each input bit over the output bits.
#[inline]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_one_sequence_for_ever() {
        // Reference values of xoshiro256++ with splitmix64(0) as its state.
        let mut random = Random::new(0);
        let first: Vec<u64> = (0..3).map(|_| random.draw()).collect();
        assert_eq!(first, [0x53175d61490b23df, 0x61da6f3dc380d507, 0x5c0fdf91ec9a7bfc]);
    }

    #[test]
    fn below_reaches_every_value_and_no_other() {
        let mut random = Random::new(7);
        let mut seen = [0u32; 6];
        for _ in 0..6_000 {
            seen[random.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }
}
