//! When a node releases lines: early if another node would take them anyway, at once under SEL, and
//! otherwise on request.

use latchwork_cluster::{Member, Protocol};
use latchwork_workload::random::WorkloadRandom;

use crate::switches::load::{ALL, LINES, Load, NODES, accesses, anywhere, writes};

/// On average every second write is to the line of the write before.
fn often_again(member: &Member, random: &mut WorkloadRandom, last: usize) -> usize {
    if random.below(2) == 0 { last } else { anywhere(member, random, last) }
}

/// Each node accesses only its own lines.
fn at_home(member: &Member, random: &mut WorkloadRandom, _: usize) -> usize {
    let share = LINES / NODES;
    member.node * share + random.below(share as u64) as usize
}

#[test]
fn lines_that_nodes_write_in_turn_are_released_early() {
    let (lazy_time, lazy) = writes(Protocol::Selcc, &[], anywhere);
    let (time, adaptive) = writes(Protocol::Selcc, &[("release", "adaptive")], anywhere);
    assert_eq!(lazy.early_releases, 0);
    assert!(adaptive.early_releases > ALL / 2, "{adaptive:?}");
    assert!(adaptive.handovers < lazy.handovers / 3, "{adaptive:?}\n{lazy:?}");
    assert!(time < lazy_time, "{time:?} after {lazy_time:?}");
}

#[test]
fn what_is_used_again_at_once_is_still_there() {
    let (_, counters) = writes(Protocol::Selcc, &[("release", "adaptive")], often_again);
    assert!(counters.early_releases > ALL / 4, "{counters:?}");
    assert!(counters.cache_misses < ALL * 55 / 100, "half of the writes hit: {counters:?}");
}

/// Without `linger`, a local use at once counts as a right prediction to keep the line. So lines
/// stay although other nodes take them later.
#[test]
fn without_lingering_a_use_at_once_is_a_right_prediction() {
    let (_, lingers) = writes(Protocol::Selcc, &[("release", "adaptive")], often_again);
    let settings = [("release", "adaptive"), ("linger", "0")];
    let (_, at_once) = writes(Protocol::Selcc, &settings, often_again);
    assert!(at_once.early_releases < lingers.early_releases * 3 / 4, "{at_once:?}, {lingers:?}");
    assert!(at_once.handovers > lingers.handovers * 2, "{at_once:?}, {lingers:?}");
}

#[test]
fn a_line_that_no_other_node_uses_stays() {
    let (_, counters) = writes(Protocol::Selcc, &[("release", "adaptive")], at_home);
    // The misses are one for each line at each node, and one for each line that a node made.
    assert!(counters.cache_misses <= 2 * LINES as u64, "{counters:?}");
    assert!(counters.early_releases <= LINES as u64, "{counters:?}");
}

#[test]
fn under_sel_every_access_is_a_remote_one() {
    let (_, counters) = writes(Protocol::Sel, &[], often_again);
    // The exception is two workers of a node that use the same line at once: one of them obtains it
    // for both.
    assert!(counters.evictions > ALL * 98 / 100, "{counters:?}");
    assert!(counters.verbs_cas > ALL * 98 / 100, "{counters:?}");
    assert_eq!((counters.invalidations_sent, counters.early_releases), (0, 0));
}

/// Whether a shared copy is useful depends on the next event: a local read, or a writer.
#[test]
fn copies_are_released_early_where_writers_come_first_and_stay_where_readers_do() {
    let run = |reads, settings: &[(&str, &str)]| {
        let load = Load { reads, ..Load::default() };
        accesses(load, Protocol::Selcc, settings, anywhere).1
    };
    let adaptive = [("release", "adaptive"), ("takeover", "off")];
    let (half, most) = (run(50, &adaptive), run(95, &adaptive));
    assert!(half.early_releases > ALL / 2, "{half:?}");
    assert!(most.early_releases < ALL / 8, "not many more than there are writes: {most:?}");
    let (lazy_half, lazy_most) = (run(50, &adaptive[1..]), run(95, &adaptive[1..]));
    assert!(
        half.invalidations_sent < lazy_half.invalidations_sent / 4,
        "writers find the word free: {half:?}\n{lazy_half:?}"
    );
    assert!(
        most.cache_misses < lazy_most.cache_misses * 14 / 10,
        "readers still hit: {most:?}\n{lazy_most:?}"
    );
}

/// With takeover a further copy costs the next writer nothing extra, so copies stay.
#[test]
fn with_takeover_copies_stay() {
    let run = |reads| {
        let load = Load { reads, ..Load::default() };
        accesses(load, Protocol::Selcc, &[("release", "adaptive")], anywhere).1
    };
    let (half, most) = (run(50), run(95));
    assert!(half.early_releases > ALL / 8 && half.early_releases < ALL / 2, "{half:?}");
    assert!(most.early_releases < ALL / 12, "as many as there are writes: {most:?}");
}

/// A request that finds no owner, because the line was released early, is tried again at once.
#[test]
fn a_released_line_is_tried_again_at_once() {
    let (_, lazy) = writes(Protocol::Selcc, &[], anywhere);
    let (_, adaptive) = writes(Protocol::Selcc, &[("release", "adaptive")], anywhere);
    assert!(lazy.invalidations_dropped > 0, "{lazy:?}");
    assert!(adaptive.invalidations_dropped < adaptive.invalidations_sent / 10, "{adaptive:?}");
}
