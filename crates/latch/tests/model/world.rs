//! The world of one line: its latch word, the memory node's copy, a few compute nodes, and
//! everything that is on its way between them. The nodes are the machines of `latchwork_latch`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrayvec::ArrayVec;
use latchwork_latch::{
    Action, Event, Hold, LatchWord, Line, LocalCopy, Message, Rules, Seq, Want, WordOp, WordVerb,
};
use latchwork_verbs::ComputeNodeId;

/// The most compute nodes that a world has room for.
pub(crate) const NODES_MAX: usize = 4;

/// How many operations of one node can be in flight. The discipline needs one (R1); the published
/// scheme leaves its undos in flight.
pub(crate) const FLIGHTS_MAX: usize = 3;

/// What a copy of the line holds. All that matters of the bytes is whether the last write is in them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Bytes {
    /// The last write is missing.
    Stale,
    /// All writes are in them.
    Latest,
}

/// The frame of one node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Frame {
    /// What local code may do with it.
    pub(crate) hold: Hold,
    pub(crate) bytes: Bytes,
    /// Published for local code that has waited and has not come yet.
    pub(crate) reserved: bool,
}

/// How far an operation has come. Its parts take effect in order, each at a time of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Stage {
    /// The write-back has not landed.
    WriteBack,
    /// The atomic has not landed.
    Atomic,
    /// The completion has not been reported.
    Report,
}

/// An operation on the word in flight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Flight {
    pub(crate) op: WordOp,
    pub(crate) stage: Stage,
    /// What the atomic returned.
    pub(crate) old: LatchWord,
    /// The bytes that are written back, or that were read.
    pub(crate) bytes: Bytes,
}

/// A message on its way, with the bytes that were forwarded ahead of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Packet {
    pub(crate) to: ComputeNodeId,
    pub(crate) message: Message,
    pub(crate) forwarded: Option<Bytes>,
}

/// One compute node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Node {
    pub(crate) id: ComputeNodeId,
    pub(crate) line: Line,
    pub(crate) frame: Frame,
    pub(crate) flights: ArrayVec<Flight, FLIGHTS_MAX>,
    /// What local code waits for.
    pub(crate) wanted: Option<Want>,
    /// The engine was told to report a retry.
    pub(crate) pausing: bool,
    /// Who owes a final answer to a question, as bits: told apart from what the machine believes.
    awaited: u64,
    /// Grants received less settled notices received.
    unsettled: i8,
}

/// What must never happen, seen in a single step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Fault {
    /// An addition to a word on which it carries, or which does not name its sender (R2, R3).
    Misapplied(ComputeNodeId, WordOp),
    /// A copy was published that lacks the last write.
    StalePublished(ComputeNodeId),
    /// A second operation of a node on the word (R1).
    TwoInFlight(ComputeNodeId),
    /// An answer that answers no question.
    Unasked(ComputeNodeId),
    /// A question asked while an older one had left a trace (R5).
    AskedTooEarly(ComputeNodeId),
    /// A line was forwarded into a frame that is in use.
    ForwardedIntoUse(ComputeNodeId),
    /// An assertion of the machine failed.
    Panicked(ComputeNodeId),
}

/// The line, and everybody who has to do with it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) word: LatchWord,
    /// What the memory node holds.
    pub(crate) memory: Bytes,
    pub(crate) nodes: ArrayVec<Node, NODES_MAX>,
    /// In no order: kept sorted, so that equal sets are equal.
    pub(crate) wire: Vec<Packet>,
    pub(crate) fault: Option<Fault>,
}

impl World {
    /// A line that nobody holds.
    pub(crate) fn new(ids: &[u8]) -> Self {
        let node = |&id: &u8| {
            let id = ComputeNodeId::new(id).expect("a valid id");
            Node {
                id,
                line: Line::at_rest(id, Hold::Nothing, Seq(0)),
                frame: Frame { hold: Hold::Nothing, bytes: Bytes::Stale, reserved: false },
                flights: ArrayVec::new(),
                wanted: None,
                pausing: false,
                awaited: 0,
                unsettled: 0,
            }
        };
        World {
            word: LatchWord::FREE,
            memory: Bytes::Latest,
            nodes: ids.iter().map(node).collect(),
            wire: Vec::new(),
            fault: None,
        }
    }

    fn index(&self, id: ComputeNodeId) -> usize {
        self.nodes.iter().position(|node| node.id == id).expect("a node of this world")
    }

    /// Local code of a node starts to wait for the line.
    pub(crate) fn want(&mut self, rules: &Rules, at: usize, want: Want) {
        let node = &mut self.nodes[at];
        node.wanted = node.wanted.max(Some(want));
        self.feed(rules, at, Event::Want(want), Bytes::Stale);
    }

    /// The frame of a node is wanted for another line.
    pub(crate) fn evict(&mut self, rules: &Rules, at: usize) {
        self.feed(rules, at, Event::Evict, Bytes::Stale);
    }

    /// The pause of a node is over.
    pub(crate) fn retry(&mut self, rules: &Rules, at: usize) {
        self.nodes[at].pausing = false;
        self.feed(rules, at, Event::Retry, Bytes::Stale);
    }

    /// Local code that had waited uses the copy and lets go of it.
    pub(crate) fn access(&mut self, rules: &Rules, at: usize) {
        self.nodes[at].frame.reserved = false;
        self.feed(rules, at, Event::Serve, Bytes::Stale);
    }

    /// Local code of a node writes: from now on every other copy lacks the last write.
    pub(crate) fn write(&mut self, at: usize) {
        self.memory = Bytes::Stale;
        for (other, node) in self.nodes.iter_mut().enumerate() {
            node.frame.bytes = if other == at { Bytes::Latest } else { Bytes::Stale };
            for flight in &mut node.flights {
                flight.bytes = Bytes::Stale;
            }
        }
        for packet in &mut self.wire {
            packet.forwarded = packet.forwarded.map(|_| Bytes::Stale);
        }
        self.wire.sort_unstable();
    }

    /// The next part of an operation in flight takes effect.
    pub(crate) fn progress(&mut self, rules: &Rules, at: usize, flight: usize) {
        let node = &mut self.nodes[at];
        let mut moving = node.flights[flight];
        match moving.stage {
            Stage::WriteBack => {
                self.memory = moving.bytes;
                for flight in self.nodes.iter_mut().flat_map(|node| &mut node.flights) {
                    // Whoever has landed an atomic and not reported yet may read before or after.
                    if flight.stage == Stage::Report {
                        flight.bytes = flight.bytes.min(moving.bytes);
                    }
                }
                moving.bytes = Bytes::Stale;
                moving.stage = Stage::Atomic;
            }
            Stage::Atomic => {
                if misapplied(self.word, moving.op, node.id) {
                    self.fault = self.fault.or(Some(Fault::Misapplied(node.id, moving.op)));
                }
                moving.old = self.word;
                self.word = match moving.op.verb(node.id) {
                    WordVerb::Add(add) => self.word.plus(add),
                    WordVerb::CompareSwap { expected, desired } if self.word == expected => desired,
                    WordVerb::CompareSwap { .. } => self.word,
                };
                moving.stage = Stage::Report;
                // What a refused node reads is never used.
                if moving.op.reads_line() && was_acquired(moving) {
                    moving.bytes = self.memory;
                }
            }
            Stage::Report => {
                node.flights.remove(flight);
                let event = Event::Completed { op: moving.op, old: moving.old };
                return self.feed(rules, at, event, moving.bytes);
            }
        }
        self.nodes[at].flights[flight] = moving;
    }

    /// A message arrives.
    pub(crate) fn deliver(&mut self, rules: &Rules, packet: usize) {
        let Packet { to, message, forwarded } = self.wire.remove(packet);
        let at = self.index(to);
        let node = &mut self.nodes[at];
        let answers = match &message {
            Message::Answer { asked, .. } => Some(*asked),
            Message::Grant { asked, .. } => {
                node.unsettled += 1;
                let reading = node.flights.iter().any(|flight| flight.op.reads_line());
                if node.frame.hold != Hold::Nothing || reading {
                    self.fault = self.fault.or(Some(Fault::ForwardedIntoUse(to)));
                }
                Some(*asked)
            }
            Message::Settled { .. } => {
                node.unsettled -= 1;
                None
            }
            Message::Request(_) => None,
        };
        if let Some(asked) = answers {
            let bit = 1 << asked.index();
            if node.awaited & bit == 0 {
                self.fault = self.fault.or(Some(Fault::Unasked(to)));
            }
            node.awaited &= !bit;
        }
        self.feed(rules, at, Event::Received(message), forwarded.unwrap_or(Bytes::Stale));
    }

    /// Gives an event to a machine and carries out its actions. `incoming` is what the frame holds if
    /// the machine publishes it.
    fn feed(&mut self, rules: &Rules, at: usize, event: Event, incoming: Bytes) {
        let mut out = Vec::new();
        let node = &mut self.nodes[at];
        let mut copy = Local { frame: &mut node.frame, wanted: &mut node.wanted, incoming, stale: false };
        let line = &mut node.line;
        let stepped = catch_unwind(AssertUnwindSafe(|| line.step(rules, event, &mut copy, &mut out)));
        let fault = match stepped {
            Ok(()) if copy.stale => Some(Fault::StalePublished(node.id)),
            Ok(()) => None,
            Err(_) => Some(Fault::Panicked(node.id)),
        };
        self.fault = self.fault.or(fault);
        self.carry_out(rules, at, out);
    }

    fn carry_out(&mut self, rules: &Rules, at: usize, actions: Vec<Action>) {
        let before = self.nodes[at].awaited;
        let mut sent = false;
        for action in actions {
            let Frame { bytes, .. } = self.nodes[at].frame;
            match action {
                Action::Post(op) => self.post(rules, at, op, bytes),
                // Only told so that nobody is taken for dead: nothing may depend on it.
                Action::Send { message: Message::Answer { answer, .. }, .. }
                    if answer == latchwork_latch::Answer::Queued => {}
                Action::Send { to, message } => {
                    if let Message::Request(request) = &message {
                        if before != 0 || self.has_trace_of_question(rules, at) {
                            let fault = Fault::AskedTooEarly(request.from);
                            self.fault = self.fault.or(Some(fault));
                        }
                        self.nodes[at].awaited |= 1 << to.index();
                    }
                    self.send(Packet { to, message, forwarded: None });
                    sent = true;
                }
                Action::Forward { request, message } => {
                    self.send(Packet { to: request.from, message, forwarded: Some(bytes) });
                    sent = true;
                }
                Action::Pause { .. } => self.nodes[at].pausing = true,
                Action::HoldOff { .. } => {}
            }
        }
        if sent {
            self.wire.sort_unstable();
        }
        let frame = &mut self.nodes[at].frame;
        if frame.hold == Hold::Nothing {
            frame.bytes = Bytes::Stale;
        }
    }

    fn send(&mut self, packet: Packet) {
        self.wire.push(packet);
    }

    fn post(&mut self, rules: &Rules, at: usize, op: WordOp, bytes: Bytes) {
        let node = &mut self.nodes[at];
        if rules.registered_wait && !node.flights.is_empty() {
            self.fault = self.fault.or(Some(Fault::TwoInFlight(node.id)));
            return;
        }
        let stage = if op.writes_back() { Stage::WriteBack } else { Stage::Atomic };
        let bytes = if op.writes_back() { bytes } else { Bytes::Stale };
        node.flights.push(Flight { op, stage, old: LatchWord::FREE, bytes });
    }

    fn has_trace_of_question(&self, rules: &Rules, at: usize) -> bool {
        rules.settle && self.nodes[at].unsettled != 0
    }
}

/// Whether an operation that has landed has acquired the line.
fn was_acquired(flight: Flight) -> bool {
    match flight.op {
        WordOp::AcquireShared | WordOp::Poll => flight.old.exclusive().is_none(),
        WordOp::AcquireExclusive => flight.old == LatchWord::FREE,
        _ => false,
    }
}

/// Whether an operation would not do to `word` what it says: its sum would carry, or the word does
/// not say what its sender believes (R2, R3).
fn misapplied(word: LatchWord, op: WordOp, me: ComputeNodeId) -> bool {
    let own_bit = word.shared().contains(me);
    let holder = word.exclusive() == Some(me);
    match op {
        WordOp::AcquireShared => own_bit,
        WordOp::Poll | WordOp::ReleaseShared | WordOp::Undo => !own_bit,
        WordOp::AcquireExclusive | WordOp::Upgrade => false,
        WordOp::ReleaseExclusive | WordOp::HandOver(_) => !holder,
        WordOp::Downgrade => !holder || own_bit,
        WordOp::DowngradeFor(reader) => !holder || own_bit || word.shared().contains(reader),
    }
}

struct Local<'a> {
    frame: &'a mut Frame,
    wanted: &'a mut Option<Want>,
    incoming: Bytes,
    stale: bool,
}

impl Local<'_> {
    fn reserve(&mut self) {
        let met = match (*self.wanted, self.frame.hold) {
            (None, _) | (_, Hold::Nothing) => false,
            (Some(Want::Shared), _) => true,
            (Some(Want::Exclusive), hold) => hold == Hold::Exclusive,
        };
        if met {
            *self.wanted = None;
            self.frame.reserved = true;
        }
    }
}

impl LocalCopy for Local<'_> {
    fn publish(&mut self, hold: Hold) {
        self.frame.hold = hold;
        self.frame.bytes = self.incoming;
        self.stale |= self.incoming == Bytes::Stale;
        self.reserve();
    }

    fn promote(&mut self) {
        self.frame.hold = Hold::Exclusive;
        self.stale |= self.frame.bytes == Bytes::Stale;
        self.reserve();
    }

    fn try_invalidate(&mut self) -> bool {
        if self.frame.reserved {
            return false;
        }
        self.frame.hold = Hold::Nothing;
        true
    }

    fn try_demote(&mut self) -> bool {
        if self.frame.reserved {
            return false;
        }
        self.frame.hold = Hold::Shared;
        true
    }
}
