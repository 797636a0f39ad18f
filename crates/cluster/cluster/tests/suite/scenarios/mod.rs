//! The races of the word discipline, each forced in a simulated world with the real engine.
//!
//! A scenario names its race, and holds the messages and operations that must be late. It shows two
//! things: the race really happened, and the race did no harm. Rules R1 to R5 are the rules of the
//! word discipline, in `docs/internals/protocol.md`.

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
mod persist;
mod repeats;
mod stage;
mod sweeps;
mod takeover;
mod told;
mod torn;
mod upgrade;
mod words;
mod write_back;
