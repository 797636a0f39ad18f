//! The machine with other node ids.

use latchwork_verbs::ComputeNodeId;

use super::{Line, Phase};
use crate::message::{InvalidationRequest, LatchMessage};
use crate::{LatchWord, NodeSet, WordOp};

impl Line {
    /// The same machine in a world in which node `id` is called `name(id)`. Models treat worlds
    /// that differ only by node ids as one world.
    #[must_use]
    pub fn renamed(&self, name: &impl Fn(ComputeNodeId) -> ComputeNodeId) -> Line {
        // The pattern names all fields, so that a new field with node ids is not missed.
        let Line {
            me,
            hold,
            phase,
            want,
            registered,
            unsettled,
            settled_early,
            seq,
            priority,
            met_lock,
            remembered,
            served,
        } = self;
        let phase = match *phase {
            Phase::Rest => Phase::Rest,
            Phase::Operating(op) => Phase::Operating(op.renamed(name)),
            Phase::Asking { open, pledged, refused } => {
                Phase::Asking { open: open.renamed(name), pledged: pledged.renamed(name), refused }
            }
            Phase::Pausing => Phase::Pausing,
            Phase::StandingBack => Phase::StandingBack,
            Phase::Pledged { to, seq, priority, pausing } => {
                Phase::Pledged { to: name(to), seq, priority, pausing }
            }
        };
        Line {
            me: name(*me),
            hold: *hold,
            phase,
            want: *want,
            registered: *registered,
            unsettled: *unsettled,
            settled_early: *settled_early,
            seq: *seq,
            priority: *priority,
            met_lock: *met_lock,
            remembered: remembered.iter().map(|request| request.renamed(name)).collect(),
            served: served.iter().map(|&(to, seq)| (name(to), seq)).collect(),
        }
    }
}

impl WordOp {
    /// The same operation where node `id` is called `name(id)`; see [`Line::renamed`].
    #[must_use]
    pub fn renamed(self, name: &impl Fn(ComputeNodeId) -> ComputeNodeId) -> WordOp {
        match self {
            WordOp::HandOver(to) => WordOp::HandOver(name(to)),
            WordOp::Inherit(word) => WordOp::Inherit(word.renamed(name)),
            WordOp::DowngradeFor(reader) => WordOp::DowngradeFor(name(reader)),
            WordOp::TakeOver(from) => WordOp::TakeOver(from.renamed(name)),
            WordOp::UpgradeOver(from) => WordOp::UpgradeOver(from.renamed(name)),
            other => other,
        }
    }
}

impl NodeSet {
    fn renamed(self, name: &impl Fn(ComputeNodeId) -> ComputeNodeId) -> NodeSet {
        let bit = |id| LatchWord::shared_by(name(id)).bits();
        let bits = self.iter().fold(0, |bits, id| bits | bit(id));
        LatchWord::from_bits(bits).shared()
    }
}

impl LatchWord {
    /// The same word where node `id` is called `name(id)`; see [`Line::renamed`]. A reserved id
    /// reads as no node.
    #[must_use]
    pub fn renamed(self, name: &impl Fn(ComputeNodeId) -> ComputeNodeId) -> LatchWord {
        let shared =
            self.shared().iter().fold(0, |bits, id| bits | LatchWord::shared_by(name(id)).bits());
        let exclusive = self.exclusive().map_or(0, |id| LatchWord::exclusively(name(id)).bits());
        LatchWord::from_bits(exclusive | shared)
    }
}

impl InvalidationRequest {
    fn renamed(self, name: &impl Fn(ComputeNodeId) -> ComputeNodeId) -> InvalidationRequest {
        InvalidationRequest { from: name(self.from), asked: name(self.asked), ..self }
    }
}

impl LatchMessage {
    /// The same message where node `id` is called `name(id)`; see [`Line::renamed`].
    #[must_use]
    pub fn renamed(&self, name: &impl Fn(ComputeNodeId) -> ComputeNodeId) -> LatchMessage {
        match self {
            LatchMessage::Request(request) => LatchMessage::Request(request.renamed(name)),
            &LatchMessage::Answer { asked, seq, answer } => {
                LatchMessage::Answer { asked: name(asked), seq, answer }
            }
            &LatchMessage::Grant { asked, seq, mode, ref travelling } => LatchMessage::Grant {
                asked: name(asked),
                seq,
                mode,
                travelling: travelling.iter().map(|request| request.renamed(name)).collect(),
            },
            &LatchMessage::Settled { seq } => LatchMessage::Settled { seq },
            &LatchMessage::Pledged { by, asked, seq } => {
                LatchMessage::Pledged { by: name(by), asked: name(asked), seq }
            }
            &LatchMessage::Taken { by, seq } => LatchMessage::Taken { by: name(by), seq },
            &LatchMessage::GaveUp { by, seq } => LatchMessage::GaveUp { by: name(by), seq },
        }
    }
}
