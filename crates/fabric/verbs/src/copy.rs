//! Copies of words that other threads may read and write at the same time.

use std::mem::MaybeUninit;

use crate::address::WORD;
use crate::atomic::{AtomicU64, Ordering};

/// The number of words from which the string instruction is faster than the loop.
///
/// Measured on a busy Xeon of two cores, best of several runs. Each cell has the time of the loop,
/// and the time of the string instruction:
///
/// | bytes | in cache | in memory |
/// | --- | --- | --- |
/// | 512 | 14 and 21 ns | 520 and 220 ns |
/// | 2 KiB | 45 and 23 ns | 1200 and 580 ns |
/// | 8 KiB | 300 and 91 ns | 3150 and 2220 ns |
const STRING_WORDS: usize = 64;

/// Whether this build has the string instruction.
const HAS_STRING: bool = cfg!(all(target_arch = "x86_64", not(miri), not(loom)));

/// Copies all words of `from` to `to`, which has the same length. Each word is loaded once and
/// stored once, relaxed, in any order.
#[inline]
pub(crate) fn copy_words(from: &[AtomicU64], to: &[AtomicU64]) {
    assert_eq!(from.len(), to.len(), "copy between views of different lengths");
    if HAS_STRING && from.len() >= STRING_WORDS {
        // SAFETY: `to` has the same length. Its words are atomic, so a shared reference permits the
        // write.
        unsafe { move_string(from.as_ptr().cast(), to.as_ptr().cast_mut().cast(), from.len()) }
    } else {
        for (to, from) in to.iter().zip(from) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// The copy loops of this module as one instruction, `rep movsq`. The compiler does not generate
/// this instruction, because the compiler does not merge atomic accesses.
///
/// The elements are quadwords. On a side that other threads share, the quadwords are aligned, so
/// each is a single access. The processor may move several elements at once and store them out of
/// order. Relaxed accesses permit this. Stores and locked instructions after the string instruction
/// stay behind all of its stores (Intel SDM 3A, out-of-order stores for string operations). So
/// memory fences around the string instruction keep their meaning.
///
/// # Safety
/// `from` is valid for reading `words` words, and `to` is valid for writing `words` words. Each
/// side is either aligned and made of atomics, or not shared with another thread.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
#[inline]
unsafe fn move_string(from: *const u8, to: *mut u8, words: usize) {
    // SAFETY: the caller guarantees the validity of the memory. For Rust the block is a loop of
    // relaxed accesses. The ABI keeps the direction flag clear.
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

/// Copies all words of `from` to `to`, which has the same length and may overlap `from`. With
/// `ascending`, the copy begins with the first words, for a move to a lower address. Otherwise the
/// copy begins with the last words. Each word is loaded once and stored once, relaxed.
///
/// The string instruction does not help here. The processor executes it word by word in two cases:
/// when it descends, and when it overwrites its own source. An unrolled step of eight words has
/// little overhead beyond one load and one store per word.
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

/// Copies steps of `N` words from the start; returns the remaining words.
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

/// Copies steps of `N` words from the end; returns the remaining words.
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

/// Copies one step. All words of the step are loaded before the first store, because the distance
/// between the two ranges may be less than a step.
#[inline]
fn shift_step<const N: usize>(from: &[AtomicU64; N], to: &[AtomicU64; N]) {
    let loaded = from.each_ref().map(|word| word.load(Ordering::Relaxed));
    to.iter().zip(loaded).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
}

/// Loads `from` into `to`, which has the same length, in memory order. Each word is loaded once,
/// relaxed; the words are loaded in any order.
#[inline]
pub(crate) fn load_words(from: &[AtomicU64], to: &mut [[u8; WORD]]) {
    assert_eq!(from.len(), to.len(), "copy between views of different lengths");
    if HAS_STRING && from.len() >= STRING_WORDS {
        // SAFETY: `to` has the same length, and the reference to `to` is exclusive.
        unsafe { move_string(from.as_ptr().cast(), to.as_mut_ptr().cast(), from.len()) }
    } else {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.load(Ordering::Relaxed).to_le_bytes();
        }
    }
}

/// Stores `from` into `to`, which has the same length: the reverse of [`load_words`].
#[inline]
pub(crate) fn store_words(from: &[[u8; WORD]], to: &[AtomicU64]) {
    assert_eq!(from.len(), to.len(), "copy between views of different lengths");
    if HAS_STRING && from.len() >= STRING_WORDS {
        // SAFETY: `to` has the same length. Its words are atomic, so a shared reference permits the
        // write.
        unsafe { move_string(from.as_ptr().cast(), to.as_ptr().cast_mut().cast(), from.len()) }
    } else {
        for (to, from) in to.iter().zip(from) {
            to.store(u64::from_le_bytes(*from), Ordering::Relaxed);
        }
    }
}

/// Appends the bytes of `from` to `to`, without zeroing the new space first.
#[inline]
pub(crate) fn append_words(from: &[AtomicU64], to: &mut Vec<u8>) {
    let bytes = from.len() * WORD;
    to.reserve(bytes);
    let (room, _) = to.spare_capacity_mut()[..bytes].as_chunks_mut::<WORD>();
    if HAS_STRING && from.len() >= STRING_WORDS {
        // SAFETY: `room` has `bytes` bytes, and the reference to `room` is exclusive.
        unsafe { move_string(from.as_ptr().cast(), room.as_mut_ptr().cast(), from.len()) }
    } else {
        let load = |(to, from): (&mut [MaybeUninit<u8>; WORD], &AtomicU64)| {
            *to = from.load(Ordering::Relaxed).to_le_bytes().map(MaybeUninit::new);
        };
        // An unrolled step of eight words has little overhead beyond one load and one store per
        // word.
        let (steps, rest) = from.as_chunks::<8>();
        let (to_steps, to_rest) = room.as_chunks_mut::<8>();
        for (to, from) in to_steps.iter_mut().zip(steps) {
            to.iter_mut().zip(from).for_each(load);
        }
        to_rest.iter_mut().zip(rest).for_each(load);
    }
    // SAFETY: there was room for `bytes` more bytes, and all of those bytes were written.
    unsafe { to.set_len(to.len() + bytes) }
}

/// Prefetches the CPU cache lines of `words`. If the first word is inside a cache line, the last
/// cache line may be left out.
#[inline]
pub(crate) fn prefetch_words(words: &[AtomicU64]) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 64 / WORD;
        // SAFETY: a prefetch reads nothing and cannot fail, and every x86-64 processor has it.
        let fetch = |word: &AtomicU64| unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast());
        };
        // Four CPU cache lines per step, to keep the cost of the loop itself low.
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

/// Prefetches the CPU cache line in which `place` begins. A hint that reads nothing.
#[inline]
pub fn prefetch<T>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fail, and every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = place;
}

/// Prefetches the CPU cache lines of `words` for writing. If the first word is inside a cache line,
/// the last cache line may be left out. The prefetch takes the cache lines away from other cores.
/// So use it only for cache lines that this core will certainly write soon.
#[inline]
pub fn prefetch_write(words: &[AtomicU64]) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    for line in words.chunks(64 / WORD) {
        // SAFETY: a prefetch reads nothing and cannot fail. The feature lists of the oldest x86-64
        // processors lack the instruction, but all of them decode it, at worst as no operation.
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
