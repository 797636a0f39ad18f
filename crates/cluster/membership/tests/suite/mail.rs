//! Control messages between nodes through the store, and their answers.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use latchwork_membership::{
    CONTROL_MESSAGE_MAX, ControlMessages, Membership, MembershipError, NodeName, Role, Store,
};

use crate::common;
use crate::common::faulty::{Fault, Faulty};
use crate::common::{
    FIRM, LONG, Place, compute, compute_as, compute_for, eventually, in_each_place, now,
};

type Handled = Arc<Mutex<Vec<(NodeName, u64, Vec<u8>)>>>;

/// A node with a handler that answers with the reversed message.
struct Post {
    node: Membership,
    mail: ControlMessages,
    handled: Handled,
}

impl Post {
    fn new(node: Membership) -> Post {
        let handled = Handled::default();
        let list = Arc::clone(&handled);
        let handler = move |from, epoch, letter: &[u8]| {
            list.lock().unwrap().push((from, epoch, letter.to_vec()));
            letter.iter().rev().copied().collect()
        };
        let mail = node.messages(Box::new(handler)).unwrap();
        Post { node, mail, handled }
    }

    fn name(&self) -> NodeName {
        self.node.me().node
    }

    fn ask(&self, to: &Post, letter: &[u8]) -> Result<Vec<u8>, MembershipError> {
        let epoch = to.node.me().epoch;
        self.mail.ask(to.name(), epoch, letter, LONG)
    }
}

/// The number of keys of control messages in the store.
fn letters(place: &Place) -> usize {
    place.store.range("/latchwork/bench/mail/", LONG).unwrap().entries.len()
}

#[test]
fn a_control_message_is_answered_and_nothing_of_it_is_left() {
    for place in Place::all() {
        let a = Post::new(place.join(compute()).unwrap());
        let role = Role::Memory { bytes: 1 << 20, chip_bytes: 0 };
        let memory = latchwork_membership::Joining { role, ..compute() };
        let b = Post::new(place.join(memory).unwrap());
        assert_eq!(a.ask(&b, b"hello").unwrap(), b"olleh");
        assert_eq!(b.ask(&a, b"").unwrap(), b"");
        assert_eq!(a.ask(&a, b"self").unwrap(), b"fles", "to oneself, too");
        let long: Vec<u8> = (0..CONTROL_MESSAGE_MAX).map(|i| (i % 251) as u8).collect();
        let back: Vec<u8> = long.iter().rev().copied().collect();
        assert_eq!(a.ask(&b, &long).unwrap(), back);
        let from = (a.name(), a.node.me().epoch);
        let handled = b.handled.lock().unwrap().clone();
        assert_eq!(handled[0], (from.0, from.1, b"hello".to_vec()), "it knows who asks");
        assert_eq!(handled.len(), 2);
        eventually("the last to be deleted", || letters(&place) == 0);
        let error = a.ask(&b, &vec![0; CONTROL_MESSAGE_MAX + 1]).unwrap_err().to_string();
        assert!(error.contains("65537 bytes is too long"), "{error}");
        assert_eq!(
            a.node.messages(Box::new(|_, _, _| vec![])).err(),
            Some(MembershipError::ControlHandlerTwice)
        );
    }
}

/// A worker waits for its connections, so control messages must not wait for a periodic check.
#[test]
fn an_answer_comes_before_the_next_periodic_check() {
    for place in Place::all() {
        let [a, b] = [(); 2].map(|()| Post::new(place.join(compute()).unwrap()));
        let mut times = Vec::new();
        for _ in 0..21 {
            let begin = now();
            a.ask(&b, b"hello").unwrap();
            times.push(begin.elapsed());
        }
        common::see_that_they_are_prompt(place.kind, times);
    }
}

#[test]
fn many_control_messages_of_many_nodes_are_each_handled_once() {
    for place in Place::all() {
        let posts: Vec<_> = (0..4).map(|_| Post::new(place.join(compute()).unwrap())).collect();
        let posts = &posts[..];
        let (each, nodes) = (60, posts.len());
        thread::scope(|scope| {
            for from in posts {
                scope.spawn(move || {
                    let (send, receive) = channel();
                    for i in 0..each * nodes {
                        let to = &posts[i % nodes];
                        let letter = format!("{} {i}", from.name()).into_bytes();
                        let mut wanted = letter.clone();
                        wanted.reverse();
                        let send = send.clone();
                        let answer = move |answer| drop(send.send((wanted, answer)));
                        let (name, epoch) = (to.name(), to.node.me().epoch);
                        from.mail.send(name, epoch, letter, LONG, Box::new(answer));
                    }
                    for _ in 0..each * nodes {
                        let (wanted, answer) = receive.recv_timeout(LONG).unwrap();
                        assert_eq!(answer, Ok(wanted));
                    }
                });
            }
        });
        for post in posts {
            let mut handled = post.handled.lock().unwrap().clone();
            assert_eq!(handled.len(), each * nodes, "{:?}", place.kind);
            handled.sort();
            handled.dedup();
            assert_eq!(handled.len(), each * nodes, "{:?}: one was handled twice", place.kind);
        }
        eventually("the last to be deleted", || letters(&place) == 0);
    }
}

#[test]
fn a_control_message_to_a_lost_node_fails_although_another_has_its_id() {
    for place in Place::all() {
        let a = Post::new(place.join(compute()).unwrap());
        let b = Post::new(place.join(compute_as(2)).unwrap());
        let (name, old) = (b.name(), b.node.me().epoch);
        b.node.leave().unwrap();
        let gone = Err(MembershipError::NotThere { node: name, epoch: old });
        assert_eq!(a.mail.ask(name, old, b"x", LONG), gone);
        let again = Post::new(place.join(compute_as(2)).unwrap());
        assert_eq!(a.mail.ask(name, old, b"x", LONG), gone);
        assert_eq!(a.ask(&again, b"ab").unwrap(), b"ba");
        assert_eq!(again.handled.lock().unwrap().len(), 1, "what was for another is not seen");
        assert_eq!(b.mail.ask(a.name(), 1, b"x", LONG), Err(MembershipError::Left));
    }
}

#[test]
fn a_control_message_to_a_node_that_dies_fails_when_the_death_is_known() {
    in_each_place(|place| {
        let a = Post::new(place.join(compute()).unwrap());
        // This node handles no control messages.
        let b = place.join(compute_for(FIRM)).unwrap();
        let (node, epoch) = (b.me().node, b.me().epoch);
        let (send, receive) = channel();
        let answer = move |answer| drop(send.send(answer));
        a.mail.send(node, epoch, b"x".to_vec(), 10 * LONG, Box::new(answer));
        eventually("the letter", || letters(&place) == 1);
        drop(b);
        let gone = Err(MembershipError::NotThere { node, epoch });
        assert_eq!(receive.recv_timeout(LONG), Ok(gone));
        eventually("the letter to be deleted", || letters(&place) == 0);
    });
}

#[test]
fn a_control_message_without_an_answer_ends_in_time_and_is_withdrawn() {
    for place in Place::all() {
        let a = Post::new(place.join(compute()).unwrap());
        let b = place.join(compute()).unwrap();
        let limit = Duration::from_millis(300);
        let error = a.mail.ask(b.me().node, b.me().epoch, b"x", limit).unwrap_err().to_string();
        assert!(error.contains("waited 300ms for an answer of C2"), "{error}");
        eventually("the letter to be deleted", || letters(&place) == 0);
    }
}

#[test]
fn the_control_messages_of_a_dead_node_are_removed_with_it() {
    in_each_place(|place| {
        let silent = place.join(compute()).unwrap();
        let mortal = Post::new(place.join(compute_for(FIRM)).unwrap());
        let (node, epoch) = (silent.me().node, silent.me().epoch);
        for _ in 0..3 {
            mortal.mail.send(node, epoch, b"x".to_vec(), LONG, Box::new(drop));
        }
        eventually("the letters", || letters(&place) == 3);
        // As with a killed process, no node deletes the messages: the sender is cut off from the
        // store.
        let way = Faulty::new(place.another());
        let store: Arc<dyn Store> = way.clone();
        let killed = Membership::join(store, "bench", compute_for(FIRM)).unwrap();
        let killed = Post::new(killed);
        killed.mail.send(node, epoch, b"x".to_vec(), LONG, Box::new(drop));
        eventually("the fourth", || letters(&place) == 4);
        way.set(Fault::Cut);
        drop((killed, mortal));
        eventually("their end", || letters(&place) == 0);
    });
}

#[test]
fn a_slow_handler_costs_no_lease_and_holds_up_no_answer() {
    in_each_place(|place| {
        let way = Faulty::new(place.another());
        let store: Arc<dyn Store> = way.clone();
        let slow = Membership::join(store, "bench", compute_for(FIRM)).unwrap();
        let (go, wait) = channel::<()>();
        let wait = Mutex::new(wait);
        let handler = move |_, _, _: &[u8]| {
            wait.lock().unwrap().recv_timeout(LONG).unwrap();
            b"at last".to_vec()
        };
        let mail = slow.messages(Box::new(handler)).unwrap();
        let a = Post::new(place.join(compute()).unwrap());
        let (send, receive) = channel();
        let answer = move |answer| drop(send.send(answer));
        let me = slow.me();
        a.mail.send(me.node, me.epoch, b"x".to_vec(), LONG, Box::new(answer));
        eventually("the letter", || letters(&place) == 1);
        // While the handler is busy, its node gets answers to its own messages and renews its
        // lease.
        let back = mail.ask(a.name(), a.node.me().epoch, b"ab", LONG);
        assert_eq!(back.unwrap(), b"ba");
        let before = way.renewals().len();
        eventually("renewals", || way.renewals().len() > before + 1);
        assert!(slow.lease().is_valid());
        go.send(()).unwrap();
        assert_eq!(receive.recv_timeout(LONG).unwrap().unwrap(), b"at last");
    });
}

#[test]
fn a_control_message_with_an_unconfirmed_write_is_handled_once() {
    for place in Place::all() {
        let way = Faulty::new(place.another());
        let store: Arc<dyn Store> = way.clone();
        let a = Post::new(Membership::join(store, "bench", compute()).unwrap());
        let b = Post::new(place.join(compute()).unwrap());
        for round in 0..5_u8 {
            way.set(Fault::LostAnswer);
            assert_eq!(a.ask(&b, &[round, 9]).unwrap(), [9, round]);
        }
        assert_eq!(b.handled.lock().unwrap().len(), 5, "{:?}", place.kind);
        eventually("the last to be deleted", || letters(&place) == 0);
    }
}
