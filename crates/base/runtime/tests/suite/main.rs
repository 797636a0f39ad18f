//! The tests of `latchwork-runtime`, as one program.

mod tasks;
mod timers;
mod virtual_time;
mod wakes;
