//! The behaviour that every store must have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use latchwork_membership::{Compare, KeyChange, LeaseId, MembershipError, Store};

use crate::common;
use crate::common::{FIRM, Kind, LONG, Place, now};

fn put(key: &str, value: &[u8], lease: Option<LeaseId>) -> KeyChange {
    KeyChange::Put { key: key.into(), value: value.into(), lease }
}

fn commit(store: &dyn Store, compares: &[Compare], changes: &[KeyChange]) -> Option<u64> {
    store.commit(compares, changes, LONG).unwrap()
}

#[test]
fn a_transaction_makes_all_its_changes_or_none() {
    for place in Place::all() {
        let store = &*place.store;
        let absent = [Compare::Absent("/a".into())];
        let first = commit(store, &absent, &[put("/a", b"1", None), put("/b", b"2", None)]);
        let first = first.unwrap();
        assert_eq!(commit(store, &absent, &[put("/b", b"3", None)]), None);
        let old = [Compare::Unchanged("/a".into(), first), Compare::Unchanged("/b".into(), first)];
        let second = commit(store, &old, &[put("/a", &[0, 255, b'\n'], None)]).unwrap();
        assert!(second > first);
        // One of the two keys has changed since the revision in the condition.
        assert_eq!(commit(store, &old, &[KeyChange::Delete("/b".into())]), None);

        let snapshot = store.range("/", LONG).unwrap();
        assert_eq!(snapshot.revision, second);
        let seen: Vec<_> = snapshot
            .entries
            .iter()
            .map(|entry| (entry.key.as_str(), entry.value.as_slice(), entry.modified))
            .collect();
        assert_eq!(seen, [("/a", &[0, 255, b'\n'][..], second), ("/b", &b"2"[..], first)]);
        commit(store, &[], &[KeyChange::Delete("/a".into()), KeyChange::Delete("/none".into())]);
        assert_eq!(store.get("/a", LONG).unwrap(), None);
        assert_eq!(store.get("/b", LONG).unwrap().unwrap().value, b"2");
    }
}

#[test]
fn of_many_writers_that_create_a_key_one_succeeds() {
    for place in Place::all() {
        let rounds = if place.kind == Kind::Memory { 500 } else { 40 };
        let handles: Vec<_> = (0..6).map(|_| place.another()).collect();
        for round in 0..rounds {
            let key = format!("/race/{round}");
            let made = AtomicUsize::new(0);
            thread::scope(|scope| {
                for store in &handles {
                    let (key, made) = (&key, &made);
                    scope.spawn(move || {
                        let absent = [Compare::Absent(key.clone())];
                        if commit(&**store, &absent, &[put(key, b"mine", None)]).is_some() {
                            made.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(made.into_inner(), 1, "{:?}, round {round}", place.kind);
        }
    }
}

#[test]
fn the_keys_of_a_lease_live_as_long_as_it_is_kept_alive() {
    for place in Place::all() {
        let store = &*place.store;
        let kept = store.grant(FIRM, LONG).unwrap();
        let begin = now();
        let left = store.grant(FIRM, LONG).unwrap();
        assert!(left.ttl >= FIRM);
        let both = [put("/kept", b"", Some(kept.id)), put("/left", b"", Some(left.id))];
        let made = commit(store, &[], &both).unwrap();
        assert_eq!(store.get("/kept", LONG).unwrap().unwrap().lease, Some(kept.id));

        while store.get("/left", LONG).unwrap().is_some() {
            assert!(begin.elapsed() < LONG);
            assert_eq!(store.keep_alive(kept.id, LONG), Ok(kept.ttl));
            store.wait("/", made, FIRM / 8).unwrap();
        }
        assert!(begin.elapsed() >= FIRM, "not before its end");
        assert!(store.get("/kept", LONG).unwrap().is_some());
        assert!(store.range("/", LONG).unwrap().revision > made, "an end is a change");
        let ended = Err(MembershipError::LeaseEnded);
        assert_eq!(store.keep_alive(left.id, LONG), ended);
        let too_late = store.commit(&[], &[put("/late", b"", Some(left.id))], LONG);
        assert_eq!(too_late, Err(MembershipError::LeaseEnded));
        assert_eq!(store.get("/late", LONG).unwrap(), None);

        store.revoke(kept.id, LONG).unwrap();
        assert_eq!(store.get("/kept", LONG).unwrap(), None);
        assert_eq!(store.keep_alive(kept.id, LONG), Err(MembershipError::LeaseEnded));
        store.revoke(kept.id, LONG).unwrap();
    }
}

#[test]
fn a_waiter_learns_of_a_change_within_a_tenth_of_a_second() {
    for place in Place::all() {
        let (here, there) = (place.another(), place.another());
        let mut times = Vec::new();
        for round in 0..21 {
            let revision = here.range("/", LONG).unwrap().revision;
            let waiter = thread::spawn({
                let here = Arc::clone(&here);
                move || {
                    assert!(here.wait("/", revision, LONG).unwrap());
                    now()
                }
            });
            // This pause lets the other thread begin to wait before the change.
            common::sleep(Duration::from_millis(20));
            let begin = now();
            commit(&*there, &[], &[put("/x", format!("{round}").as_bytes(), None)]).unwrap();
            times.push(waiter.join().unwrap().saturating_duration_since(begin));
        }
        common::see_that_they_are_prompt(place.kind, times);
    }
}

#[test]
fn waiting_ends_at_its_limit_and_does_not_miss_what_was_before() {
    for place in Place::all() {
        let store = &*place.store;
        let made = commit(store, &[], &[put("/x", b"", None)]).unwrap();
        let limit = Duration::from_millis(200);
        let begin = now();
        assert_eq!(store.wait("/", made, limit), Ok(false), "{:?}", place.kind);
        assert!(begin.elapsed() >= limit && begin.elapsed() < LONG);
        commit(store, &[], &[put("/x", b"", None)]).unwrap();
        assert_eq!(store.wait("/", made, limit), Ok(true));
    }
}

#[test]
fn a_waiter_sees_the_end_of_a_lease_that_no_other_call_reads() {
    for place in Place::all() {
        let lease = place.store.grant(FIRM, LONG).unwrap();
        let made = commit(&*place.store, &[], &[put("/x", b"", Some(lease.id))]).unwrap();
        let begin = now();
        let other = place.another();
        assert!(other.wait("/", made, 4 * LONG).unwrap());
        assert!(begin.elapsed() < LONG, "{:?}: {:?}", place.kind, begin.elapsed());
        assert_eq!(other.get("/x", LONG).unwrap(), None);
    }
}
