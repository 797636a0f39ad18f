//! The protocols hold when a node dies.

use crate::holds::all_hold;
use crate::setting::Client;

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
