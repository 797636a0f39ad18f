//! A target with bugs, which shows that they would be noticed. It runs only where it is asked for.

use super::Target;
use crate::Mutator;

/// The target with bugs. Its input says which bug: a corpus that begins with `crash:` holds one
/// mutation away from a panic, and so on.
pub const TARGET: Target = Target { name: "planted", run, mutate: Mutator::bytes, tried: 1000 };

/// Fails in the way that the first bytes name, if the byte behind them is not a zero.
///
/// # Panics
/// When the bytes say so.
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
                // Written, so that it counts.
                held.push(vec![1_u8; 16 << 20]);
                assert!(held.len() < 1 << 20, "the memory limit is not kept");
            }
        }
        Some(_) => "named".to_owned(),
        None => "none".to_owned(),
    }
}
