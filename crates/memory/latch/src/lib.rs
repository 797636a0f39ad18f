//! The latch word, and the ownership protocol of a line as a pure state machine.
//!
//! One 64-bit word on the memory node states the ownership of a line ([`LatchWord`]). A compute
//! node runs one [`Line`], the *line machine*, for each line on which the node has work. Work is a
//! want, an operation on the word, a request or a back-off. Events enter the machine, actions leave
//! the machine. The machine does no I/O and reads no clock, so the model checker and the engine run
//! the same code.
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
//! # The word discipline
//!
//! Most changes of the word are additions. In SELCC (sections 4.3 and 4.4), two steps can make such
//! an addition carry into a neighbouring field of the word:
//!
//! - A refused reader clears its bit again, while the holder may already set the same bit.
//! - The receiver of a hand-over changes the word before the giver's own addition has landed.
//!
//! Here five rules ensure that every field of the word is true at every instant:
//!
//! - **R1** A node has at most one operation on the word of a line in flight.
//! - **R2** A node changes only its own shared bit. It sets the bit only while the bit is clear,
//!   and clears the bit only while the bit is set. The bit of a refused reader stays set. Such a
//!   bit is a registered wait, and becomes ownership when the exclusive field becomes zero. With
//!   [`Rules::takeover`], a writer's compare-and-swap also clears the bits that were pledged to the
//!   writer.
//! - **R3** The exclusive field changes in two ways only: by a compare-and-swap of an exact word in
//!   which the field is zero, or by an addition of the holder.
//! - **R4** The receiver of a grant may use the line at once. It posts no operation on the word and
//!   hands the line to no other node before the giver has reported its own operation complete
//!   (*settled*).
//! - **R5** A node cannot withdraw an invalidation request that was sent. The requester keeps its
//!   bit and its frame until the request is answered. Every request to a living node gets one final
//!   answer. A grant names its request, and arrives only while that request is open.
//!
//! `tests/model` explores all orders of events of two and three nodes that run this code, and
//! checks:
//!
//! - The line has one writer or any number of readers.
//! - No usable copy lacks the last write.
//! - The word is true.
//! - From every state, every node can get the line.
//!
//! The model also shows which of these checks fails without R2, R4 or R5.
//!
//! No handler of a message waits: a node serves, queues or refuses a request in the same step.
//! Queued requests make nodes wait for each other. These waits form no circle:
//!
//! 1. A node with open requests and without ownership queues no request.
//! 2. A queued request waits for an operation in flight (of the node, or of its giver by R4) or for
//!    local code of the node. At an upgrading node, the request also waits for the answers to that
//!    node's own requests. At a pledger, the request waits for the writer's report.
//! 3. The nodes that upgrade one line are ordered by priority, then by id. While its operation is
//!    in flight or its requests are open, an upgrading node queues only requests of writers that
//!    come before it in this order.
//! 4. So in a chain of waiting nodes each node comes behind the node that waits for it. The last
//!    node waits for an operation or for local code. `line/pledge.rs` has the same argument for
//!    pledges.
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
mod hold;
mod line;
mod message;
mod operation;
mod probe;
mod rules;
mod word;

pub use event::{Action, Event, LocalCopy};
pub use hold::{Hold, Want};
pub use line::Line;
pub use message::{
    Answer, GrantMode, InvalidationRequest, LatchMessage, QueuedRequests, REMEMBERED_MAX,
    RequestKind, Seq, TRAVELLING_MAX,
};
pub use operation::{WordOp, WordVerb};
pub use probe::WordProbe;
pub use rules::Rules;
pub use word::{LatchWord, NodeSet};
