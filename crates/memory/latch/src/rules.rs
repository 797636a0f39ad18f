//! The rules that a line machine follows. The defaults are the word discipline (R1 to R5 of the
//! [crate]). `settle`, `registered_wait` and `binding` can turn a rule of the discipline
//! off: a test then shows that the model detects the missing rule. The other fields choose a policy
//! or a number.

use latchwork_strict::strict_assert;

use crate::NodeSet;
use crate::message::{Seq, TRAVELLING_MAX};

/// The rules that a node's machines follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rules {
    /// R4: before the giver has reported its operation on the word complete, the receiver of a
    /// grant neither releases the line nor hands it on.
    pub settle: bool,
    /// R2: the bit of a refused reader stays as a registered wait. Off: the reader clears the bit
    /// by another addition while it already requests the line from the holder. The holder sets the
    /// bit again when it serves the reader, as in SELCC 4.3.2 and 4.4.2.
    pub registered_wait: bool,
    /// Refused nodes send invalidation requests to the owners (SELCC). Off: refused nodes only try
    /// again after a back-off, as the plain shared-exclusive latch does (SEL).
    pub invalidate: bool,
    /// An exclusive holder serves a request by a forward with a hand-over, or by a forward with a
    /// downgrade (SELCC 4.4.1 and 4.4.2). Off: the holder writes the line back and releases it, and
    /// the requesters try again (figure 7a). If a transaction has locked the line to read, the
    /// holder downgrades instead.
    pub forwarding: bool,
    /// A sharer answers a writer's request with a pledge of its copy. The writer then takes the
    /// line over from all sharers at once. Off: each sharer releases its copy by its own operation
    /// on the word (SELCC 4.4.3).
    pub takeover: bool,
    /// R2: a pledge binds until the writer's report. Off: the pledger uses its copy again when
    /// local code wants the line.
    pub binding: bool,
    /// Nodes release lines before another node requests them (adaptive release). A node at rest
    /// that does not own a line then answers `Released` to the first request of a requester: most
    /// likely no node owns the line. Off: the node answers `Dropped`, because it has most likely
    /// handed the line to another node. Turn this on only with [`aging`](Rules::aging): the
    /// priority distinguishes a first request from a repeated one.
    pub gives_back: bool,
    /// Request numbers are taken modulo this number, at most 2^14. The number is small in the
    /// model, so that the model has finitely many states.
    pub seq_modulus: u32,
    /// The highest priority. A message has room for at most 31 (SELCC 5.3.2).
    pub priority_max: u8,
    /// A request carries the priority that earlier refusals have brought (SELCC 5.3.2). Off: all
    /// requests have priority 0. An exclusive holder then serves the first to arrive, a sharer the
    /// writer with the highest id.
    pub aging: bool,
    /// A writer is starved when it got the line after at least this many refusals. A starved writer
    /// refuses readers with a priority below the one with which the writer won the line (SELCC
    /// 5.3.2, priority matching). 0: no writer is starved. The value has no effect without
    /// [`aging`](Rules::aging), because the priorities of readers would never rise.
    pub starved_at: u8,
    /// The number of requests that travel with a hand-over, at most [`TRAVELLING_MAX`]. The giver
    /// sends the other requests on after the hand-over. The number is small in the model, which has
    /// few nodes.
    pub travelling_max: u8,
    /// A hand-over writes the changes back in its own batch, before the word names the receiver. So
    /// memory is at least as new as the exclusive holder got the line, and the death of the holder
    /// takes only what that node wrote alone. Off: the changes travel with the line.
    pub survive: bool,
    /// A line looks at its word to resolve what a dead node has left open. Off: an unsettled line
    /// counts as settled, and a pledged copy as not taken. This rule and the next three have no
    /// effect without `survive`.
    pub looks: bool,
    /// A reader whose copy is not settled writes it back for a dead giver. Off: it drops the copy.
    pub reader_claims: bool,
    /// A node that has pledged its copy to a dead writer looks at the word. Off: it uses the copy.
    pub pledger_looks: bool,
    /// A node that takes the place of a dead giver counts all bytes as changed. Off: none.
    pub inherits_changes: bool,
    /// The dead nodes that words may still name. At [`Event::Lost`](crate::Event::Lost) all that
    /// this node waits for has been with one of them.
    pub gone: NodeSet,
    /// This node lets go of a dead node: from [`Event::LetGo`](crate::Event::LetGo) to
    /// [`Event::Lost`](crate::Event::Lost) it sends no request and queues none.
    pub quiet: bool,
}

impl Rules {
    /// The whole word discipline, with the releases of SELCC 4.4.3 in place of takeovers.
    pub const DISCIPLINE: Rules = Rules {
        settle: true,
        registered_wait: true,
        invalidate: true,
        forwarding: true,
        takeover: false,
        binding: true,
        gives_back: false,
        seq_modulus: 1 << 14,
        priority_max: 31,
        aging: true,
        starved_at: 2,
        travelling_max: TRAVELLING_MAX as u8,
        survive: false,
        looks: true,
        reader_claims: true,
        pledger_looks: true,
        inherits_changes: true,
        gone: NodeSet::EMPTY,
        quiet: false,
    };

    /// The word discipline without messages: the shared-exclusive latch.
    pub const LATCH_ONLY: Rules = Rules { invalidate: false, ..Self::DISCIPLINE };
}

impl Default for Rules {
    fn default() -> Self {
        Self::DISCIPLINE
    }
}
const _: () = assert!(Rules::DISCIPLINE.priority_max <= 31, "a message has 5 bits for a priority");
const _: () =
    assert!(Rules::DISCIPLINE.seq_modulus <= 1 << 14, "a message has 14 bits for a request number");
const _: () =
    assert!(Rules::DISCIPLINE.starved_at <= Rules::DISCIPLINE.priority_max, "a writer can starve");
const _: () = assert!(Rules::DISCIPLINE.travelling_max as usize <= TRAVELLING_MAX);
const _: () = assert!(
    Rules::DISCIPLINE.settle && Rules::DISCIPLINE.registered_wait && Rules::DISCIPLINE.binding,
    "the discipline is whole"
);
const _: () = assert!(!Rules::LATCH_ONLY.invalidate && Rules::LATCH_ONLY.registered_wait);

impl Seq {
    pub(crate) fn next(self, rules: &Rules) -> Seq {
        strict_assert!(
            (1..=1 << 16).contains(&rules.seq_modulus),
            "a request number fits into 16 bits"
        );
        strict_assert!(
            u32::from(self.0) < rules.seq_modulus,
            "the last number was of another range"
        );
        Seq(((u32::from(self.0) + 1) % rules.seq_modulus) as u16)
    }
}
