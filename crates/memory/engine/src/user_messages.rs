//! User messages: messages of the layers above. User messages travel like messages of the protocol,
//! and this crate does not interpret them.

use latchwork_coherence::{MemoryError, MessageHandler, UserMessage, UserMessages};
use latchwork_verbs::{BATCH_MAX, ComputeNodeId, Message as Wire, Target, WorkRequest as Verb};

use crate::envelope::MAIL;
use crate::lines::Worker;
use crate::worker_core::WorkerCore;

const _: () = assert!(
    latchwork_coherence::USER_MESSAGE_WORDS + 1 == Wire::WORDS,
    "a user message fills the words behind its mark"
);

impl UserMessages for Worker {
    fn node(&self) -> ComputeNodeId {
        self.core.node.id
    }

    fn post_messages(&self, to: ComputeNodeId, letters: &[UserMessage]) -> Result<(), MemoryError> {
        let core = &self.core;
        let target = Target::Compute(to, core.node.arena.0);
        let wire = |letter: &UserMessage| {
            let mut body = [MAIL; Wire::WORDS];
            body[1..].copy_from_slice(letter);
            Verb::Send(Wire { from: core.node.id, body })
        };
        for batch in letters.chunks(BATCH_MAX) {
            let verbs: Vec<Verb> = batch.iter().map(wire).collect();
            core.counters.letters.add(batch.len() as u64);
            core.port.post_unreported(target, &verbs)?;
        }
        Ok(())
    }

    fn set_message_handler(&self, mail_box: MessageHandler) -> bool {
        self.core.node.message_handler.set(mail_box).is_ok()
    }
}

impl WorkerCore {
    /// Handles a message that is not part of the protocol: a user message, or a message from a peer
    /// of another version, which is ignored.
    pub(crate) fn received_user_message(&self, wire: &Wire) {
        let [MAIL, letter @ ..] = &wire.body else { return };
        if let Some(costs) = self.costs {
            self.handle.charge(costs.message);
        }
        if let Some(mail_box) = self.node.message_handler.get() {
            mail_box(wire.from, letter);
        }
    }
}
