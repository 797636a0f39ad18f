//! Messages to other nodes, with the lines that are forwarded ahead of them, and what is done when
//! their end is ambiguous.
//!
//! A message that goes alone is sent again under the same number: whichever copy comes first counts
//! ([`crate::repeats`]). A forward cannot be sent again just so. The first one may have been used,
//! and the second would be a WRITE over what the new owner wrote since. So the giver asks first:
//!
//! ```text
//!   giver                              receiver
//!   WRITE line, SEND grant number n ─╳─   cut off somewhere
//!   SEND doubt(n) ───────────────────►  takes number n, as if the grant had just come
//!   ◄─────────────── verdict(n) ──────  it had not been taken: the grant has not arrived, and never counts
//!   WRITE line, SEND grant number m ─►  the question is still open, and its frame waits
//! ```
//!
//! The receiver takes the number of the grant in question and the answer from one lock, so exactly
//! one of two things happens: the grant was acted upon, or will be by the worker that took it, and
//! nothing is sent again; or it never counts, even if it still lies in the inbox, and the frame is
//! as free for a forward as before (R5). Until the verdict the giver's operation is not complete:
//! the bytes stay, and the receiver is not told that it is settled. Doubts and verdicts are
//! messages that go alone.
//!
//! Doubts stand in the record, not with the worker that forwarded, because any worker of the node
//! may receive the verdict.

use latchwork_latch::{Event, Hold, Message, NodeSet};
use latchwork_runtime::sync::Ordering;
use latchwork_verbs::{
    ComputeNodeId, GlobalAddr, LocalBuffer, Message as Wire, Request as Verb, Target, VerbError,
};

use crate::node::bit;
use crate::operations::{TRIES_MAX, Tag};
use crate::record::Record;
use crate::repeats::Stamp;
use crate::wire::{Body, Letter};
use crate::worker::Inner;

/// A line that goes ahead of its grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    /// Where the receiver's frame is, in its arena.
    pub(crate) remote: u64,
    /// Where the line is here.
    pub(crate) local: LocalBuffer,
}

/// What tells a message from all others of the node: numbers are counted for each receiver.
type Name = (ComputeNodeId, Stamp);

/// A message whose batch is in flight, with all that it takes to send it again.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    to: ComputeNodeId,
    stamp: Stamp,
    letter: Letter,
    ahead: Option<Bytes>,
    /// The operation that a forward goes with; `None` once the forward stands in the record's
    /// doubts.
    group: Option<usize>,
    tries: u8,
}

/// A forward of which nobody here knows whether it has arrived.
#[derive(Debug)]
pub(crate) struct Doubt {
    sent: Sent,
}

impl Inner {
    /// Sends a message that goes alone.
    pub(crate) fn send(
        &self,
        addr: GlobalAddr,
        to: ComputeNodeId,
        body: Body,
    ) -> Result<(), VerbError> {
        let stamp = self.numbers().next(to);
        let letter = Letter { addr, dirty: latchwork_cache::DirtyBounds::EMPTY, body };
        self.counters.messages.add(1);
        self.submit_letter(Sent { to, stamp, letter, ahead: None, group: None, tries: 0 })
    }

    /// Sends a grant, with the line ahead of it, as a part of the group.
    pub(crate) fn forward(
        &self,
        to: ComputeNodeId,
        letter: Letter,
        ahead: Bytes,
        group: usize,
    ) -> Result<(), VerbError> {
        let stamp = self.numbers().next(to);
        self.counters.forwards.add(1);
        self.counters.messages.add(1);
        let (ahead, group) = (Some(ahead), Some(group));
        self.submit_letter(Sent { to, stamp, letter, ahead, group, tries: 0 })
    }

    fn submit_letter(&self, sent: Sent) -> Result<(), VerbError> {
        let wire: Wire = sent.letter.encode(self.node.id, sent.stamp);
        let target = Target::Compute(sent.to, self.node.arena.0);
        let ahead = sent.ahead;
        let key = self.letters.borrow_mut().insert(sent);
        let tag = Tag::Letter(key).bits();
        let posted = match ahead {
            None => self.port.post(target, &[Verb::Send(wire)], tag),
            Some(Bytes { remote, local }) => {
                self.counters.verbs_write.add(1);
                self.counters.bytes_written.add(u64::from(local.len));
                self.port.post(target, &[Verb::Write { remote, local }, Verb::Send(wire)], tag)
            }
        };
        posted.inspect_err(|_| drop(self.letters.borrow_mut().remove(key)))
    }

    // ---- ends ------------------------------------------------------------------------------------

    /// The batch of a message has come to its end.
    pub(crate) fn letter_completed(&self, key: usize, error: Option<VerbError>) {
        let mut sent = self.letters.borrow_mut().remove(key);
        let again = matches!(error, Some(VerbError::Ambiguous { .. })) && sent.tries < TRIES_MAX;
        sent.tries += u8::from(again);
        match sent.ahead {
            None if again => {
                self.counters.resent.add(1);
                let (addr, own_question) = (sent.letter.addr, sent.is_question_of(self.node.id));
                if let Err(error) = self.submit_letter(sent)
                    && own_question
                {
                    self.fail_line(addr, error);
                }
            }
            None => match (error, &sent.letter.body) {
                (None, _) => {}
                // Nobody else would tell that the answer will not come; and whether it will still
                // write into the frame is unknown: nobody here may touch the line again.
                (Some(error), Body::Line(Message::Request(request)))
                    if request.from == self.node.id =>
                {
                    // Of a question that was sent before, the first copy may have arrived.
                    if sent.tries == 0 && error.is_unsent() {
                        let mut records = self.node.records.shard(sent.letter.addr).lock();
                        if let Some(record) = records.get_mut(&sent.letter.addr)
                            && record.line.is_asking(sent.to)
                        {
                            self.cannot_ask(sent.letter.addr, record, NodeSet::of(sent.to), error);
                        }
                        self.finish(&mut records, sent.letter.addr);
                    } else {
                        self.fail_line(sent.letter.addr, error);
                    }
                }
                (Some(_), Body::Doubt(of)) => self.resolve(sent.letter.addr, (sent.to, *of)),
                // Whoever waits for it is gone, or waits until its deadline. That goes for a
                // question that was passed on as well: to refuse it here would be a second answer,
                // if it has arrived.
                (Some(_), _) => {}
            },
            Some(_) if again => self.doubt(sent),
            // It has arrived; or the receiver is gone, and takes with it what the word says it has.
            // This node is through with the line all the same.
            Some(_) => match sent.group {
                Some(group) => self.leave_group(group, Ok(None)),
                None => self.resolve(sent.letter.addr, sent.name()),
            },
        }
    }

    /// A question of this node has failed.
    fn fail_line(&self, addr: GlobalAddr, error: VerbError) {
        let mut records = self.node.records.shard(addr).lock();
        if let Some(record) = records.get_mut(&addr) {
            record.fail(error);
            self.abandon_pledges(addr, record);
        }
    }

    /// Questions of this node never got to the nodes of `unasked`, which are gone: whoever waits
    /// for the line fails. No answer of theirs will ever be written into its frame, so the line
    /// takes none out of use: without this, whoever comes by many lines of nodes that are gone
    /// would have no frames left for others.
    ///
    /// Where the word has nothing of this node's but what the line holds, the wish is given up, and
    /// the line is what it was before: a copy that could not be upgraded is read, and evicted, as
    /// any. The bit of a reader that waits stays in the word, and the record has to remember that.
    pub(crate) fn cannot_ask(
        &self,
        addr: GlobalAddr,
        record: &mut Record,
        unasked: NodeSet,
        error: VerbError,
    ) {
        let heeds = self.node.settings.heeds_the_gone;
        if heeds && record.failed.is_none() && record.line.can_unask() {
            record.disappoint(error);
            return self.drive(addr, record, Event::Unsent(unasked));
        }
        record.fail(error);
        self.abandon_pledges(addr, record);
        if heeds && record.line.hold() == Hold::Nothing && record.line.asks_only(unasked) {
            self.give_frame_back(record);
        }
    }

    /// Gives up lines for which a node was asked that is gone.
    #[inline]
    pub(crate) fn see_to_the_missed(&self) -> bool {
        let missed = self.node.missed.load(Ordering::Acquire);
        missed != 0 && self.give_up_on(missed)
    }

    #[cold]
    fn give_up_on(&self, missed: u64) -> bool {
        let gone = (1..=ComputeNodeId::MAX).filter_map(ComputeNodeId::new);
        let gone: Vec<_> = gone.filter(|peer| missed & bit(*peer) != 0).collect();
        // A question that was asked before is in its record by now, and one that is asked later
        // fails when it is posted.
        for shard in self.node.records.shards() {
            let mut records = shard.lock();
            for (addr, record) in records.iter_mut() {
                let asked = gone.iter().find(|peer| record.line.is_asking(**peer));
                if let Some(&peer) = asked
                    && record.failed.is_none()
                {
                    let target = Target::Compute(peer, self.node.arena.0);
                    record.fail(VerbError::Disconnected { target });
                    self.abandon_pledges(*addr, record);
                }
            }
        }
        // Release: whoever sees the bits cleared may let another node of that id in.
        self.node.missed.fetch_and(!missed, Ordering::Release);
        true
    }

    /// Asks the receiver whether a forward has arrived.
    fn doubt(&self, mut sent: Sent) {
        let (addr, name) = (sent.letter.addr, sent.name());
        let group = sent.group.take();
        if group.is_some() {
            let mut records = self.node.records.shard(addr).lock();
            // Its operation is not complete, so there is a record.
            if let Some(record) = records.get_mut(&addr) {
                record.doubts.push(Doubt { sent });
            }
        } else {
            self.with_doubt(addr, name, |doubt| doubt.sent.tries = sent.tries);
        }
        let (to, stamp) = name;
        if self.send(addr, to, Body::Doubt(stamp)).is_err() {
            self.resolve(addr, name);
        }
        if let Some(group) = group {
            self.leave_group(group, Ok(None));
        }
    }

    fn with_doubt<T>(
        &self,
        addr: GlobalAddr,
        name: Name,
        then: impl FnOnce(&mut Doubt) -> T,
    ) -> Option<T> {
        let mut records = self.node.records.shard(addr).lock();
        let doubts = &mut records.get_mut(&addr)?.doubts;
        doubts.iter_mut().find(|doubt| doubt.sent.name() == name).map(then)
    }

    /// Another node asks whether a forward has arrived here. If it has not, it never counts.
    pub(crate) fn answer_doubt(&self, addr: GlobalAddr, from: ComputeNodeId, of: Stamp) {
        let arrived = !self.node.seen.take(from, of);
        // A node that cannot be answered does not wait for it.
        let _ = self.send(addr, from, Body::Verdict { of, arrived });
    }

    /// The receiver has said whether a forward has arrived.
    pub(crate) fn verdict(&self, addr: GlobalAddr, of: Name, arrived: bool) {
        if arrived {
            return self.resolve(addr, of);
        }
        let again = self.with_doubt(addr, of, |doubt| {
            doubt.sent.stamp = self.numbers().next(doubt.sent.to);
            doubt.sent.clone()
        });
        if let Some(sent) = again {
            self.counters.resent.add(1);
            let name = sent.name();
            if self.submit_letter(sent).is_err() {
                self.resolve(addr, name);
            }
        }
    }

    /// There is nothing left to do about this forward.
    fn resolve(&self, addr: GlobalAddr, name: Name) {
        let mut records = self.node.records.shard(addr).lock();
        let Some(record) = records.get_mut(&addr) else { return };
        let doubts = record.doubts.len();
        record.doubts.retain(|doubt| doubt.sent.name() != name);
        if record.doubts.len() < doubts {
            self.complete_landed(addr, record);
            self.finish(&mut records, addr);
        }
    }
}

impl Sent {
    fn name(&self) -> Name {
        (self.to, self.stamp)
    }

    fn is_question_of(&self, node: ComputeNodeId) -> bool {
        matches!(self.letter.body, Body::Line(Message::Request(request)) if request.from == node)
    }
}
