//! Messages to other nodes, with the lines that are forwarded before them, and their recovery after
//! an ambiguous completion.
//!
//! A message without a line is sent again under the same message number: the first copy that
//! arrives counts ([`crate::deduplicate`]). A forward must not simply be sent again. The receiver
//! may have used the first forward, and the second WRITE would overwrite the changes of the new
//! owner. So the giver sends a probe first:
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
//! A receiver that has forgotten the gap of the number answers as in case 1, although the grant
//! never counts. The accesses that wait for the grant fail at their deadlines.
//!
//! The operation of the giver is not complete before the probe ends. Until then the bytes stay, and
//! the receiver gets no report that its line is settled. Probes and probe replies are messages
//! without a line.
//!
//! A pending probe stands in the line record and not with the worker that forwarded: any worker of
//! the node may receive the probe reply.

use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{
    ComputeNodeId, GlobalAddr, Message as Wire, Target, VerbError, WorkRequest as Verb,
};

use crate::deduplicate::MessageNumber;
use crate::envelope::{Body, Envelope, seal};
use crate::inner::Inner;
use crate::messages::{Bytes, Name, PendingProbe, Sent, TRIES_MAX};
use crate::protocol::{CoherenceProtocol, LineState};
use crate::tag::Tag;
use crate::worker_core::WorkerCore;

impl WorkerCore {
    /// Sends a message without a line. `awaited`: the line waits for an answer to the message, and
    /// fails if the message may be lost.
    pub fn send(
        &self,
        addr: GlobalAddr,
        to: ComputeNodeId,
        body: Body,
        awaited: bool,
    ) -> Result<(), VerbError> {
        let stamp = self.numbers().next(to);
        self.counters.messages.add(1);
        let (ahead, group, round) = (None, None, self.node.rounds.number());
        self.submit_letter(Sent { to, stamp, addr, body, ahead, group, awaited, tries: 0, round })
    }

    /// Sends a grant with the line before it, as a part of the operation `group`.
    pub fn forward(
        &self,
        addr: GlobalAddr,
        to: ComputeNodeId,
        body: Body,
        ahead: Bytes,
        group: usize,
    ) -> Result<(), VerbError> {
        let stamp = self.numbers().next(to);
        self.counters.forwards.add(1);
        self.counters.messages.add(1);
        let (ahead, group, awaited) = (Some(ahead), Some(group), false);
        let round = self.node.rounds.number();
        self.submit_letter(Sent { to, stamp, addr, body, ahead, group, awaited, tries: 0, round })
    }

    fn submit_letter(&self, sent: Sent) -> Result<(), VerbError> {
        strict_assert!(sent.tries <= TRIES_MAX, "a message is repeated without an end: {sent:?}");
        strict_assert!(sent.group.is_none() || sent.ahead.is_some(), "only a forward has a group");
        strict_assert!(
            !sent.awaited || sent.ahead.is_none(),
            "a forward is not answered: {sent:?}"
        );
        strict_assert!(self.node.geometry.is_line(sent.addr), "a message about no line: {sent:?}");
        let mut wire = Wire { from: self.node.id, body: sent.body };
        seal(&mut wire.body, sent.addr, sent.stamp);
        let ahead = sent.ahead;
        let region = ahead.map_or(self.node.arena, |bytes| bytes.region);
        let target = Target::Compute(sent.to, region.0);
        let key = self.letters.borrow_mut().insert(sent);
        let tag = Tag::Letter(key).bits();
        let posted = match ahead {
            None => self.port.post(target, &[Verb::Send(wire)], tag),
            Some(Bytes { remote, local, .. }) => {
                self.counters.verbs_write.add(1);
                self.counters.bytes_written.add(u64::from(local.len));
                self.port.post(target, &[Verb::Write { remote, local }, Verb::Send(wire)], tag)
            }
        };
        posted.inspect_err(|_| _ = self.letters.borrow_mut().remove(key))
    }

    /// Answers the probe of another node. A forward that has not arrived never counts from now on.
    pub(crate) fn answer_probe(&self, addr: GlobalAddr, from: ComputeNodeId, of: MessageNumber) {
        let arrived = !self.node.seen.take(from, of);
        // Without a connection to the other node, its probe gets no reply.
        let _ = self.send(addr, from, Envelope::Verdict { of, arrived }.body(), false);
    }
}

impl<P: CoherenceProtocol> Inner<P> {
    /// Handles the end of a message's batch.
    pub(crate) fn message_completed(&self, key: usize, error: Option<VerbError>) {
        let core = &self.core;
        let mut sent = core.letters.borrow_mut().remove(key);
        let again = matches!(error, Some(VerbError::Ambiguous { .. })) && sent.tries < TRIES_MAX;
        sent.tries += u8::from(again);
        strict_assert!(sent.tries <= TRIES_MAX, "the bound of tries is passed: {sent:?}");
        match sent.ahead {
            None if again => {
                core.counters.resent.add(1);
                let (addr, awaited) = (sent.addr, sent.awaited);
                if let Err(error) = core.submit_letter(sent)
                    && awaited
                {
                    self.fail_line(addr, error);
                }
            }
            None => self.letter_ended(&sent, error),
            Some(_) if again => self.doubt(sent),
            // The forward has arrived, or its error ends all attempts: the receiver is dead or
            // counts as dead, or this node has fenced itself. The protocol's state in memory (the
            // latch word) names the owner. In each case this node is finished with the forward.
            Some(_) => match sent.group {
                Some(group) => self.leave_group(group),
                None => self.resolve(sent.addr, sent.name()),
            },
        }
    }

    /// Handles the end of a message without a line, which is not sent again.
    fn letter_ended(&self, sent: &Sent, error: Option<VerbError>) {
        strict_assert!(sent.ahead.is_none(), "a forward ends with its operation or its probe");
        let Some(error) = error else { return };
        // A request of this node was lost, or may be lost. No other node would report that no
        // answer comes. Unless the request was certainly never sent, an answer may still write into
        // the frame, so the line fails.
        if sent.awaited {
            // Only a request that was sent once is certainly unsent. Of a request that was sent
            // again, the first copy may have arrived.
            let survives = self.node.protocol.survives();
            if sent.tries == 0 && error.is_unsent() {
                let mut records = self.node.records.shard(sent.addr).lock();
                if let Some(record) = records.get_mut(&sent.addr)
                    && record.line.is_asking(sent.to)
                {
                    self.node.protocol.unsent(&mut self.site(sent.addr, record), sent.to, error);
                }
                self.finish(&mut records, sent.addr);
            } else if !(survives && error.is_of_target()) {
                self.fail_line(sent.addr, error);
            }
            // Otherwise the answer may still come, or the receiver is dead: the round about it
            // closes the request.
            return;
        }
        if let Some(of) = Envelope::probed(&sent.body) {
            self.resolve(sent.addr, (sent.to, of));
        }
        // After the loss of any other message, the receiver is dead, or its accesses wait until
        // their deadlines. A request that this node has sent on for another node may be lost, too.
        // A refusal of that request from here would be a second answer if the request has arrived.
    }

    /// Fails a line after a request of this node has failed.
    fn fail_line(&self, addr: GlobalAddr, error: VerbError) {
        let mut records = self.node.records.shard(addr).lock();
        if let Some(record) = records.get_mut(&addr) {
            record.local.fail(error);
            self.node.protocol.failed(&mut self.site(addr, record));
        }
    }

    /// Handles the end of a forward that belongs to an operation.
    fn leave_group(&self, group: usize) {
        let end = self.node.protocol.forwarded(&self.core, &self.in_flight, group);
        self.operations_ended(end);
    }

    /// Sends the receiver of a forward a probe.
    fn doubt(&self, mut sent: Sent) {
        strict_assert!(sent.ahead.is_some(), "a message without a line is sent again, not probed");
        strict_assert!(sent.tries > 0, "a probe follows a completion that left the end open");
        let (addr, name) = (sent.addr, sent.name());
        let group = sent.group.take();
        if group.is_some() {
            let mut records = self.node.records.shard(addr).lock();
            // The operation of the forward is not complete, so the line has a record.
            strict_assert!(records.contains_key(&addr), "a forward of {addr} has no record");
            if let Some(record) = records.get_mut(&addr) {
                record.local.probes.push(PendingProbe { sent });
            }
        } else {
            self.with_doubt(addr, name, |doubt| doubt.sent.tries = sent.tries);
        }
        let (to, stamp) = name;
        if self.core.send(addr, to, Envelope::PendingProbe(stamp).body(), false).is_err() {
            self.resolve(addr, name);
        }
        if let Some(group) = group {
            self.leave_group(group);
        }
    }

    fn with_doubt<T>(
        &self,
        addr: GlobalAddr,
        name: Name,
        then: impl FnOnce(&mut PendingProbe) -> T,
    ) -> Option<T> {
        let mut records = self.node.records.shard(addr).lock();
        let doubts = &mut records.get_mut(&addr)?.local.probes;
        doubts.iter_mut().find(|doubt| doubt.sent.name() == name).map(then)
    }

    /// Handles the probe reply of the receiver: sends the forward again if it has not arrived.
    pub(crate) fn verdict(&self, addr: GlobalAddr, of: Name, arrived: bool) {
        if arrived {
            return self.resolve(addr, of);
        }
        let again = self.with_doubt(addr, of, |doubt| {
            doubt.sent.stamp = self.core.numbers().next(doubt.sent.to);
            strict_assert_eq!(doubt.sent.addr, addr, "a probe stands in the record of its line");
            doubt.sent.clone()
        });
        if let Some(sent) = again {
            self.core.counters.resent.add(1);
            let name = sent.name();
            if self.core.submit_letter(sent).is_err() {
                self.resolve(addr, name);
            }
        }
    }

    /// Ends the pending probe of a forward.
    fn resolve(&self, addr: GlobalAddr, name: Name) {
        let mut records = self.node.records.shard(addr).lock();
        let Some(record) = records.get_mut(&addr) else { return };
        let doubts = record.local.probes.len();
        record.local.probes.retain(|doubt| doubt.sent.name() != name);
        strict_assert!(record.local.probes.len() + 1 >= doubts, "one reply ended several probes");
        if record.local.probes.len() < doubts {
            self.node.protocol.probed(&mut self.site(addr, record));
            self.finish(&mut records, addr);
        }
    }
}
