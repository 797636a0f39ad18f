//! Settings of the protocol. Each setting has an effect, and these tests detect when it has none.

mod forwarding;
mod load;
mod release;
mod replacement;
mod table;
