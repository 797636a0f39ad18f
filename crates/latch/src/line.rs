//! [`Line`]: one node's part in the ownership of one line, as a state machine.

use latchwork_verbs::ComputeNodeId;

use crate::message::{Answer, GrantMode, Message, Remembered, Request, RequestKind};
use crate::{LatchWord, NodeSet, Rules, Seq, WordOp};

/// What a node holds of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Hold {
    /// Nothing: no copy may be read.
    Nothing,
    /// A copy to read.
    Shared,
    /// The only copy, to write.
    Exclusive,
}

/// What local code asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Want {
    /// To read.
    Shared,
    /// To write.
    Exclusive,
}

impl Want {
    fn is_met_by(self, hold: Hold) -> bool {
        match self {
            Want::Shared => hold >= Hold::Shared,
            Want::Exclusive => hold == Hold::Exclusive,
        }
    }
}

/// Something that happened to the line at this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Local code wants the line.
    Want(Want),
    /// The frame is wanted for another line.
    Evict,
    /// The operation is complete, forwards included; the word was `old` before.
    Completed {
        /// The operation.
        op: WordOp,
        /// What the atomic returned.
        old: LatchWord,
    },
    /// A message arrived.
    Received(Message),
    /// The pause after refused questions is over.
    Retry,
    /// Local code may have let go of the line.
    Serve,
}

/// Something to do, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Post the operation; report its completion.
    Post(WordOp),
    /// Send the message.
    Send {
        /// The receiver.
        to: ComputeNodeId,
        /// What it says.
        message: Message,
    },
    /// Forward the line into the asker's frame, then send the grant, in one batch. The bytes stay
    /// as they are until the operation posted next is complete.
    Forward {
        /// The request that is granted, with the place of the asker's frame.
        request: Request,
        /// How the line is granted.
        message: Message,
    },
    /// Report [`Event::Retry`] after a pause that fits this priority.
    Pause {
        /// How often the line was refused.
        priority: u8,
    },
    /// The line was given up for a writer of this priority: local readers that come back at once
    /// should hold off for a while (the window of SELCC 5.3.2).
    HoldOff {
        /// The writer's priority.
        priority: u8,
    },
}

/// The node's copy of the line, as the machine sees it. The calls take effect at once.
pub trait LocalCopy {
    /// Fetched or forwarded bytes are in place: let local code use them.
    fn publish(&mut self, hold: Hold);
    /// The shared copy may now be written.
    fn promote(&mut self);
    /// Forbids all use, unless local code is using the copy or has it reserved: then nothing
    /// happens and the result is `false`.
    fn try_invalidate(&mut self) -> bool;
    /// Forbids writing, unless local code is writing or has the copy reserved.
    fn try_demote(&mut self) -> bool;
}

/// Where the machine stands between events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// Nothing is under way.
    Rest,
    /// An operation on the word is in flight.
    Operating(WordOp),
    /// Questions are out; these nodes have not answered.
    Asking { open: NodeSet, dropped: bool },
    /// Refused: waiting before the next try.
    Pausing,
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
    remembered: Remembered,
    /// Readers served by the downgrade in flight, or the writer served by the hand-over in flight.
    served: arrayvec::ArrayVec<(ComputeNodeId, Seq), { crate::REMEMBERED_MAX }>,
}

impl Line {
    /// A line at rest. `seq` is the number of the last question that this node asked about it, or any
    /// number when all its questions about the line have been answered.
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
            remembered: Remembered::new(),
            served: arrayvec::ArrayVec::new(),
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
        self.hold == Hold::Nothing && self.phase == Phase::Rest && self.want.is_none()
    }

    /// Whether requests wait for local code to let go of the line: report [`Event::Serve`] then.
    pub fn is_blocked(&self) -> bool {
        !self.remembered.is_empty() && self.can_serve()
    }

    /// Whether local code waits for the line.
    pub fn is_wanted(&self) -> bool {
        self.want.is_some()
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
            Event::Retry => {
                if self.phase == Phase::Pausing {
                    self.phase = Phase::Rest;
                    self.raise_priority(rules);
                }
            }
            Event::Serve => {}
        }
        self.advance(rules, copy, out);
        // Told only when it could not be served at once, so that the common case is one message.
        if let Some(request) = asked.filter(|request| self.remembered.contains(request)) {
            answer(&request, Answer::Queued, out);
        }
    }

    // ---- what to do next -------------------------------------------------------------------------

    fn advance(&mut self, rules: &Rules, copy: &mut impl LocalCopy, out: &mut Vec<Action>) {
        if self.want.is_some_and(|want| want.is_met_by(self.hold)) {
            self.want = None;
            self.priority = 0;
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
                if !self.may_upgrade(out) {
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
    fn may_upgrade(&mut self, out: &mut Vec<Action>) -> bool {
        if self.remembered.iter().any(|r| self.must_give_way_to(r)) {
            return false;
        }
        for request in std::mem::take(&mut self.remembered) {
            answer(&request, Answer::Dropped, out);
        }
        true
    }

    /// The order among nodes that hold the line shared and all want to write it.
    fn must_give_way_to(&self, request: &Request) -> bool {
        request.kind == RequestKind::Write
            && (request.priority, request.from) > (self.priority, self.me)
    }

    fn is_upgrading(&self) -> bool {
        self.hold == Hold::Shared
            && self.want == Some(Want::Exclusive)
            && match self.phase {
                Phase::Operating(op) => op == WordOp::Upgrade,
                Phase::Asking { .. } | Phase::Pausing => true,
                Phase::Rest => false,
            }
    }

    // ---- giving the line up ----------------------------------------------------------------------

    fn can_serve(&self) -> bool {
        let free = match self.phase {
            Phase::Rest => true,
            // Paused in an upgrade: another writer that comes before this one need not wait.
            Phase::Pausing => self.hold == Hold::Shared,
            _ => false,
        };
        free && !self.unsettled && self.hold != Hold::Nothing
    }

    /// Serves remembered requests, as far as local code permits.
    fn serve(&mut self, rules: &Rules, copy: &mut impl LocalCopy, out: &mut Vec<Action>) {
        if self.remembered.is_empty() || !self.can_serve() {
            return;
        }
        match self.hold {
            Hold::Nothing => {}
            Hold::Shared => self.serve_from_shared(rules, copy, out),
            Hold::Exclusive => self.serve_from_exclusive(rules, copy, out),
        }
    }

    fn serve_from_shared(
        &mut self,
        rules: &Rules,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        // A reader that asks a reader saw the time before a downgrade: its wait is ownership now.
        self.remembered.retain(|request| {
            let stale = request.kind == RequestKind::Read;
            if stale {
                answer(request, Answer::Released, out);
            }
            !stale
        });
        let Some(priority) = self.remembered.iter().map(|r| r.priority).max() else { return };
        if copy.try_invalidate() {
            self.hold = Hold::Nothing;
            if self.phase == Phase::Pausing {
                self.raise_priority(rules);
            }
            out.push(Action::HoldOff { priority });
            self.start(WordOp::ReleaseShared, out);
        }
    }

    fn serve_from_exclusive(
        &mut self,
        rules: &Rules,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        // The highest priority, and the first that came among equals.
        let best = (0..self.remembered.len())
            .rev()
            .max_by_key(|&at| self.remembered[at].priority)
            .expect("somebody is remembered");
        match self.remembered[best].kind {
            RequestKind::Write => {
                if copy.try_invalidate() {
                    self.hold = Hold::Nothing;
                    let request = self.remembered.remove(best);
                    let mut travelling = std::mem::take(&mut self.remembered);
                    // A writer that saw several owners has asked each. What it asked the others must
                    // not come to itself: it waits for those answers before it serves anybody.
                    travelling.retain(|other| {
                        let own = other.from == request.from;
                        if own {
                            answer(other, Answer::Released, out);
                        }
                        !own
                    });
                    self.grant(request, GrantMode::Exclusive, travelling, out);
                    self.start(WordOp::HandOver(request.from), out);
                }
            }
            RequestKind::Read => {
                if copy.try_demote() {
                    self.hold = Hold::Shared;
                    let first = self.remembered[best].from;
                    let all = std::mem::take(&mut self.remembered);
                    for request in all {
                        let serve = rules.registered_wait || request.from == first;
                        if request.kind == RequestKind::Read && serve {
                            self.grant(request, GrantMode::Shared, Remembered::new(), out);
                        } else {
                            self.remembered.push(request);
                        }
                    }
                    let op = if rules.registered_wait {
                        WordOp::Downgrade
                    } else {
                        WordOp::DowngradeFor(first)
                    };
                    self.start(op, out);
                }
            }
        }
    }

    fn grant(
        &mut self,
        request: Request,
        mode: GrantMode,
        travelling: Remembered,
        out: &mut Vec<Action>,
    ) {
        self.served.push((request.from, request.seq));
        let message = Message::Grant { asked: request.asked, seq: request.seq, mode, travelling };
        out.push(Action::Forward { request, message });
    }

    fn evict(&mut self, copy: &mut impl LocalCopy, out: &mut Vec<Action>) {
        if !self.is_at_rest() || self.hold == Hold::Nothing || !copy.try_invalidate() {
            return;
        }
        let op = match self.hold {
            Hold::Exclusive => WordOp::ReleaseExclusive,
            _ => WordOp::ReleaseShared,
        };
        self.hold = Hold::Nothing;
        self.start(op, out);
    }

    // ---- completions -----------------------------------------------------------------------------

    fn completed(
        &mut self,
        rules: &Rules,
        op: WordOp,
        old: LatchWord,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        if op == WordOp::Undo {
            return;
        }
        debug_assert_eq!(self.phase, Phase::Operating(op), "a completion of an unknown operation");
        self.phase = Phase::Rest;
        match op {
            WordOp::AcquireShared | WordOp::Poll => match old.exclusive() {
                None => {
                    self.registered = false;
                    self.acquired(Hold::Shared, copy);
                }
                Some(holder) => {
                    if rules.registered_wait {
                        self.registered = true;
                    } else {
                        out.push(Action::Post(WordOp::Undo));
                    }
                    self.ask(rules, NodeSet::of(holder), RequestKind::Read, out);
                }
            },
            WordOp::AcquireExclusive => {
                if old == LatchWord::FREE {
                    self.acquired(Hold::Exclusive, copy);
                } else {
                    self.ask_owners(rules, old, out);
                }
            }
            WordOp::Upgrade => {
                if old == LatchWord::shared_by(self.me) {
                    self.hold = Hold::Exclusive;
                    copy.promote();
                } else if rules.invalidate || !copy.try_invalidate() {
                    self.ask_owners(rules, old, out);
                } else {
                    // Nobody could be asked to let go, and others may be waiting in the same way.
                    self.hold = Hold::Nothing;
                    self.start(WordOp::ReleaseShared, out);
                }
            }
            WordOp::ReleaseShared | WordOp::ReleaseExclusive => {
                self.send_away(Answer::Released, out);
            }
            WordOp::Downgrade | WordOp::DowngradeFor(_) => self.report_settled(out),
            WordOp::HandOver(_) => {
                self.report_settled(out);
                self.send_away(Answer::Released, out);
            }
            WordOp::Undo => {}
        }
    }

    fn acquired(&mut self, hold: Hold, copy: &mut impl LocalCopy) {
        self.hold = hold;
        copy.publish(hold);
    }

    fn report_settled(&mut self, out: &mut Vec<Action>) {
        for (to, seq) in self.served.drain(..) {
            out.push(Action::Send { to, message: Message::Settled { seq } });
        }
    }

    fn send_away(&mut self, how: Answer, out: &mut Vec<Action>) {
        for request in std::mem::take(&mut self.remembered) {
            answer(&request, how, out);
        }
    }

    // ---- questions and answers -------------------------------------------------------------------

    fn ask_owners(&mut self, rules: &Rules, word: LatchWord, out: &mut Vec<Action>) {
        let owners = match word.exclusive() {
            Some(holder) => NodeSet::of(holder),
            None => word.shared(),
        };
        self.ask(rules, owners.without(self.me), RequestKind::Write, out);
    }

    fn ask(&mut self, rules: &Rules, whom: NodeSet, kind: RequestKind, out: &mut Vec<Action>) {
        self.seq = self.seq.next(rules);
        self.settled_early = false;
        if whom.is_empty() || !rules.invalidate {
            // Only a word that no discipline can produce names no owner: try again later.
            return self.pause(rules, out);
        }
        self.phase = Phase::Asking { open: whom, dropped: false };
        for asked in whom.iter() {
            let request = Request {
                from: self.me,
                asked,
                kind,
                seq: self.seq,
                priority: self.priority,
                buffer: 0,
            };
            out.push(Action::Send { to: asked, message: Message::Request(request) });
        }
    }

    /// The priority is raised when the pause ends: of two nodes that upgrade and ask each other, both
    /// must compare the same two priorities, or each would refuse the other, time after time.
    fn pause(&mut self, rules: &Rules, out: &mut Vec<Action>) {
        self.phase = Phase::Pausing;
        out.push(Action::Pause { priority: self.raised_priority(rules) });
    }

    fn raised_priority(&self, rules: &Rules) -> u8 {
        self.priority.saturating_add(1).min(rules.priority_max)
    }

    fn raise_priority(&mut self, rules: &Rules) {
        self.priority = self.raised_priority(rules);
    }

    fn received(
        &mut self,
        rules: &Rules,
        message: Message,
        copy: &mut impl LocalCopy,
        out: &mut Vec<Action>,
    ) {
        match message {
            Message::Request(request) => self.asked(request, out),
            Message::Answer { answer: Answer::Queued, .. } => {}
            Message::Answer { asked, seq, answer } => {
                self.answered(rules, asked, seq, answer == Answer::Dropped, out);
            }
            Message::Grant { asked, seq, mode, travelling } => {
                debug_assert_eq!(seq, self.seq, "a grant that nobody asked for");
                self.registered = false;
                self.unsettled = rules.settle && !self.settled_early;
                self.settled_early = false;
                let hold = match mode {
                    GrantMode::Shared => Hold::Shared,
                    GrantMode::Exclusive => Hold::Exclusive,
                };
                self.acquired(hold, copy);
                debug_assert!(self.remembered.is_empty(), "who holds nothing remembers nothing");
                self.remembered = travelling;
                self.answered(rules, asked, seq, false, out);
            }
            Message::Settled { seq } => {
                if seq != self.seq {
                    return;
                }
                if self.unsettled {
                    self.unsettled = false;
                } else {
                    self.settled_early = matches!(self.phase, Phase::Asking { .. });
                }
            }
        }
    }

    /// One of the nodes that were asked has given its final answer.
    fn answered(
        &mut self,
        rules: &Rules,
        asked: ComputeNodeId,
        seq: Seq,
        refused: bool,
        out: &mut Vec<Action>,
    ) {
        let Phase::Asking { open, dropped } = self.phase else { return };
        if seq != self.seq || !open.contains(asked) {
            return;
        }
        let open = open.without(asked);
        let dropped = dropped || refused;
        if !open.is_empty() {
            self.phase = Phase::Asking { open, dropped };
        } else if self.want.is_none_or(|want| want.is_met_by(self.hold)) {
            self.phase = Phase::Rest;
        } else if dropped {
            self.pause(rules, out);
        } else {
            self.phase = Phase::Rest;
            self.raise_priority(rules);
        }
    }

    fn asked(&mut self, request: Request, out: &mut Vec<Action>) {
        let keep = match (self.hold, self.phase) {
            // Giving the line up: the answer comes when that is complete.
            (Hold::Nothing, Phase::Operating(op)) => {
                matches!(op, WordOp::ReleaseShared | WordOp::ReleaseExclusive | WordOp::HandOver(_))
            }
            (Hold::Nothing, _) => false,
            (Hold::Shared, _) if self.is_upgrading() => self.must_give_way_to(&request),
            (Hold::Shared | Hold::Exclusive, _) => true,
        };
        if !keep || self.remembered.is_full() {
            return answer(&request, Answer::Dropped, out);
        }
        self.remembered.push(request);
    }
}

fn answer(request: &Request, answer: Answer, out: &mut Vec<Action>) {
    let message = Message::Answer { asked: request.asked, seq: request.seq, answer };
    out.push(Action::Send { to: request.from, message });
}
