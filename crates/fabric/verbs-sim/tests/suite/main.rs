//! The tests of `latchwork-verbs-sim`, as one program.

mod calibrate;
mod contract;
mod faults;
mod freedoms;
mod gate;
mod nic;
mod profiles;
mod replacing;
mod stalls;
mod wake;
mod watch;
mod world;
