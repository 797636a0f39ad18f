//! The traits that indexes and transactions use. This crate has traits, their types and errors.
//! `latchwork-engine` implements the traits, for any protocol.
//!
//! # The shape of the code above
//!
//! A *hit* is a plain function call: [`try_read`](CoherentMemory::try_read) gives an optimistic
//! read, [`try_write`](CoherentMemory::try_write) the local latch. If the node does not own the
//! line in the needed mode, or a local writer has the latch, both return a [`Need`] instead. The
//! asynchronous function [`ensure`](CoherentMemory::ensure) meets a need. It obtains the line and
//! returns a *ticket*, which reserves the line for one local access of the caller. So each step of
//! an operation is a plain function, which a loop calls until the step returns a result:
//!
//! ```text
//!   let mut ticket = None;
//!   loop {
//!       match step(&memory) {                      // plain function: hits only
//!           Ok(result) => return Ok(result),
//!           Err(need) => {
//!               drop(ticket.take());               // one reservation at a time
//!               ticket = Some(memory.ensure(need).await?);
//!           }
//!       }
//!   }                                              // the ticket lives until the step is over
//! ```
//!
//! An operation holds no latch and no reservation while it waits for a line. So two nodes never
//! wait for each other's reservations. When a caller drops the future of `ensure`, the node may
//! still obtain the line later; nothing else remains of the call.
//!
//! # Example
//!
//! ```
//! use latchwork_coherence::{CoherentMemory, MemoryError};
//! use latchwork_verbs::GlobalAddr;
//!
//! async fn increment<M: CoherentMemory>(memory: &M, counter: GlobalAddr) -> Result<u64, MemoryError> {
//!     memory
//!         .write(counter, |guard| {
//!             let next = guard.words().u64(0) + 1;
//!             guard.words().set_u64(0, next);
//!             guard.mark_dirty(0..8);
//!             next
//!         })
//!         .await
//! }
//! ```

#![forbid(unsafe_code)]

mod error;
mod lock;
mod memory;
mod mode;
#[cfg(feature = "testing")]
pub mod testing;
mod user_messages;

pub use error::MemoryError;
pub use lock::{LineLocks, LockOutcome};
pub use memory::{CoherentMemory, Need, Upgrade, life};
pub use mode::AccessMode;
pub use user_messages::{MessageHandler, USER_MESSAGE_WORDS, UserMessage, UserMessages};
