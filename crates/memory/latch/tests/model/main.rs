//! An exhaustive model of the ownership of a line. The model drives the line machines of
//! `latchwork_latch`, the same code that the engine drives. Rules R1 to R5 are those of that crate.
//!
//! ```text
//!   setting.rs   clients and rules; steps and properties; client.rs: one client
//!   world.rs     word, memory, operations and messages in flight; frame.rs: a node's frame
//!   graph.rs     whether every node gets the line
//!   symmetry.rs  worlds that differ by node ids alone; names.rs: the check of that claim
//!   discipline.rs, refuted.rs    the discipline holds; without one rule it does not hold
//!   switches.rs  the discipline under each position of the switches of `Rules`
//!   takeover.rs  the same for shared lines that are taken over by pledge
//!   departed.rs  nodes that die, and requests that are not sent; deaths.rs: the steps of a death
//!   recovery.rs, recovered.rs    the steps of a recovery from a death, and what holds with it;
//!                recovery_rows.rs: what becomes of each state at a death;
//!                round.rs: the places of nodes in it
//!   persisted.rs changes that are written back in place
//!   locks.rs     locks of transactions, which keep a line: single runs, and searches
//!   larger.rs    searches that take long
//!   story.rs     a path as text
//!   script.rs    single runs: conflicts.rs, races.rs; and requests.rs, of one machine alone
//! ```
//!
//! `cargo test -p latchwork-latch --test model -- --nocapture` prints the numbers of states and the
//! counterexamples. With `--ignored` it runs the settings that take minutes. `larger.rs` has
//! settings that take longer.

mod client;
mod conflicts;
mod deaths;
mod departed;
mod digest;
mod discipline;
mod frame;
mod graph;
mod larger;
mod locks;
mod names;
mod persisted;
mod questions;
mod races;
mod recovered;
mod recovery;
mod recovery_rows;
mod refuted;
mod requests;
mod round;
mod script;
mod setting;
mod story;
mod switches;
mod symmetry;
mod takeover;
mod world;
