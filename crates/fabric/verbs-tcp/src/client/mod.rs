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
mod link;
mod locals;
mod send_queue;

pub(crate) use connect::{Wanted, connect};
pub use endpoint::TcpEndpoint;
