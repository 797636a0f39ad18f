//! [`Loss`]: the lost log records of one log.

use std::fmt;

use crate::format::names;
use crate::witness::Lost;
use crate::{LogEnd, NodeId};

/// The lost log records of one log, and the records given up with them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The node of the log.
    pub node: NodeId,
    /// The segment in which the log ends now; the first one when nothing is left.
    pub file: String,
    /// The bytes of that segment that are kept.
    pub kept: u64,
    /// Durable records that are missing, at least.
    pub missing: u64,
    /// Bytes that are missing or cannot be read, at least.
    pub missing_bytes: u64,
    /// Present records that are given up, because they may have seen missing records of another
    /// log.
    pub given_up: u64,
    /// Bytes of the records given up, and of the marks between them.
    pub given_up_bytes: u64,
    /// The file `WITNESS` was missing or damaged. So more may be missing than these numbers say,
    /// and logs without any file may be missing.
    pub unwitnessed: bool,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loss { node, file, kept, missing, missing_bytes, given_up, given_up_bytes, .. } = self;
        write!(f, "node {}: {file} ends at byte {kept}: ", node.0)?;
        let is_nothing = [*missing, *missing_bytes, *given_up] == [0; 3];
        if is_nothing && !self.unwitnessed {
            write!(f, "what stood behind that cannot be read")?;
        }
        if *missing > 0 || *missing_bytes > 0 {
            write!(f, "{missing} commits or more are missing ({missing_bytes} bytes or more)")?;
        }
        if *given_up > 0 {
            let and = if *missing > 0 || *missing_bytes > 0 { "; " } else { "" };
            write!(
                f,
                "{and}{given_up} commits ({given_up_bytes} bytes) are given up, which may have seen what is missing"
            )?;
        }
        if self.unwitnessed {
            let what = if is_nothing { "what" } else { "; what else" };
            write!(f, "{what} stood behind that cannot be known without WITNESS")?;
        }
        Ok(())
    }
}

impl Loss {
    pub(super) fn of(node: NodeId, cut: LogEnd, lost: Lost) -> Loss {
        let Lost { missing, missing_bytes, given_up, given_up_bytes } = lost;
        let (file, kept) = (names::segment(node, cut.segment.max(1)), cut.bytes);
        let unwitnessed = false;
        Loss { node, file, kept, missing, missing_bytes, given_up, given_up_bytes, unwitnessed }
    }
}
