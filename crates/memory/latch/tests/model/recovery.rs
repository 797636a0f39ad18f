//! The steps of a recovery from the death of one node, and the versions of the bytes that it needs.
//!
//! ```text
//!   death ─► Fence ─► each: LetGo ─► Mark ─► Close ─► claimed ─► MendField ─► Forget
//!                 └──────────── MendBit, at any time ───────────────┘
//! ```
//!
//! - **Fence**: operations of the dead node took effect until here, and the rest never will. Its
//!   messages may still arrive, each at a node that has not let go.
//! - **Let go**: the node answers what it has queued, takes nothing more of the dead node, and is
//!   [quiet](latchwork_latch::Rules::quiet). Behind what it has sent, it sends each other node a
//!   mark.
//! - **Mark**: the node has all first marks, and no forward of its own is in doubt. It sends a
//!   second mark. A mark counts when all messages before it have arrived: see [`Round`].
//! - **Close**: the node has all second marks. What is open to it is lost ([`Event::Lost`]). It has
//!   *claimed* when its line is clear of the dead node.
//! - **Mend**: a living node clears what the word says of the dead node, by a compare-and-swap of
//!   the exact word. So a look at the word and the mending are one step here.
//!
//! # Versions
//!
//! One client is *mortal*. A write of the mortal node that no other node has seen may be undone by
//! its death, and nothing else. So contents are ordered ([`Bytes`]): `Stale` content lacks what
//! another node has read or written. `Unseen` content lacks only writes of the mortal node, and
//! `Latest` lacks none. As long as the mortal node lives, a copy to use must be the latest. After
//! its death, a copy to use must not be stale. What a living node reads counts as seen from then
//! on. Content that no node can tell apart has one number, so there are finitely many.

use latchwork_latch::{
    Event, Hold, LatchMessage, LatchWord, Line, NodeSet, Rules, Seq, Want, WordOp,
};
use latchwork_verbs::ComputeNodeId;

use crate::frame::{Bytes, Frame};
use crate::round::{Recovery, Round};
use crate::world::{Breach, Flight, Node, World};

/// A step of the recovery.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stride {
    Fence,
    LetGo { at: u8 },
    Mark { at: u8 },
    Close { at: u8 },
    Look,
    MendBit,
    MendField,
    Forget,
}

/// Whether an operation of the node may report a word with the dead node in it, or a request to the
/// dead node is open. Such an operation may have found the word before it was mended, and its node
/// may have claimed before.
fn knows(node: &Node, dead: ComputeNodeId) -> bool {
    let found = |flight: &Flight| {
        flight.op.names(dead)
            || flight.old.exclusive() == Some(dead)
            || flight.old.shared().contains(dead)
    };
    node.flights.iter().any(found) || node.line.is_asking(dead)
}

impl World {
    // ---- the steps ------------------------------------------------------------------------------

    /// The mortal node dies. Its operations in flight, and the messages that it has sent, may take
    /// effect as long as nothing forbids it.
    pub(crate) fn die_to_be_recovered(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let dead = node.id;
        node.dead = true;
        node.flights.retain(|flight| flight.is_under_way());
        node.line = Line::at_rest(dead, Hold::Nothing, Seq(0));
        node.frame = Frame::EMPTY;
        (node.wanted, node.pausing, node.awaited, node.unsettled) = (None, false, 0, 0);
        self.wire.retain(|packet| packet.to != dead);
    }

    /// The mortal node is dead, and not forgotten.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovery.is_some_and(|recovery| !recovery.forgotten && self.is_dead(recovery.mortal))
    }

    /// Whether messages name their senders: until the dead node is forgotten.
    pub(crate) fn is_marked(&self) -> bool {
        self.recovery.is_some_and(|recovery| !recovery.forgotten)
    }

    /// The steps that are possible.
    pub(crate) fn strides(&self) -> impl Iterator<Item = Stride> {
        let mut strides = Vec::new();
        if let Some(recovery) = self.recovery.filter(|_| self.is_recovering()) {
            self.strides_of(recovery, &mut strides);
        }
        strides.into_iter()
    }

    fn strides_of(&self, Recovery { mortal, fenced, found, .. }: Recovery, out: &mut Vec<Stride>) {
        if !fenced {
            return out.push(Stride::Fence);
        }
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.dead) {
            let at = number as u8;
            match node.round {
                Round::Apart => out.push(Stride::LetGo { at }),
                Round::First if !self.has_marks(node, Round::First) => {}
                Round::First
                    if node.line.gives(NodeSet::EMPTY)
                        && self.breach != Some(Breach::MarksInDoubt) => {}
                Round::First if self.breach == Some(Breach::OneRound) => {
                    out.push(Stride::Close { at });
                }
                Round::First => out.push(Stride::Mark { at }),
                Round::Second if self.has_marks(node, Round::Second) => {
                    out.push(Stride::Close { at });
                }
                Round::Second | Round::Closed | Round::Claimed => {}
            }
        }
        let all_claimed = self.living().all(|node| node.round == Round::Claimed);
        let bit = self.word.shared().contains(mortal);
        let field = self.word.exclusive() == Some(mortal);
        if self.breach == Some(Breach::MendsByAddition) {
            out.extend((bit && !found).then_some(Stride::Look));
            out.extend(found.then_some(Stride::MendBit));
        } else if bit {
            out.push(Stride::MendBit);
        }
        if field && (all_claimed || self.breach == Some(Breach::MendsBeforeClaims)) {
            out.push(Stride::MendField);
        }
        let unknown = !self.living().any(|node| knows(node, mortal))
            || self.breach == Some(Breach::ForgetsAtOnce);
        if all_claimed && !bit && !field && !found && unknown {
            out.push(Stride::Forget);
        }
    }

    fn living(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.dead)
    }

    /// Whether the marks with which `round` begins have come from all living nodes, and all
    /// messages before them.
    fn has_marks(&self, of: &Node, round: Round) -> bool {
        let before = |sender: Option<(ComputeNodeId, Round)>| sender.is_some_and(|s| s.1 < round);
        self.living().all(|node| node.round >= round)
            && !self.wire.iter().any(|packet| packet.to == of.id && before(packet.sender))
    }

    pub(crate) fn stride(&mut self, rules: &Rules, stride: Stride) {
        let Some(recovery) = &mut self.recovery else { return };
        let dead = recovery.mortal;
        match stride {
            Stride::Fence => {
                recovery.fenced = true;
                let gone = self.nodes.iter_mut().filter(|node| node.dead);
                gone.for_each(|node| node.flights.clear());
            }
            Stride::LetGo { at } => {
                let at = usize::from(at);
                let Node { id, round, .. } = &mut self.nodes[at];
                let me = *id;
                *round = Round::First;
                let of_dead =
                    |sender: Option<(ComputeNodeId, _)>| sender.map(|s| s.0) == Some(dead);
                self.wire.retain(|packet| packet.to != me || !of_dead(packet.sender));
                self.feed(rules, at, Event::LetGo, Bytes::Stale);
            }
            Stride::Mark { at } => self.nodes[usize::from(at)].round = Round::Second,
            Stride::Close { at } => self.close(rules, at.into(), dead),
            Stride::Look => recovery.found = true,
            Stride::MendBit => {
                recovery.found = false;
                let bit = LatchWord::shared_by(dead).bits();
                self.word = self.word.plus(bit.wrapping_neg());
            }
            Stride::MendField => self.word = LatchWord::shared_among(self.word.shared()),
            Stride::Forget => {
                recovery.forgotten = true;
                for node in &mut self.nodes {
                    node.round = Round::Apart;
                    node.pledged = node.pledged.filter(|_| !node.dead);
                }
                self.wire.iter_mut().for_each(|packet| packet.sender = None);
                self.wire.sort_unstable();
            }
        }
    }

    fn close(&mut self, rules: &Rules, at: usize, dead: ComputeNodeId) {
        let Node { line, round, awaited, unsettled, pledged, .. } = &mut self.nodes[at];
        (*round, *awaited) = (Round::Closed, 0);
        let orphan = *unsettled > 0 && line.hold() == Hold::Shared;
        *unsettled = 0;
        let orphaned_pledge = pledged.filter(|(to, _)| *to == dead);
        *pledged = pledged.filter(|(to, _)| *to != dead);
        match (self.breach, orphaned_pledge) {
            (Some(Breach::DropsUnsettledCopy), _) if orphan => self.drop_copy(rules, at),
            (Some(Breach::RestoresBlindly), Some((by, seq))) => {
                let event = Event::Received(LatchMessage::GaveUp { by, seq });
                return self.feed(rules, at, event, Bytes::Stale);
            }
            _ => {}
        }
        self.feed(rules, at, Event::Lost, Bytes::Stale);
    }

    /// A reader drops its copy, and waits as a reader whose bit the word has.
    fn drop_copy(&mut self, rules: &Rules, at: usize) {
        let Node { id, line, frame, .. } = &mut self.nodes[at];
        *line = Line::at_rest(*id, Hold::Nothing, line.seq());
        *frame = Frame::EMPTY;
        self.want(rules, at, Want::Shared);
        self.nodes[at].flights.clear();
        let own = LatchWord::shared_by(self.nodes[at].id).bits();
        let old = self.word.plus(own.wrapping_neg());
        let completed = Event::Completed { op: WordOp::AcquireShared, old };
        self.feed(rules, at, completed, self.memory);
    }

    /// The rules of a node at its present place in the recovery.
    pub(crate) fn rules_of(&self, rules: &Rules, at: usize) -> Rules {
        let quiet = matches!(self.nodes[at].round, Round::First | Round::Second);
        let dead = self.recovery.map(|recovery| recovery.mortal).filter(|&id| self.is_dead(id));
        Rules { quiet, gone: dead.map_or(NodeSet::EMPTY, NodeSet::of), ..*rules }
    }

    /// A node whose line is clear has claimed, and contents get their numbers anew.
    pub(crate) fn settle_recovery(&mut self) {
        let Some(recovery) = self.recovery else { return };
        for node in &mut self.nodes {
            if node.round == Round::Closed && node.line.is_clear_of(recovery.mortal) {
                node.round = Round::Claimed;
            }
        }
        self.number_contents(recovery);
    }

    // ---- versions -------------------------------------------------------------------------------

    /// The oldest content that local code may use.
    pub(crate) fn least(&self) -> Bytes {
        match self.recovery {
            Some(recovery) if self.is_dead(recovery.mortal) => Bytes::Unseen(0),
            _ => Bytes::Latest,
        }
    }

    pub(crate) fn contents(&mut self) -> impl Iterator<Item = &mut Bytes> {
        let in_nodes = self.nodes.iter_mut().flat_map(|Node { frame, flights, .. }| {
            let in_flights = flights.iter_mut().flat_map(|flight| {
                let Flight { bytes, source, .. } = flight;
                [bytes, source]
            });
            in_flights.chain([&mut frame.bytes])
        });
        let in_packets = self.wire.iter_mut().filter_map(|packet| packet.forwarded.as_mut());
        in_nodes.chain(in_packets).chain([&mut self.memory])
    }

    /// The mortal node writes. Only its own copy has the write.
    pub(crate) fn write_unseen(&mut self, at: usize) {
        for bytes in self.contents().filter(|bytes| **bytes == Bytes::Latest) {
            *bytes = Bytes::Unseen(u8::MAX);
        }
        self.nodes[at].frame.bytes = Bytes::Latest;
        self.wire.sort_unstable();
    }

    /// Older content than what a node other than the mortal one may use is stale: that node has
    /// seen, or is taken to see at once, what it may use. The numbers of the rest are made small.
    fn number_contents(&mut self, recovery: Recovery) {
        let others = self.nodes.iter().filter(|node| node.id != recovery.mortal);
        let held = others.filter(|node| node.frame.hold != Hold::Nothing);
        let seen = held.map(|node| node.frame.bytes).max().unwrap_or(Bytes::Stale);
        self.contents().filter(|bytes| **bytes < seen).for_each(|bytes| *bytes = Bytes::Stale);
        let unseen = |bytes: &Bytes| matches!(bytes, Bytes::Unseen(_));
        let mut all: Vec<Bytes> = self.contents().map(|bytes| *bytes).collect();
        all.sort_unstable();
        all.dedup();
        let latest = recovery.fenced && !all.contains(&Bytes::Latest);
        all.retain(unseen);
        let last = all.len();
        for bytes in self.contents().filter(|bytes| unseen(bytes)) {
            let place = all.iter().position(|other| other == bytes).expect("just collected");
            let newest = latest && place + 1 == last;
            *bytes = if newest { Bytes::Latest } else { Bytes::Unseen(place as u8) };
        }
        self.wire.sort_unstable();
    }

    // ---- what holds -----------------------------------------------------------------------------

    /// While the word names the mortal node as the holder, and no other node has a copy: memory has
    /// all that other nodes have seen.
    pub(crate) fn memory_has_what_the_holder_got(&self) -> bool {
        let Some(Recovery { mortal, .. }) = self.recovery else { return true };
        let others = || self.nodes.iter().filter(|node| node.id != mortal);
        self.word.exclusive() != Some(mortal)
            || others().any(|node| node.frame.hold != Hold::Nothing)
            || self.memory != Bytes::Stale
    }

    /// Later no word, operation, question or pledge names the dead node.
    pub(crate) fn nothing_of_the_dead_is_left(&self) -> bool {
        let Some(Recovery { mortal, forgotten: true, .. }) = self.recovery else { return true };
        let in_word = self.word.shared().contains(mortal) || self.word.exclusive() == Some(mortal);
        let in_node = |node: &Node| {
            knows(node, mortal)
                || node.line.remembered().iter().any(|request| request.from == mortal)
                || node.line.pledged_to() == Some(mortal)
        };
        !in_word && !self.nodes.iter().any(in_node)
    }
}
