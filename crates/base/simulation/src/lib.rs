//! The kernel of a deterministic world: event queue, virtual clock, CPU-time accounting, seeded
//! randomness.
//!
//! One [`Kernel`] is one world. It lives on one thread and knows nothing of what happens in it: it
//! keeps events `(time, actor, payload)`, fires them in order of time, and breaks ties in an order
//! that its seed decides, so that other seeds are other interleavings.
//!
//! ```text
//!                 schedule(at, actor, payload)
//!   actors  ──────────────────────────────────►  queue ordered by (time, tie, number)
//!     ▲  ▲                                            │
//!     │  └── fire(payload) ◄───────────── step() ◄────┘
//!     │                                      │
//!     └── fire(WAKE) ◄── marks ◄── ActorWaker::wake()      event hash ◄── every fired event
//! ```
//!
//! # What holds
//!
//! - The same seed and the same calls give the same events, and so the same [`Kernel::event_hash`].
//!   Nothing here depends on addresses, hash maps, floating point or the host's clock.
//! - Time never goes backwards; an event scheduled in the past fires now.
//! - An actor is never fired from inside itself or from inside another actor.
//! - The kernel does not keep actors alive: a world whose owner is gone leaks nothing, although its
//!   actors hold the kernel.
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
