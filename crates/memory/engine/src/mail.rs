//! User messages: messages of the layers above. They travel like messages of the protocol, and this
//! crate delivers them unread.

use latchwork_coherence::{Letter, Mail, MailBox, MemoryError};
use latchwork_verbs::{BATCH_MAX, ComputeNodeId, Message as Wire, Request as Verb, Target};

use crate::envelope::MAIL;
use crate::protocol::CoherenceProtocol;
use crate::worker::Worker;
use crate::worker_core::WorkerCore;

impl<P: CoherenceProtocol> Mail for Worker<P> {
    fn node(&self) -> ComputeNodeId {
        self.inner.core.node.id
    }

    fn post_letters(&self, to: ComputeNodeId, letters: &[Letter]) -> Result<(), MemoryError> {
        let core = &self.inner.core;
        let target = Target::Compute(to, core.node.arena.0);
        let wire = |letter: &Letter| {
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

    fn set_mail_box(&self, mail_box: MailBox) -> bool {
        self.inner.core.node.mail_box.set(mail_box).is_ok()
    }
}

impl WorkerCore {
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
