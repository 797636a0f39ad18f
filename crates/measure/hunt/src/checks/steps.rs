//! [`Steps`]: runs the checks of owners and values after every event.

use std::sync::Arc;

use latchwork_cluster::{Node, Simulated};
use latchwork_verbs::GlobalAddr;

use super::copies::Copies;
use super::{Verdict, owners, values};
use crate::world::Observer;

/// A change of bytes normally changes the frame state, and only changed lines are checked. A remote
/// write changes bytes without the frame state. So after every 16 events, the values of all lines
/// are checked.
const ALL_EVERY: u64 = 16;
const _: () = assert!(ALL_EVERY > 0, "all lines are looked at now and then");

/// Checks the world of one cluster after every event.
pub(crate) struct Steps {
    copies: Copies,
    looks: u64,
}

impl Steps {
    pub(crate) fn new(cluster: &Simulated) -> Steps {
        Steps { copies: Copies::new(cluster), looks: 0 }
    }

    /// Records that this node has the id of a dead one.
    pub(crate) fn replace(&mut self, at: usize, node: Arc<Node>) {
        self.copies.replace(at, node);
    }

    /// The lines that any cache has held.
    pub(crate) fn lines(&self) -> impl Iterator<Item = GlobalAddr> {
        self.copies.lines.iter().map(|line| line.addr)
    }

    /// Checks the lines that the last event changed.
    pub(crate) fn check(&mut self, cluster: &Simulated, observer: &Observer) -> Verdict {
        for (addr, told) in observer.take_notifications() {
            self.copies.tell(cluster, addr, told);
        }
        self.copies.look(cluster);
        self.looks += 1;
        let all = self.looks.is_multiple_of(ALL_EVERY);
        let copies = &self.copies;
        for line in copies.lines.iter().filter(|line| line.touched) {
            owners::check(copies, line)?;
        }
        for line in
            copies.lines.iter().filter(|line| line.touched || all || line.notified.is_some())
        {
            values::check(copies, line)?;
        }
        self.copies.lines.iter_mut().for_each(|line| line.touched = false);
        Ok(())
    }
}
