//! Exchanges: barriers at which each party gives a value and gets all values.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use latchwork_membership::{
    ExchangePatience, MemberState, Membership, MembershipError, NodeIncarnation, Store,
};

use crate::common;
use crate::common::faulty::{Fault, Faulty};
use crate::common::{FIRM, LONG, Place, compute, compute_for, in_each_place, now};

type Values = Result<Vec<Vec<u8>>, MembershipError>;

fn parties(nodes: &[Membership]) -> Vec<NodeIncarnation> {
    nodes.iter().map(|node| node.me().party()).collect()
}

/// Runs an exchange of the nodes, each in its own thread.
fn exchange(
    nodes: &[Membership],
    name: &str,
    parties: &[NodeIncarnation],
    limit: Duration,
) -> Vec<Values> {
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
    for values in exchange(nodes, name, &parties(nodes), LONG) {
        let expect = |node: &Membership| format!("{name} of {}", node.me().node).into_bytes();
        assert_eq!(values.unwrap(), nodes.iter().map(expect).collect::<Vec<_>>());
    }
}

#[test]
fn every_party_gets_the_values_of_all() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..4).map(|_| place.join(compute()).unwrap()).collect();
        (0..10).for_each(|round| complete(&nodes, &format!("round-{round}")));
        // The parties delete values that all parties have read. The values of the last round
        // remain.
        let left = place.store.range("/latchwork/bench/value/", LONG).unwrap().entries;
        assert_eq!(left.len(), nodes.len(), "of the last round");
    }
}

#[test]
fn long_values_arrive_whole() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
        let length = latchwork_membership::VALUE_MAX;
        let all = &parties(&nodes);
        thread::scope(|scope| {
            for node in &nodes {
                let id = node.me().node.compute().unwrap().get();
                scope.spawn(move || {
                    let values = node.exchange("long", all, &vec![id; length], LONG).unwrap();
                    for (party, value) in all.iter().zip(values) {
                        assert_eq!(value, vec![party.node.compute().unwrap().get(); length]);
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
            let nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
            let all = &parties(&nodes);
            let value = |node: &Membership| format!("run {run} of {}", node.me().node);
            let part = |node: Membership| {
                let values = node.exchange("end", all, value(&node).as_bytes(), LONG).unwrap();
                let expect = (1..=3).map(|id| format!("run {run} of C{id}").into_bytes());
                assert!(values.into_iter().eq(expect));
                node.leave().unwrap();
            };
            thread::scope(|scope| {
                let mut nodes = nodes.into_iter();
                let first = nodes.next().unwrap();
                scope.spawn(|| part(first));
                // The first party finds only the values of the earlier run.
                common::sleep(Duration::from_millis(50));
                for node in nodes {
                    scope.spawn(|| part(node));
                }
            });
        }
    }
}

#[test]
fn a_slow_party_gets_the_values_also_when_the_others_go_on_without_it() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..2).map(|_| place.join(compute()).unwrap()).collect();
        let way = Faulty::new(place.another());
        let store: Arc<dyn Store> = way.clone();
        let slow = Membership::join(store, "bench", compute()).unwrap();
        way.set(Fault::CutAfterCommit);
        let mut three = parties(&nodes);
        three.push(slow.me().party());
        let also = three.clone();
        let slow = thread::spawn(move || slow.exchange("one", &also, b"slow", LONG));
        let all = exchange(&nodes, "one", &three, LONG);
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        complete(&nodes, "two");
        complete(&nodes, "three");
        way.set(Fault::None);
        assert_eq!(slow.join().unwrap(), all[0]);
    }
}

#[test]
fn a_slow_party_gets_the_values_of_nodes_that_have_left_already() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
        let all = &parties(&nodes);
        thread::scope(|scope| {
            for node in &nodes {
                scope.spawn(move || {
                    let values = node.exchange("end", all, b"done", LONG).unwrap();
                    assert_eq!(values.len(), 3);
                    node.leave().unwrap();
                });
            }
        });
    }
}

#[test]
fn a_node_that_dies_ends_the_exchange_for_all_at_once() {
    in_each_place(|place| {
        let mut nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
        let mortal = place.join(compute_for(FIRM)).unwrap();
        let node = mortal.me().node;
        nodes.push(mortal);
        complete(&nodes, "before");
        let four = parties(&nodes);
        drop(nodes.pop());
        let begin = now();
        for values in exchange(&nodes, "after", &four, 4 * LONG) {
            let gone = MembershipError::PeerLeft { exchange: "after".into(), node, how: "died" };
            assert_eq!(values, Err(gone), "{:?}", place.kind);
        }
        assert!(begin.elapsed() < LONG);
        // The node is dead before this exchange begins. Again no party waits. An exchange without
        // the dead node succeeds.
        let begin = now();
        let values = exchange(&nodes, "again", &four, 4 * LONG);
        assert!(
            values.iter().all(|values| matches!(values, Err(MembershipError::PeerLeft { .. })))
        );
        assert!(begin.elapsed() < LONG);
        complete(&nodes, "without");
    });
}

#[test]
fn an_exchange_of_the_living_goes_on_without_those_that_died() {
    in_each_place(|place| {
        let mut nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
        nodes.push(place.join(compute_for(FIRM)).unwrap());
        let four = &parties(&nodes);
        let all = |nodes: &[Membership], name: &'static str| -> Vec<Vec<Option<Vec<u8>>>> {
            thread::scope(|scope| {
                let one = |node: &Membership| {
                    let node = node.clone();
                    let value = node.me().node.to_string().into_bytes();
                    scope.spawn(move || node.exchange_of_living(name, four, &value, 4 * LONG))
                };
                let threads: Vec<_> = nodes.iter().map(one).collect();
                threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
            })
        };
        let told: Vec<_> =
            four.iter().map(|party| Some(party.node.to_string().into_bytes())).collect();
        assert_eq!(all(&nodes, "before"), vec![told.clone(); 4]);
        // This one dies after it has given its value. So the value is one of all.
        let mortal = nodes.pop().unwrap();
        let value = mortal.me().node.to_string().into_bytes();
        let given = mortal.exchange_of_living("given", four, &value, LONG / 100);
        assert!(matches!(given, Err(MembershipError::Deadline { .. })), "{given:?}");
        drop(mortal);
        assert_eq!(all(&nodes, "given"), vec![told.clone(); 3]);
        let without = [&told[..3], &[None]].concat();
        for name in ["after", "again"] {
            assert_eq!(all(&nodes, name), vec![without.clone(); 3]);
        }
        // The end of a node that leaves is an error, as in any exchange.
        nodes[2].leave().unwrap();
        let gone = nodes[0].exchange_of_living("left", four, b"", 4 * LONG);
        assert!(matches!(gone, Err(MembershipError::PeerLeft { how: "left", .. })), "{gone:?}");
    });
}

/// Nodes outside the exchange join, leave and die. At one time their number equals the number of
/// missing parties.
#[test]
fn other_nodes_of_the_cluster_do_not_affect_an_exchange() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..2).map(|_| place.join(compute()).unwrap()).collect();
        let others: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
        let mortal = place.join(compute()).unwrap();
        let dead = mortal.me().node;
        mortal.die();
        nodes[0].wait(LONG, |view| view.state(dead) == Some(MemberState::Dead)).unwrap();
        thread::scope(|scope| {
            // Other nodes run an exchange with the same name at the same time.
            let apart = scope.spawn(|| complete(&others, "x"));
            complete(&nodes, "x");
            apart.join().unwrap();
        });
        others.iter().for_each(|other| other.leave().unwrap());
        complete(&nodes, "y");
        // One of the two nodes has left, and others have joined instead: no party waits.
        let two = parties(&nodes);
        nodes[1].leave().unwrap();
        let _instead = [place.join(compute()).unwrap(), place.join(compute()).unwrap()];
        let values = nodes[0].exchange("z", &two, b"", 4 * LONG);
        let gone =
            MembershipError::PeerLeft { exchange: "z".into(), node: two[1].node, how: "left" };
        assert_eq!(values, Err(gone), "{:?}", place.kind);
    }
}

#[test]
fn a_party_can_stop_waiting() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..2).map(|_| place.join(compute()).unwrap()).collect();
        let begin = now();
        let goes_on = || begin.elapsed() < Duration::from_millis(300);
        let patience = ExchangePatience { limit: 4 * LONG, goes_on: &goes_on };
        let error = nodes[0].exchange("x", &parties(&nodes), b"", patience).unwrap_err();
        assert_eq!(error, MembershipError::GivenUp { exchange: "x".into() });
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
        for values in exchange(&nodes[..2], "x", &parties(&nodes), LONG) {
            let gone = MembershipError::PeerLeft { exchange: "x".into(), node, how: "left" };
            assert_eq!(values, Err(gone));
        }
        thread.join().unwrap();
    }
}

#[test]
fn missing_parties_are_reported_when_the_time_is_over() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
        for values in exchange(&nodes[..2], "x", &parties(&nodes), Duration::from_millis(300)) {
            let error = values.unwrap_err().to_string();
            assert!(error.contains("2 of 3 nodes have come, without C3"), "{error}");
        }
    }
}

#[test]
fn nodes_that_disagree_get_an_error() {
    let place = Place::memory();
    let nodes: Vec<_> = (0..3).map(|_| place.join(compute()).unwrap()).collect();
    let (two, three) = (&parties(&nodes[..2]), &parties(&nodes));
    let short = Duration::from_millis(20);
    nodes[0].exchange("x", two, b"", short).unwrap_err();
    let error = nodes[1].exchange("x", three, b"", LONG).unwrap_err().to_string();
    let (theirs, ours) =
        (two.iter().map(NodeIncarnation::to_string), three.iter().map(NodeIncarnation::to_string));
    let (theirs, ours) = (theirs.collect::<Vec<_>>().join(" "), ours.collect::<Vec<_>>().join(" "));
    assert!(error.contains(&format!("C1 waits for {theirs}, and not for {ours}")), "{error}");
    let error = nodes[0].exchange("x", two, b"", LONG).unwrap_err().to_string();
    assert!(error.contains("C1 has used the name"), "{error}");
    let error = nodes[2].exchange("y", two, b"", LONG).unwrap_err().to_string();
    assert!(error.contains("C3 is none of the parties"), "{error}");
}
