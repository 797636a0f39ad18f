//! The protocols hold, each with all its switches.

use latchwork_directory::{Conflicts, ReaderTakes, Rules};

use crate::search::assert_holds;
use crate::setting::{Client, Setting};

const ALL: [Conflicts; 4] =
    [Conflicts::Chain, Conflicts::Queue, Conflicts::Poll, Conflicts::AtHome];

fn rules() -> impl Iterator<Item = Rules> {
    let both = [ReaderTakes::Copy, ReaderTakes::Move];
    let pairs = ALL.into_iter().flat_map(move |conflicts| both.map(|takes| (conflicts, takes)));
    pairs.map(|(conflicts, reader_takes)| Rules { conflicts, reader_takes, ..Rules::SCALESTORE })
}

pub(crate) fn all_hold(name: &str, clients: &[Client]) {
    for rules in rules() {
        let name = format!("{name}, {:?}, {:?}", rules.conflicts, rules.reader_takes);
        assert_holds(&name, &Setting::new(rules, clients));
    }
}

#[test]
fn two_nodes_that_read_and_write() {
    all_hold("two nodes", &[Client::both().dropping(); 2]);
}

#[test]
fn a_writer_and_two_readers() {
    let reader = Client::reader();
    all_hold("a writer and two readers", &[Client::writer(), reader, reader.keeping()]);
}

#[test]
fn locks_and_accesses_that_do_not_wait_for_them() {
    let locker = Client::writer().keeping().locking();
    all_hold("locks", &[locker, Client::both().keeping().no_wait()]);
}

#[test]
#[ignore = "minutes"]
fn three_nodes_that_read_and_write() {
    all_hold("three nodes", &[Client::both().keeping(); 3]);
}

#[test]
#[ignore = "minutes"]
fn two_writers_and_a_reader() {
    let writer = Client::writer();
    all_hold("two writers and a reader", &[writer, writer, Client::reader()]);
}
