//! The protocols hold when a node dies.

use latchwork_directory::{Hold, Rules};

use crate::holds::all_hold;
use crate::script::Run;
use crate::setting::{Client, Step};

const READER: Client = Client::reader();
const WRITER: Client = Client::writer();

#[test]
fn one_of_two_nodes_dies() {
    all_hold("two nodes", &[WRITER.mortal(), Client::both().dropping()]);
}

#[test]
#[ignore = "a minute"]
fn one_of_two_nodes_that_read_and_write_dies() {
    all_hold("two nodes that read and write", &[Client::both().mortal(), Client::both()]);
}

#[test]
fn a_node_dies_beside_two_writers() {
    let writer = WRITER.keeping();
    all_hold("three writers", &[writer.mortal(), writer, writer]);
}

#[test]
fn a_writer_dies_beside_two_readers() {
    let reader = READER.keeping();
    all_hold("a writer and two readers", &[WRITER.mortal(), reader, reader]);
}

#[test]
fn a_reader_dies_beside_a_writer_and_a_reader() {
    let (reader, writer) = (READER.keeping(), WRITER.keeping());
    all_hold("a reader dies", &[reader.mortal(), writer, reader]);
}

/// A node dies while the home serves a reader, and afterwards another node writes. The home has to
/// have all changes then, because the holder of changes does not wait for other sharers.
#[test]
fn a_home_that_resolves_conflicts_has_the_changes_after_a_death() {
    let clients = [Client::both().mortal(), Client::both(), Client::both(), Client::both()];
    let mut run = Run::of(Rules::GAM, &clients);
    run.read(0);
    run.write(1);
    run.at_home(1);
    run.settle_but(&[0]);
    run.read(2);
    run.at_home(2);
    run.at_home(0);
    run.step(Step::Die(0));
    (1..=4).for_each(|place| run.step(Step::Learn(place)));
    run.settle_but(&[]);
    run.write(3);
    run.at_home(3);
    run.settle_but(&[2]);
    run.settle_but(&[]);
    assert_eq!(run.holds()[3], Hold::Exclusive);
}
