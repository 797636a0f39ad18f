//! The tests of `latchwork-rtree`, as one program.

mod common;
mod concurrent;
mod deaths;
mod edges;
mod levels;
mod model;
mod moves;
mod rstar;
mod size;
mod threads;
