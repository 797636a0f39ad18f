//! The home of a line, at an agent or at a compute node.
//!
//! A compute node that is the home of a line asks itself by a call: no message, and no verb. It
//! copies the bytes between its frame and its memory itself.

use latchwork_cache::DirtyBounds;
use latchwork_directory::{Bytes, Home, Message, Party, Rules, Sent};
use latchwork_engine::Bytes as Ahead;
use latchwork_verbs::{ComputeNodeId, LocalBuffer, Target, VerbError};

use crate::directory::{Directory, Site};
use crate::wire::encode;

impl Directory {
    /// Feeds a message to the home's machine, and sends its answers.
    pub(crate) fn serve_home(&self, site: &mut Site<'_>, from: ComputeNodeId, message: Message) {
        self.step_home(site, |home, rules, out| home.step(rules, from, message, out));
    }

    /// Takes a step of the home's machine, and sends its answers.
    pub(crate) fn step_home(
        &self,
        site: &mut Site<'_>,
        step: impl FnOnce(&mut Home, &Rules, &mut Vec<Sent>),
    ) {
        let mut answers = site.in_flight.sent.take();
        let home = site.line.home.get_or_insert_default();
        step(home, &self.rules, &mut answers);
        if let Some(holders) = &self.holders {
            holders.note(site.addr, home);
        }
        if home.is_absent() {
            site.line.home = None;
        }
        for sent in answers.drain(..) {
            self.answer(site, sent);
        }
        site.in_flight.sent.replace(answers);
        self.hand_over(site);
    }

    /// Sends a message of the home. A node without a connection is dead or has left.
    fn answer(&self, site: &mut Site<'_>, sent: Sent) {
        let Sent { to, bytes, message } = sent;
        let Party::Node(receiver) = to else { return };
        let (worker, addr) = (site.worker, site.addr);
        let node = &*worker.node;
        if receiver == node.id() {
            if let (Bytes::Line { .. }, Some(id)) = (bytes, site.local.frame)
                && let Some(line) = self.place.bytes(addr, 0..node.cache().line_size())
            {
                node.cache().line(id).copy_from(line);
                worker.charge_copy(node.cache().line_size());
            }
            site.line.own.push_back((Party::Node(receiver), message));
            return;
        }
        let body = encode(to, true, &message, DirtyBounds::EMPTY);
        let Bytes::Line { buffer } = bytes else {
            let _ = worker.send(addr, receiver, body, false);
            return;
        };
        let len = node.cache().line_size() as u32;
        let memory = self.place.key(node.arena());
        let local = LocalBuffer { region: memory, offset: addr.offset(), len };
        let group = site.in_flight.lines.borrow_mut().insert(addr);
        let ahead = Ahead { region: node.arena(), remote: buffer, local };
        match worker.forward(addr, receiver, body, ahead, group) {
            Ok(()) => site.line.forwards += 1,
            Err(_) => _ = site.in_flight.lines.borrow_mut().remove(group),
        }
    }

    /// Gives this node's own home a message. The changes in `dirty`, if there are any, are in the
    /// memory before.
    pub(crate) fn send_to_own_home(
        &self,
        site: &mut Site<'_>,
        message: Message,
        changes: DirtyBounds,
    ) -> Result<(), VerbError> {
        let cache = site.worker.node.cache();
        let Some(memory) = self.place.bytes(site.addr, 0..cache.line_size()) else {
            return Err(VerbError::UnknownTarget { target: Target::Memory(site.addr.node()) });
        };
        if let Some(id) = site.local.frame
            && !changes.is_empty()
        {
            let range = changes.range();
            memory.slice(range.clone()).copy_from(cache.line(id).slice(range.clone()));
            site.worker.charge_copy(range.len());
            site.worker.counters.bytes_written_back.add(range.len() as u64);
        }
        site.line.own.push_back((Party::Home, message));
        Ok(())
    }

    /// Hands this node the messages that it has for itself. A step that a message causes adds
    /// further ones.
    pub(crate) fn hand_over(&self, site: &mut Site<'_>) {
        if site.line.own.is_empty() || std::mem::replace(&mut site.line.hands_over, true) {
            return;
        }
        let me = site.worker.node.id();
        while let Some((to, message)) = site.line.own.pop_front() {
            match to {
                Party::Home => self.serve_home(site, me, message),
                Party::Node(_) => self.take(site, Party::Home, message),
            }
        }
        site.line.hands_over = false;
    }
}
