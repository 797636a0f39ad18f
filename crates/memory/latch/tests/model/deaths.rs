//! Nodes that die, and questions to them that are never sent.
//!
//! A node's death is known to the fabric at once: what has not been sent to it never will be, and
//! who sent a question is told so at any time behind ([`World::refuse`]). What it had sent itself
//! may arrive and take effect, or not.
//!
//! Some of what it leaves no living node can mend: an answer, a report or a settled notice that
//! will not come, a registered wait for what it holds. Such a world is [spoilt](World::spoilt): its
//! engine gives the line up where that is so, and accesses end at their deadlines. Everything must
//! be as right there as elsewhere, but nobody need get the line.

use latchwork_latch::{Event, Hold, Line, Message, NodeSet, Rules, Seq, WordOp};
use latchwork_verbs::ComputeNodeId;

use crate::frame::{Bytes, Frame};
use crate::setting::questions_are_one;
use crate::world::{Breach, Node, Packet, World};

impl World {
    /// A node dies. `lost`: its questions and operations that are on their way go nowhere.
    pub(crate) fn die(&mut self, at: usize, lost: bool) {
        self.deaths = self.deaths.saturating_sub(1);
        let node = &mut self.nodes[at];
        let dead = node.id;
        let serves =
            |op| matches!(op, WordOp::HandOver(_) | WordOp::Downgrade | WordOp::DowngradeFor(_));
        let unsettled = node.flights.iter().any(|flight| serves(flight.op));
        node.flights.retain(|flight| !lost && flight.is_under_way());
        node.dead = true;
        node.line = Line::at_rest(dead, Hold::Nothing, Seq(0));
        node.frame = Frame::EMPTY;
        (node.wanted, node.pausing, node.awaited, node.unsettled) = (None, false, 0, 0);
        self.wire.retain(|packet| {
            let asks = matches!(&packet.message, Message::Request(request) if request.from == dead);
            !(asks && lost) && (packet.to != dead || is_own_question(packet))
        });
        let reports = |packet: &Packet, to| {
            let (Message::Taken { by, .. } | Message::GaveUp { by, .. }) = packet.message else {
                return false;
            };
            packet.to == to && by == dead
        };
        let pledged = self.nodes.iter().any(|node| {
            let to = node.pledged.filter(|_| !node.dead).map(|(to, _)| to);
            to == Some(dead) && !self.wire.iter().any(|packet| reports(packet, node.id))
        });
        self.spoilt |= unsettled || pledged || !questions_are_one(self);
    }

    /// A question to a dead node was not sent, and the one who asked learns of it.
    pub(crate) fn refuse(&mut self, rules: &Rules, packet: usize) {
        let Packet { to, message, .. } = self.wire.remove(packet);
        let Message::Request(request) = message else { unreachable!("only questions") };
        let asks = |node: &Node| node.id == request.from && !node.dead;
        let Some(at) = self.nodes.iter().position(asks) else { return };
        let all = self.nodes.iter().fold(NodeSet::EMPTY, |all, node| all.with(node.id));
        let node = &mut self.nodes[at];
        if !node.line.is_asking(to) || !node.line.can_unask() {
            // Its engine gives the line up.
            self.spoilt = true;
            return;
        }
        node.awaited &= !(1 << to.index());
        node.wanted = None;
        let unsent = match self.breach {
            Some(Breach::UnasksNobody) => NodeSet::EMPTY,
            Some(Breach::UnasksAll) => all,
            _ => NodeSet::of(to),
        };
        self.feed(rules, at, Event::Unsent(unsent), Bytes::Stale);
        let node = &mut self.nodes[at];
        if self.breach == Some(Breach::ForgetsItsCopy) && node.line.is_at_rest() {
            node.line = Line::at_rest(node.id, Hold::Nothing, node.line.seq());
            node.frame = Frame::EMPTY;
        }
    }

    pub(crate) fn is_dead(&self, id: ComputeNodeId) -> bool {
        self.nodes.iter().any(|node| node.id == id && node.dead)
    }

    /// What is sent to a dead node goes nowhere.
    pub(crate) fn miss(&mut self, packet: &Packet) {
        self.spoilt |= match &packet.message {
            // It was sent on, so nobody is told.
            Message::Request(_) => true,
            Message::Grant { travelling, .. } => !travelling.is_empty(),
            // Its sender stays pledged.
            Message::Pledged { .. } => true,
            Message::Answer { .. } | Message::Settled { .. } => false,
            Message::Taken { .. } | Message::GaveUp { .. } => false,
        };
    }
}

/// Whether this is a question from the one who asks to the one that it asks. One that was sent on,
/// and comes back to the node that was asked first, counts as well, though its asker would not be
/// told of it.
pub(crate) fn is_own_question(packet: &Packet) -> bool {
    matches!(&packet.message, Message::Request(request) if request.asked == packet.to)
}
