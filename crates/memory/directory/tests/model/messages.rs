//! The number of messages of the uncontended cases.

use latchwork_directory::{Conflicts, Hold, Rules};

use crate::script::Run;

fn rules() -> impl Iterator<Item = Rules> {
    let all = [Conflicts::Chain, Conflicts::Queue, Conflicts::Poll, Conflicts::AtHome];
    all.into_iter().map(|conflicts| Rules { conflicts, ..Rules::SCALESTORE })
}

/// Under a home that waits, the requester reports that it has the line.
fn report(rules: &Rules) -> usize {
    usize::from(matches!(rules.conflicts, Conflicts::Queue | Conflicts::Poll))
}

#[test]
fn a_line_that_only_the_home_has_takes_two_messages() {
    for rules in rules() {
        let mut run = Run::new(rules, 2);
        run.read(0);
        assert_eq!(run.messages(), 2, "{rules:?}");
        run.read(1);
        assert_eq!(run.messages(), 2, "{rules:?}: the home's memory has the bytes");
        assert_eq!(run.holds(), [Hold::Shared; 2]);
    }
}

#[test]
fn a_line_of_another_node_takes_four_messages_and_a_report_five() {
    for rules in rules() {
        for writes in [false, true] {
            let mut run = Run::new(rules, 2);
            run.write(0);
            assert_eq!(run.messages(), 2, "{rules:?}");
            if writes {
                run.write(1)
            } else {
                run.read(1)
            }
            assert_eq!(run.messages(), 4 + report(&rules), "{rules:?}");
        }
    }
}

#[test]
fn a_write_over_sharers_takes_two_messages_for_each() {
    for rules in rules() {
        for sharers in 1..6 {
            for upgrades in [false, true] {
                let mut run = Run::new(rules, 7);
                (0..sharers + usize::from(upgrades)).for_each(|node| {
                    run.read(node);
                    assert_eq!(run.messages(), 2);
                });
                run.write(sharers);
                assert_eq!(run.messages(), 2 + 2 * sharers + report(&rules), "{rules:?}");
            }
        }
    }
}

#[test]
fn an_eviction_takes_two_messages() {
    for rules in rules() {
        let mut run = Run::new(rules, 1);
        run.write(0);
        run.settle();
        run.step(crate::setting::Step::Evict(0));
        assert_eq!(run.messages(), 2);
        assert!(run.world.home.is_absent());
    }
}
