//! The target `homes`: messages of GAM and ScaleStore between compute nodes and homes.

use latchwork_homes::decode;
use latchwork_verbs::Message as Wire;

use super::letters::wire;
use super::target::FuzzTarget;
use crate::Mutator;

/// The words of a message. The first byte selects the sender.
pub const TARGET: FuzzTarget = FuzzTarget { name: "homes", run, mutate, tried: 100_000 };

/// Reads a message, and writes it again.
///
/// # Panics
/// When the words of an accepted message are read as another message.
pub fn run(data: &[u8]) -> String {
    let Some(wire) = wire(data) else { return "empty".to_owned() };
    let Some(message) = decode(&wire) else { return "none".to_owned() };
    assert_eq!(message.from, wire.from, "a message in the name of another node");
    let again = decode(&Wire { from: wire.from, body: message.words() });
    assert_eq!(again.as_ref(), Some(&message), "another message");
    let text = format!("{:?}", message.message);
    let kind = text.split(|c: char| !c.is_alphanumeric()).next();
    kind.unwrap_or_default().to_owned()
}

/// Changes bytes, and in half of the cases sets the kind of the message to a small number.
pub fn mutate(mutator: &mut Mutator, data: &mut Vec<u8>) {
    mutator.bytes(data);
    if data.len() > 1 && mutator.one_in(2) {
        data[1] = mutator.below(28) as u8;
    }
}
