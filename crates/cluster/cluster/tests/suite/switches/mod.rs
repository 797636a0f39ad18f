//! Settings of the protocol: each one has an effect, and these tests detect its absence.

mod forwarding;
mod load;
mod release;
mod replacement;
mod table;
