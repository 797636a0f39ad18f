//! [`Settings`]: how long who waits.

use std::time::Duration;

/// How long who waits for whom. What is right goes by a message's round trip and a sync of the log:
/// the defaults are for some microseconds and up to some milliseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How long a coordinator waits for an answer before it asks again.
    pub again: Duration,
    /// How long it asks. Then the transaction aborts.
    pub deadline: Duration,
    /// How long a participant that has not voted waits for its coordinator. Then it aborts.
    pub idle: Duration,
    /// How long a participant that has voted waits before it asks for the decision, and again.
    pub ask: Duration,
    /// How often participants are looked after.
    pub tick: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            again: Duration::from_millis(20),
            deadline: Duration::from_secs(1),
            idle: Duration::from_secs(2),
            ask: Duration::from_millis(50),
            tick: Duration::from_millis(5),
        }
    }
}
