//! A B-link tree that several compute nodes share, on the real engine: on simulated worlds and on
//! threads, under both protocols. Whether all answers of all operations can be explained is for the
//! worlds of `latchwork-hunt` to say.

#[path = "../common/mod.rs"]
mod common;

mod bytes;
mod memory;
mod scans;
mod shape;
mod shared;
mod stamps;
