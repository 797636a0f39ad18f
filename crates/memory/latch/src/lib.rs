//! The latch word, and the ownership protocol of a line as a pure state machine.
//!
//! Ownership of a line lives in one 64-bit word on its memory node ([`LatchWord`]). Every compute
//! node runs one [`Line`] per line that it deals with: events go in, actions come out. There is no
//! I/O here and no clock, so the model checker and the engine drive this same code.
//!
//! ```text
//!   local code ── Want, Evict, Serve ──►┌────────┐── Post(WordOp) ──► fabric ── Completed ──┐
//!                                       │  Line  │── Send, Forward ─► other nodes           │
//!   other nodes ──── Received ─────────►└────────┘◄──────────────────────────────────────────┘
//!                                           │ publish, promote, try_invalidate, try_demote
//!                                           ▼
//!                                        LocalCopy (the frame)
//! ```
//!
//! # The discipline
//!
//! SELCC (sections 4.3 and 4.4) lets a refused reader take its bit back while the holder may
//! already set it again, and lets the receiver of a hand-over act on the word before the giver's
//! own addition has landed. Both let sums carry into neighbouring fields. The machine keeps the
//! word literally true at every instant instead:
//!
//! - **R1** One operation on the word in flight per node and line.
//! - **R2** A node adds and clears its own bit only, never a set bit, never clears a clear one. A
//!   refused reader's bit stays: a registered wait that turns into ownership when the holder gives
//!   the line up. With [`Rules::takeover`], a writer's compare-and-swap also clears bits that were
//!   pledged to it.
//! - **R3** The exclusive field changes only by compare-and-swap of an exact word in which it is
//!   zero, or by an addition of its holder.
//! - **R4** The receiver of a grant may use the line at once, but posts no operation on its word
//!   and hands it to nobody before the giver has reported its own operation complete (*settled*).
//! - **R5** A question is final: until it has been answered, the asker keeps its bit and its frame.
//!   Every question gets one final answer, and a grant counts for the question that it names.
//!
//! `tests/model` explores all orders of events of two and three nodes that run this code: there is
//! one writer or there are many readers, no copy lacks the last write, the word is true, and from
//! every state everybody can get the line. It also finds what goes wrong without one of the rules.
//!
//! No handler waits: a request is served, remembered, or refused. What a node remembers depends on
//! nothing but its own operation in flight, its local code, and answers that are given at once, and
//! among nodes that upgrade the same line the one with the higher priority (then id) comes first;
//! so there is no circle of waits.
//!
//! ```
//! use latchwork_latch::{LatchWord, WordOp, WordVerb};
//! use latchwork_verbs::ComputeNodeId;
//!
//! let me = ComputeNodeId::new(3).unwrap();
//! let WordVerb::Add(add) = WordOp::AcquireShared.verb(me) else { unreachable!() };
//! assert_eq!(LatchWord::FREE.plus(add), LatchWord::shared_by(me));
//! ```

#![forbid(unsafe_code)]

mod event;
mod inspection;
mod line;
mod message;
mod operation;
mod rules;
mod word;

pub use event::{Action, Event, Hold, LocalCopy, Want};
pub use inspection::Inspection;
pub use line::Line;
pub use message::{
    Answer, GrantMode, Message, REMEMBERED_MAX, Remembered, Request, RequestKind, TRAVELLING_MAX,
};
pub use operation::{WordOp, WordVerb};
pub use rules::{Rules, Seq};
pub use word::{LatchWord, NodeSet};
