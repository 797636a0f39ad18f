//! The tests of `latchwork-hunt`, as one program.

mod files;
mod plants;
mod survey;
mod threads;
mod trace;
mod tree;
mod worlds;
