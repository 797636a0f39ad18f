//! [`Mutator`]: makes inputs that differ a little from other inputs.

use std::ops::Range;

use latchwork_simulation::Random;

use crate::INPUT_MAX;

/// Numbers at the limits of fields.
const NUMBERS: [u64; 16] = [
    0,
    1,
    7,
    8,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x0100_0000,
    0x7fff_ffff,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_fff8,
    u64::MAX,
];

/// Words at the limits of text formats.
const WORDS: [&str; 34] = [
    "0",
    "-1",
    "1",
    "2",
    "58",
    "64",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-320",
    "-0.0",
    "nan",
    "inf",
    "0.5",
    "true",
    "\"\"",
    "[]",
    "{}",
    "[[",
    "]]",
    "=",
    "\\",
    "\\u0041",
    "\\ud800",
    "\u{feff}",
    "\0",
    "é",
    "null",
    "#",
];

/// Makes inputs from other inputs. All choices follow from a seed.
#[derive(Debug)]
pub struct Mutator {
    random: Random,
    /// Another input of the corpus, from which the mutator takes pieces.
    partner: Vec<u8>,
}

impl Mutator {
    /// The mutator of `seed`.
    pub fn new(seed: u64) -> Mutator {
        Mutator { random: Random::new(seed), partner: Vec::new() }
    }

    /// Sets the input from which the mutator takes pieces.
    pub fn set_partner(&mut self, partner: &[u8]) {
        self.partner = partner.to_vec();
    }

    /// The input from which the mutator takes pieces.
    pub fn partner(&self) -> &[u8] {
        &self.partner
    }

    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { self.random.below(n as u64) as usize }
    }

    /// True with the probability 1 / `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Changes bytes by some of the methods below, one after the other.
    pub fn bytes(&mut self, data: &mut Vec<u8>) {
        for _ in 0..1 + self.below(4) {
            self.change_bytes(data);
        }
        data.truncate(INPUT_MAX);
    }

    /// Changes text. The result need not be UTF-8.
    pub fn text(&mut self, data: &mut Vec<u8>) {
        for _ in 0..1 + self.below(4) {
            match self.below(8) {
                0 => self.change_bytes(data),
                1..=3 => self.replace_token(data),
                4 => {
                    let word = WORDS[self.below(WORDS.len())];
                    let at = self.below(data.len() + 1);
                    data.splice(at..at, word.bytes());
                }
                5 => {
                    let line = line_at(data, self.random.draw() as usize);
                    data.drain(line);
                }
                6 => {
                    let from = line_at(data, self.random.draw() as usize);
                    let (line, at) = (data[from].to_vec(), self.random.draw() as usize);
                    let at = line_at(data, at).start;
                    data.splice(at..at, line);
                }
                _ => {
                    let from = line_at(&self.partner, self.random.draw() as usize);
                    let at = line_at(data, self.random.draw() as usize).start;
                    data.splice(at..at, self.partner[from].iter().copied());
                }
            }
        }
        data.truncate(INPUT_MAX);
    }

    fn change_bytes(&mut self, data: &mut Vec<u8>) {
        let piece = self.piece(data.len());
        match self.below(9) {
            0 if !data.is_empty() => {
                let (at, bit) = (self.below(data.len()), self.below(8));
                data[at] ^= 1 << bit;
            }
            1 if !data.is_empty() => {
                let at = self.below(data.len());
                data[at] = self.random.draw() as u8;
            }
            2 | 3 => self.put_number(data),
            4 => _ = data.drain(piece),
            5 => {
                let (copy, at) = (data[piece].to_vec(), self.below(data.len() + 1));
                data.splice(at..at, copy);
            }
            6 => data.truncate(piece.start),
            7 => {
                let from = self.piece(self.partner.len());
                data.splice(piece, self.partner[from].iter().copied());
            }
            _ => {
                let (count, at) = (1 + self.below(16), self.below(data.len() + 1));
                let fresh: Vec<u8> = (0..count).map(|_| self.random.draw() as u8).collect();
                data.splice(at..at, fresh);
            }
        }
    }

    /// Overwrites a field of 1, 2, 4 or 8 bytes, half of the time at a multiple of its size. The
    /// new number is one of [`NUMBERS`], or the old number with a small change.
    fn put_number(&mut self, data: &mut [u8]) {
        let size = 1 << self.below(4);
        let Some(room) = data.len().checked_sub(size) else { return };
        let mut at = self.below(room + 1);
        if self.one_in(2) {
            at = at / size * size;
        }
        let mut old = [0; 8];
        old[..size].copy_from_slice(&data[at..at + size]);
        let number = match self.below(3) {
            0 => u64::from_le_bytes(old).wrapping_add(self.below(33) as u64).wrapping_sub(16),
            _ => NUMBERS[self.below(NUMBERS.len())],
        };
        data[at..at + size].copy_from_slice(&number.to_le_bytes()[..size]);
    }

    /// Replaces a word or a number by one of [`WORDS`].
    fn replace_token(&mut self, data: &mut Vec<u8>) {
        let in_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let begin = self.below(data.len());
        let Some(start) = data[begin..].iter().position(in_token) else { return };
        let start = begin + start;
        let length = data[start..].iter().take_while(|byte| in_token(byte)).count();
        let word = WORDS[self.below(WORDS.len())];
        data.splice(start..start + length, word.bytes());
    }

    /// A random range within the first `length` bytes, mostly a short one.
    fn piece(&mut self, length: usize) -> Range<usize> {
        let start = self.below(length + 1);
        let longest = if self.one_in(4) { length - start } else { (length - start).min(64) };
        start..start + self.below(longest + 1)
    }
}

/// The line of `data` at a position, with its line end.
fn line_at(data: &[u8], place: usize) -> Range<usize> {
    let Some(place) = place.checked_rem(data.len()) else { return 0..0 };
    let start = data[..place].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let end = data[place..].iter().position(|byte| *byte == b'\n');
    start..end.map_or(data.len(), |at| place + at + 1)
}
