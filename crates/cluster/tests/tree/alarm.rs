//! Things that are wrong on purpose: if a test here fails, the others would not notice them either.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use latchwork_cluster::Protocol;

use crate::shape::Shape;
use crate::work::Mistake;
use crate::world::simulate_with;

/// How many worlds are found to be wrong, and what the first one says.
fn noticed(seeds: Range<u64>, world: impl Fn(u64)) -> (u64, Option<String>) {
    let (mut count, mut first) = (0, None);
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| world(seed))) {
            count += 1;
            first = first.or(panic.downcast::<String>().map(|what| *what).ok());
        }
    }
    (count, first)
}

fn busy(seed: u64) -> Shape {
    let shape = Shape::drawn(seed, Protocol::Selcc);
    Shape { nodes: 4, workers: 2, keys: 4, loaded: 0, operations: 20, rough: true, ..shape }
}

fn with_mistake(mistake: Mistake) -> (u64, Option<String>) {
    noticed(0..20, |seed| {
        simulate_with(busy(seed), mistake, |_| {});
    })
}

#[test]
fn a_lost_update_is_noticed() {
    let (count, first) = with_mistake(Mistake::Forgets);
    assert!(count >= 15, "only {count} of 20 worlds were found wrong");
    assert!(first.is_some_and(|what| what.contains("nothing explains")));
}

#[test]
fn a_stale_read_is_noticed() {
    let (count, first) = with_mistake(Mistake::Remembers);
    assert!(count >= 15, "only {count} of 20 worlds were found wrong");
    assert!(first.is_some_and(|what| what.contains("nothing explains")));
}

#[test]
fn clients_without_mistakes_are_not_accused() {
    assert_eq!(with_mistake(Mistake::None), (0, None));
}

/// Bug: the receiver of a hand-over acts on the latch word before the giver's own operation has landed.
/// Mechanism: rule R4 switched off.
#[test]
fn a_protocol_without_settling_is_noticed() {
    let broken = |seed| {
        simulate_with(Shape { nodes: 6, ..busy(seed) }, Mistake::None, |config| {
            config.node.policy.rules.settle = false;
            config.node.deadline = Duration::from_millis(100);
        });
    };
    let found = (0..60).find(|seed| noticed(*seed..seed + 1, broken).0 > 0);
    assert!(found.is_some(), "sixty worlds without rule R4 looked fine");
}
