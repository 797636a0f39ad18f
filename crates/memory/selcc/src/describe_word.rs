//! The text form of latch words and word operations, for readers of logs.

use std::fmt::Write as _;

use latchwork_latch::{LatchWord, WordOp, WordVerb};
use latchwork_verbs::{ComputeNodeId, WorkRequest};

/// The value `bits` of a latch word as text: `free`, `X=C2`, `S={C1,C3}`, `X=C2 S={C1}`.
pub fn describe_word(bits: u64) -> String {
    let word = LatchWord::from_bits(bits);
    let mut text = String::new();
    match (word.exclusive(), word.bits() >> 58) {
        (Some(id), _) => _ = write!(text, "X=C{}", id.get()),
        (None, 0) => {}
        (None, reserved) => _ = write!(text, "X=?{reserved}"),
    }
    if !word.shared().is_empty() {
        let ids: Vec<String> = word.shared().iter().map(|id| format!("C{}", id.get())).collect();
        let gap = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{gap}S={{{}}}", ids.join(","));
    }
    if text.is_empty() { "free".to_owned() } else { text }
}

/// The word operation for which the node `from` posts this atomic request on a latch word, as text.
/// A persist is shown as `Poll`, which has the same verb. A compare-and-swap of no word operation
/// is shown with both words. `None` for other requests.
pub fn describe_atomic(from: ComputeNodeId, request: &WorkRequest) -> Option<String> {
    match *request {
        WorkRequest::FetchAdd { add, .. } => operation(from, WordVerb::Add(add)),
        WorkRequest::CompareSwap { expected, desired, .. } => {
            let verb = WordVerb::CompareSwap {
                expected: LatchWord::from_bits(expected),
                desired: LatchWord::from_bits(desired),
            };
            let words = || format!("CAS {} -> {}", describe_word(expected), describe_word(desired));
            Some(operation(from, verb).unwrap_or_else(words))
        }
        _ => None,
    }
}

fn operation(from: ComputeNodeId, verb: WordVerb) -> Option<String> {
    let plain = [
        (WordOp::AcquireShared, "AcquireShared"),
        (WordOp::Poll, "Poll"),
        (WordOp::AcquireExclusive, "AcquireExclusive"),
        (WordOp::Upgrade, "Upgrade"),
        (WordOp::ReleaseShared, "ReleaseShared"),
        (WordOp::ReleaseExclusive, "ReleaseExclusive"),
        (WordOp::Downgrade, "Downgrade"),
    ];
    if let WordVerb::CompareSwap { expected, desired } = verb
        && desired == LatchWord::exclusively(from)
        && expected.exclusive().is_none()
        && !expected.shared().without(from).is_empty()
    {
        let (own, others) = (expected.shared().contains(from), expected.shared().without(from));
        let name = if own { "UpgradeOver" } else { "TakeOver" };
        return Some(format!("{name}({others:?})"));
    }
    let named = plain.into_iter().find(|(op, _)| op.verb(from) == verb);
    named.map(|(_, name)| name.to_owned()).or_else(|| {
        let others = (1..=ComputeNodeId::MAX).filter_map(ComputeNodeId::new);
        let to =
            others.filter(|to| *to != from).find(|to| WordOp::HandOver(*to).verb(from) == verb);
        to.map(|to| format!("HandOver(C{})", to.get()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u8) -> ComputeNodeId {
        ComputeNodeId::new(id).expect("a valid id")
    }

    fn atomic(op: WordOp, of: u8) -> WorkRequest {
        match op.verb(node(of)) {
            WordVerb::Add(add) => WorkRequest::FetchAdd { remote: 0, add },
            WordVerb::CompareSwap { expected, desired } => WorkRequest::CompareSwap {
                remote: 0,
                expected: expected.bits(),
                desired: desired.bits(),
            },
        }
    }

    #[test]
    fn words_name_their_owners() {
        let shared = |id| LatchWord::shared_by(node(id)).bits();
        let exclusive = LatchWord::exclusively(node(2)).bits();
        assert_eq!(describe_word(0), "free");
        assert_eq!(describe_word(exclusive), "X=C2");
        assert_eq!(describe_word(shared(1) | shared(3)), "S={C1,C3}");
        assert_eq!(describe_word(exclusive | shared(1)), "X=C2 S={C1}");
        assert_eq!(describe_word(63 << 58), "X=?63");
    }

    #[test]
    fn a_request_names_the_operation_of_its_sender() {
        let name = |op, of| describe_atomic(node(1), &atomic(op, of));
        for (op, text) in [
            (WordOp::AcquireShared, "AcquireShared"),
            (WordOp::Poll, "Poll"),
            (WordOp::Downgrade, "Downgrade"),
            (WordOp::HandOver(node(9)), "HandOver(C9)"),
        ] {
            assert_eq!(name(op, 1).as_deref(), Some(text));
        }
        assert_eq!(name(WordOp::ReleaseExclusive, 2), None, "an operation of another node");
        let swap = WorkRequest::CompareSwap { remote: 0, expected: 1 << 58, desired: 2 };
        assert_eq!(describe_atomic(node(1), &swap).as_deref(), Some("CAS X=C1 -> S={C2}"));
    }
}
