//! The life of a node, in every store.

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use latchwork_membership::{
    Joining, MemberState, Membership, MembershipError, NodeName, Role, Store, VALUE_MAX,
};

use crate::common;
use crate::common::faulty::Faulty;
use crate::common::{FIRM, Kind, LONG, Place, compute, compute_as, compute_for, eventually, now};

#[test]
fn of_many_nodes_that_want_one_id_one_gets_it() {
    for place in Place::all() {
        let rounds = if place.kind == Kind::Memory { 200 } else { 15 };
        let stores: Vec<_> = (0..6).map(|_| place.another()).collect();
        let mut epoch = 0;
        for round in 0..rounds {
            let results: Vec<_> = thread::scope(|scope| {
                let join = |store| scope.spawn(|| Membership::join(store, "bench", compute_as(7)));
                let threads: Vec<_> = stores.iter().cloned().map(join).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let mut winner = None;
            for result in results {
                match result {
                    Ok(node) => assert!(winner.replace(node).is_none(), "two at a time"),
                    Err(MembershipError::Taken { node, .. }) => assert_eq!(node.to_string(), "C7"),
                    Err(error) => panic!("{:?}, round {round}: {error}", place.kind),
                }
            }
            let winner = winner.unwrap();
            assert!(winner.me().epoch > epoch);
            epoch = winner.me().epoch;
            winner.leave().unwrap();
        }
    }
}

#[test]
fn all_nodes_that_take_any_id_get_different_ones() {
    for place in Place::all() {
        let stores: Vec<_> = (0..8).map(|_| place.another()).collect();
        let nodes: Vec<_> = thread::scope(|scope| {
            let join = |store| scope.spawn(|| Membership::join(store, "bench", compute()).unwrap());
            let threads: Vec<_> = stores.into_iter().map(join).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let names: BTreeSet<_> = nodes.iter().map(|node| node.me().node.to_string()).collect();
        assert_eq!(names, (1..=8).map(|id| format!("C{id}")).collect());
        let epochs: BTreeSet<_> = nodes.iter().map(|node| node.me().epoch).collect();
        assert_eq!(epochs.len(), 8);
        let view = nodes[0].wait(LONG, |view| view.compute().count() == 8).unwrap();
        assert_eq!(view.memory().count(), 0);
    }
}

#[test]
fn ids_of_compute_nodes_end_at_58_and_those_of_memory_nodes_begin_at_0() {
    let place = Place::memory();
    let nodes: Vec<_> = (0..58).map(|_| place.join(compute()).unwrap()).collect();
    assert_eq!(nodes[57].me().node.to_string(), "C58");
    let full = place.join(compute()).unwrap_err();
    assert_eq!(full, MembershipError::Full { kind: "compute", dead: 0 });
    for id in [0, 59, 300] {
        let error = place.join(compute_as(id)).unwrap_err();
        assert!(matches!(error, MembershipError::Id { .. }), "{error}");
    }
    let memory = Joining::new(Role::Memory { bytes: 1 << 30, chip_bytes: 0 });
    let first = place.join(memory.clone()).unwrap();
    assert_eq!(first.me().node.to_string(), "M0");
    assert_eq!(first.me().role, Role::Memory { bytes: 1 << 30, chip_bytes: 0 });
    let last = place.join(Joining { id: Some(u16::MAX), ..memory.clone() }).unwrap();
    assert_eq!(last.me().node.to_string(), "M65535");
    assert_eq!(place.join(memory).unwrap().me().node.to_string(), "M1");
}

#[test]
fn an_orderly_leave_frees_the_id_and_the_next_holder_has_a_higher_epoch() {
    for place in Place::all() {
        let mut joining = compute();
        joining.contact.insert("old".into(), "x".into());
        let first = place.join(joining).unwrap();
        first.leave().unwrap();
        first.leave().unwrap();
        assert!(!first.lease().is_valid());
        assert_eq!(first.contact("a", "b"), Err(MembershipError::Left));
        assert_eq!(first.decide("a", b"b"), Err(MembershipError::Left));
        let next = place.join(compute()).unwrap();
        assert_eq!(next.me().node, first.me().node);
        assert!(next.me().epoch > first.me().epoch);
        let view = next.view();
        let contact = &view.get(next.me().node).unwrap().contact;
        assert!(contact.keys().eq(["process"]), "not the old ones: {contact:?}");
    }
}

#[test]
fn a_second_start_under_one_id_is_refused_while_the_first_lives() {
    for place in Place::all() {
        let first = place.join(compute_as(3)).unwrap();
        let (node, epoch) = (first.me().node, first.me().epoch);
        let again = place.join(compute_as(3)).unwrap_err();
        assert_eq!(again, MembershipError::Taken { node, epoch });
        assert!(first.lease().is_valid());
        first.contact("still", "here").unwrap();
    }
}

#[test]
fn all_nodes_learn_what_one_says_of_itself() {
    for place in Place::all() {
        let a = place.join(compute()).unwrap();
        let (tell, seen) = mpsc::channel();
        a.follow(Box::new(move |view| tell.send(view.joined().count()).unwrap()));
        assert_eq!(seen.try_recv(), Ok(1), "the present view, at once");
        let mut joining = compute();
        joining.contact.insert("tcp".into(), "10.0.0.1:77".into());
        let b = place.join(joining).unwrap();
        b.contact("pid", "12").unwrap();
        let node = b.me().node;
        let both = |view: &latchwork_membership::View| view.get(node).unwrap().contact.len() == 3;
        let view = a.wait(LONG, |view| view.get(node).is_some() && both(view)).unwrap();
        assert_eq!(view.get(node).unwrap().contact["tcp"], "10.0.0.1:77");
        b.leave().unwrap();
        a.wait(LONG, |view| view.state(node) == Some(MemberState::Left)).unwrap();
        let mut counts = vec![1];
        while counts.len() < 3 {
            let count = seen.recv_timeout(LONG).unwrap();
            if counts.last() != Some(&count) {
                counts.push(count);
            }
        }
        assert_eq!(counts, [1, 2, 1], "in this order, whatever else changes");
    }
}

#[test]
fn followers_see_a_change_within_a_tenth_of_a_second() {
    for place in Place::all() {
        let (a, b) = (place.join(compute()).unwrap(), place.join(compute()).unwrap());
        let (tell, seen) = mpsc::channel();
        let node = b.me().node;
        a.follow(Box::new(move |view| {
            let round = view.get(node).and_then(|member| member.contact.get("round").cloned());
            let _ = tell.send((round, now()));
        }));
        let mut times = Vec::new();
        for round in 0..21 {
            let round = Some(round.to_string());
            common::sleep(Duration::from_millis(10));
            let begin = now();
            b.contact("round", round.as_ref().unwrap()).unwrap();
            let at = loop {
                let (seen, at) = seen.recv_timeout(LONG).unwrap();
                if seen == round {
                    break at;
                }
            };
            times.push(at.saturating_duration_since(begin));
        }
        common::see_that_they_are_prompt(place.kind, times);
    }
}

#[test]
fn a_slow_callback_costs_no_lease() {
    let place = Place::memory();
    let way = Faulty::new(place.another());
    let store: Arc<dyn Store> = way.clone();
    let a = Membership::join(store, "bench", compute_for(FIRM)).unwrap();
    let (begun, wait) = mpsc::channel();
    let (go, going) = mpsc::channel::<()>();
    let mut first = true;
    a.follow(Box::new(move |_| {
        if !std::mem::take(&mut first) {
            begun.send(()).unwrap();
            let _ = going.recv_timeout(LONG);
        }
    }));
    let _b = place.join(compute()).unwrap();
    wait.recv_timeout(LONG).unwrap();
    let before = way.renewals().len();
    eventually("renewals", || way.renewals().len() > before + 1);
    assert!(a.lease().is_valid());
    drop(go);
}

#[test]
fn every_node_gets_the_value_of_the_first_decision() {
    for place in Place::all() {
        let nodes: Vec<_> = (0..4).map(|_| place.join(compute()).unwrap()).collect();
        assert_eq!(nodes[0].fact("pool"), Ok(None));
        let waiter = nodes[0].clone();
        let waiter = thread::spawn(move || waiter.wait_for_fact("pool", LONG).unwrap());
        let values: BTreeSet<_> = thread::scope(|scope| {
            let decide = |node: &Membership| {
                let (node, value) = (node.clone(), node.me().node.to_string());
                scope.spawn(move || node.decide("pool", value.as_bytes()).unwrap())
            };
            let threads: Vec<_> = nodes.iter().map(decide).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(values.len(), 1);
        let value = values.into_iter().next().unwrap();
        assert_eq!(waiter.join().unwrap(), value);
        // The fact remains after all these nodes have left. Another name does not find it.
        nodes.iter().for_each(|node| node.leave().unwrap());
        let late = place.join(compute()).unwrap();
        assert_eq!(late.fact("pool").unwrap(), Some(value));
        assert_eq!(late.fact("poo").unwrap(), None);
        let none = late.wait_for_fact("poo", Duration::from_millis(50)).unwrap_err();
        assert!(matches!(none, MembershipError::Deadline { .. }), "{none}");
    }
}

#[test]
fn names_and_values_that_no_store_could_take_are_refused() {
    for place in Place::all() {
        let node = place.join(compute()).unwrap();
        let error = node.decide("a/b", b"").unwrap_err();
        assert!(matches!(error, MembershipError::Name { what: "fact", .. }), "{error}");
        let error = node.contact("", "").unwrap_err();
        assert!(matches!(error, MembershipError::Name { what: "contact", .. }), "{error}");
        let error = node.exchange("..", &[], b"", LONG).unwrap_err();
        assert!(matches!(error, MembershipError::Name { what: "exchange", .. }), "{error}");
        let error = Membership::join(place.another(), "a b", compute()).unwrap_err();
        assert!(matches!(error, MembershipError::Name { what: "cluster", .. }), "{error}");
        let long = vec![b'x'; VALUE_MAX + 1];
        let error = node.decide("long", &long).unwrap_err();
        assert!(matches!(error, MembershipError::TooLong { .. }), "{error}");
        assert_eq!(node.decide("long", &long[1..]).unwrap().len(), VALUE_MAX);
        let error = place.join(common::compute_for(Duration::ZERO)).unwrap_err();
        assert!(matches!(error, MembershipError::Ttl { .. }), "{error}");
    }
}

#[test]
fn clusters_of_one_store_know_nothing_of_each_other() {
    for place in Place::all() {
        let a = Membership::join(place.another(), "bench", compute()).unwrap();
        // The name of this cluster begins with the name of the first cluster.
        let b = Membership::join(place.another(), "bench.2", compute()).unwrap();
        assert_eq!(a.me().node, b.me().node);
        a.decide("x", b"a").unwrap();
        assert_eq!(b.fact("x"), Ok(None));
        let names: Vec<NodeName> = b.view().members.keys().copied().collect();
        assert_eq!(names, [b.me().node]);
    }
}
