//! Things that are wrong on purpose: if a test here fails, the others would not notice them either.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use latchwork_cluster::Protocol;
use latchwork_latch::Rules;

use crate::shape::{Network, Shape, crowded};
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
    Shape {
        nodes: 4,
        workers: 2,
        keys: 4,
        loaded: 0,
        operations: 20,
        network: Network::Rough,
        ..shape
    }
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

/// How many of fifteen crowded worlds are found wrong with these rules.
fn with_rules(rules: Rules) -> u64 {
    let crowd = |seed| Shape { seed, ..crowded(Protocol::Selcc) };
    let (count, _) = noticed(0..15, |seed| {
        simulate_with(crowd(seed), Mistake::None, |config| {
            config.node.policy.rules = rules;
            config.node.deadline = Duration::from_millis(100);
        });
    });
    count
}

/// Bug: the receiver of a hand-over acts on the latch word before the giver's own operation has landed.
/// Mechanism: rule R4 switched off.
#[test]
fn a_protocol_without_settling_is_noticed() {
    assert!(with_rules(Rules { settle: false, ..Rules::DISCIPLINE }) > 0);
}

/// Bug: a refused reader takes its bit back while the holder sets it for the reader. Mechanism: rule R2
/// switched off, which is the published scheme.
#[test]
fn a_protocol_that_takes_refused_bits_back_is_noticed() {
    assert!(with_rules(Rules { registered_wait: false, ..Rules::DISCIPLINE }) > 0);
}

#[test]
fn the_whole_discipline_is_not_accused() {
    assert_eq!(with_rules(Rules::DISCIPLINE), 0);
}
