//! Exchanges: barriers at which all give a value and get all.

mod common;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use latchwork_membership::{Membership, MembershipError, NodeName, Store};

use common::faulty::{Fault, Faulty};
use common::{LONG, Place, compute, compute_for, now};

type Values = Result<Vec<(NodeName, Vec<u8>)>, MembershipError>;

/// All nodes take part, each in a thread.
fn exchange(nodes: &[Membership], name: &str, parties: usize, limit: Duration) -> Vec<Values> {
    thread::scope(|scope| {
        let one = |node: &Membership| {
            let node = node.clone();
            let value = format!("{name} of {}", node.me().node);
            scope.spawn(move || node.exchange(name, parties, value.as_bytes(), limit))
        };
        let threads: Vec<_> = nodes.iter().map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn complete(nodes: &[Membership], name: &str) {
    for values in exchange(nodes, name, nodes.len(), LONG) {
        let expect = |node: &Membership| {
            let node = node.me().node;
            (node, format!("{name} of {node}").into_bytes())
        };
        assert_eq!(values.unwrap(), nodes.iter().map(expect).collect::<Vec<_>>());
    }
}

#[test]
fn everybody_gets_the_values_of_all() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..4).map(|_| place.join(compute()).unwrap()).collect();
        (0..10).for_each(|round| complete(&nodes, &format!("round-{round}")));
        // Those that everybody has are deleted.
        let left = place.store.range("/latchwork/bench/value/", LONG).unwrap().entries;
        assert_eq!(left.len(), nodes.len(), "of the last round");
    }
}

#[test]
fn long_values_arrive_whole() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..6).map(|_| place.join(compute()).unwrap()).collect();
        let length = latchwork_membership::VALUE_MAX;
        thread::scope(|scope| {
            for node in &nodes {
                let id = node.me().node.compute().unwrap().get();
                scope.spawn(move || {
                    let values = node.exchange("long", 6, &vec![id; length], LONG).unwrap();
                    for (node, value) in values {
                        assert_eq!(value, vec![node.compute().unwrap().get(); length]);
                    }
                });
            }
        });
    }
}

#[test]
fn a_later_run_may_use_the_names_of_an_earlier_one() {
    for place in Place::all() {
        for run in 0..3 {
            let value = |node: &Membership| format!("run {run} of {}", node.me().node);
            let part = |node: Membership| {
                let values = node.exchange("end", 3, value(&node).as_bytes(), LONG).unwrap();
                let expect = (1..=3).map(|id| format!("run {run} of C{id}").into_bytes());
                assert!(values.into_iter().map(|(_, value)| value).eq(expect));
                node.leave().unwrap();
            };
            thread::scope(|scope| {
                let first = place.join(compute()).unwrap();
                scope.spawn(|| part(first));
                // Who comes first finds only what the earlier run has left.
                common::sleep(Duration::from_millis(50));
                let others = [place.join(compute()).unwrap(), place.join(compute()).unwrap()];
                for node in others {
                    scope.spawn(|| part(node));
                }
            });
        }
    }
}

#[test]
fn who_is_slow_gets_the_values_also_when_the_others_go_on_without_it() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..2).map(|_| place.join(compute()).unwrap()).collect();
        let way = Faulty::new(place.another());
        let store: Arc<dyn Store> = way.clone();
        let slow = Membership::join(store, "bench", compute()).unwrap();
        way.set(Fault::CutAfterCommit);
        let slow = thread::spawn(move || slow.exchange("one", 3, b"slow", LONG));
        let all = exchange(&nodes, "one", 3, LONG);
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        complete(&nodes, "two");
        complete(&nodes, "three");
        way.set(Fault::None);
        assert_eq!(slow.join().unwrap(), all[0]);
    }
}

#[test]
fn who_is_slow_gets_the_values_of_those_who_have_left_already() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
        thread::scope(|scope| {
            for node in &nodes {
                scope.spawn(move || {
                    let values = node.exchange("end", 3, b"done", LONG).unwrap();
                    assert_eq!(values.len(), 3);
                    node.leave().unwrap();
                });
            }
        });
    }
}

#[test]
fn a_node_that_dies_ends_the_exchange_for_all_at_once() {
    for place in Place::all() {
        let mut nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
        let mortal = place.join(compute_for(place.short())).unwrap();
        let node = mortal.me().node;
        nodes.push(mortal);
        complete(&nodes, "before");
        drop(nodes.pop());
        let begin = now();
        for values in exchange(&nodes, "after", 4, 4 * LONG) {
            let gone = MembershipError::Gone { exchange: "after".into(), node, how: "died" };
            assert_eq!(values, Err(gone), "{:?}", place.kind);
        }
        assert!(begin.elapsed() < place.short() + Duration::from_secs(5));
        // It is dead when the next begins. Again nobody waits; and without it, all goes on.
        let begin = now();
        let values = exchange(&nodes, "again", 4, 4 * LONG);
        assert!(values.iter().all(|values| matches!(values, Err(MembershipError::Gone { .. }))));
        assert!(begin.elapsed() < Duration::from_secs(5));
        complete(&nodes, "without");
        // Whoever joins later is not concerned by who died before, and waits for others.
        let late = place.join(compute()).unwrap();
        let values = late.exchange("late", 9, b"", Duration::from_millis(50)).unwrap_err();
        assert!(matches!(values, MembershipError::Deadline { .. }), "{values}");
    }
}

#[test]
fn a_node_that_leaves_ends_the_exchange_that_waits_for_it() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
        let leaver = nodes[2].clone();
        let node = leaver.me().node;
        let thread = thread::spawn(move || {
            common::sleep(Duration::from_millis(300));
            leaver.leave().unwrap();
        });
        for values in exchange(&nodes[..2], "x", 3, LONG) {
            let gone = MembershipError::Gone { exchange: "x".into(), node, how: "left" };
            assert_eq!(values, Err(gone));
        }
        thread.join().unwrap();
    }
}

#[test]
fn who_has_not_come_is_said_when_the_time_is_over() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
        for values in exchange(&nodes[..2], "x", 3, Duration::from_millis(300)) {
            let error = values.unwrap_err().to_string();
            assert!(error.contains("2 of 3 nodes have come (C1 C2)"), "{error}");
        }
    }
}

#[test]
fn nodes_that_disagree_are_told() {
    let place = Place::memory();
    let nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
    let short = Duration::from_millis(20);
    nodes[0].exchange("x", 2, b"", short).unwrap_err();
    let error = nodes[1].exchange("x", 3, b"", LONG).unwrap_err().to_string();
    assert!(error.contains("C1 waits for 2 nodes, not 3"), "{error}");
    let error = nodes[0].exchange("x", 2, b"", LONG).unwrap_err().to_string();
    assert!(error.contains("C1 has used the name"), "{error}");

    complete(&nodes[..2], "y");
    let error = nodes[2].exchange("y", 2, b"", LONG).unwrap_err().to_string();
    assert!(error.contains("3 nodes have come for 2 parties"), "{error}");
}
