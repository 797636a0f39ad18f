//! A B-link tree that several compute nodes share, on the real engine: in simulated worlds and on
//! threads, under both protocols. The worlds of `latchwork-hunt` check that all answers of all
//! operations can be explained.

mod bytes;
mod memory;
mod scans;
mod shape;
mod shared;
mod stamps;
