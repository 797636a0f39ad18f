//! An exhaustive model of the ownership of a line. It drives the machines of `latchwork_latch`, the
//! same code that the engine drives.
//!
//! ```text
//!   setting.rs   clients and rules; steps and properties; client.rs: one client
//!   world.rs     word, memory, operations and messages in flight; frame.rs: a node's frame
//!   graph.rs     whether every node gets the line
//!   symmetry.rs  which worlds differ by node ids alone; names.rs: that this is so
//!   discipline.rs, refuted.rs    what holds, and what does not hold without a rule
//!   switches.rs  the switches of the rules, alone and with each other
//!   takeover.rs  the same of shared lines that are taken over by pledge
//!   departed.rs  nodes that die, and requests that are not sent; deaths.rs: what a death removes
//!   locks.rs     locks of transactions, which keep a line: single runs, and what holds
//!   larger.rs    settings that take long
//!   story.rs     a path as text
//!   script.rs    single runs: conflicts.rs, races.rs; and requests.rs, of one machine alone
//! ```
//!
//! `cargo test -p latchwork-latch --test model -- --nocapture` prints the numbers of states and the
//! counterexamples. With `--ignored` it also runs the settings that take minutes (and with
//! `larger`, those that take longer).

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
mod questions;
mod races;
mod refuted;
mod requests;
mod script;
mod setting;
mod story;
mod switches;
mod symmetry;
mod takeover;
mod world;
