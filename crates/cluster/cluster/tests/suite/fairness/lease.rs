//! Local code that would keep a line forever (SELCC 5.3.1, figure 15 a).

use std::time::Duration;

use latchwork_selcc::LatchCount;

use crate::fairness::world::Does::{Reads, Writes};
use crate::fairness::world::{Outcome, World};

const NODES: usize = 8;

fn writers(lease: &str) -> Outcome {
    World::of(&[Writes; NODES], 8).with("lease", lease).run()
}

/// Bug: a node that requests a line gets it rarely or never. Mechanism: one of eight local workers
/// always waits for the local latch, and local accesses come first. Fix: the node gives the line up
/// when enough local accesses have waited while a request was queued. Without this bound the first
/// node keeps the line.
#[test]
fn a_lease_ends_the_starvation_of_other_nodes() {
    let (unbounded, bounded) = (writers("inf"), writers("256"));
    assert_eq!(LatchCount::LeasesExpired.of(&unbounded.counters), 0);
    let most = *unbounded.accesses.iter().max().expect("nodes");
    assert!(most > unbounded.all() / 10 * 9 && unbounded.jain() < 0.2, "{unbounded:?}");

    assert!(LatchCount::LeasesExpired.of(&bounded.counters) >= 20, "{bounded:?}");
    assert!(bounded.jain() >= 0.95, "{}: {bounded:?}", bounded.jain());
    assert!(bounded.all() * 10 >= unbounded.all() * 9, "{bounded:?} {unbounded:?}");
    assert!(
        bounded.longest.iter().all(|longest| *longest < Duration::from_millis(1)),
        "{bounded:?}"
    );
}

/// With a bound of 0 the node serves a request as soon as the line has neither a latch nor a
/// reservation. This is fair too, but costs many times the hand-overs.
#[test]
fn without_a_lease_every_request_takes_the_line_away() {
    let (none, some) = (writers("0"), writers("256"));
    assert!(none.jain() >= 0.95, "{none:?}");
    assert!(none.counters.handovers > 4 * some.counters.handovers, "{none:?} {some:?}");
    assert!(none.all() < some.all());
}

/// The bound counts accesses that had to wait. With a lower bound the node gives the line up
/// sooner.
#[test]
fn a_shorter_lease_gives_the_line_up_more_often() {
    let visits = ["1024", "256", "64", "16"].map(|lease| writers(lease).counters.handovers);
    assert!(visits.is_sorted_by(|fewer, more| 3 * fewer < 2 * more), "{visits:?}");
}

/// No access waits for a line that only one local worker uses. So the node gives the line up at
/// once, with any line lease.
#[test]
fn a_node_that_waits_for_no_other_keeps_no_other_waiting() {
    let end = World::of(&[Writes, Writes], 1).with("lease", "inf").run();
    assert!(end.jain() > 0.99 && end.counters.handovers > 100, "{end:?}");
}

/// The same for a node that wants to read a line which local workers write.
#[test]
fn a_lease_ends_the_starvation_of_readers() {
    let accesses = |lease| World::of(&[Writes, Reads], 8).with("lease", lease).run().accesses[1];
    let (unbounded, bounded) = (accesses("inf"), accesses("256"));
    assert!(bounded > 10 * unbounded, "{bounded} {unbounded}");
}
