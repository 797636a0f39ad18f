//! The text form of messages, for readers of logs.

use std::fmt::Write as _;

use latchwork_engine::Envelope;
use latchwork_latch::{Answer, GrantMode, InvalidationRequest, LatchMessage, RequestKind};
use latchwork_verbs::{ComputeNodeId, Message as Wire};

use crate::wire::LineMessage;

/// Describes a message between nodes in a few words, without its line, which
/// [`read_message`](crate::read_message) returns. For readers of logs; not to be parsed.
///
/// ```text
///   ask Write #7               an invalidation request with the request number 7
///   ask Read #7 pri 2          the third attempt
///   pass on C3 Read #9 (asked C2)
///                              a queued request of another node, sent on after a hand-over
///   Released #7                final: read the latch word again
///   grant Exclusive #7 dirty 32..40 with C3 Read #9 (asked C2)
///                              final: the line is in your frame, 8 bytes of it are not written back
///                              yet, and a request of C3 to C2 travels with it for you to serve
///   settled #7                 the giver's operation is complete
///   pledged #7                 final, to a writer: my bit stays, my copy is not used
///   taken #7                   the writer has the line, and the bit of the pledge is clear
///   gave up #7                 the pledge is over, and the pledger shares the line again
///   has my grant arrived?      a probe: the connection failed under the grant
/// ```
///
/// A travelling request is answered by another node than the one that first received the request.
/// Then the answer names the node that first received it.
pub fn describe(wire: &Wire) -> String {
    let none = || format!("no message about a line: {:#x}", wire.body[0]);
    let letter = match Envelope::open(wire) {
        None => return none(),
        Some((_, Envelope::PendingProbe(_), _)) => return "has my grant arrived?".to_owned(),
        Some((_, Envelope::Verdict { arrived: true, .. }, _)) => {
            return "your grant has arrived".to_owned();
        }
        Some((_, Envelope::Verdict { arrived: false, .. }, _)) => {
            return "your grant never arrived".to_owned();
        }
        Some((_, Envelope::Line, _)) => match LineMessage::decode(wire) {
            None => return none(),
            Some(letter) => letter,
        },
    };
    let asked_other = |asked: ComputeNodeId| match asked == wire.from {
        true => String::new(),
        false => format!(" (asked {asked:?})"),
    };
    match &letter.message {
        LatchMessage::Request(request) if request.from == wire.from => {
            format!("ask {}", question(request))
        }
        LatchMessage::Request(request) => {
            format!("pass on {:?} {} (asked {:?})", request.from, question(request), request.asked)
        }
        LatchMessage::Answer { asked, seq, answer } => {
            let answer = match answer {
                Answer::Dropped => "Dropped",
                Answer::Released => "Released",
                Answer::Queued => "Queued",
                Answer::Busy => "Busy",
            };
            format!("{answer} #{}{}", seq.0, asked_other(*asked))
        }
        LatchMessage::Grant { asked, seq, mode, travelling } => {
            let mode = match mode {
                GrantMode::Shared => "Shared",
                GrantMode::Exclusive => "Exclusive",
            };
            let mut text = format!("grant {mode} #{}{}", seq.0, asked_other(*asked));
            if !letter.dirty.is_empty() {
                let range = letter.dirty.range();
                let _ = write!(text, " dirty {}..{}", range.start, range.end);
            }
            for (i, request) in travelling.iter().enumerate() {
                let lead = if i == 0 { "with" } else { "and" };
                let (from, asked) = (request.from, request.asked);
                let _ = write!(text, " {lead} {from:?} {} (asked {asked:?})", question(request));
            }
            text
        }
        LatchMessage::Settled { seq } => format!("settled #{}", seq.0),
        LatchMessage::Pledged { asked, seq, .. } => {
            format!("pledged #{}{}", seq.0, asked_other(*asked))
        }
        LatchMessage::Taken { seq, .. } => format!("taken #{}", seq.0),
        LatchMessage::GaveUp { seq, .. } => format!("gave up #{}", seq.0),
    }
}

fn question(request: &InvalidationRequest) -> String {
    let kind = match request.kind {
        RequestKind::Read => "Read",
        RequestKind::Write => "Write",
    };
    match request.priority {
        0 => format!("{kind} #{}", request.seq.0),
        priority => format!("{kind} #{} pri {priority}", request.seq.0),
    }
}

#[cfg(test)]
mod tests {
    use latchwork_cache::DirtyBounds;
    use latchwork_latch::{QueuedRequests, Seq};
    use latchwork_verbs::{GlobalAddr, MemoryNodeId};

    use super::*;

    fn node(id: u8) -> ComputeNodeId {
        ComputeNodeId::new(id).expect("a valid id")
    }

    fn said(message: LatchMessage, dirty: DirtyBounds) -> String {
        let addr = GlobalAddr::new(MemoryNodeId(0), 0x1_0000);
        let mut body = LineMessage { dirty, message }.encode();
        // The address of the line, and the first message of the first worker.
        (body[1], body[2]) = (addr.bits(), 1);
        describe(&Wire { from: node(4), body })
    }

    fn request(priority: u8) -> InvalidationRequest {
        let (from, asked, seq) = (node(3), node(2), Seq(9));
        InvalidationRequest { from, asked, kind: RequestKind::Read, seq, priority, buffer: 0 }
    }

    #[test]
    fn every_kind_of_message_has_words_for_what_it_says() {
        let none = DirtyBounds::EMPTY;
        let own = |priority| {
            LatchMessage::Request(InvalidationRequest { from: node(4), ..request(priority) })
        };
        assert_eq!(said(own(0), none), "ask Read #9");
        assert_eq!(said(own(2), none), "ask Read #9 pri 2");
        assert_eq!(
            said(LatchMessage::Request(request(2)), none),
            "pass on C3 Read #9 pri 2 (asked C2)"
        );
        let answer = |asked| LatchMessage::Answer { asked, seq: Seq(1), answer: Answer::Released };
        assert_eq!(said(answer(node(4)), none), "Released #1");
        assert_eq!(said(answer(node(2)), none), "Released #1 (asked C2)");
        assert_eq!(said(LatchMessage::Settled { seq: Seq(7) }, none), "settled #7");
        let (by, seq) = (node(4), Seq(7));
        assert_eq!(said(LatchMessage::Pledged { by, asked: node(4), seq }, none), "pledged #7");
        assert_eq!(
            said(LatchMessage::Pledged { by, asked: node(2), seq }, none),
            "pledged #7 (asked C2)"
        );
        assert_eq!(said(LatchMessage::Taken { by, seq }, none), "taken #7");
        assert_eq!(said(LatchMessage::GaveUp { by, seq }, none), "gave up #7");
        let travelling: QueuedRequests = [request(0), request(1)].into_iter().collect();
        let grant = LatchMessage::Grant {
            asked: node(4),
            seq: Seq(7),
            mode: GrantMode::Exclusive,
            travelling,
        };
        assert_eq!(
            said(grant, DirtyBounds::of(32..40)),
            "grant Exclusive #7 dirty 32..40 with C3 Read #9 (asked C2) and C3 Read #9 pri 1 (asked C2)"
        );
    }

    #[test]
    fn what_is_no_message_about_a_line_is_said_to_be_none() {
        let wire = Wire { from: node(1), body: [0xff; Wire::WORDS] };
        assert!(describe(&wire).starts_with("no message about a line"));
    }
}
