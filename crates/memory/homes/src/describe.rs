//! The messages of the directory protocols as text, for logs.

use latchwork_directory::{Directive, Kind, Message, Reply, Request, Source};
use latchwork_engine::Envelope;
use latchwork_verbs::{GlobalAddr, Message as Wire};

use crate::wire::decode;

/// The line of a message, and the message as text. `None`: it is no message of these protocols.
pub fn describe(wire: &Wire) -> Option<(GlobalAddr, String)> {
    let (line, Envelope::Line, _) = Envelope::open(wire)? else { return None };
    Some((line, text(&decode(wire)?.message)))
}

fn text(message: &Message) -> String {
    match message {
        Message::Request(Request { mode, .. }) => format!("request {mode:?}"),
        Message::Evict { served } => format!("evict, {served} copies served"),
        Message::Done { era, kept: false } => format!("done, era {}", era.0),
        Message::Done { era, kept: true } => format!("done, era {}: the copy stays", era.0),
        Message::Busy { era } => format!("busy, era {}", era.0),
        Message::Reply(reply) => reply_text(reply),
        Message::Retry => "retry".to_owned(),
        Message::Evicted { accepted: true } => "evicted".to_owned(),
        Message::Evicted { accepted: false } => "not evicted".to_owned(),
        Message::Directive(Directive { kind, era, copies, to, .. }) => {
            let after = match kind {
                Kind::Copy => String::new(),
                Kind::Move | Kind::Invalidate => format!(" after {copies} copies"),
            };
            format!("{kind:?} for {to:?}{after}, era {}", era.0)
        }
        Message::Line { mode, era } => format!("the line, {mode:?}, era {}", era.0),
        Message::Gone { era } => format!("gone, era {}", era.0),
        Message::Stuck { dead } => format!("stuck behind {dead:?}"),
        Message::Settle { era, dead, .. } => format!("settle without {dead:?}, era {}", era.0),
        Message::Settled { era } => format!("settled, era {}", era.0),
        Message::Rebase { era, adopt } => {
            format!("rebase{} to era {}", if *adopt { " and adopt" } else { "" }, era.0)
        }
        Message::Rebased { era, hold, changed } => {
            let changed = if *changed { ", changed" } else { "" };
            format!("rebased: {hold:?}{changed}, era {}", era.0)
        }
        Message::Lost { node } => format!("lost with {node:?}"),
    }
}

fn reply_text(Reply { mode, era, source, holder, others }: &Reply) -> String {
    let source = match source {
        Source::Memory => "from memory".to_owned(),
        Source::Kept { copies } => format!("kept after {copies} copies"),
        Source::Holder => "from a holder".to_owned(),
    };
    let holder = holder.map_or(String::new(), |(node, kind, _)| format!(", {kind:?} at {node:?}"));
    let others = match others.is_empty() {
        true => String::new(),
        false => format!(", Invalidate at {others:?}"),
    };
    format!("reply {mode:?}, {source}{holder}{others}, era {}", era.0)
}

#[cfg(test)]
mod tests {
    use latchwork_cache::DirtyBounds;
    use latchwork_directory::{Era, NodeSet, Party, Want};
    use latchwork_verbs::ComputeNodeId;

    use super::*;
    use crate::wire::encode;

    #[test]
    fn a_message_names_what_it_asks_of_which_node() {
        let node = |id| ComputeNodeId::new(id).expect("a valid id");
        let reply = Reply {
            mode: Want::Exclusive,
            era: Era(7),
            source: Source::Holder,
            holder: Some((node(3), Kind::Move, 2)),
            others: NodeSet::of(node(4)),
        };
        let directive =
            Directive { kind: Kind::Move, era: Era(7), copies: 2, to: node(5), buffer: 0 };
        let told = [
            (
                Message::Reply(reply),
                "reply Exclusive, from a holder, Move at C3, Invalidate at {C4}, era 7",
            ),
            (Message::Directive(directive), "Move for C5 after 2 copies, era 7"),
            (Message::Lost { node: node(1) }, "lost with C1"),
        ];
        for (message, said) in told {
            let body = encode(Party::Node(node(2)), true, &message, DirtyBounds::EMPTY);
            let read = decode(&Wire { from: node(9), body }).expect("a message");
            assert_eq!(text(&read.message), said);
        }
    }
}
