//! The choice of lines that leave a full cache (SELCC 5.2, ScaleStore 4.1).

use latchwork_cluster::{Member, Protocol};
use latchwork_workload::random::WorkloadRandom;

use crate::switches::load::{LINES, Load, accesses};

/// A quarter of the reads are of any line, and three quarters are of the first quarter of the
/// lines.
fn popular(_: &Member, random: &mut WorkloadRandom, _: usize) -> usize {
    let below = if random.below(4) == 0 { LINES } else { LINES / 4 };
    random.below(below as u64) as usize
}

/// The number of misses, with caches that have room for half of the lines.
fn misses(settings: &[(&str, &str)]) -> u64 {
    let load = Load { frames: LINES / 2, reads: 100, ..Load::default() };
    accesses(load, Protocol::Selcc, settings, popular).1.cache_misses
}

/// Replacement epochs approximate the exact order of use. A larger sample of frames makes the
/// approximation better.
#[test]
fn what_was_used_last_stays() {
    let exact = misses(&[("replacement", "lru")]);
    let all = misses(&[("evict-sample", "32")]);
    let some = misses(&[]);
    println!("exact {exact}, of all {all}, of some {some}");
    assert!(exact < all && all < some, "exact {exact}, of all {all}, of some {some}");
}
