//! An exhaustive model of a line under the directory protocols. It drives the machines of
//! `latchwork_directory`, the same code that the engine drives.
//!
//! ```text
//!   world.rs      home, memory, nodes and messages in flight; node.rs: a node and its frame
//!   setting.rs    clients and rules; the steps and the properties
//!   search.rs     all states, and whether every node gets the line
//!   holds.rs      the protocols hold, each with all its switches
//!   refuted.rs    without one rule they do not hold
//!   deaths.rs     the protocols hold when a node dies
//!   script.rs     single runs: messages.rs counts messages, races.rs has the named races
//!   pictures.rs   the pictures of docs/internals/directories.md are runs
//! ```
//!
//! `cargo test -p latchwork-directory --test model -- --nocapture` prints the numbers of states and
//! the counterexamples. With `--ignored` it runs the settings that take minutes.

mod deaths;
mod holds;
mod messages;
mod node;
mod pictures;
mod races;
mod refuted;
mod script;
mod search;
mod setting;
mod world;
