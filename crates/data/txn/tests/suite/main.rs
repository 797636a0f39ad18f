//! The tests of `latchwork-txn`, as one program.

mod at_once;
mod counters;
mod crashes;
mod dropped;
mod gone;
mod kill;
mod later;
mod limits;
mod moved;
mod prepared;
mod replaced;
mod scenarios;
mod starvation;
mod worlds;
