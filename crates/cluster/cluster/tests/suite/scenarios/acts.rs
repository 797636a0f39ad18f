//! Posts of nodes about a line: how to read them from batches, select them at gates, and log them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use latchwork_cluster::read_message;
use latchwork_latch::{LatchMessage, LatchWord, NodeSet, WordOp, WordVerb};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, Target, WorkRequest};
use latchwork_verbs_sim::Passing;

/// The indexes of three compute nodes.
pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;
pub(crate) const C: usize = 2;
pub(crate) const D: usize = 3;
pub(crate) const E: usize = 4;

/// The id of a node.
pub(crate) fn id(node: usize) -> ComputeNodeId {
    ComputeNodeId::new(node as u8 + 1).expect("a small index")
}

/// A post of a node about a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Op(WordOp),
    Letter { to: usize, message: LatchMessage },
}

/// The watched lines, by the address of their latch words, with all values of the words.
pub(crate) type Lines = Rc<RefCell<BTreeMap<GlobalAddr, Watched>>>;

pub(crate) struct Watched {
    pub(crate) line: GlobalAddr,
    pub(crate) words: Vec<LatchWord>,
}

/// Whether the word discipline permits one atomic that changes the word `old` to `new` (rules R2,
/// R3).
pub(crate) fn is_legal(old: LatchWord, new: LatchWord) -> bool {
    let only = |owner: ComputeNodeId, word: LatchWord| {
        word.exclusive() == Some(owner) && word.shared().is_empty()
    };
    let (old_x, new_x) = (old.exclusive(), new.exclusive());
    let changed = (old.bits() ^ new.bits()) & ((1 << 58) - 1);
    let one = changed.count_ones() == 1;
    let set = new.bits() & changed == changed;
    match (old_x, new_x) {
        _ if new.bits() >> 58 > 58 => false,
        // One reader adds or clears its bit. No node clears a registered wait.
        (None, None) => one,
        (Some(a), Some(b)) if a == b => one && set,
        // A claim of a free word, or an upgrade by the only reader.
        (None, Some(owner)) => {
            only(owner, new) && (old == LatchWord::FREE || old == LatchWord::shared_by(owner))
        }
        // A release or a downgrade.
        (Some(owner), None) => {
            changed == 0 || (one && set && changed == LatchWord::shared_by(owner).bits())
        }
        (Some(_), Some(_)) => changed == 0,
    }
}

/// Whether a writer takes the line over from sharers, which must have pledged their copies.
pub(crate) fn is_taken_over(old: LatchWord, new: LatchWord) -> bool {
    let owner = new.exclusive().filter(|_| new.shared().is_empty());
    old.exclusive().is_none() && owner.is_some_and(|owner| !old.shared().without(owner).is_empty())
}

/// The post in a batch about a watched line, or `None`.
pub(crate) fn read(lines: &Lines, passing: &Passing<'_>) -> Option<(GlobalAddr, usize, Act)> {
    let from = passing.from.index();
    match passing.target {
        Target::Compute(to, _) => passing.requests.iter().find_map(|request| {
            let WorkRequest::Send(wire) = request else { return None };
            let (line, message) = read_message(wire)?;
            Some((line, from, Act::Letter { to: to.index(), message }))
        }),
        Target::Memory(node) => passing.requests.iter().find_map(|request| {
            let (latch, verb) = match *request {
                WorkRequest::FetchAdd { remote, add } => (remote, WordVerb::Add(add)),
                WorkRequest::CompareSwap { remote, expected, desired } => {
                    let (expected, desired) =
                        (LatchWord::from_bits(expected), LatchWord::from_bits(desired));
                    (remote, WordVerb::CompareSwap { expected, desired })
                }
                _ => return None,
            };
            let lines = lines.borrow();
            let line = lines.get(&GlobalAddr::new(node, latch))?.line;
            let op = operations().find(|op| op.verb(passing.from) == verb)?;
            Some((line, from, Act::Op(op)))
        }),
    }
}

fn operations() -> impl Iterator<Item = WordOp> {
    let plain = [
        WordOp::AcquireShared,
        WordOp::Poll,
        WordOp::AcquireExclusive,
        WordOp::Upgrade,
        WordOp::ReleaseShared,
        WordOp::ReleaseExclusive,
        WordOp::Downgrade,
    ];
    let by_pledge = (1..1 << 5).flat_map(|bits| {
        let pledged = LatchWord::from_bits(bits).shared();
        [WordOp::TakeOver(pledged), WordOp::UpgradeOver(pledged)]
    });
    plain.into_iter().chain((0..8).map(|to| WordOp::HandOver(id(to)))).chain(by_pledge)
}

// ---- selections for gates and for the log
// -----------------------------------------------------------

/// A word operation of `node`.
pub(crate) fn op(node: usize, which: WordOp) -> impl Fn(usize, &Act) -> bool {
    move |from, act| from == node && *act == Act::Op(which)
}

/// Any word operation of `node`.
pub(crate) fn any_op(node: usize) -> impl Fn(usize, &Act) -> bool {
    move |from, act| from == node && matches!(act, Act::Op(_))
}

fn letter(
    from: usize,
    to: usize,
    kind: impl Fn(&LatchMessage) -> bool,
) -> impl Fn(usize, &Act) -> bool {
    move |sender, act| {
        matches!(act, Act::Letter { to: receiver, message }
            if sender == from && *receiver == to && kind(message))
    }
}

/// A request that `from` sends to `to`.
pub(crate) fn request(from: usize, to: usize) -> impl Fn(usize, &Act) -> bool {
    letter(from, to, |message| matches!(message, LatchMessage::Request(_)))
}

/// A request of another node that `from` sends on to `to`.
pub(crate) fn sent_on(from: usize, to: usize) -> impl Fn(usize, &Act) -> bool {
    letter(
        from,
        to,
        move |message| matches!(message, LatchMessage::Request(request) if request.from != id(from)),
    )
}

/// An answer without the line.
pub(crate) fn answer(
    from: usize,
    to: usize,
    which: latchwork_latch::Answer,
) -> impl Fn(usize, &Act) -> bool {
    letter(
        from,
        to,
        move |message| matches!(message, LatchMessage::Answer { answer, .. } if *answer == which),
    )
}

/// A grant, which comes with the line.
pub(crate) fn grant(from: usize, to: usize) -> impl Fn(usize, &Act) -> bool {
    letter(from, to, |message| matches!(message, LatchMessage::Grant { .. }))
}

/// The giver's report that its operation is complete.
pub(crate) fn settled(from: usize, to: usize) -> impl Fn(usize, &Act) -> bool {
    letter(from, to, |message| matches!(message, LatchMessage::Settled { .. }))
}

/// A pledge.
pub(crate) fn pledge(from: usize, to: usize) -> impl Fn(usize, &Act) -> bool {
    letter(from, to, |message| matches!(message, LatchMessage::Pledged { .. }))
}

/// A report that a pledge was used.
pub(crate) fn taken(from: usize, to: usize) -> impl Fn(usize, &Act) -> bool {
    letter(from, to, |message| matches!(message, LatchMessage::Taken { .. }))
}

/// A report that a pledge was not used.
pub(crate) fn gave_up(from: usize, to: usize) -> impl Fn(usize, &Act) -> bool {
    letter(from, to, |message| matches!(message, LatchMessage::GaveUp { .. }))
}

/// The set of these nodes.
pub(crate) fn set(nodes: &[usize]) -> NodeSet {
    nodes.iter().fold(NodeSet::EMPTY, |set, &node| set.with(id(node)))
}

// ---- words --------------------------------------------------------------------------------------

/// The word of a line that `node` holds exclusively.
pub(crate) fn x(node: usize) -> LatchWord {
    LatchWord::exclusively(id(node))
}

/// The word of a line with the shared bits of `nodes`.
pub(crate) fn s(nodes: &[usize]) -> LatchWord {
    let bits = nodes.iter().map(|node| LatchWord::shared_by(id(*node)).bits());
    bits.fold(LatchWord::FREE, LatchWord::plus)
}

/// The word of a line that `node` holds and `readers` wait for.
pub(crate) fn xs(node: usize, readers: &[usize]) -> LatchWord {
    x(node).plus(s(readers).bits())
}
