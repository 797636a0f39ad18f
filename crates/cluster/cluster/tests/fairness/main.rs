//! Fairness among nodes that want one line, in worlds that keep a NIC's time (SELCC 5.3).
//!
//! One line, many workers that do nothing but read or write it, for a while; counted is how often
//! each node got to it.

mod lease;
mod starved;
mod world;
