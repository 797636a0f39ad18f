//! The tests of `latchwork-verbs-ibv`, as one program.

mod contract;
mod devices;
mod elsewhere;
mod failing;
mod wake;
