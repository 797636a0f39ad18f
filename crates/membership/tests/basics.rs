//! What a node does in its life, in every store.

mod common;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use latchwork_membership::{MemberState, MembershipError};

use common::{Kind, LONG, compute, join};

const TTL: Duration = Duration::from_secs(10);

#[test]
fn an_orderly_leave_frees_the_id_and_the_next_holder_has_a_higher_epoch() {
    for kind in Kind::ALL {
        let place = kind.place();
        let first = join(&place, compute(TTL)).unwrap();
        first.leave().unwrap();
        assert!(!first.lease().is_valid());
        assert_eq!(first.contact("a", "b"), Err(MembershipError::Left));
        let next = join(&place, compute(TTL)).unwrap();
        assert_eq!(next.me().node, first.me().node);
        assert!(next.me().epoch > first.me().epoch);
        next.leave().unwrap();
    }
}

#[test]
fn all_nodes_learn_what_one_says_of_itself() {
    for kind in Kind::ALL {
        let place = kind.place();
        let a = join(&place, compute(TTL)).unwrap();
        let (tell, seen) = mpsc::channel();
        a.follow(Box::new(move |view| tell.send(view.joined().count()).unwrap()));
        let mut joining = compute(TTL);
        joining.contact.insert("tcp".into(), "10.0.0.1:77".into());
        let b = join(&place, joining).unwrap();
        b.contact("pid", "12").unwrap();
        let node = b.me().node;
        let view = a
            .wait(LONG, |view| view.get(node).is_some_and(|member| member.contact.len() == 2))
            .unwrap();
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
fn an_exchange_gives_everybody_the_values_of_all() {
    for kind in Kind::ALL {
        let place = kind.place();
        let nodes: Vec<_> = (0..4).map(|_| join(&place, compute(TTL)).unwrap()).collect();
        for round in 0..5 {
            let all: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = nodes
                    .iter()
                    .map(|node| {
                        scope.spawn(move || {
                            let value = format!("{round} {}", node.me().node);
                            let name = format!("round-{round}");
                            node.exchange(&name, 4, value.as_bytes(), LONG).unwrap()
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            for values in all {
                assert_eq!(values.len(), 4);
                for (node, value) in values {
                    assert_eq!(value, format!("{round} {node}").into_bytes());
                }
            }
        }
    }
}
