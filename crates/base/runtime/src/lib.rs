//! The per-core polling executor, its real and virtual drivers, and the sync primitives that
//! latches import.
//!
//! An [`Executor`] belongs to one worker. It is stepped: one [`Executor::sweep`] asks the pollers
//! for news, runs the tasks that became ready, and lets the pollers ring their doorbells, once for
//! all that the tasks posted. It never owns the thread, so the same executor runs on a thread of
//! its own ([`RealDriver`]) or as one of a thousand actors of a simulated world
//! ([`VirtualWorker`]).
//!
//! ```text
//!      one sweep                                     other threads
//!   ┌──────────────────────────────────────┐
//!   │ pollers.poll   completions, messages │     Waker::wake
//!   │ timers         what is due           │         │ task id
//!   │ mailbox        ids of woken tasks  ◄─┼── lock-free queue
//!   │ ready tasks    each polled once      │         │ only when the worker is parked
//!   │ pollers.flush  one doorbell          │     Notifier::notify ──► unpark / fire the actor
//!   └──────────────────────────────────────┘
//!     idle: spin ──► yield the core ──► park until notified or the next deadline
//! ```
//!
//! A worker that other processes send to parks in a [`Bed`] that they can reach.
//!
//! # What holds
//!
//! - Futures are `!Send` and stay where they were spawned. At most [`ExecutorConfig::depth`]
//!   spawned tasks are in flight; more wait in the order in which they were spawned.
//! - No task waits for ever to start: where none in flight ends, tasks start beyond the depth
//!   ([`ExecutorConfig::start_within`]).
//! - A sweep is bounded: every task that was ready when it began is polled once. A task that is
//!   woken meanwhile runs in the next sweep.
//! - No wake is lost, from whatever thread and however close to parking (argued at
//!   [`Notifier`]). A wake of a task that is gone does nothing.
//! - A parked executor uses no CPU. It parks only when every [`Poller`] agreed to.
//! - A dropped future holds nothing: its timer is unregistered, its waker is inert.
//! - Nothing here is global or bound to a thread, so that virtual workers can share one.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
//!
//! let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
//! let handle = executor.handle();
//! let sum = executor.block_on(async {
//!     let a = handle.spawn(async { 40 });
//!     let b = handle.spawn({
//!         let handle = handle.clone();
//!         async move {
//!             handle.sleep(Duration::from_micros(10)).await;
//!             2
//!         }
//!     });
//!     a.await.unwrap() + b.await.unwrap()
//! });
//! assert_eq!(sum, 42);
//! ```

#![forbid(unsafe_code)]

mod bed;
mod config;
mod driver;
mod error;
mod executor;
mod futures;
mod handle;
mod idle;
mod join;
mod mailbox;
mod notifier;
mod poller;
mod shared;
pub mod sync;
mod tasks;
mod timers;
mod virtual_time;

pub use bed::Bed;
pub use config::ExecutorConfig;
pub use driver::{Clock, Driver, RealDriver};
pub use error::{Aborted, Elapsed};
pub use executor::{Executor, Sweep};
pub use futures::{Coop, Sleep, YieldNow};
pub use handle::{Activity, Handle};
pub use join::JoinHandle;
pub use latchwork_simulation::Time;
pub use notifier::Notifier;
pub use poller::Poller;
pub use virtual_time::{Power, VirtualDriver, VirtualWorker, run_all, run_all_watched};
