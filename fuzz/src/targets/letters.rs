//! The target `letters`: messages of SELCC between compute nodes.

use latchwork_latch::{InvalidationRequest, LatchMessage, TRAVELLING_MAX};
use latchwork_selcc::{ARENA_MAX, read_message};
use latchwork_verbs::{ComputeNodeId, Message as Wire};

use super::target::FuzzTarget;
use crate::Mutator;

/// The words of a message. The first byte selects the sender.
pub const TARGET: FuzzTarget = FuzzTarget { name: "letters", run, mutate, tried: 100_000 };

/// Reads a message, and checks all its fields.
///
/// # Panics
/// When a field of an accepted message is outside of its range.
pub fn run(data: &[u8]) -> String {
    let Some(wire) = wire(data) else { return "empty".to_owned() };
    let from = wire.from;
    let Some((addr, message)) = read_message(&wire) else { return "none".to_owned() };
    assert_eq!(addr.bits(), wire.body[1], "another line");
    match message {
        LatchMessage::Request(request) => {
            within(&request);
            format!("request {:?}", request.kind)
        }
        LatchMessage::Answer { answer, .. } => format!("answer {answer:?}"),
        LatchMessage::Grant { mode, travelling, .. } => {
            assert!(travelling.len() <= TRAVELLING_MAX, "{} requests travel", travelling.len());
            travelling.iter().for_each(within);
            format!("grant {mode:?} {}", travelling.len())
        }
        LatchMessage::Settled { .. } => "settled".to_owned(),
        LatchMessage::Pledged { by, .. } => sent("pledged", by, from),
        LatchMessage::Taken { by, .. } => sent("taken", by, from),
        LatchMessage::GaveUp { by, .. } => sent("gave up", by, from),
    }
}

/// Checks that the node in the message is its sender.
fn sent(what: &str, by: ComputeNodeId, from: ComputeNodeId) -> String {
    assert_eq!(by, from, "a message in the name of another node");
    what.to_owned()
}

/// The message of an input that is not empty.
pub(super) fn wire(data: &[u8]) -> Option<Wire> {
    let (from, bytes) = data.split_first()?;
    let from = ComputeNodeId::new(1 + from % ComputeNodeId::MAX).expect("a node");
    let mut words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    Some(Wire { from, body: std::array::from_fn(|_| words.next().unwrap_or(0)) })
}

fn within(request: &InvalidationRequest) {
    assert!(request.priority < 32 && request.seq.0 < 1 << 14, "{request:?}");
    assert!(request.buffer < ARENA_MAX && request.buffer.is_multiple_of(64), "{request:?}");
}

/// Changes bytes, and in half of the cases sets the kind of the message to a small number.
pub fn mutate(mutator: &mut Mutator, data: &mut Vec<u8>) {
    mutator.bytes(data);
    if data.len() > 1 && mutator.one_in(2) {
        data[1] = mutator.below(12) as u8;
    }
}
