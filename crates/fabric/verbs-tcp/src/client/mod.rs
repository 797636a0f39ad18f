//! Clients: the side of the worker.
//!
//! ```text
//!   Endpoint ── post ──► Lane: queue ── ring: encode ──► Link: out ── one write ──► socket
//!      ▲                   │ sent, flights                  in  ◄── poll: read ────
//!      └── Completion ◄────┴─────────────── replies ────────┘
//! ```

mod connect;
mod endpoint;
mod flights;
mod lane;
mod link;
mod locals;

pub(crate) use connect::{Wanted, connect};
pub use endpoint::TcpEndpoint;
