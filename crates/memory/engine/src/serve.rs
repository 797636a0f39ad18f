//! What a worker serves on its sweeps: completions, messages, alarms, and requests that local code
//! has kept waiting.

use latchwork_verbs::{Message as Wire, VerbError};

use crate::alarms::Alarm;
use crate::envelope::Envelope;
use crate::inner::Inner;
use crate::protocol::{CoherenceProtocol, LineState};
use crate::tag::Tag;

impl<P: CoherenceProtocol> Inner<P> {
    /// Handles the completion of a batch of this worker.
    #[inline]
    pub(crate) fn completed(&self, tag: u64, result: Result<u64, VerbError>) {
        match Tag::from_bits(tag) {
            Tag::Letter(key) => self.message_completed(key, result.err()),
            Tag::Protocol(tag) => {
                let Inner { core, in_flight, node, .. } = self;
                self.operations_ended(node.protocol.completed(core, in_flight, tag, result));
            }
        }
    }

    /// Handles a message that has arrived.
    pub(crate) fn received(&self, wire: &Wire) {
        let Some((addr, envelope, stamp)) = Envelope::open(wire) else {
            return self.core.received_user_message(wire);
        };
        // A message that the protocol cannot read is ignored, and its number is not taken.
        let message = match envelope {
            Envelope::Line => match self.node.protocol.decode(wire) {
                None => return,
                message => message,
            },
            Envelope::PendingProbe(_) | Envelope::Verdict { .. } => None,
        };
        let core = &self.core;
        // What a dead node has sent may be lost as well. From its round on, it is.
        if self.node.protocol.survives() && core.node.is_gone(wire.from) {
            return;
        }
        if let Some(costs) = core.costs {
            core.handle.charge(costs.message);
        }
        if !core.node.geometry.is_line(addr) {
            return;
        }
        if !core.node.seen.take(wire.from, stamp) {
            core.counters.repeats.add(1);
            if core.node.settings.drops_repeats {
                return;
            }
        }
        match (envelope, message) {
            (Envelope::PendingProbe(of), _) => core.answer_probe(addr, wire.from, of),
            (Envelope::Verdict { of, arrived }, _) => self.verdict(addr, (wire.from, of), arrived),
            (Envelope::Line, None) => {}
            (Envelope::Line, Some(message)) => {
                let mut records = self.node.records.shard(addr).lock();
                let record = self.record(&mut records, addr);
                if record.local.is_lost() {
                    drop(records);
                    return self.node.protocol.send_away(core, addr, wire.from, message);
                }
                self.node.protocol.received(&mut self.site(addr, record), message);
                if record.local.failed.is_some() {
                    self.node.protocol.failed(&mut self.site(addr, record));
                }
                self.finish(&mut records, addr);
            }
        }
    }

    /// Serves the alarms that are due. Returns whether there were any.
    pub(crate) fn fire_alarms(&self) -> bool {
        let now = self.core.handle.sweep_time();
        let mut any = false;
        while let Some((addr, alarm)) = self.node_core.timers.pop_due(now) {
            any = true;
            if alarm == Alarm::Clean {
                self.clean();
                continue;
            }
            if alarm == Alarm::LetGo && !self.node_core.lazy_release {
                self.core.releases.borrow_mut().push(addr);
            }
            let mut records = self.node.records.shard(addr).lock();
            if let Some(record) = records.get_mut(&addr) {
                let site = &mut self.site(addr, record);
                match alarm {
                    Alarm::Protocol(number) => self.node.protocol.alarm(site, number),
                    Alarm::LetGo => self.node.protocol.serve(site),
                    Alarm::Clean => {}
                }
            }
            self.finish(&mut records, addr);
        }
        any
    }

    /// Serves the requests again that local code has kept waiting.
    #[inline]
    pub(crate) fn serve_blocked(&self) -> bool {
        !self.node_core.blocked.is_empty() && self.serve_all_blocked()
    }

    fn serve_all_blocked(&self) -> bool {
        let mut served = false;
        for addr in self.node_core.blocked.take() {
            let mut records = self.node.records.shard(addr).lock();
            if let Some(record) = records.get_mut(&addr) {
                record.local.listed = false;
                self.node.protocol.serve(&mut self.site(addr, record));
                served |= !record.line.is_blocked();
            }
            self.finish(&mut records, addr);
        }
        served
    }
}
