//! The world of one line: its latch word, the memory node's copy, a few compute nodes, and
//! everything in flight between them. The nodes are the machines of `latchwork_latch`.
//!
//! The world permits all orders that a fabric permits. The parts of an operation take effect in
//! order, but each part at any time. Messages arrive in any order. Events of different nodes have
//! no order. The bytes of the line are reduced to whether they contain the last write ([`Bytes`]).

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrayvec::ArrayVec;
use latchwork_latch::{
    Action, Answer, Event, Hold, InvalidationRequest, LatchMessage, LatchWord, Line, Rules, Seq,
    Want, WordOp, WordProbe, WordVerb,
};
use latchwork_verbs::ComputeNodeId;

use crate::frame::{Bytes, Copy, Frame};
use crate::round::{Recovery, Round};

/// The maximum number of operations of one node in flight. The discipline needs one (R1). Without
/// R2, a refused reader has its undo in flight beside the next operation.
const FLIGHTS_MAX: usize = 6;

/// The progress of an operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Stage {
    /// The write-back has not landed.
    WriteBack,
    /// The atomic has not landed.
    Atomic,
    /// The completion has not been reported.
    Report,
    /// The connection failed during the batch. Parts that had not landed never land, and the node
    /// probes the word next.
    Inspect,
}

/// An operation on the word in flight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Flight {
    pub(crate) op: WordOp,
    pub(crate) stage: Stage,
    /// The value that the atomic verb returned.
    pub(crate) old: LatchWord,
    /// The bytes that are written back. For a READ after the atomic verb: the worst bytes that the
    /// READ may have found so far. The READ takes effect at any time before the report.
    pub(crate) bytes: Bytes,
    /// The bytes to write back, until the write-back is known to be complete: stale when there are
    /// none.
    pub(crate) source: Bytes,
}

impl Flight {
    /// Whether some part may still take effect.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.stage, Stage::WriteBack | Stage::Atomic)
    }
}

/// A message in flight, with the bytes that were forwarded before it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Packet {
    pub(crate) to: ComputeNodeId,
    pub(crate) message: LatchMessage,
    pub(crate) forwarded: Option<Bytes>,
    /// The sender, and its place in the recovery; `None` in settings without recovery.
    pub(crate) sender: Option<(ComputeNodeId, Round)>,
}

/// Whether this is a request to the node to which the requester sent it first. A request that was
/// sent on and returns to that node counts as well, though its requester would not be notified.
pub(crate) fn is_own_question(packet: &Packet) -> bool {
    matches!(&packet.message, LatchMessage::Request(request) if request.asked == packet.to)
}

/// One compute node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Node {
    pub(crate) id: ComputeNodeId,
    pub(crate) line: Line,
    pub(crate) frame: Frame,
    pub(crate) flights: ArrayVec<Flight, FLIGHTS_MAX>,
    /// The access for which local code waits.
    pub(crate) wanted: Option<Want>,
    /// The engine must report a retry.
    pub(crate) pausing: bool,
    /// The nodes that owe a final answer, as bits: counted independently of the machine.
    pub(crate) awaited: u64,
    /// Grants received minus settled notices received.
    pub(crate) unsettled: i8,
    /// The writer to which the node has pledged its copy and that has not reported: counted
    /// independently of the machine.
    pub(crate) pledged: Option<(ComputeNodeId, Seq)>,
    /// Local code does not wait for other nodes' locks.
    pub(crate) no_wait: bool,
    /// The node has died, and does nothing any more.
    pub(crate) dead: bool,
    /// The node's place in the recovery from a death.
    pub(crate) round: Round,
}

/// A fault that must never happen, and is visible in a single step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Fault {
    /// An addition that carries into a neighbouring field, or whose sender the word does not name
    /// (R2, R3).
    Misapplied(ComputeNodeId, WordOp),
    /// A copy was published that lacks the last write.
    StalePublished(ComputeNodeId),
    /// A second operation of a node on the word (R1).
    TwoInFlight(ComputeNodeId),
    /// An answer to no open request.
    Unasked(ComputeNodeId),
    /// A request was sent while an answer or a settled notice for an older request was outstanding
    /// (R5).
    AskedTooEarly(ComputeNodeId),
    /// A request to a node that does not exist.
    AskedNobody(ComputeNodeId),
    /// A line was forwarded into a frame that is in use.
    ForwardedIntoUse(ComputeNodeId),
    /// A takeover cleared a bit that was not pledged to its sender (R2).
    TookUnpledged(ComputeNodeId),
    /// A node gave a second pledge, or got a report without a pledge.
    PledgesMixedUp(ComputeNodeId),
    /// A persist has ended, and memory lacks what its node had written when it began.
    NotPersisted(ComputeNodeId),
    /// The word did not show the outcome of an operation.
    Untold(ComputeNodeId, WordOp),
    /// An assertion of the machine failed.
    Panicked(ComputeNodeId),
    /// More operations in flight than there is room for: a limit of this world.
    OutOfRoom(ComputeNodeId),
}

/// The line, and all nodes that work with it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) word: LatchWord,
    /// The bytes on the memory node.
    pub(crate) memory: Bytes,
    pub(crate) nodes: Vec<Node>,
    /// The messages in flight. Their order has no meaning: they are sorted, so that equal sets are
    /// equal.
    pub(crate) wire: Vec<Packet>,
    pub(crate) fault: Option<Fault>,
    /// The number of batches that may still fail.
    pub(crate) failures: u8,
    /// The node does not probe the word after a failure: the operation is simply repeated.
    pub(crate) blind: bool,
    /// The wrong behaviour of the nodes.
    pub(crate) breach: Option<Breach>,
    /// The number of nodes that may still die.
    pub(crate) deaths: u8,
    /// The recovery from a death; `None` in settings without recovery.
    pub(crate) recovery: Option<Recovery>,
    /// A node has died that owed other nodes an answer or a report. These nodes may wait without
    /// end.
    pub(crate) spoilt: bool,
}

/// The wrong behaviours of weaker disciplines, such as pledges that do not bind, and requests that
/// are sent on twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Breach {
    /// A plain acknowledgement: its sender releases its bit before the report, and is free.
    Acknowledges,
    /// The pledger releases its bit, but still waits for the report.
    ReleasesItself,
    /// The writer does not report that it gave up.
    ForgetsGaveUp,
    /// Requests are sent on twice.
    SendsOnTwice,
    /// A node that sends a request on also refuses it.
    RefusesWhatItSendsOn,
    /// Transaction locks exclude no node.
    IgnoresLocks,
    /// A node that learns that a request was not sent still waits for its answer.
    UnasksNobody,
    /// A node that learns that a request was not sent does not wait for the answers to its other
    /// requests either.
    UnasksAll,
    /// A node that learns that a request was not sent drops its own copy of the line.
    ForgetsItsCopy,
    /// A lock is not reported to the machine, which keeps requests queued.
    LocksSilently,
    /// The dead holder's field is cleared before all living nodes have claimed.
    MendsBeforeClaims,
    /// The first marks of all nodes end the round.
    OneRound,
    /// A node sends its second marks while a forward of its own is in doubt.
    MarksInDoubt,
    /// The dead node is forgotten when the word has nothing of it and all have claimed.
    ForgetsAtOnce,
    /// A node that takes the place of its dead giver takes its copy for clean.
    InheritsClean,
    /// A reader whose giver died before its downgrade drops its copy.
    DropsUnsettledCopy,
    /// A node that has pledged to the dead node takes its copy back, and does not look at the word.
    RestoresBlindly,
    /// A persist whose connection failed counts as done.
    PersistsOnce,
    /// The word is mended by an addition of what it should lose.
    MendsByAddition,
}

impl World {
    /// A line without owners.
    pub(crate) fn new(ids: impl IntoIterator<Item = u8>) -> Self {
        let node = |id| {
            let id = ComputeNodeId::new(id).expect("a valid id");
            Node {
                id,
                line: Line::at_rest(id, Hold::Nothing, Seq(0)),
                frame: Frame::EMPTY,
                flights: ArrayVec::new(),
                wanted: None,
                pausing: false,
                awaited: 0,
                unsettled: 0,
                pledged: None,
                no_wait: false,
                dead: false,
                round: Round::Apart,
            }
        };
        World {
            word: LatchWord::FREE,
            memory: Bytes::Latest,
            nodes: ids.into_iter().map(node).collect(),
            wire: Vec::new(),
            fault: None,
            failures: 0,
            blind: false,
            breach: None,
            deaths: 0,
            recovery: None,
            spoilt: false,
        }
    }

    fn blame(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    // ---- local code -----------------------------------------------------------------------------

    /// Local code begins to wait for the line.
    pub(crate) fn want(&mut self, rules: &Rules, at: usize, want: Want) {
        let node = &mut self.nodes[at];
        node.wanted = node.wanted.max(Some(want));
        self.feed(rules, at, Event::Want(want), Bytes::Stale);
    }

    /// Local code reserves a copy that is there.
    pub(crate) fn reserve(&mut self, at: usize) {
        self.nodes[at].frame.reserved = true;
    }

    /// Local code has used the copy.
    pub(crate) fn access(&mut self, rules: &Rules, at: usize) {
        self.nodes[at].frame.reserved = false;
        self.feed(rules, at, Event::Serve, Bytes::Stale);
    }

    /// A transaction locks a copy that is there, or locks it in a stronger mode.
    pub(crate) fn lock(&mut self, rules: &Rules, at: usize, want: Want) {
        self.nodes[at].frame.locked = Some(want);
        if self.breach != Some(Breach::LocksSilently) {
            self.feed(rules, at, Event::Serve, Bytes::Stale);
        }
    }

    /// The transaction ends. No request waits for the end of a lock, so no message is sent.
    pub(crate) fn unlock(&mut self, at: usize) {
        self.nodes[at].frame.locked = None;
    }

    /// Local code writes: from now on every other copy lacks the last write.
    pub(crate) fn write(&mut self, at: usize) {
        self.nodes[at].frame.dirty = self.recovery.is_some();
        if self.recovery.is_some_and(|recovery| recovery.mortal == self.nodes[at].id) {
            return self.write_unseen(at);
        }
        self.memory = Bytes::Stale;
        for (other, node) in self.nodes.iter_mut().enumerate() {
            node.frame.bytes = if other == at { Bytes::Latest } else { Bytes::Stale };
            for flight in &mut node.flights {
                (flight.bytes, flight.source) = (Bytes::Stale, Bytes::Stale);
            }
        }
        for packet in &mut self.wire {
            packet.forwarded = packet.forwarded.map(|_| Bytes::Stale);
        }
        self.wire.sort_unstable();
    }

    /// The cache needs the frame for another line.
    pub(crate) fn evict(&mut self, rules: &Rules, at: usize) {
        self.feed(rules, at, Event::Evict, Bytes::Stale);
    }

    /// Local code or the engine has the changes written back in place.
    pub(crate) fn persist(&mut self, rules: &Rules, at: usize) {
        self.feed(rules, at, Event::Persist, Bytes::Stale);
    }

    /// The back-off is over.
    pub(crate) fn retry(&mut self, rules: &Rules, at: usize) {
        self.nodes[at].pausing = false;
        self.feed(rules, at, Event::Retry, Bytes::Stale);
    }

    /// A pledger breaks its pledge, in the way that [`Breach`] says.
    pub(crate) fn renege(&mut self, rules: &Rules, at: usize) {
        let (me, node) = (self.nodes[at].id, &self.nodes[at]);
        let (by, seq) = node.pledged.expect("a pledger");
        match self.breach {
            Some(Breach::Acknowledges) => {
                // The release takes effect. The machine continues as one that holds nothing.
                self.word = self.word.plus(LatchWord::shared_by(me).bits().wrapping_neg());
                self.feed(
                    rules,
                    at,
                    Event::Received(LatchMessage::Taken { by, seq }),
                    Bytes::Stale,
                );
            }
            Some(Breach::ReleasesItself) => {
                self.post(rules, at, WordOp::ReleaseShared, Bytes::Stale);
            }
            _ => {}
        }
    }

    // ---- the fabric -----------------------------------------------------------------------------

    /// The next part of an operation in flight takes effect.
    pub(crate) fn progress(&mut self, rules: &Rules, at: usize, flight: usize) {
        let id = self.nodes[at].id;
        let mut moving = self.nodes[at].flights[flight];
        match moving.stage {
            Stage::WriteBack => {
                self.memory = moving.bytes;
                for read in self.nodes.iter_mut().flat_map(|node| &mut node.flights) {
                    read.bytes = match read.stage {
                        Stage::Report => read.bytes.min(moving.bytes),
                        _ => read.bytes,
                    };
                }
                moving.bytes = Bytes::Stale;
                moving.stage = Stage::Atomic;
            }
            Stage::Atomic => {
                let looks = moving.op == WordOp::Poll && self.recovery.is_some();
                if is_misapplied(self.word, moving.op, id) && !looks {
                    self.blame(Fault::Misapplied(id, moving.op));
                }
                self.check_takeover(moving.op, id);
                moving.old = self.word;
                self.word = match moving.op.verb(id) {
                    WordVerb::Add(add) => self.word.plus(add),
                    WordVerb::CompareSwap { expected, desired } if self.word == expected => desired,
                    WordVerb::CompareSwap { .. } => self.word,
                };
                if moving.op != WordOp::Persist {
                    moving.source = Bytes::Stale;
                }
                // The bytes that a refused node reads are never used.
                if has_acquired(moving, id) {
                    moving.bytes = self.memory;
                }
                moving.stage = Stage::Report;
            }
            Stage::Inspect => match self.inspect(moving.op, id) {
                Some(WordProbe::Over { old }) => {
                    (moving.old, moving.stage) = (old, Stage::Report);
                    if moving.op != WordOp::Persist {
                        moving.source = Bytes::Stale;
                    }
                    if has_acquired(moving, id) {
                        moving.bytes = self.memory;
                    }
                }
                Some(WordProbe::Again)
                    if moving.op.writes_back(rules)
                        && (self.recovery.is_none() || moving.source != Bytes::Stale) =>
                {
                    (moving.bytes, moving.stage) = (moving.source, Stage::WriteBack);
                }
                Some(WordProbe::Again) => moving.stage = Stage::Atomic,
                None => self.blame(Fault::Untold(id, moving.op)),
            },
            Stage::Report => {
                self.nodes[at].flights.remove(flight);
                if moving.op == WordOp::Persist {
                    self.persisted(id, moving.source);
                }
                if self.breach == Some(Breach::ReleasesItself) && moving.op == WordOp::ReleaseShared
                {
                    return;
                }
                // What the dead giver did not write back.
                if moving.op == WordOp::Inherit(moving.old)
                    && self.breach != Some(Breach::InheritsClean)
                {
                    self.nodes[at].frame.dirty = true;
                }
                let event = Event::Completed { op: moving.op, old: moving.old };
                return self.feed(rules, at, event, moving.bytes);
            }
        }
        self.nodes[at].flights[flight] = moving;
        // The dead node has no machine to which this could be reported.
        let Node { flights, dead, .. } = &mut self.nodes[at];
        flights.retain(|flight| !*dead || flight.is_under_way());
    }

    /// A persist has ended that began with this content. From now on it counts as seen: no death
    /// may undo it.
    fn persisted(&mut self, by: ComputeNodeId, content: Bytes) {
        if self.memory < content {
            self.blame(Fault::NotPersisted(by));
        }
        if self.recovery.is_some() {
            self.contents().filter(|bytes| **bytes < content).for_each(|b| *b = Bytes::Stale);
            self.wire.sort_unstable();
        }
    }

    /// A takeover that succeeds clears only bits that are pledged to its sender, and its own bit.
    fn check_takeover(&mut self, op: WordOp, by: ComputeNodeId) {
        if op.expected(by) != Some(self.word) || matches!(op, WordOp::Inherit(_)) {
            return;
        }
        // A dead node has no machine, but its pledge stays.
        let pledged_to = |node: &Node| match node.dead {
            true => node.pledged.map(|(to, _)| to),
            false => node.line.pledged_to(),
        };
        let pledged = |node: &Node| node.id == by || pledged_to(node) == Some(by);
        let bits = self.word.shared();
        if !self.nodes.iter().filter(|node| bits.contains(node.id)).all(pledged) {
            self.blame(Fault::TookUnpledged(by));
        }
    }

    fn inspect(&self, op: WordOp, by: ComputeNodeId) -> Option<WordProbe> {
        match (self.breach, op) {
            _ if self.blind => Some(WordProbe::Again),
            (Some(Breach::PersistsOnce), WordOp::Persist) => {
                Some(WordProbe::Over { old: self.word })
            }
            _ => op.inspect(by, self.word),
        }
    }

    /// The connection fails during an operation: landed parts stay, and the rest never lands.
    pub(crate) fn fail(&mut self, at: usize, flight: usize) {
        self.failures -= 1;
        let failed = &mut self.nodes[at].flights[flight];
        // The atomic has landed. Only the fabric knows that, so the node loses its result.
        if failed.stage == Stage::Report {
            failed.old = LatchWord::FREE;
            if failed.op != WordOp::Persist {
                failed.source = Bytes::Stale;
            }
        }
        (failed.bytes, failed.stage) = (Bytes::Stale, Stage::Inspect);
    }

    /// A message arrives.
    pub(crate) fn deliver(&mut self, rules: &Rules, packet: usize) {
        let Packet { to, message, forwarded, .. } = self.wire.remove(packet);
        let at = self.nodes.iter().position(|node| node.id == to).expect("checked when sent");
        match &message {
            LatchMessage::Request(_) => {}
            LatchMessage::Answer { asked, .. } => self.is_answered(at, *asked),
            LatchMessage::Grant { asked, .. } => {
                self.is_answered(at, *asked);
                let node = &mut self.nodes[at];
                node.unsettled += 1;
                let reads = node.flights.iter().any(|flight| flight.op.reads_line());
                if node.frame.hold != Hold::Nothing || reads {
                    self.blame(Fault::ForwardedIntoUse(to));
                }
            }
            LatchMessage::Settled { .. } => self.nodes[at].unsettled -= 1,
            LatchMessage::Pledged { asked, .. } => self.is_answered(at, *asked),
            LatchMessage::Taken { by, seq } | LatchMessage::GaveUp { by, seq } => {
                if self.nodes[at].pledged.take() != Some((*by, *seq)) {
                    self.blame(Fault::PledgesMixedUp(to));
                }
            }
        }
        self.feed(rules, at, Event::Received(message), forwarded.unwrap_or(Bytes::Stale));
    }

    fn is_answered(&mut self, at: usize, by: ComputeNodeId) {
        let node = &mut self.nodes[at];
        let bit = 1 << by.index();
        if node.awaited & bit == 0 {
            let id = node.id;
            self.blame(Fault::Unasked(id));
        }
        self.nodes[at].awaited &= !bit;
    }

    // ---- the machines ---------------------------------------------------------------------------

    /// Gives an event to a machine and carries out its actions. `incoming` is the content of the
    /// frame if the machine publishes it.
    pub(crate) fn feed(&mut self, rules: &Rules, at: usize, event: Event, incoming: Bytes) {
        let mut out = Vec::new();
        let locks = self.breach != Some(Breach::IgnoresLocks);
        let (rules, least) = (&self.rules_of(rules, at), self.least());
        let Node { id, line, frame, wanted, no_wait, .. } = &mut self.nodes[at];
        let (id, no_wait) = (*id, *no_wait);
        let mut copy = Copy { frame, wanted, no_wait, locks, incoming, least, stale: false };
        let step = AssertUnwindSafe(|| line.step(rules, event, &mut copy, &mut out));
        match catch_unwind(step) {
            Ok(()) if copy.stale => self.blame(Fault::StalePublished(id)),
            Ok(()) => {}
            Err(_) => self.blame(Fault::Panicked(id)),
        }
        self.carry_out(rules, at, out);
    }

    fn carry_out(&mut self, rules: &Rules, at: usize, actions: Vec<Action>) {
        let owed = self.nodes[at].awaited != 0 || (rules.settle && self.nodes[at].unsettled != 0);
        // The bytes at the machine's decision: an invalid frame keeps its bytes until they are
        // sent.
        let bytes = self.nodes[at].frame.bytes;
        for action in actions {
            match action {
                Action::Post(op) => self.post(rules, at, op, bytes),
                // Not sent, because no outcome depends on `Queued`: the machine treats this answer
                // like `Serve`, and finds no work then.
                Action::Send {
                    message: LatchMessage::Answer { answer: Answer::Queued, .. },
                    ..
                } => {}
                Action::Send { message: LatchMessage::GaveUp { .. }, .. }
                    if self.breach == Some(Breach::ForgetsGaveUp) => {}
                Action::Send { to, message } => {
                    if let LatchMessage::Request(request) = &message
                        && request.from == self.nodes[at].id
                    {
                        if owed {
                            self.blame(Fault::AskedTooEarly(request.from));
                        }
                        self.nodes[at].awaited |= 1 << to.index();
                    } else if let LatchMessage::Request(request) = &message {
                        self.breach_of_questions(at, request, to);
                    }
                    if let LatchMessage::Pledged { by, seq, .. } = message
                        && self.nodes[at].pledged.replace((to, seq)).is_some()
                    {
                        self.blame(Fault::PledgesMixedUp(by));
                    }
                    self.send(at, to, message, None);
                }
                Action::Forward { request, message } => {
                    self.send(at, request.from, message, Some(bytes));
                }
                Action::Pause { .. } | Action::ReleaseHoldOff { .. } => {
                    self.nodes[at].pausing = true
                }
                Action::HoldOff { .. } => {}
            }
        }
        let Node { frame, line, .. } = &mut self.nodes[at];
        // A pledged copy may be read again.
        if frame.hold == Hold::Nothing && !line.is_pledged() {
            frame.bytes = Bytes::Stale;
        }
    }

    /// The messages that a breach sends in addition when a request is sent on.
    fn breach_of_questions(&mut self, at: usize, request: &InvalidationRequest, to: ComputeNodeId) {
        let InvalidationRequest { from, asked, seq, .. } = *request;
        let refusal = LatchMessage::Answer { asked, seq, answer: Answer::Dropped };
        match self.breach {
            Some(Breach::SendsOnTwice) => {
                self.send(at, to, LatchMessage::Request(*request), None);
            }
            Some(Breach::RefusesWhatItSendsOn) => {
                self.send(at, from, refusal, None);
            }
            _ => {}
        }
    }

    fn send(
        &mut self,
        at: usize,
        to: ComputeNodeId,
        message: LatchMessage,
        forwarded: Option<Bytes>,
    ) {
        let Node { id, round, .. } = self.nodes[at];
        let sender = self.is_marked().then_some((id, round));
        let mut packet = Packet { to, message, forwarded, sender };
        if self.recovery.is_some() && self.is_dead(packet.to) {
            let LatchMessage::Request(request) = packet.message else { return };
            if request.from != id || round < Round::Closed {
                return;
            }
            // The node keeps the dead one out, so its engine answers.
            let InvalidationRequest { asked, seq, .. } = request;
            packet.message = LatchMessage::Answer { asked, seq, answer: Answer::Dropped };
            packet.to = id;
        }
        if !self.nodes.iter().any(|node| node.id == packet.to) {
            return self.blame(Fault::AskedNobody(packet.to));
        }
        if self.is_dead(packet.to) && !is_own_question(&packet) {
            return self.miss(&packet);
        }
        let place = self.wire.partition_point(|other| *other < packet);
        self.wire.insert(place, packet);
    }

    fn post(&mut self, rules: &Rules, at: usize, op: WordOp, bytes: Bytes) {
        let Node { id, flights, frame, .. } = &mut self.nodes[at];
        let id = *id;
        if flights.is_full() {
            return self.blame(Fault::OutOfRoom(id));
        }
        let alone = flights.is_empty();
        let clean = self.recovery.is_some() && !frame.dirty;
        let (stage, bytes) = if op.writes_back(rules) && !clean {
            frame.dirty = false;
            (Stage::WriteBack, bytes)
        } else {
            (Stage::Atomic, Bytes::Stale)
        };
        let source = bytes;
        flights.push(Flight { op, stage, old: LatchWord::FREE, bytes, source });
        if rules.registered_wait && !alone {
            self.blame(Fault::TwoInFlight(id));
        }
    }
}

/// Whether the operation, whose atomic has landed, reads the line for use.
fn has_acquired(flight: Flight, me: ComputeNodeId) -> bool {
    match flight.op {
        // A look after a death: the node owns the line already.
        WordOp::Poll if flight.old.exclusive() == Some(me) => true,
        WordOp::AcquireShared | WordOp::Poll => flight.old.exclusive().is_none(),
        WordOp::AcquireExclusive => flight.old == LatchWord::FREE,
        WordOp::TakeOver(pledged) => flight.old == LatchWord::shared_among(pledged),
        _ => false,
    }
}

/// Whether the operation would not have its stated effect on `word`: its sum would carry, or the
/// word does not have the field that its sender believes to have.
fn is_misapplied(word: LatchWord, op: WordOp, me: ComputeNodeId) -> bool {
    let own_bit = word.shared().contains(me);
    let owner = word.exclusive() == Some(me);
    match op {
        WordOp::AcquireShared => own_bit,
        WordOp::Poll | WordOp::ReleaseShared | WordOp::Undo => !own_bit,
        WordOp::AcquireExclusive
        | WordOp::Upgrade
        | WordOp::TakeOver(_)
        | WordOp::UpgradeOver(_)
        | WordOp::Inherit(_) => false,
        WordOp::ReleaseExclusive | WordOp::HandOver(_) | WordOp::Persist => !owner,
        WordOp::Downgrade => !owner || own_bit,
        WordOp::DowngradeFor(reader) => !owner || own_bit || word.shared().contains(reader),
    }
}
