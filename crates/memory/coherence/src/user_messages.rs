//! [`UserMessages`]: user messages between compute nodes, beside the coherent memory.

use std::sync::Arc;

use latchwork_verbs::ComputeNodeId;

use crate::MemoryError;

/// The words of one user message.
pub type UserMessage = [u64; USER_MESSAGE_WORDS];

/// The number of words of a user message: a message of the fabric, without the one word by which
/// the protocol recognizes user messages.
pub const USER_MESSAGE_WORDS: usize = 13;

/// A function for the user messages that arrive for a compute node, with the sender and the words.
/// The thread of the node that takes a message from the inbox calls the function. So the function
/// must be short and must not wait.
pub type MessageHandler = Arc<dyn Fn(ComputeNodeId, &UserMessage) + Send + Sync>;

/// User messages to the other compute nodes, over the fabric of the coherent memory. A user message
/// costs as much as a message of the protocol. Code uses user messages to send work to the node
/// with the data.
///
/// Messages may arrive in any order. A message may arrive late, twice or never when the fabric has
/// faults or a node is dead. A node without a [function](UserMessages::set_message_handler) for
/// messages discards them.
pub trait UserMessages {
    /// This node.
    fn node(&self) -> ComputeNodeId;

    /// Posts user messages to another node. The outcome is not reported.
    ///
    /// # Errors
    /// An error of the post, for example when no such node exists. Earlier messages of the call may
    /// have been posted.
    fn post_messages(&self, to: ComputeNodeId, letters: &[UserMessage]) -> Result<(), MemoryError>;

    /// Sets the function for messages that arrive for this node. The first call decides. Returns
    /// whether this call was the first.
    fn set_message_handler(&self, mail_box: MessageHandler) -> bool;
}
