//! [`Lane`]: the send queue of one endpoint to one peer: the connection, and the batches on it.
//!
//! ```text
//!   post ──► waiting ──► list ── ring: one doorbell ──► flying ── completion of the last request ──► completed
//!              ▲ while not connected, while the queue or the slots are full
//! ```
//!
//! When a connection fails:
//!
//! 1. The endpoint destroys its queue pair at once. After this the device writes no buffer of a
//!    READ any more.
//! 2. The endpoint offers the peer a new queue pair.
//! 3. The peer destroys its end of the old connection before it answers. After this no request of
//!    the old connection can take effect.
//! 4. The batches that were in flight on the old connection end as ambiguous. Without an answer
//!    within [`IbvConfig::connect_timeout`](crate::IbvConfig::connect_timeout), all batches on the
//!    send queue end as disconnected.
//!
//! A send queue is for a node with one member epoch. When this node leaves or dies, all batches on
//! the send queue end. The next post checks whether a new node has the name. If so, the send queue
//! begins anew without its old state. So no key of the old node is used for the new node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::Time;
use latchwork_runtime::sync::Mutex;
use latchwork_strict::{strict_assert, strict_assert_eq, strict_check};
use latchwork_verbs::{
    AtomicOutcome, BATCH_ATOMICS_MAX, BATCH_MAX, CHIP_BASE, Completion, Extent, RegionKey, Target,
    VerbError, WorkRequest, WorkRequestKind,
};

use crate::connection::{Answer, Caller, Offer};
use crate::directory::{Peer, RemoteMemory};
use crate::error::ConnectError;
use crate::locals::Locals;
use crate::shared::Shared;
use crate::slots::Slots;
use crate::sys::{Completions, Device, Pair, SendList};
use crate::wake::Wake;

/// The largest payload inside a request, in bytes, if the device supports so much. A message fits.
const INLINE: u32 = 128;

/// The pause before the next offer, after an offer that failed on this side or was refused for lack
/// of resources.
const PAUSE: Duration = Duration::from_millis(50);

/// The parts of an endpoint that all its send queues use.
pub(crate) struct Common {
    /// The node of the endpoint.
    pub(crate) from: Caller,
    pub(crate) shared: Arc<Shared>,
    pub(crate) device: Arc<Device>,
    pub(crate) completions: Arc<Completions>,
    pub(crate) locals: Locals,
    pub(crate) slots: Slots,
    pub(crate) wake: Arc<Wake>,
    pub(crate) completed: VecDeque<Completion>,
    /// The number of requests for which a send queue has room.
    pub(crate) depth: u32,
}

/// The send queue of one endpoint to one peer.
pub(crate) struct Lane {
    pub(crate) peer: Peer,
    /// The member epoch of the peer.
    epoch: u64,
    index: u16,
    memory: Vec<Option<RemoteMemory>>,
    // The on-chip memory of a memory node; learned together with its other memory.
    chip: Option<RemoteMemory>,
    state: State,
    waiting: VecDeque<Batch>,
    flying: VecDeque<Flying>,
    list: SendList,
    // The number of requests in the list and in the NIC's send queue.
    used: u32,
    // `generation` distinguishes completions of this connection from completions of earlier
    // connections. `sequence` distinguishes the batches of one connection.
    generation: u16,
    sequence: u32,
    // The peer's end of the last connection that the peer accepted. The next offer names this end,
    // and the peer destroys it before the next answer.
    responder: Option<u32>,
}

enum State {
    /// There is no connection and no offer: no batch has needed a connection, or the last attempt
    /// ran out of time.
    Idle,
    /// An offer is in flight.
    Asking { pair: Pair, answer: Arc<Mutex<Answered>>, until: Time },
    /// The last offer failed, perhaps because there is no route to the peer. The next offer follows
    /// at `again`.
    Pausing { again: Time, until: Time },
    /// Requests can be posted.
    Connected { pair: Pair },
    /// The peer has left or died, or the device of this endpoint has failed.
    Gone,
}

/// The answer of the peer; `None` until the answer arrives.
type Answered = Option<Result<Answer, ConnectError>>;

struct Batch {
    target: Target,
    token: u64,
    requests: Box<[WorkRequest]>,
}

struct Flying {
    target: Target,
    token: u64,
    sequence: u32,
    slot: u32,
    requests: u8,
    atomics: u8,
}

impl Lane {
    /// Makes a send queue to a known node.
    pub(crate) fn new(peer: Peer, index: u16, common: &Common) -> Self {
        let mut lane = Lane {
            peer,
            epoch: 0,
            index,
            memory: Vec::new(),
            chip: None,
            state: State::Gone,
            waiting: VecDeque::new(),
            flying: VecDeque::new(),
            list: SendList::default(),
            used: 0,
            generation: 0,
            sequence: 0,
            responder: None,
        };
        lane.renew(&common.shared, &common.device);
        lane
    }

    /// Asserts the relations between the fields that hold between two calls.
    fn check(&self, common: &Common) {
        let posted: u32 = self.flying.iter().map(|batch| u32::from(batch.requests)).sum();
        assert_eq!(self.used, posted, "the queue's room is not what its batches left");
        assert!(self.used <= common.depth, "{} requests in room for {}", self.used, common.depth);
        let is_connected = matches!(self.state, State::Connected { .. });
        assert!(self.list.is_empty() || is_connected, "requests are listed without a connection");
        if matches!(self.state, State::Gone) {
            assert!(self.flying.is_empty(), "a batch to a node that is gone has no end");
            assert!(self.waiting.is_empty(), "a batch waits for a node that is gone");
        }
        if matches!(self.state, State::Idle) {
            assert!(self.flying.is_empty(), "no connection, and no offer that would end a batch");
        }
    }

    /// The number of batches that have not ended.
    pub(crate) fn unfinished(&self) -> usize {
        self.waiting.len() + self.flying.len()
    }

    /// Begins anew if the peer has left or died and a new node has its name. On a failed device the
    /// send queue stays without a node.
    #[inline]
    pub(crate) fn renew(&mut self, shared: &Shared, device: &Device) {
        if matches!(self.state, State::Gone)
            && !device.health.is_dead()
            && let Some(epoch) = shared.epoch(self.peer)
        {
            strict_assert!(self.flying.is_empty(), "a batch to the earlier node is in flight");
            strict_assert_eq!(self.used, 0, "requests to the earlier node take room");
            self.epoch = epoch;
            self.memory.clear();
            self.chip = None;
            self.responder = None;
            self.state = State::Idle;
        }
    }

    /// Whether the node of this send queue has left or died.
    pub(crate) fn is_stale(&self, shared: &Shared) -> bool {
        shared.epoch(self.peer) != Some(self.epoch)
    }

    /// The index of the send queue to which a completion belongs. The id of the work request has
    /// the index in its highest 16 bits.
    pub(crate) fn of(id: u64) -> usize {
        (id >> 48) as usize
    }

    #[inline]
    pub(crate) fn is_asking(&self) -> bool {
        matches!(self.state, State::Asking { .. } | State::Pausing { .. })
    }

    pub(crate) fn is_flying(&self) -> bool {
        !self.flying.is_empty()
    }

    /// Whether a batch waits, or is in the list and not posted to the device.
    #[inline]
    pub(crate) fn has_unposted(&self) -> bool {
        !self.waiting.is_empty() || !self.list.is_empty()
    }

    /// Whether the send queue needs its worker before the next completion: to ring, to check for an
    /// answer, or to check the time limit of an offer.
    pub(crate) fn needs_worker(&self, common: &Common) -> bool {
        match &self.state {
            State::Asking { .. } | State::Pausing { .. } => true,
            State::Idle | State::Gone => self.has_unposted(),
            State::Connected { .. } => {
                let fits = |batch: &Batch| self.has_room(common, batch.requests.len());
                !self.list.is_empty() || self.waiting.front().is_some_and(fits)
            }
        }
    }

    /// The lengths of the target's memory, if they are known. The target is the peer of this send
    /// queue.
    #[inline]
    pub(crate) fn learn(&mut self, target: Target, common: &mut Common) -> Option<Extent> {
        let key = match target {
            Target::Memory(_) => RegionKey(0),
            Target::Compute(_, key) => RegionKey(key),
        };
        let index = usize::from(key.0);
        match self.memory.get(index) {
            Some(Some(memory)) => Some(self.extent(*memory)),
            _ => self.learn_anew(target, index, common),
        }
    }

    fn extent(&self, memory: RemoteMemory) -> Extent {
        let chip_bytes = self.chip.map_or(0, |chip| chip.len);
        Extent { bytes: memory.len, chip_bytes }
    }

    #[cold]
    fn learn_anew(&mut self, target: Target, index: usize, common: &mut Common) -> Option<Extent> {
        let Some(memory) = common.shared.memory(target, self.epoch) else {
            if self.is_stale(&common.shared) {
                self.mark_left(common);
            }
            // The memory of a node that has left or died is unknown. So these lengths let every
            // batch pass the check, and `post` ends the batch as `Disconnected`.
            let all = Extent { bytes: u64::MAX, chip_bytes: u64::MAX };
            return matches!(self.state, State::Gone).then_some(all);
        };
        if self.memory.len() <= index {
            self.memory.resize(index + 1, None);
        }
        self.memory[index] = Some(memory);
        self.chip = common.shared.chip(target, self.epoch);
        Some(self.extent(memory))
    }

    /// Accepts a checked batch.
    #[inline]
    pub(crate) fn post(
        &mut self,
        common: &mut Common,
        target: Target,
        token: u64,
        requests: &[WorkRequest],
    ) {
        if matches!(self.state, State::Gone) {
            let result = Err(VerbError::Disconnected { target });
            common.completed.push_back(Completion { token, result });
        } else if self.waiting.is_empty() && self.has_room(common, requests.len()) {
            self.prepare(common, target, token, requests);
        } else {
            self.waiting.push_back(Batch { target, token, requests: requests.into() });
        }
        strict_check!(self, common);
    }

    #[inline]
    fn has_room(&self, common: &Common, requests: usize) -> bool {
        matches!(self.state, State::Connected { .. })
            && self.used + requests as u32 <= common.depth
            && common.slots.any_free()
    }

    /// Appends a batch to the list. The caller has checked that there is room.
    fn prepare(
        &mut self,
        common: &mut Common,
        target: Target,
        token: u64,
        requests: &[WorkRequest],
    ) {
        let State::Connected { pair } = &self.state else { unreachable!("there is room") };
        strict_assert!(!requests.is_empty(), "an empty batch has no completion");
        let inline = pair.inline;
        let Some(slot) = common.slots.take() else { unreachable!("there is room") };
        let key = match target {
            Target::Memory(_) => 0,
            Target::Compute(_, key) => usize::from(key),
        };
        let (memory, chip) = (self.memory.get(key).copied().flatten(), self.chip);
        let place = |offset: u64| {
            let (memory, offset) = match offset.checked_sub(CHIP_BASE) {
                None => (memory, offset),
                Some(offset) => (chip, offset),
            };
            let memory = memory.expect("learned when posted");
            strict_assert!(offset <= memory.len, "a request at {offset} of {} bytes", memory.len);
            (memory.address + offset, memory.rkey)
        };
        self.sequence = self.sequence.wrapping_add(1);
        let id = u64::from(self.index) << 48
            | u64::from(self.generation) << 32
            | u64::from(self.sequence);
        let mut atomics = 0;
        for (i, request) in requests.iter().enumerate() {
            let old = common.slots.old(slot, atomics);
            match *request {
                WorkRequest::Read { remote, local } | WorkRequest::ReadIf { remote, local, .. } => {
                    let (address, rkey) = place(remote);
                    self.list.read(id, common.locals.sge(local), address, rkey);
                }
                WorkRequest::Write { remote, local } => {
                    let (address, rkey) = place(remote);
                    let from = common.locals.sge(local);
                    self.list.write(id, from, local.len <= inline, address, rkey);
                }
                WorkRequest::WriteWord { remote, value } => {
                    let (address, rkey) = place(remote);
                    let from = common.slots.payload(slot, i, &[value]);
                    self.list.write(id, from, from.length <= inline, address, rkey);
                }
                WorkRequest::CompareSwap { remote, expected, desired } => {
                    let (address, rkey) = place(remote);
                    self.list.compare_swap(id, old, (expected, desired), address, rkey);
                }
                WorkRequest::FetchAdd { remote, add } => {
                    let (address, rkey) = place(remote);
                    self.list.fetch_add(id, old, add, address, rkey);
                }
                WorkRequest::Send(message) => {
                    let mut payload = [0; 1 + latchwork_verbs::Message::WORDS];
                    payload[0] = message.from.get().into();
                    payload[1..].copy_from_slice(&message.body);
                    let from = common.slots.payload(slot, i, &payload);
                    self.list.send(id, from, from.length <= inline);
                }
            }
            atomics += usize::from(request.kind() == WorkRequestKind::Atomic);
        }
        // Only the last request makes a completion, because the requests of a connection complete
        // in the order of posting.
        self.list.signal_last();
        debug_assert!(requests.len() <= BATCH_MAX);
        strict_assert!(
            atomics <= BATCH_ATOMICS_MAX,
            "a slot has no place for {atomics} old values"
        );
        strict_assert!(
            self.flying.back().is_none_or(|last| last.sequence.wrapping_add(1) == self.sequence),
            "a completion would end batches behind its own"
        );
        self.used += requests.len() as u32;
        self.flying.push_back(Flying {
            target,
            token,
            sequence: self.sequence,
            slot,
            requests: requests.len() as u8,
            atomics: atomics as u8,
        });
    }

    /// Posts all batches for which there is room, with one doorbell. Without a connection, offers
    /// one to the peer.
    pub(crate) fn submit(&mut self, common: &mut Common, now: impl FnOnce() -> Time) {
        if matches!(self.state, State::Idle) && !self.waiting.is_empty() {
            let now = now();
            self.ask(common, now, now + common.shared.config.connect_timeout);
            return;
        }
        while let Some(batch) = self.waiting.front()
            && self.has_room(common, batch.requests.len())
        {
            let Some(batch) = self.waiting.pop_front() else { break };
            self.prepare(common, batch.target, batch.token, &batch.requests);
        }
        if self.list.is_empty() {
            return;
        }
        let State::Connected { pair } = &self.state else { return };
        // SAFETY: every buffer in the list is in a slot or in a region of this node. Slots and
        // regions stay registered as long as the endpoint exists, and the endpoint destroys the
        // pair first. Their memory is accessed only as atomic words. A slot is reused, and a local
        // buffer is returned to the poster, only after the batch's completion or after the pair is
        // destroyed.
        #[allow(unsafe_code)]
        let posted = unsafe { pair.post(&mut self.list) };
        self.list.clear();
        if posted.is_err() {
            // The queue has room, so an error means that the connection is broken.
            self.fail(common, now());
        }
        strict_check!(self, common);
    }

    /// Offers the peer a connection. After the time `until` there are no further attempts.
    fn ask(&mut self, common: &mut Common, now: Time, until: Time) {
        let tuning = common.shared.tuning();
        let pair = Pair::requester(&common.device, &common.completions, common.depth, INLINE);
        let Ok(pair) = pair else {
            self.pause(common, now, until);
            return;
        };
        let reads = tuning.reads.min(common.device.limits.reads_sent);
        let from = common.from;
        let offer = Offer { from, data: pair.data(reads), replaces: self.responder };
        let answer = Arc::new(Mutex::new(None));
        let place = Arc::downgrade(&answer);
        let (peer, epoch) = (self.peer, self.epoch);
        let (wake, shared) = (Arc::clone(&common.wake), Arc::clone(&common.shared));
        let answered = Box::new(move |result: Result<Answer, ConnectError>| {
            if let Some(place) = place.upgrade() {
                *place.lock() = Some(result);
                wake.fire();
            } else if let Ok(answer) = result {
                // The send queue does not wait for this answer any more, so the peer's new end is
                // closed.
                shared.close(peer, epoch, from, answer.data.pair);
            }
        });
        self.state = State::Asking { pair, answer, until };
        common.shared.connect(peer, epoch, offer, answered);
    }

    /// Schedules the next offer after a pause. Ends all batches if the time limit comes before the
    /// end of the pause.
    fn pause(&mut self, common: &mut Common, now: Time, until: Time) {
        let again = now + PAUSE;
        if again < until {
            self.state = State::Pausing { again, until };
        } else {
            self.state = State::Idle;
            self.end_all(common);
        }
    }

    /// Checks whether the offer was answered or has exceeded its time limit, or whether a pause has
    /// ended.
    pub(crate) fn look_for_answer(&mut self, common: &mut Common, now: Time) {
        let (answer, until) = match &self.state {
            State::Pausing { again, until } if now >= *again => {
                let until = *until;
                return self.ask(common, now, until);
            }
            State::Asking { answer, until, .. } => (answer.lock().take(), *until),
            _ => return,
        };
        if answer.is_none() && now < until {
            return;
        }
        let State::Asking { pair, .. } = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        let answer = answer.unwrap_or(Err(ConnectError::Unreachable));
        let connected = answer.and_then(|answer| {
            // The peer has destroyed its end of the last connection and made a new end. The next
            // offer must name this new end, also if this side does not use it.
            self.responder = Some(answer.data.pair);
            pair.connect(&answer.data, common.shared.tuning())?;
            Ok(())
        });
        match connected {
            Ok(()) => {
                self.state = State::Connected { pair };
                // These batches were on the earlier connection, whose other end the peer has
                // destroyed.
                self.end_flying(common, |target| VerbError::Ambiguous { target });
            }
            // The cause may pass, for example when an address cannot be resolved at the moment.
            Err(ConnectError::Setup(_) | ConnectError::Refused { .. }) => {
                self.pause(common, now, until);
            }
            Err(_) if self.is_stale(&common.shared) => self.mark_left(common),
            Err(error) => {
                tracing::warn!(peer = ?self.peer, "no connection: {error}");
                self.end_all(common);
            }
        }
    }

    /// Handles a completion. A successful completion is of the last request of a batch, and all
    /// earlier batches of the connection are complete, too. A completion with an error means that
    /// the connection has failed.
    #[inline]
    pub(crate) fn completed(
        &mut self,
        common: &mut Common,
        id: u64,
        ok: bool,
        now: impl FnOnce() -> Time,
    ) {
        if (id >> 32) as u16 != self.generation {
            // The completion is of a destroyed connection.
            return;
        }
        if !ok {
            self.fail(common, now());
            return;
        }
        strict_assert!(
            self.flying.iter().any(|batch| batch.sequence == id as u32),
            "a completion of no batch would end them all"
        );
        while let Some(batch) = self.flying.pop_front() {
            let outcome = common.slots.outcome(batch.slot, batch.atomics.into());
            let last = batch.sequence == id as u32;
            self.end(common, batch, Ok(outcome));
            if last {
                return strict_check!(self, common);
            }
        }
    }

    /// Whether the connection uses one of these queue pairs.
    pub(crate) fn is_on(&self, pairs: &[u32]) -> bool {
        matches!(&self.state, State::Connected { pair } if pairs.contains(&pair.number))
    }

    /// Destroys a failed connection, and offers the peer a new one.
    pub(crate) fn fail(&mut self, common: &mut Common, now: Time) {
        // The new state drops the pair, which destroys it.
        self.state = State::Idle;
        self.generation = self.generation.wrapping_add(1);
        // Only some failures are logged, so that a connection that fails again and again does not
        // fill the log.
        if self.generation.is_power_of_two() {
            let (peer, connections) = (self.peer, self.generation);
            tracing::warn!(?peer, connections, "a connection is lost, and another one asked for");
        }
        self.list.clear();
        self.ask(common, now, now + common.shared.config.connect_timeout);
    }

    /// Ends all batches on this send queue, because the peer has left or died, or the device has
    /// failed.
    pub(crate) fn mark_left(&mut self, common: &mut Common) {
        if matches!(self.state, State::Gone) {
            return;
        }
        tracing::info!(peer = ?self.peer, "a node is gone");
        self.state = State::Gone;
        self.end_all(common);
        strict_check!(self, common);
    }

    /// Ends all batches with [`VerbError::Disconnected`].
    fn end_all(&mut self, common: &mut Common) {
        self.generation = self.generation.wrapping_add(1);
        self.list.clear();
        self.end_flying(common, |target| VerbError::Disconnected { target });
        for Batch { target, token, .. } in self.waiting.drain(..) {
            let result = Err(VerbError::Disconnected { target });
            common.completed.push_back(Completion { token, result });
        }
    }

    fn end_flying(&mut self, common: &mut Common, error: impl Fn(Target) -> VerbError) {
        while let Some(batch) = self.flying.pop_front() {
            let error = error(batch.target);
            self.end(common, batch, Err(error));
        }
        strict_assert_eq!(self.used, 0, "requests that have ended take room");
        self.used = 0;
    }

    #[inline]
    fn end(
        &mut self,
        common: &mut Common,
        batch: Flying,
        result: Result<AtomicOutcome, VerbError>,
    ) {
        common.slots.give_back(batch.slot);
        strict_assert!(self.used >= u32::from(batch.requests), "a batch gives back more room");
        self.used = self.used.saturating_sub(batch.requests.into());
        common.completed.push_back(Completion { token: batch.token, result });
    }

    /// Destroys this end of the connection, and reports to the peer that the peer's end is not used
    /// any more.
    pub(crate) fn close(&mut self, common: &Common) {
        self.state = State::Gone;
        if let Some(responder) = self.responder.take() {
            common.shared.close(self.peer, self.epoch, common.from, responder);
        }
    }
}
