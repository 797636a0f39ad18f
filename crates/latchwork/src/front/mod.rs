//! The front door of the crate: a cluster whose programs share trees and databases by their names.
//!
//! ```text
//!   Cluster ── tree(name), database(name) ──► NamedTree, NamedDatabase ── open() ──┐
//!      │                                                                           ▼
//!      └─ Running ── run(body) ──► ClusterWorker on every worker ──────────────► Names
//!                                       tree(name), database(name)
//! ```

mod cluster;
mod error;
mod named;
mod names;
mod running;
mod trees;
mod worker;

pub use cluster::Cluster;
pub use error::{Error, Result};
pub use named::{NamedDatabase, NamedTree};
pub use worker::ClusterWorker;
