//! A B-link tree that several compute nodes share, on the real engine: on simulated worlds and on
//! threads, under both protocols.
//!
//! ```text
//!   Shape ──► a cluster ──► work     every worker's tasks: random operations, every answer recorded
//!                       ──► inspect  every node reads everything, one validates
//!                       ──► judge    per key: does one order explain all answers?
//! ```

#[path = "../common/mod.rs"]
mod common;

mod alarm;
mod cancelled;
mod content;
mod linearizable;
mod memory;
mod record;
mod scans;
mod shape;
mod threads;
mod work;
mod world;
