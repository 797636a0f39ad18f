//! Clients: the part that sends a worker's batches to agents and takes the replies.
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
