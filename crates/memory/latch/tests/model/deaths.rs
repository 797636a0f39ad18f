//! Nodes that die, and requests to them that are never sent.
//!
//! The fabric knows of a node's death at once. After the death, no message is sent to that node any
//! more. The sender of a request that was not sent is notified at any later time
//! ([`World::refuse`]). Messages and operations of the dead node may arrive and take effect, or
//! not.
//!
//! Living nodes cannot repair two kinds of damage: an answer, a report or a settled notice that
//! never comes, and a registered wait for a line that the dead node holds.
//! Such a world is [spoilt](World::spoilt): there the engine gives the line up, and accesses end at
//! their deadlines. All safety properties must hold in a spoilt world too, but a node need not get
//! the line.

use latchwork_latch::{Event, Hold, LatchMessage, Line, NodeSet, Rules, Seq, WordOp};
use latchwork_verbs::ComputeNodeId;

use crate::frame::{Bytes, Frame};
use crate::questions::questions_are_one;
use crate::world::{Breach, Node, Packet, World, is_own_question};

impl World {
    /// A node dies. `lost`: its requests and operations in flight have no effect.
    pub(crate) fn die(&mut self, at: usize, lost: bool) {
        self.deaths = self.deaths.saturating_sub(1);
        if self.recovery.is_some() {
            return self.die_to_be_recovered(at);
        }
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
            let asks =
                matches!(&packet.message, LatchMessage::Request(request) if request.from == dead);
            !(asks && lost) && (packet.to != dead || is_own_question(packet))
        });
        let reports = |packet: &Packet, to| {
            let (LatchMessage::Taken { by, .. } | LatchMessage::GaveUp { by, .. }) = packet.message
            else {
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

    /// A request to a dead node was not sent, and the requester is notified.
    pub(crate) fn refuse(&mut self, rules: &Rules, packet: usize) {
        let Packet { to, message, .. } = self.wire.remove(packet);
        let LatchMessage::Request(request) = message else { unreachable!("only questions") };
        let asks = |node: &Node| node.id == request.from && !node.dead;
        let Some(at) = self.nodes.iter().position(asks) else { return };
        let all = self.nodes.iter().fold(NodeSet::EMPTY, |all, node| all.with(node.id));
        let node = &mut self.nodes[at];
        if !node.line.is_asking(to) || !node.line.can_unask() {
            // The engine of the requester gives the line up.
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

    /// A message to a dead node is dropped.
    pub(crate) fn miss(&mut self, packet: &Packet) {
        self.spoilt |= match &packet.message {
            // The request was sent on, so no node is notified.
            LatchMessage::Request(_) => true,
            LatchMessage::Grant { travelling, .. } => !travelling.is_empty(),
            // Its sender stays pledged.
            LatchMessage::Pledged { .. } => true,
            LatchMessage::Answer { .. } | LatchMessage::Settled { .. } => false,
            LatchMessage::Taken { .. } | LatchMessage::GaveUp { .. } => false,
        };
    }
}
