//! Single interleavings of transactions on several nodes, step by step, which random worlds meet
//! too rarely.

mod abandoned;
mod held_up;
mod left;
mod places;
mod splits;
mod stage;
