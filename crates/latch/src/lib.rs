//! The latch word and the ownership protocol as a pure state machine.
