//! [`Participant`]: the part of another node's transaction that runs here.
//!
//! ```text
//!   Active ──prepare──► Held ──validate──► Voted ──commit──► ended
//!      │                  │ (nothing to        │
//!      │                  │  validate: at once)└─abort, requested─► ended
//!      └──── abort, or silence of the coordinator ──────────► ended
//! ```
//!
//! A participant also ends when a step fails, when it has only read and is validated last, and when
//! it commits alone.

use latchwork_coherence::LineLocks;
use latchwork_history::Record;
use latchwork_runtime::Time;
use latchwork_txn::{Prepared, Transaction, Validated};

use crate::fragments::Place;
use crate::message::Reply;

/// The part of another node's transaction that runs here.
pub(crate) struct Participant<M: LineLocks> {
    pub(crate) coordinator: Place,
    /// The number of the last request.
    pub(crate) number: u32,
    /// The answer to the last request, once there is one.
    pub(crate) answer: Option<Reply>,
    pub(crate) stage: Stage<M>,
    /// The participant must abort when its present task has ended.
    pub(crate) aborts: bool,
    /// When the coordinator was last heard of, the last step ended, or the decision was last
    /// requested.
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
