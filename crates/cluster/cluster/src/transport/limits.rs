//! The time limits of connections.

use std::time::Duration;

/// The limit for a device to destroy the resources of a node that died or left.
pub(super) const REMOVAL: Duration = Duration::from_secs(5);

/// The least time that a connecting node waits for an answer. A live node answers, unless its
/// machine is too busy. An attempt to reach a node that has died or left ends early, because
/// membership reports such nodes. A shorter limit would treat a slow live node as dead, and that
/// node would not learn why it waits.
pub(super) const CONNECT: Duration = Duration::from_secs(60);

/// The least time limit for a connecting node to prove its identity.
pub(super) const GREETING: Duration = Duration::from_secs(15);
