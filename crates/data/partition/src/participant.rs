//! [`Participant`]: the part of another node's transaction that runs here.
//!
//! ```text
//!   Active ──prepare──► Held ──validate──► Voted ──commit──► ended
//!      │                  │ (nothing to        │
//!      │                  │  validate: at once)└─abort, requested─► ended
//!      └──── abort, or silence of the coordinator ──────────► ended
//! ```
//!
//! A participant also ends when its prepare or its vote fails, and when it commits alone. A
//! participant that has only read ends with a validation after all parts have prepared.

use latchwork_coherence::LineLocks;
use latchwork_record::Record;
use latchwork_runtime::Time;
use latchwork_txn::{Prepared, Transaction, Validated};

use crate::fragments::Place;
use crate::message::Reply;

/// The part of another node's transaction that runs here.
pub(crate) struct Participant<M: LineLocks> {
    pub(crate) coordinator: Place,
    /// The number of the last request.
    pub(crate) number: u32,
    /// The answer to the last request; `None` while a task works on it.
    pub(crate) answer: Option<Reply>,
    pub(crate) stage: Stage<M>,
    /// The participant must abort when its present task has ended.
    pub(crate) aborts: bool,
    /// The time of the last of these events: a message of the coordinator, the end of a step, a
    /// request for the decision.
    pub(crate) heard: Time,
    pub(crate) record: Record,
    /// While this value lives, a freed line that the participant may see is not reused.
    pub(crate) _operation: M::Operation,
}

/// The phase of a participant.
pub(crate) enum Stage<M: LineLocks> {
    Active(Transaction<M>),
    /// A task works for this participant.
    Busy,
    /// The participant has locked and staged.
    Held(Prepared<M>),
    /// The participant has voted and waits for the decision.
    Voted(Validated<M>),
}
