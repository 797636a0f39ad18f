//! The races of the word discipline, each forced in a simulated world with the real engine.
//!
//! A scenario names its race, holds the messages and operations that must be late, and shows two
//! things: the race really happened, and it did no harm.

use crate::common::invariants;

mod acts;
mod batches;
mod cancel;
mod dirty;
mod eviction;
mod failing;
mod gone;
mod handover;
mod held;
mod leave;
mod local;
mod locks;
mod many;
mod messages;
mod order;
mod pauses;
mod repeats;
mod stage;
mod sweeps;
mod takeover;
mod told;
mod upgrade;
mod words;
mod write_back;
