//! A target with seeded bugs, which proves that the fuzzer notices bugs. It runs only on request.

use super::target::FuzzTarget;
use crate::Mutator;

/// The target with seeded bugs. The prefix of an input selects the bug. A corpus entry such as
/// `panic:` with zeros is one mutation away from the failure.
pub const TARGET: FuzzTarget =
    FuzzTarget { name: "planted", run, mutate: Mutator::bytes, tried: 1000 };

/// Fails in the way that the prefix selects, if the bytes behind the prefix are not eight zeros.
///
/// # Panics
/// When the prefix selects a panic.
pub fn run(data: &[u8]) -> String {
    let name = data.iter().position(|byte| *byte == b':').map(|end| data.split_at(end + 1));
    match name {
        Some((b"panic:", rest)) if rest != [0; 8] => panic!("planted"),
        Some((b"hang:", rest)) if rest != [0; 8] => loop {
            std::hint::spin_loop();
        },
        Some((b"memory:", rest)) if rest != [0; 8] => {
            let mut held = Vec::new();
            loop {
                // The limit is one of addresses, so the memory need not be written.
                held.push(vec![0_u8; 16 << 20]);
                assert!(held.len() < 1 << 20, "the memory limit is not kept");
            }
        }
        Some(_) => "named".to_owned(),
        None => "none".to_owned(),
    }
}
