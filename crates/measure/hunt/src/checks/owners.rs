//! Checks the owners of a line after every event: one writer or many readers, and the latch word
//! agrees with the caches.
//!
//! The latch word and the cache of a node N differ only while a word operation is in flight, and
//! only in these ways:
//!
//! ```text
//!   cache of N   word                          meanwhile
//!   ----------   ---------------------------   ------------------------------------------------
//!   exclusive    names another node A          A hands the line over to N: A's cache has no
//!                                              copy, and A has an operation in progress
//!   shared       names N as exclusive holder   N downgrades
//!   nothing      anything                      N obtains the line, or gives it up
//! ```
//!
//! Two rules follow. If the word names no exclusive holder, no cache has an exclusive copy. If a
//! cache has a shared copy, the word has the node's shared bit or names the node as exclusive
//! holder.

use latchwork_cache::Ownership;
use latchwork_verbs::ComputeNodeId;

use super::Verdict;
use super::copies::{Copies, Copy, Tracked};
use crate::WorldCheck;

pub(crate) fn check(copies: &Copies, line: &Tracked) -> Verdict {
    let field = line.word.bits() >> 58;
    if field > u64::from(ComputeNodeId::MAX) {
        return wrong(line, &format!("the latch word names {field} as its exclusive holder"));
    }
    let mut named = line.word.exclusive().into_iter().chain(line.word.shared().iter());
    if let Some(stranger) = named.find(|id| !copies.has(*id)) {
        let text = format!("the latch word says {:?}, and there is no {stranger:?}", line.word);
        return wrong(line, &text);
    }
    let writer = line.copies.iter().find(|copy| copy.is(Ownership::Exclusive));
    if let Some(writer) = writer
        && let Some(other) = line.copies.iter().find(|copy| copy.node != writer.node)
    {
        let (a, b) = (name(copies, writer), name(copies, other));
        return wrong(line, &format!("{a} and {b}, at once"));
    }
    let twice = line.copies.windows(2).find(|pair| pair[0].node == pair[1].node);
    if let Some(pair) = twice {
        return wrong(line, &format!("{}, in two frames", name(copies, &pair[0])));
    }
    line.copies.iter().try_for_each(|copy| agrees(copies, line, copy))
}

fn agrees(copies: &Copies, line: &Tracked, copy: &Copy) -> Verdict {
    let id = copies.node(copy.node).id();
    let holder = line.word.exclusive();
    let agrees = match copy.state.ownership() {
        Ownership::Invalid => true,
        Ownership::Shared => line.word.shared().contains(id) || holder == Some(id),
        Ownership::Exclusive => holder.is_some_and(|holder| {
            let giver = holder.index();
            holder == id
                || (line.copies.iter().all(|copy| copy.node != giver)
                    && copies.node(giver).lines_in_flight() > 0)
        }),
    };
    if agrees {
        return Ok(());
    }
    wrong(line, &format!("{}, but the latch word says {:?}", name(copies, copy), line.word))
}

fn name(copies: &Copies, copy: &Copy) -> String {
    format!("{:?} has it {:?}", copies.node(copy.node).id(), copy.state.ownership())
}

fn wrong(line: &Tracked, what: &str) -> Verdict {
    Err((WorldCheck::Owners, format!("line {}: {what}", line.addr)))
}
