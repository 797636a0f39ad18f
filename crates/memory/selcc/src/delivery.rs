//! Messages to other nodes, with the lines that are forwarded before them, and their recovery after
//! an ambiguous completion.
//!
//! A message without a line is sent again under the same message number: the first copy that
//! arrives counts ([`crate::repeats`]). A forward must not simply be sent again. The receiver may
//! have used the first forward, and the second WRITE would overwrite the changes of the new owner.
//! So the giver sends a probe first:
//!
//! ```text
//!   giver                              receiver
//!   WRITE line, SEND grant number n ─╳─   cut off somewhere
//!   SEND probe(n) ───────────────────►  takes number n, as if the grant had just come
//!   ◄───────────── probe reply(n) ───  n was not taken before: the grant never counts from now on
//!   WRITE line, SEND grant number m ─►  the invalidation request is still open, its frame waits
//! ```
//!
//! The receiver takes the number of the probed grant and derives the reply under one lock. So
//! exactly one of two cases holds:
//!
//! 1. The number was taken before. A worker has acted on the grant, or will act on the grant that
//!    it took. The giver sends nothing again.
//! 2. The number was not taken before. The grant never counts, even if it still lies in the inbox.
//!    The frame is as free for a forward as before (R5).
//!
//! The operation of the giver is not complete before the probe reply: the bytes stay, and the
//! receiver is not notified that its line is settled. Probes and probe replies are messages without
//! a line.
//!
//! A pending probe stands in the line record and not with the worker that forwarded: any worker of
//! the node may receive the probe reply.

use latchwork_latch::{Event, Hold, Message, NodeSet};
use latchwork_verbs::{
    ComputeNodeId, GlobalAddr, Message as Wire, Request as Verb, Target, VerbError,
};

use crate::groups::{TRIES_MAX, Tag};
use crate::letters::{Bytes, Doubt, Name, Sent};
use crate::record::Record;
use crate::repeats::Stamp;
use crate::wire::{Body, Letter};
use crate::worker_core::Inner;

impl Inner {
    /// Sends a message without a line.
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

    /// Sends a grant with the line before it, as a part of the group.
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

    /// Handles the end of a message's batch.
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
                // The request of this node was lost, or may be. No other node would report that its
                // answer does not come. Whether an answer will still write into the frame is
                // unknown. So this node may not touch the line again.
                (Some(error), Body::Line(Message::Request(request)))
                    if request.from == self.node.id =>
                {
                    // This holds only for the first attempt: of a request that was sent again, the
                    // first copy may have arrived.
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
                // The receiver is dead, or waits until its deadline. The same holds for an
                // invalidation request that was passed on. To refuse that request here would be a
                // second answer if the request has arrived.
                (Some(_), _) => {}
            },
            Some(_) if again => self.doubt(sent),
            // The forward has arrived, or the receiver is dead and keeps what the latch word says
            // it has. In both cases this node is finished with the line.
            Some(_) => match sent.group {
                Some(group) => self.leave_group(group, Ok(None)),
                None => self.resolve(sent.letter.addr, sent.name()),
            },
        }
    }

    /// Fails a line after an invalidation request of this node has failed.
    fn fail_line(&self, addr: GlobalAddr, error: VerbError) {
        let mut records = self.node.records.shard(addr).lock();
        if let Some(record) = records.get_mut(&addr) {
            record.fail(error);
            self.abandon_pledges(addr, record);
        }
    }

    /// Handles invalidation requests of this node that never reached the nodes `unasked`, which are
    /// dead or have left.
    ///
    /// 1. All waiters for the line fail.
    /// 2. The nodes of `unasked` never write an answer into the frame of the line.
    /// 3. So the line need not keep its frame. Otherwise an access to many lines of such nodes
    ///    would leave no frame for other lines.
    ///
    /// If the latch word holds nothing of this node except the ownership of the line, the want is
    /// withdrawn. The line returns to its earlier state: a copy that could not be upgraded is read
    /// and evicted as before. If the bit of a waiting reader stays in the word, the record must
    /// remember that bit.
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

    /// Sends the receiver of a forward a probe.
    fn doubt(&self, mut sent: Sent) {
        let (addr, name) = (sent.letter.addr, sent.name());
        let group = sent.group.take();
        if group.is_some() {
            let mut records = self.node.records.shard(addr).lock();
            // The operation of the forward is not complete, so the line has a record.
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

    /// Answers the probe of another node. A forward that has not arrived never counts from now on.
    pub(crate) fn answer_doubt(&self, addr: GlobalAddr, from: ComputeNodeId, of: Stamp) {
        let arrived = !self.node.seen.take(from, of);
        // A node that cannot be reached does not wait for the probe reply.
        let _ = self.send(addr, from, Body::Verdict { of, arrived });
    }

    /// Handles the probe reply of the receiver: sends the forward again if it has not arrived.
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

    /// Ends the pending probe of a forward.
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
