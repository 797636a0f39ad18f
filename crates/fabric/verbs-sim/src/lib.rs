//! The simulated fabric: verbs with delays and every reordering that a reliable connection permits.
//!
//! This crate owns the fabric of a deterministic world. Nothing in it draws from anything but the
//! world's kernel, so one seed is one run.
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
//! All of these happen, with the default [`SimConfig`], and code above must survive them:
//!
//! - Requests of one batch begin as soon as [`Kind::before`](latchwork_verbs::Kind::before) lets
//!   them, so those that it does not order overtake each other.
//! - A READ or WRITE is cut at random words, and the pieces are placed at random times.
//! - Batches overtake each other, also those of one endpoint to one target, now and then by a lot.
//! - A completion comes long after the effects, and completions overtake each other.
//! - A message wakes any one worker of the node.
//!
//! Where a test needs one certain order instead of any, it holds batches back: [`Fabric::gate`].
//!
//! With the figures of a NIC instead ([`Timing::Nic`]) nothing is torn, and batches overtake each
//! other only where they go over several queue pairs: for measuring.
//!
//! # Faults
//!
//! By chance ([`Faults`]): batches delayed, messages lost or repeated, batches cut off by a failing
//! connection. On call: compute nodes cut off, killed or slowed down, memory nodes lost; and nodes
//! that are given up and kept out, by one other at a time: [`Fabric::remove_peer`],
//! [`Fabric::keep_out`].
//!
//! # Example
//!
//! ```
//! use latchwork_simulation::Kernel;
//! use latchwork_verbs_sim::{Fabric, SimConfig};
//!
//! let kernel = Kernel::new(7);
//! let fabric = Fabric::new(&kernel, SimConfig::default());
//! let memory = fabric.add_memory_node(1 << 20).unwrap();
//! assert_eq!(fabric.memory(memory).unwrap().len(), 1 << 20);
//! assert!(!kernel.step(), "nothing happens in a world without workers");
//! ```

#![forbid(unsafe_code)]

pub mod calibrate;
mod config;
mod departures;
mod drawn;
mod endpoint;
mod event;
mod fabric;
mod faults;
mod flight;
mod gate;
mod inbox;
mod lane;
mod nic;
mod node;
mod profile;
mod watch;

pub use config::{SimConfig, Timing};
pub use drawn::{Drawn, PIECES_MAX};
pub use endpoint::Endpoint;
pub use fabric::Fabric;
pub use faults::{FaultCounts, Faults};
pub use gate::{Gate, Leg, Passing};
pub use inbox::{Inbox, Subscription};
pub use nic::{AtomicWork, NicOwner, NicPart, NicWork};
pub use profile::{CpuProfile, Measure, NicProfile, ProfileError, Published, Unit};
pub use watch::{Sight, Step, Strike};
