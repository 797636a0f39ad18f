//! The target `greetings`: the first bytes of both ends of a connection of the TCP fabric.

use latchwork_verbs_tcp::wire::{
    ANSWER_LEN, AgentGreeting, CLIENT_GREETING_LEN, ClientGreeting, HELLO_LEN, Hello, MAC_LEN,
    VERSION, WELCOME_LEN, Welcome, WireError,
};

use super::target::FuzzTarget;
use crate::{Mutator, class_of};

/// Greetings. The first byte selects the kind of greeting.
pub const TARGET: FuzzTarget =
    FuzzTarget { name: "greetings", run, mutate: Mutator::bytes, tried: 50_000 };

/// The bytes of one greeting. Missing bytes are zero.
fn whole<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
}

/// Reads a greeting, encodes it, and reads it again.
///
/// # Panics
/// When the second reading differs from the first.
pub fn run(data: &[u8]) -> String {
    let Some((which, bytes)) = data.split_first() else { return "empty".to_owned() };
    match which % 4 {
        0 => same("hello", Hello::parse(&whole::<HELLO_LEN>(bytes)), |hello| {
            Hello::parse(&hello.bytes())
        }),
        1 => same("answer", AgentGreeting::parse(&whole::<ANSWER_LEN>(bytes)), |answer| {
            let again = AgentGreeting::parse(&answer.bytes());
            // The flag in an answer of another version has no known meaning, so it is not
            // preserved.
            if answer.version == VERSION { again } else { again.and(Ok(*answer)) }
        }),
        2 => {
            let bytes = whole::<{ CLIENT_GREETING_LEN - MAC_LEN }>(bytes);
            same("introduction", ClientGreeting::parse(&bytes), |introduction| {
                assert_eq!(introduction.bytes(), bytes, "an introduction with two encodings");
                ClientGreeting::parse(&introduction.bytes())
            })
        }
        _ => {
            let bytes = whole::<{ WELCOME_LEN - MAC_LEN }>(bytes);
            same("welcome", Welcome::parse(&bytes), |welcome| {
                assert_eq!(welcome.bytes(), bytes, "a welcome with two encodings");
                Welcome::parse(&welcome.bytes())
            })
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    read: Result<T, WireError>,
    again: impl FnOnce(&T) -> Result<T, WireError>,
) -> String {
    match read {
        Ok(read) => {
            assert_eq!(again(&read).as_ref(), Ok(&read), "a {what} changes");
            what.to_owned()
        }
        Err(error) => format!("{what}: {}", class_of(&error)),
    }
}
