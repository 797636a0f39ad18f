//! The simulated fabric: verbs with delays and the reorderings that the contract permits.
//!
//! This crate owns the fabric of a deterministic world. All random numbers come from the kernel of
//! the world, so one seed gives one run.
//!
//! ```text
//!   ring ──one way──► Arrive ──spread──► Begin(request) ──spread──► Place(piece), in any order
//!                       ▲                    │                          │
//!     pushed back at    │                    ▼                          ▼
//!     the NIC's limits ─┘          requests that waited for it ... all done ──one way──► Complete
//!                                  begin                                                   │
//!                                                                   notifier, poll ◄───────┘
//! ```
//!
//! # Freedoms
//!
//! With the default [`SimConfig`] all of the following can happen. Code that uses a fabric must be
//! correct under all of them:
//!
//! - A request begins as soon as
//!   [`WorkRequestKind::before`](latchwork_verbs::WorkRequestKind::before) permits. Requests of one
//!   batch without an order between them overtake each other.
//! - A READ or WRITE is cut at random words, and its pieces are placed at random times.
//! - Batches overtake each other, also batches of one endpoint to one target. A few batches are
//!   late by a long time.
//! - A completion may come long after the effects of its batch, and completions overtake each
//!   other.
//! - A message wakes one parked worker of the node, which the seed picks.
//!
//! A test that needs one particular order holds batches back with [`SimFabric::gate`].
//!
//! With the times of a NIC ([`Timing::Nic`]) no READ or WRITE is torn. Batches overtake each other
//! only across queue pairs, and where a full inbox or a gate holds a batch. This timing is for
//! measurements.
//!
//! # Faults
//!
//! [`Faults`] are random: delayed batches, lost or duplicated messages, batches that a failing
//! connection cuts off. Other faults are calls of the test. These calls disconnect, kill or slow
//! down compute nodes, and lose memory nodes. One node can forget another node
//! ([`SimFabric::remove_peer`]) or fence it ([`SimFabric::keep_out`]). A new node can join under
//! the id of a lost node ([`SimFabric::replace`]).
//!
//! # Example
//!
//! ```
//! use latchwork_simulation::Kernel;
//! use latchwork_verbs_sim::{SimFabric, SimConfig};
//!
//! let kernel = Kernel::new(7);
//! let fabric = SimFabric::new(&kernel, SimConfig::default());
//! let memory = fabric.add_memory_node(1 << 20).unwrap();
//! assert_eq!(fabric.memory(memory).unwrap().len(), 1 << 20);
//! assert!(!kernel.step(), "nothing happens in a world without workers");
//! ```

#![forbid(unsafe_code)]

mod batch;
pub mod calibrate;
mod completions;
mod config;
mod drawn;
mod endpoint;
mod event;
mod fabric;
mod faults;
mod fencing;
mod flight;
mod gate;
mod inbox;
mod nic;
mod node;
mod passing;
mod profile;
mod replacing;
mod send_queue;
mod sight;
mod steps;
mod watch;
mod world;

pub use config::{SimConfig, Timing};
pub use drawn::Drawn;
pub use endpoint::SimEndpoint;
pub use fabric::SimFabric;
pub use faults::{FaultCounts, Faults};
pub use gate::Gate;
pub use inbox::{SimInbox, SimSubscription};
pub use nic::{AtomicWork, NicOwner, NicPart, NicWork};
pub use passing::{Leg, Passing};
pub use profile::{CpuProfile, Measure, NicProfile, ProfileError, Published, Unit};
pub use sight::{BatchStep, Sight, Strike};
