//! Steps of line records: the begin of a record, the update after every event, and the end.
//!
//! All steps of a record run under the lock of the line's shard. Steps post and never wait. So two
//! properties hold:
//!
//! - The actions of one step reach the worker's send queue in the order of the protocol.
//! - The state word of a frame changes before the release of the line is posted.

use latchwork_cache::Ownership;
use latchwork_runtime::sync::Ordering;
use latchwork_strict::{STRICT, strict_assert, strict_assert_eq};
use latchwork_verbs::GlobalAddr;

use crate::inner::Inner;
use crate::protocol::{CoherenceProtocol, LineState};
use crate::record::{LocalSide, Record, Records};
use crate::waiters::meets;
use crate::worker_core::WorkerCore;

impl<P: CoherenceProtocol> Inner<P> {
    /// Returns the line's record. A line without a record gets one from the state of its frame.
    pub(crate) fn record<'r>(
        &self,
        records: &'r mut Records<P::Line>,
        addr: GlobalAddr,
    ) -> &'r mut Record<P::Line> {
        records.entry(addr).or_insert_with(|| {
            let node = &*self.node_core;
            let frame = node.cache.find(addr);
            let header = frame.map(|id| node.cache.frame(id));
            let hold = header.map_or(Ownership::Invalid, |frame| frame.state().ownership());
            strict_assert!(
                frame.is_none() || hold != Ownership::Invalid,
                "{addr} is at rest without ownership, and keeps a frame"
            );
            Record::new(self.node.protocol.at_rest(node.id, addr, hold, header), frame)
        })
    }

    /// Updates the record after its events and removes a record that is over. Callers call this
    /// after the last event under one hold of the shard's lock, unless they only fail the line.
    pub(crate) fn finish(&self, records: &mut Records<P::Line>, addr: GlobalAddr) {
        let node = &*self.node_core;
        let Some(record) = records.get_mut(&addr) else { return };
        self.node.protocol.finish(&mut self.site(addr, record));
        let Record { line, local } = &mut *record;
        if line.is_blocked() && !local.is_lost() {
            // Not the time of the sweep: the end of a sweep takes completions, too, and then the
            // sweep may have begun long ago.
            local.blocked_since.get_or_insert_with(|| self.core.handle.now());
            if !local.listed {
                local.listed = true;
                node.blocked.add(addr);
            }
        } else {
            local.blocked_since = None;
        }
        self.see_to_locks(addr, record);
        self.see_to_refusal(record);
        if record.local.failed.is_some() {
            return self.strict_check_record(addr, record);
        }
        let unused = record.line.is_idle() && record.local.waiters.is_empty();
        if let Some(id) = record.local.frame.take_if(|_| unused) {
            node.cache.detach(id);
            node.frame_waiters.wake();
        }
        self.release_eagerly(addr, record);
        self.strict_check_record(addr, record);
        if record.local.is_over() && record.line.is_over(self.core.handle.sweep_time()) {
            records.remove(&addr);
        }
    }

    fn strict_check_record(&self, addr: GlobalAddr, record: &Record<P::Line>) {
        if STRICT {
            self.check_record(addr, record);
        }
    }

    /// What holds of a record after each step. The lock of the shard keeps the record, the address
    /// of its frame and the ownership in the frame.
    fn check_record(&self, addr: GlobalAddr, record: &Record<P::Line>) {
        let (cache, Record { line, local }) = (&self.node_core.cache, record);
        local.check();
        assert_eq!(cache.find(addr), local.frame, "{addr} is in another frame: {record:?}");
        let in_frame = local.frame.map(|id| cache.frame(id).state().ownership());
        let in_frame = in_frame.unwrap_or(Ownership::Invalid);
        if local.failed.is_some() {
            return;
        }
        assert_eq!(line.hold(), in_frame, "the frame of {addr} has another ownership: {record:?}");
        assert!(
            !line.is_blocked() || local.listed,
            "no sweep serves the queued requests for {addr}: {record:?}"
        );
        assert!(
            !local.frame_in_verb || line.is_idle() || local.frame.is_some(),
            "a verb reads or writes a frame that {addr} has left: {record:?}"
        );
        assert!(
            !local.evicting || line.hold() == Ownership::Invalid,
            "{addr} is used while its release is in flight: {record:?}"
        );
        assert!(
            line.gives_way()
                || !local.waiters.wanted().is_some_and(|mode| meets(line.hold(), mode)),
            "an access waits for {addr}, which is here: {record:?}"
        );
        assert!(
            !line.is_blocked() || line.is_asked_for(),
            "{addr} keeps requests waiting, and has none: {record:?}"
        );
    }

    /// Handles the end of an operation of the protocol, if there is one.
    #[inline]
    pub(crate) fn operations_ended(&self, end: Option<(GlobalAddr, P::End)>) {
        self.operation_ended(end);
        while self.node.protocol.survives()
            && let end @ Some(_) = self.node.protocol.also_ended(&self.in_flight)
        {
            self.operation_ended(end);
        }
    }

    #[inline]
    fn operation_ended(&self, end: Option<(GlobalAddr, P::End)>) {
        let Some((addr, end)) = end else { return };
        let mut records = self.node.records.shard(addr).lock();
        let Some(record) = records.get_mut(&addr) else { return };
        if record.local.evicting && self.node.protocol.operation_ends_release() {
            self.core.end_release(&mut record.local);
        }
        self.node.protocol.ended(&mut self.site(addr, record), end);
        self.finish(&mut records, addr);
    }
}

impl WorkerCore {
    /// Ends the release of an evicted line that kept its frame until now.
    #[inline]
    pub fn end_release(&self, local: &mut LocalSide) {
        if std::mem::take(&mut local.evicting) {
            let releasing = self.node.releasing.fetch_sub(1, Ordering::Relaxed);
            strict_assert!(releasing > 0, "a release was not counted: {local:?}");
        }
    }

    /// Releases the frame of a line that has failed, unless a lock or a pending probe keeps the
    /// frame.
    ///
    /// 1. Callers ensure that neither an operation of the line (R1) nor an answer to an
    ///    invalidation request (R5) reads or writes the frame any more.
    /// 2. So no verb reads or writes the frame any more, except a forward with a pending probe.
    /// 3. So the frame is released if no probe is pending.
    pub fn give_frame_back(&self, local: &mut LocalSide) {
        strict_assert!(local.failed.is_some(), "a line that has not failed keeps its frame");
        strict_assert!(!local.evicting, "the release in flight reads the frame");
        let LocalSide { frame, probes: doubts, waiters, failed, .. } = local;
        let cache = &self.node.cache;
        // A locked frame stays. The release is tried again when the lock ends.
        let free = |id: &mut _| doubts.is_empty() && cache.frame(*id).try_invalidate();
        if let Some(id) = frame.take_if(free) {
            // A waiter with a grant that has not used the line yet fails instead, and loses its
            // reservation.
            if let Some(error) = *failed {
                waiters.fail_granted(cache.frame(id), error);
            }
            strict_assert_eq!(
                cache.frame(id).state().ownership(),
                Ownership::Invalid,
                "local code may still use the frame"
            );
            cache.detach(id);
            self.node.frame_waiters.wake();
        }
    }
}
