//! The tests of `latchwork-history`, as one program.

mod anomalies;
mod common;
mod oracle;
mod scale;
mod stores;
