//! A node's frame, and the machine's access to it.

use latchwork_latch::{Hold, LocalCopy, Want};

/// The content of a copy of the line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Bytes {
    /// A write is missing that some node has seen. After a death: that a living node has seen, or
    /// has done.
    Stale,
    /// Only writes of the mortal node are missing, and no other node has seen these. The numbers
    /// put such contents in their order. Only in settings with recovery (`recovery.rs`).
    Unseen(u8),
    /// All writes are in the copy.
    Latest,
}

/// The frame of one node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Frame {
    /// What local code may do with the frame.
    pub(crate) hold: Hold,
    /// Stale when local code may do nothing with it.
    pub(crate) bytes: Bytes,
    /// Memory lacks a write of this node, or what came with the place of a dead giver. Only in
    /// settings with recovery: elsewhere, all bytes of an exclusive copy are written back.
    pub(crate) dirty: bool,
    /// Local code is about to use the frame.
    pub(crate) reserved: bool,
    /// The priority with which a starved writer won the line.
    pub(crate) starved: u8,
    /// The mode in which a transaction has locked the line.
    pub(crate) locked: Option<Want>,
}

impl Frame {
    /// The frame of no line.
    pub(crate) const EMPTY: Frame = Frame {
        hold: Hold::Nothing,
        bytes: Bytes::Stale,
        dirty: false,
        reserved: false,
        starved: 0,
        locked: None,
    };
}

/// A frame, for the time of one step of its machine.
pub(crate) struct Copy<'a> {
    pub(crate) frame: &'a mut Frame,
    pub(crate) wanted: &'a mut Option<Want>,
    pub(crate) no_wait: bool,
    /// Locks have an effect.
    pub(crate) locks: bool,
    pub(crate) incoming: Bytes,
    /// The oldest content that local code may use.
    pub(crate) least: Bytes,
    pub(crate) stale: bool,
}

impl Copy<'_> {
    /// Reserved in the same step, so that waiting local code uses the copy once.
    fn give_to_local_code(&mut self) {
        let met = match *self.wanted {
            None => false,
            Some(Want::Shared) => self.frame.hold >= Hold::Shared,
            Some(Want::Exclusive) => self.frame.hold == Hold::Exclusive,
        };
        if met {
            *self.wanted = None;
            self.frame.reserved = true;
        }
    }

    fn restrict(&mut self, hold: Hold) -> bool {
        let permits = match self.locked() {
            None => true,
            Some(Want::Shared) => hold == Hold::Shared,
            Some(Want::Exclusive) => false,
        };
        let free = permits && !self.frame.reserved;
        if free {
            self.frame.hold = hold;
        }
        free
    }
}

impl LocalCopy for Copy<'_> {
    fn starved(&self) -> u8 {
        self.frame.starved
    }

    fn set_starved(&mut self, priority: u8) {
        self.frame.starved = priority;
    }

    fn publish(&mut self, hold: Hold) {
        self.frame.starved = 0;
        self.frame.hold = hold;
        self.frame.bytes = self.incoming;
        self.frame.dirty = false;
        self.stale |= self.incoming < self.least;
        self.give_to_local_code();
    }

    fn promote(&mut self) {
        self.frame.hold = Hold::Exclusive;
        self.stale |= self.frame.bytes < self.least;
        self.give_to_local_code();
    }

    fn try_suspend(&mut self) -> bool {
        self.restrict(Hold::Nothing)
    }

    fn lose(&mut self) {}

    fn restore(&mut self) {
        self.frame.hold = Hold::Shared;
        self.stale |= self.frame.bytes < self.least;
        self.give_to_local_code();
    }

    fn try_invalidate(&mut self) -> bool {
        self.restrict(Hold::Nothing)
    }

    fn try_demote(&mut self) -> bool {
        self.restrict(Hold::Shared)
    }

    fn locked(&self) -> Option<Want> {
        self.frame.locked.filter(|_| self.locks)
    }

    fn locked_out(&mut self, want: Want) -> Option<Want> {
        if self.no_wait {
            *self.wanted = None;
        }
        (!self.no_wait).then_some(want)
    }
}
