//! The tests of `latchwork-blink`, as one program.

mod concurrent;
mod deaths;
mod faults;
mod leaves;
mod model;
mod phantoms;
mod recent;
mod replace;
mod stamps;
mod threads;

use latchwork_coherence::testing as common;
