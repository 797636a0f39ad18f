//! A node: its machine, its frame, and its local code.

use latchwork_directory::{Hold, Line, LocalCopy, Want};

/// The content of a copy of the line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Content {
    /// The last write is missing.
    Stale,
    /// All writes are in the copy.
    Latest,
}

/// The frame of one node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Frame {
    /// What local code may do with the frame.
    pub(crate) hold: Hold,
    pub(crate) content: Content,
    /// The frame has changes that the home's memory may lack.
    pub(crate) dirty: bool,
    /// Local code is about to use the frame.
    pub(crate) reserved: bool,
    /// The mode in which a transaction has locked the line.
    pub(crate) locked: Option<Want>,
}

/// One node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Node {
    pub(crate) line: Line,
    pub(crate) frame: Frame,
    /// What local code waits for.
    pub(crate) wanted: Option<Want>,
}

/// A frame, for the time of one step of its machine.
pub(crate) struct Copy<'a> {
    pub(crate) frame: &'a mut Frame,
    pub(crate) wanted: &'a mut Option<Want>,
    pub(crate) no_wait: bool,
    /// Local code may use bytes that lack a write.
    pub(crate) stale: bool,
}

impl Copy<'_> {
    /// Reserved in the same step, so that waiting local code uses the copy once.
    fn permit(&mut self, hold: Hold) {
        self.frame.hold = hold;
        self.stale |= self.frame.content == Content::Stale;
        let met = match *self.wanted {
            None => false,
            Some(Want::Shared) => hold >= Hold::Shared,
            Some(Want::Exclusive) => hold == Hold::Exclusive,
        };
        if met {
            *self.wanted = None;
            self.frame.reserved = true;
        }
    }

    fn restrict(&mut self, hold: Hold) -> bool {
        let permits = match self.frame.locked {
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
    fn publish(&mut self, hold: Hold) {
        self.permit(hold);
    }

    fn promote(&mut self) {
        self.permit(Hold::Exclusive);
    }

    fn try_exclude(&mut self) -> bool {
        self.restrict(Hold::Nothing)
    }

    fn restore(&mut self, hold: Hold) {
        self.permit(hold);
    }

    fn try_demote(&mut self) -> bool {
        self.restrict(Hold::Shared)
    }

    fn adopt(&mut self) {
        self.frame.dirty = true;
    }

    fn is_changed(&self) -> bool {
        self.frame.dirty
    }

    fn locked(&self) -> Option<Want> {
        self.frame.locked
    }

    fn locked_out(&mut self, want: Want) -> Option<Want> {
        if self.no_wait {
            *self.wanted = None;
        }
        (!self.no_wait).then_some(want)
    }
}
