//! Tests of Sherman's tree in simulated worlds, and on shared memory.

mod basics;
mod common;
mod faults;
mod verbs;
