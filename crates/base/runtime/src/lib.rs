//! The polling executor of one worker, its drivers for real and virtual time, and the
//! synchronization primitives of the workspace.
//!
//! An [`Executor`] belongs to one worker and advances by sweeps. One [`Executor::sweep`] polls the
//! pollers, runs the tasks that became ready, and rings one doorbell for everything that the tasks
//! posted. The executor does not own a thread. So the same executor runs on a thread of its own
//! ([`RealDriver`]), or as one of many actors of a simulated world ([`VirtualWorker`]).
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
//! A worker that receives messages from other processes parks in a parking spot ([`ParkingSpot`])
//! that these processes can reach.
//!
//! # Guarantees
//!
//! - Futures may be `!Send` and stay on the executor on which they were spawned. At most
//!   [`ExecutorConfig::depth`] tasks of [`Handle::spawn`] are in flight, apart from late starts.
//!   Further tasks wait for their start, in the order of their spawns. Tasks of
//!   [`Handle::spawn_service`] do not count.
//! - No task waits permanently for its start while its executor sweeps. When no waiting task starts
//!   for [`ExecutorConfig::start_within`], waiting tasks start beyond the depth (late starts).
//! - A sweep polls each task at most once. A task that is woken after the sweep has taken the
//!   mailbox runs in a later sweep.
//! - No wake is lost, on whichever thread and at whichever time relative to parking it comes. The
//!   proof is at [`Notifier`].
//! - A late wake of a spawned task that has ended polls nothing.
//! - A parked executor uses no CPU. An executor parks only when every [`Poller`] agrees.
//! - A dropped [`Sleep`] removes its timer.
//! - The crate has no global and no thread-local state. So virtual workers can share one thread.
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

mod activity;
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
mod parking_spot;
mod poller;
mod shared;
pub mod sync;
mod tasks;
mod timers;
mod virtual_time;

pub use activity::Activity;
pub use config::ExecutorConfig;
pub use driver::{Clock, Driver, RealDriver};
pub use error::{Aborted, Elapsed};
pub use executor::{Executor, Sweep};
pub use futures::{Coop, Sleep, YieldNow};
pub use handle::Handle;
pub use join::JoinHandle;
pub use latchwork_simulation::Time;
pub use notifier::Notifier;
pub use parking_spot::ParkingSpot;
pub use poller::Poller;
pub use virtual_time::{Power, VirtualDriver, VirtualWorker, run_all, run_all_watched};
