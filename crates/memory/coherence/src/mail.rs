//! [`Mail`]: words from one compute node to another, beside the coherent memory.

use std::sync::Arc;

use latchwork_verbs::ComputeNodeId;

use crate::MemoryError;

/// Words that travel together.
pub type Letter = [u64; LETTER_WORDS];

/// Words of a letter: what a message of the fabric holds, without one by which the protocol knows
/// that it is none of its own.
pub const LETTER_WORDS: usize = 13;

/// Gets what arrives for a compute node. Called by whichever worker of the node takes a message
/// from its inbox, while it polls: it has to be short, and must not wait.
pub type MailBox = Arc<dyn Fn(ComputeNodeId, &Letter) + Send + Sync>;

/// Letters to the other compute nodes, over the fabric that the coherent memory uses, at what it
/// costs there. For code that sends work to where the data is.
///
/// A letter that was posted arrives in any order with others; late, twice or never when the fabric
/// has faults or a node is gone; and never if nobody has set up a [box](Mail::set_mail_box) there.
pub trait Mail {
    /// This node.
    fn node(&self) -> ComputeNodeId;

    /// Posts letters to another node. Nobody is told of their end.
    ///
    /// # Errors
    /// When there is no such node.
    fn post_letters(&self, to: ComputeNodeId, letters: &[Letter]) -> Result<(), MemoryError>;

    /// Says what happens to letters that arrive for this node, of which the first to say so
    /// decides; returns whether it was the first.
    fn set_mail_box(&self, mail_box: MailBox) -> bool;
}
