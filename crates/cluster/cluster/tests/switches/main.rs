//! Switches of the protocol: each does something, which these tests would miss if it did not.

mod forwarding;
mod load;
mod release;
mod replacement;
mod table;
