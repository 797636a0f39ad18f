//! The tests of `latchwork-cluster`, as one program.

mod coherence;
mod common;
mod compute_homes;
mod directory;
mod fairness;
mod faults;
mod footprint;
mod homes;
mod idle;
#[cfg(feature = "processes")]
mod joined;
#[cfg(feature = "processes")]
mod killed;
mod locks;
mod measured;
#[cfg(feature = "processes")]
mod processes;
mod rdma;
mod scenarios;
mod settings_page;
#[cfg(feature = "processes")]
mod sockets;
mod switches;
mod tree;
