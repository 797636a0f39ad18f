//! The tests of `latchwork-cluster`, as one program.

mod coherence;
mod common;
mod directory;
mod fairness;
mod faults;
mod footprint;
mod idle;
#[cfg(feature = "tcp")]
mod joined;
#[cfg(feature = "tcp")]
mod killed;
mod locks;
mod measured;
#[cfg(feature = "tcp")]
mod processes;
mod rdma;
mod scenarios;
#[cfg(feature = "tcp")]
mod sockets;
mod switches;
mod tree;
