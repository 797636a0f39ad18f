//! The time limits of connections.

use std::time::Duration;

/// The time in which a device should destroy the resources of a node that died or left.
pub(super) const REMOVAL: Duration = Duration::from_secs(5);

/// The least time that a connecting node waits for an answer. A living node answers, unless its
/// machine is too busy. An attempt to reach a dead node or a node that left ends early, because the
/// membership reports such nodes. A shorter limit would give up on a slow living node.
pub(super) const CONNECT: Duration = Duration::from_secs(60);

/// The least time that a connecting node has to prove its identity.
pub(super) const GREETING: Duration = Duration::from_secs(15);
