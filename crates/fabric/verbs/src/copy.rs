//! Copying words that others may be reading and writing.

use std::mem::MaybeUninit;

use crate::atomic::{AtomicU64, Ordering};
use crate::words::WORD;

/// From so many words on the string instruction is worth its start.
///
/// Measured on a busy Xeon of two cores, best of several, loop against string instruction: 512
/// bytes in cache 14 and 21 ns, in memory 520 and 220; 2 KiB 45 and 23, in memory 1200 and 580; 8
/// KiB 300 and 91, in memory 3150 and 2220.
const STRING_WORDS: usize = 64;

const HAS_STRING: bool = cfg!(all(target_arch = "x86_64", not(miri), not(loom)));

/// Copies all words of `from` to `to`, which is as long. Each word is loaded once and stored once,
/// relaxed; the words in any order.
#[inline]
pub(crate) fn copy_words(from: &[AtomicU64], to: &[AtomicU64]) {
    assert_eq!(from.len(), to.len(), "copy between views of different lengths");
    if HAS_STRING && from.len() >= STRING_WORDS {
        // SAFETY: `to` is as long and may be written through a shared reference, since its words
        // are atomic.
        unsafe { move_string(from.as_ptr().cast(), to.as_ptr().cast_mut().cast(), from.len()) }
    } else {
        for (to, from) in to.iter().zip(from) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// The same as the loops here, in one instruction, which the compiler would not choose: it does not
/// merge atomic accesses.
///
/// Its elements are quadwords. Those of the side that is shared are aligned, so each is a single
/// access there. A processor may move several at once and store them out of order among each other,
/// which relaxed accesses permit; stores and locked instructions behind it stay behind all of its
/// stores (Intel SDM 3A, out-of-order stores for string operations), so that fences around it mean
/// what they say.
///
/// # Safety
/// `from` is valid for reading and `to` for writing `words` words. Each side is either aligned and
/// made of atomics, or not shared with another thread.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
#[inline]
unsafe fn move_string(from: *const u8, to: *mut u8, words: usize) {
    // SAFETY: the caller vouches for the memory; Rust's view of the block is that of a loop of
    // relaxed accesses. The ABI has the direction flag clear.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            inout("rsi") from => _,
            inout("rdi") to => _,
            inout("rcx") words => _,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
unsafe fn move_string(_: *const u8, _: *mut u8, _: usize) {
    unreachable!("only where there is a string instruction")
}

/// Copies all words of `from` to `to`, which is as long and may overlap it: the first ones first
/// with `ascending`, which is for a move to the front, else the last ones first. Each word is
/// loaded once and stored once, relaxed.
///
/// The string instruction is no help here: downwards, and upwards onto itself, it goes word by
/// word. In steps of eight there is a load and a store per word and next to nothing else.
#[inline]
pub(crate) fn shift_words(from: &[AtomicU64], to: &[AtomicU64], ascending: bool) {
    assert_eq!(from.len(), to.len(), "copy between views of different lengths");
    if ascending {
        let (from, to) = shift_steps_up::<8>(from, to);
        let (from, to) = shift_steps_up::<4>(from, to);
        let (from, to) = shift_steps_up::<2>(from, to);
        shift_steps_up::<1>(from, to);
    } else {
        let (from, to) = shift_steps_down::<8>(from, to);
        let (from, to) = shift_steps_down::<4>(from, to);
        let (from, to) = shift_steps_down::<2>(from, to);
        shift_steps_down::<1>(from, to);
    }
}

/// Steps of `N` words from the start; returns what is left.
#[inline]
fn shift_steps_up<'a, const N: usize>(
    from: &'a [AtomicU64],
    to: &'a [AtomicU64],
) -> (&'a [AtomicU64], &'a [AtomicU64]) {
    let ((from, from_rest), (to, to_rest)) = (from.as_chunks::<N>(), to.as_chunks::<N>());
    for step in 0..from.len().min(to.len()) {
        shift_step(&from[step], &to[step]);
    }
    (from_rest, to_rest)
}

/// Steps of `N` words from the end; returns what is left.
#[inline]
fn shift_steps_down<'a, const N: usize>(
    from: &'a [AtomicU64],
    to: &'a [AtomicU64],
) -> (&'a [AtomicU64], &'a [AtomicU64]) {
    let ((from_rest, from), (to_rest, to)) = (from.as_rchunks::<N>(), to.as_rchunks::<N>());
    for step in (0..from.len().min(to.len())).rev() {
        shift_step(&from[step], &to[step]);
    }
    (from_rest, to_rest)
}

/// All of a step is loaded before any of it is stored: the places may overlap by less than a step.
#[inline]
fn shift_step<const N: usize>(from: &[AtomicU64; N], to: &[AtomicU64; N]) {
    let loaded = from.each_ref().map(|word| word.load(Ordering::Relaxed));
    to.iter().zip(loaded).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
}

/// Loads `from` into `to`, which is as long: bytes of the words in memory order. Each word is
/// loaded once, relaxed; the words in any order.
#[inline]
pub(crate) fn load_words(from: &[AtomicU64], to: &mut [[u8; WORD]]) {
    assert_eq!(from.len(), to.len(), "copy between views of different lengths");
    if HAS_STRING && from.len() >= STRING_WORDS {
        // SAFETY: `to` is as long, and nobody else has it.
        unsafe { move_string(from.as_ptr().cast(), to.as_mut_ptr().cast(), from.len()) }
    } else {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.load(Ordering::Relaxed).to_le_bytes();
        }
    }
}

/// Stores `from` into `to`, which is as long: the reverse of [`load_words`].
#[inline]
pub(crate) fn store_words(from: &[[u8; WORD]], to: &[AtomicU64]) {
    assert_eq!(from.len(), to.len(), "copy between views of different lengths");
    if HAS_STRING && from.len() >= STRING_WORDS {
        // SAFETY: `to` is as long and may be written through a shared reference, since its words
        // are atomic.
        unsafe { move_string(from.as_ptr().cast(), to.as_ptr().cast_mut().cast(), from.len()) }
    } else {
        for (to, from) in to.iter().zip(from) {
            to.store(u64::from_le_bytes(*from), Ordering::Relaxed);
        }
    }
}

/// Appends the bytes of `from` to `to`, without zeroing the room for them first.
#[inline]
pub(crate) fn append_words(from: &[AtomicU64], to: &mut Vec<u8>) {
    let bytes = from.len() * WORD;
    to.reserve(bytes);
    let (room, _) = to.spare_capacity_mut()[..bytes].as_chunks_mut::<WORD>();
    if HAS_STRING && from.len() >= STRING_WORDS {
        // SAFETY: `room` has `bytes` bytes, and nobody else has it.
        unsafe { move_string(from.as_ptr().cast(), room.as_mut_ptr().cast(), from.len()) }
    } else {
        let load = |(to, from): (&mut [MaybeUninit<u8>; WORD], &AtomicU64)| {
            *to = from.load(Ordering::Relaxed).to_le_bytes().map(MaybeUninit::new);
        };
        // In steps of eight there is a load and a store per word and next to nothing else.
        let (steps, rest) = from.as_chunks::<8>();
        let (to_steps, to_rest) = room.as_chunks_mut::<8>();
        for (to, from) in to_steps.iter_mut().zip(steps) {
            to.iter_mut().zip(from).for_each(load);
        }
        to_rest.iter_mut().zip(rest).for_each(load);
    }
    // SAFETY: there was room for `bytes` more, and all of them were written.
    unsafe { to.set_len(to.len() + bytes) }
}

/// Asks for the cache lines of `words`.
#[inline]
pub(crate) fn prefetch_words(words: &[AtomicU64]) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64 / WORD;
        // SAFETY: a prefetch reads nothing and cannot fail; every x86-64 processor has it.
        let fetch = |word: &AtomicU64| unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast());
        };
        // Four lines a step: there is nothing else to do in this loop.
        let (steps, rest) = words.as_chunks::<{ 4 * LINE }>();
        for step in steps {
            for line in 0..4 {
                fetch(&step[line * LINE]);
            }
        }
        rest.iter().step_by(LINE).for_each(fetch);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = words;
}

/// Asks the processor for the cache line in which `place` begins. A hint, which reads nothing.
#[inline]
pub fn prefetch<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fail; every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = place;
}

/// Asks for the cache lines of `words`, to write them. They are taken from whichever core has them,
/// so this is for lines that this core is about to write for certain.
#[inline]
pub fn prefetch_write(words: &[AtomicU64]) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    for line in words.chunks(64 / WORD) {
        // SAFETY: a prefetch reads nothing and cannot fail. The instruction is not in the oldest
        // x86-64 processors' feature lists, but all of them decode it, at worst as no operation.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]",
                in(reg) line.as_ptr(),
                options(nostack, preserves_flags, readonly),
            );
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = words;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_words_of_the_target_are_copied_at_any_length() {
        let words = |value: fn(u64) -> u64| -> Vec<AtomicU64> {
            (0..200).map(|i| AtomicU64::new(value(i))).collect()
        };
        for len in [0, 1, 7, STRING_WORDS - 1, STRING_WORDS, STRING_WORDS + 1, 180] {
            for start in [0, 1, 3] {
                let (from, to) = (words(|i| i + 1), words(|_| 0));
                copy_words(&from[start..start + len], &to[5..5 + len]);
                for (i, word) in to.iter().enumerate() {
                    let inside = (5..5 + len).contains(&i);
                    let expected = if inside { (i - 5 + start + 1) as u64 } else { 0 };
                    assert_eq!(word.load(Ordering::Relaxed), expected, "len {len}, word {i}");
                }
            }
        }
    }
}
