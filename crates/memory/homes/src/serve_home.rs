//! The home of a line, at an agent.

use latchwork_cache::DirtyBounds;
use latchwork_directory::{Bytes, Home, Message, Party, Rules, Sent};
use latchwork_engine::Bytes as Ahead;
use latchwork_verbs::{ComputeNodeId, LocalBuffer};

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
    }

    /// Sends a message of the home. A node without a connection is dead or has left.
    fn answer(&self, site: &mut Site<'_>, sent: Sent) {
        let Sent { to, bytes, message } = sent;
        let Party::Node(receiver) = to else { return };
        let (worker, addr) = (site.worker, site.addr);
        let node = &*worker.node;
        let body = encode(to, true, &message, DirtyBounds::EMPTY);
        let Bytes::Line { buffer } = bytes else {
            let _ = worker.send(addr, receiver, body, false);
            return;
        };
        let len = node.cache().line_size() as u32;
        let local = LocalBuffer { region: node.arena(), offset: addr.offset(), len };
        let group = site.in_flight.lines.borrow_mut().insert(addr);
        let ahead = Ahead { remote: buffer, local };
        match worker.forward(addr, receiver, body, ahead, group) {
            Ok(()) => site.line.forwards += 1,
            Err(_) => _ = site.in_flight.lines.borrow_mut().remove(group),
        }
    }
}
