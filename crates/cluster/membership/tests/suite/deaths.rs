//! The deaths of nodes: they come in bounded time and in the right order, and are permanent.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use latchwork_membership::{Joining, MemberState, Membership, MembershipError, Role, Store};

use crate::common;
use crate::common::faulty::{Fault, Faulty};
use crate::common::{
    FIRM, LONG, Place, compute, compute_as, compute_for, eventually, in_each_place,
};

/// A node with a connection to the store that can be cut.
fn mortal(place: &Place) -> (Arc<Faulty>, Membership) {
    let way = Faulty::new(place.another());
    let store: Arc<dyn Store> = way.clone();
    let node = Membership::join(store, "bench", compute_for(FIRM)).unwrap();
    (way, node)
}

#[test]
fn a_callback_of_a_lost_lease_may_add_another() {
    in_each_place(|place| {
        let (way, mortal) = mortal(&place);
        let mortal = Arc::new(mortal);
        let (tell, told) = mpsc::channel();
        way.set(Fault::Cut);
        eventually("the lease to be invalid", || !mortal.lease().is_valid());
        // The call runs in its own thread, so that a deadlock fails the test instead of blocking
        // it.
        thread::spawn(move || {
            let adds = Arc::clone(&mortal);
            let tells = Box::new(move || tell.send(()).unwrap());
            mortal.on_loss(Box::new(move || adds.on_loss(tells)));
        });
        told.recv_timeout(LONG).expect("the second callback");
    });
}

#[test]
fn a_node_with_a_keeper_that_is_cut_off_is_dead_within_bounded_time_and_knows_first() {
    let faults = [Fault::Cut, Fault::LateAnswers, Fault::SlowAnswer];
    // The tests mostly wait, so all run at the same time. A failing thread fails the scope.
    thread::scope(|scope| {
        for fault in faults {
            scope.spawn(move || in_each_place(|place| cut_off(fault, place)));
        }
    });
}

fn cut_off(fault: Fault, place: Place) {
    let (way, mortal) = mortal(&place);
    let other = place.join(compute()).unwrap();
    let (node, lease) = (mortal.me().node, mortal.lease());
    let (tell, lost) = mpsc::channel();
    mortal.on_loss(Box::new(move || tell.send(()).unwrap()));
    // Checks the lease of the dying node when another node first sees that node dead.
    let seen = Arc::new(Mutex::new(None));
    other.follow(Box::new({
        let (lease, seen) = (lease.clone(), Arc::clone(&seen));
        move |view| {
            if view.state(node) == Some(MemberState::Dead) {
                seen.lock().unwrap().get_or_insert(lease.is_valid());
            }
        }
    }));
    // Seven renewals take longer than one lease, because a lease has five.
    eventually("renewals", || way.renewals().len() > 6);
    assert!(lease.is_valid());

    way.set(fault);
    eventually("the lease to be invalid", || !lease.is_valid());
    if fault == Fault::Cut {
        // The own lease ends a fifth of the lease before the store ends it. So the store still has
        // the node.
        let state = other.view().state(node);
        let alive = format!("/latchwork/bench/view/alive/{node}");
        let is_there = place.store.get(&alive, LONG).unwrap().is_some();
        let renewed = way.renewals().pop().unwrap();
        // The check is skipped on a machine that stopped for so long that the store may have ended
        // it.
        if renewed.elapsed() < FIRM {
            assert!(state == Some(MemberState::Joined) && is_there, "{:?}", place.kind);
        }
    }
    other.wait(LONG, |view| view.state(node) == Some(MemberState::Dead)).unwrap();
    eventually("the callback", || seen.lock().unwrap().is_some());
    assert_eq!(*seen.lock().unwrap(), Some(false), "{:?}", place.kind);
    lost.recv_timeout(LONG).unwrap();

    // The connection works again, but the node stays dead.
    way.set(Fault::None);
    assert!(!lease.is_valid());
    for error in [
        mortal.contact("a", "b").unwrap_err(),
        mortal.decide("a", b"b").unwrap_err(),
        mortal.exchange("a", &[mortal.me().party()], b"", LONG).unwrap_err(),
        mortal.wait(LONG, |_| false).map(drop).unwrap_err(),
        mortal.leave().unwrap_err(),
    ] {
        assert_eq!(error, MembershipError::LeaseEnded);
    }
}

#[test]
fn the_id_of_the_dead_is_not_given_again_before_the_next_node_knows_that_it_may() {
    in_each_place(|place| {
        let (way, mortal) = mortal(&place);
        let memory =
            Joining { ttl: FIRM, ..Joining::new(Role::Memory { bytes: 4096, chip_bytes: 0 }) };
        let memory = place.join(memory).unwrap();
        let other = place.join(compute()).unwrap();
        let (node, epoch) = (mortal.me().node, mortal.me().epoch);
        let (memory_node, memory_epoch) = (memory.me().node, memory.me().epoch);
        mortal.contact("pid", "1234").unwrap();
        way.set(Fault::Cut);
        drop(memory);
        let view = other
            .wait(LONG, |view| {
                let dead = [view.state(node), view.state(memory_node)];
                dead == [Some(MemberState::Dead); 2]
            })
            .unwrap();
        // A process that kills the dead node's process needs the process id from the contact.
        assert_eq!(view.get(node).unwrap().contact["pid"], "1234");
        assert_eq!(view.dead().count(), 2);

        let error = place.join(compute_as(1)).unwrap_err();
        assert_eq!(error, MembershipError::Dead { node, epoch });
        let again =
            Joining { id: Some(0), ..Joining::new(Role::Memory { bytes: 4096, chip_bytes: 0 }) };
        let error = place.join(again.clone()).unwrap_err();
        assert_eq!(error, MembershipError::Dead { node: memory_node, epoch: memory_epoch });
        assert_eq!(place.join(compute()).unwrap().me().node.to_string(), "C3");
        let next = place.join(Joining { id: None, ..again }).unwrap();
        assert_eq!(next.me().node.to_string(), "M1");
        // A joining node that knows that the dead node has left no trace takes the id.
        let reusing = |reuse| Joining { reuse: Some(reuse), ..compute_as(1) };
        let error = place.join(reusing(|_, _| false)).unwrap_err();
        assert_eq!(error, MembershipError::Dead { node, epoch });
        let next = place.join(reusing(|_, member| member.contact["pid"] == "1234")).unwrap();
        assert!(next.me().node == node && next.me().epoch > epoch);
        assert!(!next.view().get(node).unwrap().contact.contains_key("pid"));
    });
}

#[test]
fn dropping_a_node_without_leaving_is_dying() {
    in_each_place(|place| {
        let other = place.join(compute()).unwrap();
        let mortal = place.join(compute_for(FIRM)).unwrap();
        let (node, lease) = (mortal.me().node, mortal.lease());
        let copy = mortal.clone();
        drop(mortal);
        assert!(lease.is_valid(), "there is a copy");
        drop(copy);
        assert!(!lease.is_valid());
        other.wait(LONG, |view| view.state(node) == Some(MemberState::Dead)).unwrap();
    });
}

#[test]
fn a_node_that_dies_is_dead_at_once_and_one_that_has_left_is_not() {
    for place in Place::all() {
        let other = place.join(compute()).unwrap();
        let long = Joining { ttl: Duration::from_secs(600), ..compute() };
        let (mortal, left) = (place.join(long.clone()).unwrap(), place.join(long).unwrap());
        left.leave().unwrap();
        left.die();
        mortal.die();
        assert!(!mortal.lease().is_valid());
        let (dead, left) = (mortal.me().node, left.me().node);
        let view = other.wait(LONG, |view| view.state(dead) == Some(MemberState::Dead)).unwrap();
        assert_eq!(view.state(left), Some(MemberState::Left));
        assert_eq!(mortal.leave(), Ok(()), "nothing is left to do");
    }
}

#[test]
fn a_node_that_cannot_follow_any_more_loses_its_lease() {
    let place = Place::memory();
    let node = place.join(compute()).unwrap();
    let mut first = true;
    node.follow(Box::new(move |_| assert!(std::mem::take(&mut first), "on purpose")));
    assert!(node.lease().is_valid());
    place.join(compute()).unwrap();
    assert_eq!(node.wait(LONG, |_| false).unwrap_err(), MembershipError::LeaseEnded);
}

#[test]
fn no_node_joins_twice_when_the_answer_to_joining_is_lost() {
    for place in Place::all() {
        let way = Faulty::new(place.another());
        let store: Arc<dyn Store> = way.clone();
        way.set(Fault::LostAnswer);
        let node = Membership::join(store, "bench", compute()).unwrap();
        assert_eq!(node.me().node.to_string(), "C1");
        assert_eq!(node.view().members.len(), 1);
        node.contact("a", "b").unwrap();
        // A leave also takes effect once when its answer is lost.
        way.set(Fault::LostAnswer);
        node.leave().unwrap();
        assert_eq!(place.join(compute()).unwrap().me().node, node.me().node);
    }
}

#[test]
fn a_store_that_is_cut_off_gives_errors_with_a_reason_and_no_hang() {
    in_each_place(|place| {
        let (way, mortal) = mortal(&place);
        way.set(Fault::Cut);
        let error = mortal.decide("a", b"b").unwrap_err();
        assert!(matches!(error, MembershipError::Unreachable { .. }), "{error}");
        let error = mortal.wait(FIRM / 8, |_| false).unwrap_err();
        assert!(error.to_string().contains("it was cut off"), "{error}");
        let error = mortal.wait(LONG, |_| false).unwrap_err();
        assert_eq!(error, MembershipError::LeaseEnded);
        let error = mortal.wait_for_fact("a", LONG).unwrap_err();
        assert_eq!(error, MembershipError::LeaseEnded);
    });
}

#[test]
fn the_cost_of_reading_a_lease_is_a_clock_reading() {
    let place = Place::memory();
    let node = place.join(compute()).unwrap();
    let lease = node.lease();
    let rounds = 200_000;
    let begin = common::cpu();
    let valid = (0..rounds).filter(|_| std::hint::black_box(&lease).is_valid()).count();
    let each = (common::cpu() - begin) / rounds;
    assert_eq!(valid, rounds as usize);
    println!("Lease::is_valid takes {each:?}");
    // A check takes some tens of nanoseconds. A system call or a lock would take several hundreds.
    assert!(each < Duration::from_micros(5), "{each:?}");
}
