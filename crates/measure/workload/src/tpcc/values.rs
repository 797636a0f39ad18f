//! Random values: the non-uniform numbers, last names and strings of clauses 2.1.6 and 4.3.2.

use super::Scale;
use crate::random::WorkloadRandom;

/// A number in `from..=to`.
#[inline]
pub fn uniform(random: &mut WorkloadRandom, from: u32, to: u32) -> u32 {
    from + random.below(u64::from(to - from) + 1) as u32
}

/// The non-uniform distribution over `from..=to` (clause 2.1.6). A draw is the OR of two uniform
/// numbers, so numbers with many one-bits are frequent. The constant C is added, modulo the size of
/// the range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NonUniform {
    /// A, the maximum of the first number: a power of two less one.
    mask: u32,
    constant: u32,
    from: u32,
    to: u32,
}

impl NonUniform {
    /// The next number.
    #[inline]
    pub fn draw(&self, random: &mut WorkloadRandom) -> u32 {
        let both = uniform(random, 0, self.mask) | uniform(random, self.from, self.to);
        // The sum can exceed 32 bits.
        let turned = u64::from(both) + u64::from(self.constant);
        (turned % (u64::from(self.to - self.from) + 1)) as u32 + self.from
    }
}

/// A for a range of `now` numbers, from the standard's A, `mask`, for a range of `standard`
/// numbers. `mask + 1` is scaled by the same factor as the range, then rounded down to a power of
/// two.
fn mask_for(mask: u32, standard: u32, now: u32) -> u32 {
    let share = u64::from(mask + 1) * u64::from(now) / u64::from(standard);
    (1 << share.max(1).ilog2()) - 1
}

/// The constants C of the three non-uniform distributions, fixed for a whole run (clause 2.1.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Constants {
    /// C of last names, up to 255.
    pub last_name: u32,
    /// C of customers, up to 1023.
    pub customer: u32,
    /// C of items, up to 8191.
    pub item: u32,
}

impl Constants {
    /// The constants of the initial population.
    pub fn for_load(seed: u64) -> Constants {
        Constants::draw(&mut WorkloadRandom::for_stream(seed, LOAD_STREAM))
    }

    /// The constants of a run with `seed` on a database that was populated with `load`. The two
    /// constants of last names are 65 to 119 apart, and neither 96 nor 112 apart (clause 2.1.6.1).
    pub fn for_run(load: Constants, seed: u64) -> Constants {
        let mut random = WorkloadRandom::for_stream(seed, RUN_STREAM);
        // The loop ends: among 0 to 255, each number has a number at distance 65 to 95.
        loop {
            let run = Constants::draw(&mut random);
            if Constants::may_follow(load, run) {
                return run;
            }
        }
    }

    /// Whether a run may use `run` on a database that was populated with `load` (clause 2.1.6.1).
    pub fn may_follow(load: Constants, run: Constants) -> bool {
        let apart = load.last_name.abs_diff(run.last_name);
        (65..=119).contains(&apart) && apart != 96 && apart != 112
    }

    fn draw(random: &mut WorkloadRandom) -> Constants {
        Constants {
            last_name: uniform(random, 0, 255),
            customer: uniform(random, 0, 1023),
            item: uniform(random, 0, 8191),
        }
    }

    /// The distribution of the numbers of last names, `NURand(255, 0, 999)`.
    pub fn last_names(&self, scale: Scale) -> NonUniform {
        let to = scale.last_names() - 1;
        NonUniform { mask: mask_for(255, 1_000, to + 1), constant: self.last_name, from: 0, to }
    }

    /// The distribution of customers, `NURand(1023, 1, 3000)`.
    pub fn customers(&self, scale: Scale) -> NonUniform {
        let to = scale.customers();
        let mask = mask_for(1023, Scale::CUSTOMERS, to);
        NonUniform { mask, constant: self.customer, from: 1, to }
    }

    /// The distribution of items, `NURand(8191, 1, 100000)`.
    pub fn items(&self, scale: Scale) -> NonUniform {
        let to = scale.items();
        let mask = mask_for(8191, Scale::ITEMS, to);
        NonUniform { mask, constant: self.item, from: 1, to }
    }
}

// Numbers of random streams. Rows of a population and terminals have smaller numbers.
const LOAD_STREAM: u64 = u64::MAX;
const RUN_STREAM: u64 = u64::MAX - 1;

/// The length of the longest last name, in bytes.
pub(crate) const LAST_NAME_MAX: usize = 15;

const SYLLABLES: [&[u8]; 10] =
    [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];

/// Appends the last name of `number`, from 0 to 999: a syllable for each of its three digits
/// (clause 4.3.2.3).
///
/// ```
/// let mut name = Vec::new();
/// latchwork_workload::tpcc::values::push_last_name(371, &mut name);
/// assert_eq!(name, b"PRICALLYOUGHT");
/// ```
pub fn push_last_name(number: u32, out: &mut Vec<u8>) {
    for syllable in syllables(number) {
        out.extend_from_slice(syllable);
    }
}

/// The syllables of a last name.
pub(super) fn syllables(number: u32) -> [&'static [u8]; 3] {
    [number / 100, number / 10, number].map(|digit| SYLLABLES[(digit % 10) as usize])
}

const ALPHANUMERIC: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Appends `len` random characters of `alphabet`. One draw of 64 bits gives up to nine characters.
fn push_characters(random: &mut WorkloadRandom, alphabet: &[u8], len: u32, out: &mut Vec<u8>) {
    let base = alphabet.len() as u64;
    let mut left = len as usize;
    while left > 0 {
        // The characters are the digits, to this base, of a fraction with 64 random bits. Nine
        // digits take at most 54 bits, so the last digit is nearly uniform, too.
        let mut fraction = random.next_u64();
        for _ in 0..left.min(9) {
            let wide = u128::from(fraction) * u128::from(base);
            out.push(alphabet[(wide >> 64) as usize]);
            fraction = wide as u64;
        }
        left -= left.min(9);
    }
}

/// Appends a random a-string of `from..=to` letters and digits (clause 4.3.2.2).
pub(crate) fn push_a_string(random: &mut WorkloadRandom, from: u32, to: u32, out: &mut Vec<u8>) {
    let len = uniform(random, from, to);
    push_characters(random, ALPHANUMERIC, len, out);
}

/// Appends a random n-string of `len` digits (clause 4.3.2.2).
pub(crate) fn push_n_string(random: &mut WorkloadRandom, len: u32, out: &mut Vec<u8>) {
    push_characters(random, b"0123456789", len, out);
}

/// A random state: two letters.
pub fn state(random: &mut WorkloadRandom) -> [u8; 2] {
    [(); 2].map(|()| b'A' + random.below(26) as u8)
}

/// A random zip code (clause 4.3.2.7): four digits, then five ones.
pub fn zip(random: &mut WorkloadRandom) -> [u8; 9] {
    let mut zip = [b'1'; 9];
    for digit in &mut zip[..4] {
        *digit = b'0' + random.below(10) as u8;
    }
    zip
}

/// The text in the data of some items and stocks (clause 4.3.3.1). New-order transactions look for
/// this text.
pub const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// The search table of Horspool's algorithm (1980). The search compares a window of the data with
/// the text. For the last byte of a window, the table has the distance to the next window to
/// compare.
const SHIFTS: [u8; 256] = {
    let last = ORIGINAL.len() - 1;
    let mut shifts = [ORIGINAL.len() as u8; 256];
    let mut at = 0;
    while at < last {
        shifts[ORIGINAL[at] as usize] = (last - at) as u8;
        at += 1;
    }
    shifts
};

/// Whether I_DATA or S_DATA contains [`ORIGINAL`]. Reads about every eighth byte.
#[inline]
pub fn is_original(data: &[u8]) -> bool {
    let mut rest = data;
    while let Some(place) = rest.first_chunk() {
        if place == ORIGINAL {
            return true;
        }
        rest = &rest[usize::from(SHIFTS[usize::from(place[place.len() - 1])])..];
    }
    false
}

/// Appends I_DATA or S_DATA: 26 to 50 characters. With `original`, [`ORIGINAL`] replaces the
/// characters at a random position.
pub(crate) fn push_data(random: &mut WorkloadRandom, original: bool, out: &mut Vec<u8>) {
    let begin = out.len();
    push_a_string(random, 26, 50, out);
    if original {
        let places = out.len() - begin - ORIGINAL.len() + 1;
        let at = begin + random.below(places as u64) as usize;
        out[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
}

/// The numbers `1..=count` in random order (shuffle of Fisher and Yates).
pub(crate) fn permutation(random: &mut WorkloadRandom, count: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = (1..=count).collect();
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, random.below(last as u64 + 1) as usize);
    }
    numbers
}
