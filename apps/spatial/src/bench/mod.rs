//! The benchmark: objects in a unit square that are inserted, asked for and moved.

mod check;
mod client;
mod drive;
mod settings;

pub(crate) use client::area;
pub(crate) use drive::bench;
pub(crate) use settings::BenchSettings;
