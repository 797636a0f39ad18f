//! Local code that would keep a line forever (SELCC 5.3.1, figure 15 a).

use std::time::Duration;

use crate::fairness::world::Does::{Reads, Writes};
use crate::fairness::world::{Outcome, World};

const NODES: usize = 8;

fn writers(lease: &str) -> Outcome {
    World::of(&[Writes; NODES], 8).with("lease", lease).run()
}

/// Bug: a node that requests a line gets it rarely or never. Mechanism: of eight local workers one
/// always waits for the local latch, and local accesses come first. Fix: when enough of them have
/// waited while a request was queued, the node gives the line up. Without a bound, the first node
/// with the line keeps it.
#[test]
fn a_lease_ends_the_starvation_of_other_nodes() {
    let (unbounded, bounded) = (writers("inf"), writers("256"));
    assert_eq!(unbounded.counters.leases_expired, 0);
    let most = *unbounded.accesses.iter().max().expect("nodes");
    assert!(most > unbounded.all() / 10 * 9 && unbounded.jain() < 0.2, "{unbounded:?}");

    assert!(bounded.counters.leases_expired >= 20, "{bounded:?}");
    assert!(bounded.jain() >= 0.95, "{}: {bounded:?}", bounded.jain());
    assert!(bounded.all() * 10 >= unbounded.all() * 9, "{bounded:?} {unbounded:?}");
    assert!(
        bounded.longest.iter().all(|longest| *longest < Duration::from_millis(1)),
        "{bounded:?}"
    );
}

/// With a bound of 0 a request is served as soon as there is neither a latch nor a reservation.
/// That is fair too, and costs many times the hand-overs.
#[test]
fn without_a_lease_every_request_takes_the_line_away() {
    let (none, some) = (writers("0"), writers("256"));
    assert!(none.jain() >= 0.95, "{none:?}");
    assert!(none.counters.handovers > 4 * some.counters.handovers, "{none:?} {some:?}");
    assert!(none.all() < some.all());
}

/// The bound counts accesses that had to wait: the lower the bound, the sooner the line is given
/// up.
#[test]
fn a_shorter_lease_gives_the_line_up_more_often() {
    let visits = ["1024", "256", "64", "16"].map(|lease| writers(lease).counters.handovers);
    assert!(visits.is_sorted_by(|fewer, more| 3 * fewer < 2 * more), "{visits:?}");
}

/// A line that only one local worker uses has no waiting accesses. It is given up at once, whatever
/// the line lease.
#[test]
fn a_node_that_waits_for_no_other_keeps_no_other_waiting() {
    let end = World::of(&[Writes, Writes], 1).with("lease", "inf").run();
    assert!(end.jain() > 0.99 && end.counters.handovers > 100, "{end:?}");
}

/// The same for a node that wants to read a line of local writers.
#[test]
fn a_lease_ends_the_starvation_of_readers() {
    let accesses = |lease| World::of(&[Writes, Reads], 8).with("lease", lease).run().accesses[1];
    let (unbounded, bounded) = (accesses("inf"), accesses("256"));
    assert!(bounded > 10 * unbounded, "{bounded} {unbounded}");
}
