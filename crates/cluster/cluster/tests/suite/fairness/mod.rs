//! Fairness among nodes that want one line, in worlds with a NIC profile (SELCC 5.3).
//!
//! For some time many workers only read or write one line. The tests count the accesses of each
//! node.

mod lease;
mod starved;
mod world;
