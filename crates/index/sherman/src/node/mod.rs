//! Nodes: their bytes, and what they say. No I/O.

mod cell;
mod content;
mod header;
mod layout;
#[cfg(test)]
mod tests;
mod view;

pub use cell::Check;
pub(crate) use cell::{Torn, Version};
pub(crate) use content::Content;
pub(crate) use header::{Entry, Header, entry};
pub(crate) use layout::Layout;
pub(crate) use view::{Fences, Found, Slot, View};
