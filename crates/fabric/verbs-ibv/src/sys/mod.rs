//! libibverbs behind owned types. All unsafe code of the crate is in this module, and in one call
//! in `Lane::submit`.
//!
//! Any thread may call the library. But the library requires an order of destruction. The types
//! keep this order, because each type owns the objects on which it depends:
//!
//! ```text
//!   Pair ──► Completions (send)  ──► Device ──► Library
//!    └─────► Receives ──► Completions (receive) ─┤
//!   Registered (memory region) ──► Region, ──────┤
//!   Chip (on-chip memory) ────────────────────────┘
//! ```

mod chip;
mod completions;
mod device;
mod events;
pub(crate) mod ffi;
mod health;
mod library;
mod list;
mod pair;
mod receives;
mod registered;
mod watcher;

pub(crate) use chip::Chip;
pub(crate) use completions::Completions;
pub(crate) use device::Device;
pub(crate) use health::Troubles;
pub(crate) use library::Library;
pub(crate) use list::SendList;
pub(crate) use pair::{Pair, Tuning};
pub(crate) use receives::{Found, Receives};
pub(crate) use registered::Registered;
pub(crate) use watcher::{Watch, Watcher};
