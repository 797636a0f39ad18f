//! User messages: messages of the layers above. They travel like messages of the protocol, and this
//! crate delivers them unread.

use latchwork_coherence::{Letter, Mail, MailBox, MemoryError};
use latchwork_verbs::{BATCH_MAX, ComputeNodeId, Message as Wire, Request as Verb, Target};

use crate::Worker;
use crate::wire::MAIL;
use crate::worker_core::Inner;

impl Mail for Worker {
    fn node(&self) -> ComputeNodeId {
        self.inner.node.id
    }

    fn post_letters(&self, to: ComputeNodeId, letters: &[Letter]) -> Result<(), MemoryError> {
        let inner = &self.inner;
        let target = Target::Compute(to, inner.node.arena.0);
        let wire = |letter: &Letter| {
            let mut body = [MAIL; Wire::WORDS];
            body[1..].copy_from_slice(letter);
            Verb::Send(Wire { from: inner.node.id, body })
        };
        for batch in letters.chunks(BATCH_MAX) {
            let verbs: Vec<Verb> = batch.iter().map(wire).collect();
            inner.counters.letters.add(batch.len() as u64);
            inner.port.post_unreported(target, &verbs)?;
        }
        Ok(())
    }

    fn set_mail_box(&self, mail_box: MailBox) -> bool {
        self.inner.node.mail_box.set(mail_box).is_ok()
    }
}

impl Inner {
    /// Handles a message that is not part of the protocol: a user message, or a message from a peer
    /// of another version, which is ignored.
    pub(crate) fn received_mail(&self, wire: &Wire) {
        let [MAIL, letter @ ..] = &wire.body else { return };
        if let Some(costs) = self.costs {
            self.handle.charge(costs.message);
        }
        if let Some(mail_box) = self.node.mail_box.get() {
            mail_box(wire.from, letter);
        }
    }
}
