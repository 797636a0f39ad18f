//! Tests of the program.

mod answers;
mod bench;
mod cli;
mod common;
mod fabrics;
mod files;
mod joined;
mod real;
mod signals;
