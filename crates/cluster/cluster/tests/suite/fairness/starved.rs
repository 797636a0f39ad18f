//! A writer among readers (SELCC 5.3.2, figure 15 b), and the back-off of refused nodes (5.1.2).

use std::time::Duration;

use latchwork_selcc::LatchCount;

use crate::fairness::world::Does::{Reads, Writes};
use crate::fairness::world::{Outcome, World};

const READERS: usize = 7;

/// Seven nodes read, and the last node writes.
fn with_takeover() -> World {
    let mut nodes = [Reads; READERS + 1];
    nodes[READERS] = Writes;
    World::of(&nodes, 8)
}

/// The same without takeover: the readers release their copies one by one, and obtain them again.
fn one_writer() -> World {
    with_takeover().with("takeover", "off")
}

impl Outcome {
    fn writer(&self) -> u64 {
        self.accesses[READERS]
    }

    /// The mean number of accesses of a reading node.
    fn reader(&self) -> u64 {
        self.accesses[..READERS].iter().sum::<u64>() / READERS as u64
    }
}

/// Bug: a writer gets a line only once while seven nodes read it. Mechanism: each reader that
/// released its copy obtains it again before the writer's compare-and-swap. Fix: readers hold off
/// for some time after they refused the writer.
#[test]
fn a_writer_gets_through_readers_that_hold_off() {
    let alone = one_writer().with("spin-windows", "off").with("priority-matching", "off").run();
    assert!(alone.writer() <= 8, "{alone:?}");
    assert!(alone.longest[READERS] > Duration::from_millis(4), "starved to the end: {alone:?}");
    assert_eq!(LatchCount::HoldOffs.of(&alone.counters), 0);

    let windows = one_writer().with("priority-matching", "off").run();
    assert!(
        LatchCount::HoldOffs.of(&windows.counters) > 100
            && LatchCount::RefusedByPriority.of(&windows.counters) == 0
    );
    assert!(windows.writer() > 100 * alone.writer(), "{windows:?}");
    assert!(windows.longest[READERS] < Duration::from_micros(200), "{windows:?}");
    assert!(3 * windows.writer() < 2 * windows.reader(), "far less than a reader: {windows:?}");
}

/// A starved writer keeps its line from readers that were refused less often. It uses the line as
/// long as it had to wait, so it gets nearly as many accesses as a reader.
#[test]
fn a_starved_writer_keeps_up_with_the_readers() {
    let windows = one_writer().with("priority-matching", "off").run();
    let matched = one_writer().run();
    assert!(LatchCount::RefusedByPriority.of(&matched.counters) > 100, "{matched:?}");
    let share = |end: &Outcome| end.writer() as f64 / end.reader() as f64;
    assert!(share(&matched) > 1.3 * share(&windows) && share(&matched) > 0.5, "{matched:?}");
    assert!(matched.longest[READERS] < Duration::from_micros(200), "{matched:?}");
}

/// A node that is refused often repeats its request more and more often, so that it gets its turn.
/// Its longest wait is shorter than with a back-off that grows.
#[test]
fn pauses_that_shrink_end_the_longest_waits() {
    let nodes: Vec<_> = (0..16).map(|node| if node % 2 == 0 { Reads } else { Writes }).collect();
    let [growing, shrinking] = ["growing", "shrinking"].map(|rule| {
        let end = World::of(&nodes, 1).with("takeover", "off").with("resend", rule).run();
        (*end.longest.iter().max().expect("nodes"), end.all())
    });
    assert!(shrinking.0 * 3 < growing.0 * 2, "{shrinking:?} {growing:?}");
    assert!(shrinking.1 * 10 > growing.1 * 9, "nothing is lost by it: {shrinking:?} {growing:?}");
}

/// Without aging no node counts as starved, so there is no priority, no hold-off and no longer use.
#[test]
fn without_aging_no_node_counts_as_starved() {
    let end = one_writer().with("aging", "off").run();
    assert_eq!(
        (LatchCount::HoldOffs.of(&end.counters), LatchCount::RefusedByPriority.of(&end.counters)),
        (0, 0)
    );
    assert!(end.writer() <= 8, "{end:?}");
}

/// `starved-at` is the number of refusals in a row after which a node counts as starved. This
/// writer is never refused eight times in a row.
#[test]
fn a_node_that_was_refused_less_often_is_not_starved() {
    let refused = |often| {
        let end = one_writer().with("starved-at", often).run();
        LatchCount::RefusedByPriority.of(&end.counters)
    };
    assert!(refused("2") > 100);
    assert_eq!(refused("8"), 0);
}

/// Takeover needs no such rule. A pledged copy stays pledged until the writer has the line, so no
/// other node gets the line in between.
#[test]
fn a_writer_that_takes_over_is_not_starved() {
    let [alone, all] = ["off", "on"]
        .map(|on| with_takeover().with("spin-windows", on).with("priority-matching", on).run());
    for end in [alone, all] {
        assert!(
            LatchCount::Takeovers.of(&end.counters) > 0 && end.writer() * 10 > end.reader() * 9,
            "{end:?}"
        );
        assert!(end.longest[READERS] < Duration::from_micros(200), "{end:?}");
    }
}

/// Bug: a node that releases the line without a hand-over obtains it again before the requesters
/// notice. They got the line once in 40 ms. Mechanism: the releasing node is the first to know that
/// the word is free, and its own writers wait. Fix: the node holds off for some time after it
/// refused the requesters.
#[test]
fn a_node_that_releases_the_line_does_not_keep_it() {
    for (nic, aging) in [("ethernet10g", "on"), ("ethernet10g", "off"), ("connectx3", "on")] {
        let mut world = World::of(&[Writes; 3], 2).with("forwarding", "off").with("aging", aging);
        (world.nic, world.lasts) = (nic, Duration::from_millis(40));
        let end = world.run();
        assert!(end.jain() > 0.8, "{nic}, aging {aging}: {end:?}");
        let longest = end.longest.iter().max().expect("nodes");
        assert!(*longest < Duration::from_millis(20), "{nic}, aging {aging}: {end:?}");
    }
}
