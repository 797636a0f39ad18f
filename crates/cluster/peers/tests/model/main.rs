//! An exhaustive model of the joins, leaves and deaths of nodes. It drives the machines of
//! `latchwork_peers`, the same code that processes and simulated worlds drive.
//!
//! ```text
//!   world.rs    the store with all its views, the fabric of each node, the epoch slots; S1 to S5
//!   recovery.rs the steps of the recoveries; S6 to S9
//!   setting.rs  which nodes a world has, which faults may happen, and the steps
//!   holds.rs    the settings in which all properties hold, with all rules
//!   refuted.rs  the settings in which a property fails, because one rule is off
//!   recovered.rs the settings of both kinds in which compute nodes recover lines
//!   runs.rs     single runs of one machine
//! ```
//!
//! `cargo test -p latchwork-peers --test model -- --nocapture` prints the numbers of states and the
//! counterexamples. With `--ignored` it also runs the settings that take minutes.

mod holds;
mod recovered;
mod recovery;
mod refuted;
mod runs;
mod setting;
mod world;
