//! The kernel of a deterministic world: event queue, virtual clock, CPU-time accounting, seeded
//! randomness.
//!
//! One [`Kernel`] is one world and lives on one thread. An event is a time, an actor and a payload,
//! whose meaning the kernel does not know. The kernel fires the events in order of time. Under
//! [`Ties::Seeded`] the seed decides the order of events at the same time (ties), so another seed
//! is another interleaving.
//!
//! ```text
//!                 schedule(at, actor, payload)
//!   actors  ──────────────────────────────────►  queue ordered by (time, tie, slot)
//!     ▲  ▲                                            │
//!     │  └── fire(payload) ◄───────────── step() ◄────┘
//!     │                                      │
//!     └── fire(WAKE) ◄── marks ◄── ActorWaker::wake()      event hash ◄── every fired event
//! ```
//!
//! # Guarantees
//!
//! - The same seed and the same calls give the same events, and so the same [`Kernel::event_hash`],
//!   as long as no other thread wakes an actor. No order in this crate depends on addresses, hash
//!   maps, floating point or the host's clock.
//! - Virtual time does not go backwards. An event that is scheduled in the past fires at the
//!   current instant.
//! - Only [`Kernel::step`] and [`Kernel::run_until`] fire actors. When an actor schedules an event
//!   or wakes an actor, the event is only queued.
//! - The kernel keeps no actor alive. So a world leaks no memory when its owner is dropped,
//!   although its actors hold the kernel.
//!
//! # Example
//!
//! ```
//! use std::{cell::Cell, rc::Rc, time::Duration};
//! use latchwork_simulation::{Actor, Kernel, RunEnd, Time};
//!
//! struct Counter(Cell<u64>);
//! impl Actor for Counter {
//!     fn fire(&self, payload: u64) {
//!         self.0.set(self.0.get() + payload);
//!     }
//! }
//!
//! let kernel = Kernel::new(42);
//! let counter = Rc::new(Counter(Cell::new(0)));
//! let id = kernel.add_actor(counter.clone());
//! kernel.schedule(Time::ZERO + Duration::from_micros(3), id, 40);
//! kernel.schedule(Time::ZERO + Duration::from_micros(1), id, 2);
//!
//! let deadline = Time::ZERO + Duration::from_secs(1);
//! assert_eq!(kernel.run_until(deadline, || counter.0.get() == 42), RunEnd::Done);
//! assert_eq!(kernel.now(), Time::from_nanos(3_000));
//! ```

#![forbid(unsafe_code)]

mod cpu;
mod kernel;
mod queue;
mod random;
mod time;
mod waker;

pub use cpu::Cpu;
pub use kernel::{Actor, Kernel, RunEnd, STALL_EVENTS};
pub use queue::{ActorId, Ties};
pub use random::Random;
pub use time::Time;
pub use waker::{ActorWaker, WAKE};
