//! [`Line`]: one node's part in the ownership of one line, as a state machine.
//!
//! Here is its state and what it does next; `give` is about giving the line up, `ask` about
//! operations that complete, questions and answers, `pledge` about taking shared lines over;
//! `rename` is for models.

mod ask;
mod give;
mod pledge;
mod rename;

use latchwork_verbs::ComputeNodeId;
use smallvec::SmallVec;

use crate::message::{Answer, Message, Remembered, Request, RequestKind};
use crate::{Action, Event, Hold, LocalCopy, NodeSet, Rules, Seq, Want, WordOp};

/// Where the machine stands between events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// Nothing is under way.
    Rest,
    /// An operation on the word is in flight.
    Operating(WordOp),
    /// Questions are out; the nodes of `open` have not answered, those of `pledged` wait for a
    /// report. What the answers so far say of the try: it is in vain if one refused.
    Asking { open: NodeSet, pledged: NodeSet, refused: Refused },
    /// Refused: waiting before the next try.
    Pausing,
    /// The line was given back for others, who have to look for it at the word: leaving them the
    /// time to get there.
    StandingBack,
    /// The copy is pledged to a writer, and its report has not come. The bit is in the word.
    /// `pausing`: it was pledged in a pause that is not over.
    Pledged { to: ComputeNodeId, seq: Seq, priority: u8, pausing: bool },
}

/// Why a try to get the line is in vain: the strongest reason that an answer gave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Refused {
    /// It is not, so far.
    No,
    /// Somebody has nothing to give.
    Dropped,
    /// Somebody has locked it.
    Busy,
}

/// One node's part in the ownership of one line.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Line {
    me: ComputeNodeId,
    hold: Hold,
    phase: Phase,
    want: Option<Want>,
    /// The own bit is in the word as a registered wait.
    registered: bool,
    /// A grant whose giver has not reported its operation complete.
    unsettled: bool,
    /// The report came before the grant.
    settled_early: bool,
    seq: Seq,
    priority: u8,
    /// It has met a lock since it began to want the line. Whoever has locked the line to read, and
    /// is to write it, gives way to nobody, so this node does, whatever its priority.
    met_lock: bool,
    remembered: Remembered,
    /// Readers served by the downgrade in flight, or the writer served by the hand-over in flight.
    served: SmallVec<[(ComputeNodeId, Seq); 4]>,
}

impl Line {
    /// A line at rest. `seq` is the number of the last question that this node asked about it, or
    /// any number when all its questions about the line have been answered.
    pub fn at_rest(me: ComputeNodeId, hold: Hold, seq: Seq) -> Self {
        Line {
            me,
            hold,
            phase: Phase::Rest,
            want: None,
            registered: false,
            unsettled: false,
            settled_early: false,
            seq,
            priority: 0,
            met_lock: false,
            remembered: Remembered::new(),
            served: SmallVec::new(),
        }
    }

    /// What the node holds.
    pub fn hold(&self) -> Hold {
        self.hold
    }

    /// The number of the last question.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Whether nothing is under way or remembered: [`Line::at_rest`] with the same hold and number
    /// stands for this machine.
    pub fn is_at_rest(&self) -> bool {
        self.phase == Phase::Rest
            && self.want.is_none()
            && !self.unsettled
            && self.remembered.is_empty()
    }

    /// Whether the node has no copy and nothing is under way that could write into its frame.
    pub fn is_idle(&self) -> bool {
        let nothing_comes = matches!(self.phase, Phase::Rest | Phase::StandingBack);
        self.hold == Hold::Nothing && nothing_comes && self.want.is_none()
    }

    /// Whether requests wait for local code to let go of the line: report [`Event::Serve`] then.
    pub fn is_blocked(&self) -> bool {
        !self.remembered.is_empty() && self.can_serve()
    }

    /// Whether requests of other nodes are remembered.
    pub fn is_asked_for(&self) -> bool {
        !self.remembered.is_empty()
    }

    /// The requests of other nodes that this one is to answer, in the order in which they came.
    pub fn remembered(&self) -> &[Request] {
        &self.remembered
    }

    /// Whether local code waits for the line.
    pub fn is_wanted(&self) -> bool {
        self.want.is_some()
    }

    /// Whether a question of this node to `peer` is open.
    pub fn is_asking(&self, peer: ComputeNodeId) -> bool {
        matches!(self.phase, Phase::Asking { open, .. } if open.contains(peer))
    }

    /// Whether questions of this node are open, all of them to nodes of this set.
    pub fn asks_only(&self, peers: NodeSet) -> bool {
        matches!(self.phase, Phase::Asking { open, .. } if !open.is_empty() && open.less(peers).is_empty())
    }

    /// Whether it pauses before it asks for the line again: [`Event::Retry`] ends that.
    pub fn is_pausing(&self) -> bool {
        self.phase == Phase::Pausing
    }

    /// Whether it leaves the line, which it gave back, to others for a while: [`Event::Retry`] ends
    /// that.
    pub fn stands_back(&self) -> bool {
        self.phase == Phase::StandingBack
    }

    /// Takes in one event. What is to be done is appended to `out`.
    pub fn step(
        &mut self,
        rules: &Rules,
        event: Event,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        let asked = match &event {
            Event::Received(Message::Request(request)) => Some(*request),
            _ => None,
        };
        match event {
            Event::Want(want) => self.want = self.want.max(Some(want)),
            Event::Evict => return self.evict(copy, out),
            Event::Completed { op, old } => self.completed(rules, op, old, copy, out),
            Event::Received(message) => self.received(rules, message, copy, out),
            Event::Retry => match &mut self.phase {
                Phase::Pausing => {
                    self.phase = Phase::Rest;
                    self.raise_priority(rules);
                }
                Phase::StandingBack => self.phase = Phase::Rest,
                Phase::Pledged { pausing, .. } if *pausing => {
                    *pausing = false;
                    self.raise_priority(rules);
                }
                _ => {}
            },
            Event::Unsent(to) => self.unask(to, out),
            Event::Serve => {}
        }
        self.advance(rules, copy, out);
        // Told only when it could not be served at once, so that the common case is one message.
        if let Some(request) = asked.filter(|request| self.remembered.contains(request)) {
            answer(&request, Answer::Queued, out);
        }
    }

    fn advance(&mut self, rules: &Rules, copy: &mut impl LocalCopy, out: &mut Vec<Action>) {
        if self.want.is_some_and(|want| want.is_met_by(self.hold)) {
            let starves = rules.aging && rules.starved_at > 0 && self.priority >= rules.starved_at;
            if starves && self.want == Some(Want::Exclusive) {
                copy.set_starved(self.priority);
            }
            self.want = None;
            self.forget_refusals();
        }
        if !rules.binding && self.want.is_some() {
            self.break_pledge(copy);
        }
        self.serve(rules, copy, out);
        if self.phase != Phase::Rest || self.unsettled {
            return;
        }
        let op = match (self.want, self.hold) {
            (None, _) => return,
            (Some(_), Hold::Nothing) if self.registered => WordOp::Poll,
            (Some(Want::Shared), Hold::Nothing) => WordOp::AcquireShared,
            (Some(Want::Exclusive), Hold::Nothing) => WordOp::AcquireExclusive,
            (Some(Want::Exclusive), Hold::Shared) => {
                if !self.may_upgrade(rules, out) {
                    return;
                }
                WordOp::Upgrade
            }
            (Some(_), _) => return,
        };
        self.start(op, out);
    }

    fn start(&mut self, op: WordOp, out: &mut Vec<Action>) {
        debug_assert!(!matches!(self.phase, Phase::Operating(_)), "R1: one operation at a time");
        self.phase = Phase::Operating(op);
        out.push(Action::Post(op));
    }

    /// Whether the node may claim a shared line exclusively: only when no remembered writer comes
    /// before it. Those behind it are sent away, so that nobody waits for them while they wait.
    fn may_upgrade(&mut self, rules: &Rules, out: &mut Vec<Action>) -> bool {
        if self.remembered.iter().any(|r| self.must_give_way_to(rules, r)) {
            return false;
        }
        for request in std::mem::take(&mut self.remembered) {
            answer(&request, Answer::Dropped, out);
        }
        true
    }

    /// The order among nodes that hold the line shared and all want to write it.
    fn must_give_way_to(&self, rules: &Rules, request: &Request) -> bool {
        // While it asks itself, it could not serve whom it remembers: two would wait for each
        // other.
        let by_lock = self.met_lock && matches!(self.phase, Phase::Rest | Phase::Pausing);
        let mine = (self.priority_of_questions(rules), self.me);
        request.kind == RequestKind::Write && (by_lock || (request.priority, request.from) > mine)
    }

    fn is_upgrading(&self) -> bool {
        self.hold == Hold::Shared
            && match self.phase {
                Phase::Operating(op) => {
                    matches!(op, WordOp::Upgrade | WordOp::UpgradeOver(_))
                }
                // Whether or not it wishes so still: it waits for the answers, and those whom it
                // asked go by the order, too.
                Phase::Asking { .. } => true,
                Phase::Pausing => self.want == Some(Want::Exclusive),
                Phase::Rest | Phase::StandingBack | Phase::Pledged { .. } => false,
            }
    }

    /// A wish has ended. Where questions are open for it, others compare what they say with their
    /// own until they are answered.
    fn forget_refusals(&mut self) {
        self.met_lock = false;
        if self.hold == Hold::Exclusive || !matches!(self.phase, Phase::Asking { .. }) {
            self.priority = 0;
        }
    }
}

fn answer(request: &Request, answer: Answer, out: &mut Vec<Action>) {
    let message = Message::Answer { asked: request.asked, seq: request.seq, answer };
    out.push(Action::Send { to: request.from, message });
}
