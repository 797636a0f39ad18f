//! Checks the owners of a line after every event: one writer or many readers, and the protocol's
//! own record ([`Truth`](latchwork_engine::Truth)) agrees with the caches.

use latchwork_cache::Ownership;
use latchwork_verbs::ComputeNodeId;

use super::Verdict;
use super::copies::{Copies, Copy, Tracked};
use crate::WorldCheck;

pub(crate) fn check(copies: &Copies, line: &Tracked) -> Verdict {
    let (record, owners) = (copies.truth.name(), line.owners);
    let field = owners.exclusive;
    if field > ComputeNodeId::MAX {
        return wrong(line, &format!("the {record} names {field} as its exclusive holder"));
    }
    if let Some(stranger) = owners.named().find(|id| !copies.has(*id)) {
        let text = format!("the {record} says {owners:?}, and there is no {stranger:?}");
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
    let gives = |giver: ComputeNodeId| {
        let giver = giver.index();
        line.copies.iter().all(|copy| copy.node != giver)
            && copies.node(giver).lines_in_flight() > 0
    };
    if copies.truth.permits(line.owners, id, copy.state.ownership(), &gives) {
        return Ok(());
    }
    let (record, owners) = (copies.truth.name(), line.owners);
    wrong(line, &format!("{}, but the {record} says {owners:?}", name(copies, copy)))
}

fn name(copies: &Copies, copy: &Copy) -> String {
    format!("{:?} has it {:?}", copies.node(copy.node).id(), copy.state.ownership())
}

fn wrong(line: &Tracked, what: &str) -> Verdict {
    Err((WorldCheck::Owners, format!("line {}: {what}", line.addr)))
}
