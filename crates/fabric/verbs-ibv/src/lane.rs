//! [`Lane`]: one endpoint's connection to one peer, and the batches on it.
//!
//! ```text
//!   post ──► waiting ──► list ── ring: one doorbell ──► flying ── completion of the last request ──► completed
//!              ▲ while not connected, while the queue or the slots are full
//! ```
//!
//! When a connection fails its queue pair is destroyed at once; a new one is offered to the peer,
//! which destroys its end of the old one before it answers. From then on nothing that was on the
//! old one can take effect, and what was flying is told to be ambiguous. A READ's buffer is not
//! written any more, either.
//!
//! A lane is to a node as it joined at one epoch. When that is gone everything on the lane ends;
//! the next batch looks whether another node has the name by now, and if so the lane begins anew,
//! without anything that it knew: no key of the old one is ever used for the new one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::Time;
use latchwork_runtime::sync::Mutex;
use latchwork_verbs::{
    BATCH_MAX, Completion, Kind, Outcome, RegionKey, Request, Target, VerbError,
};

use crate::connection::{Answer, Caller, Offer};
use crate::directory::{Peer, RemoteMemory};
use crate::endpoint::Wake;
use crate::error::ConnectError;
use crate::fabric::Shared;
use crate::locals::Locals;
use crate::slots::Slots;
use crate::sys::{Completions, Device, Pair, SendList};

/// Bytes of a request that travel in it, where the device can: a message.
const INLINE: u32 = 128;

/// Between two offers to a peer that cannot be reached.
const PAUSE: Duration = Duration::from_millis(50);

/// What all lanes of an endpoint use.
pub(crate) struct Common {
    /// Whose endpoint it is.
    pub(crate) from: Caller,
    pub(crate) shared: Arc<Shared>,
    pub(crate) device: Arc<Device>,
    pub(crate) completions: Arc<Completions>,
    pub(crate) locals: Locals,
    pub(crate) slots: Slots,
    pub(crate) wake: Arc<Wake>,
    pub(crate) completed: VecDeque<Completion>,
    /// Requests that a send queue takes.
    pub(crate) depth: u32,
}

pub(crate) struct Lane {
    pub(crate) peer: Peer,
    /// When the peer joined.
    epoch: u64,
    index: u16,
    memory: Vec<Option<RemoteMemory>>,
    state: State,
    waiting: VecDeque<Batch>,
    flying: VecDeque<Flying>,
    list: SendList,
    // Requests in the list and in the send queue.
    used: u32,
    // Tells completions of a connection from those of the one before; and batches of one connection
    // from each other.
    generation: u16,
    sequence: u32,
    // The peer's end of the last connection, until the peer has destroyed it.
    responder: Option<u32>,
}

enum State {
    /// No batch has asked for a connection yet, or the peer did not answer the last one in time.
    Idle,
    /// An offer is on its way.
    Asking { pair: Pair, answer: Arc<Mutex<Answered>>, until: Time },
    /// The last offer came to nothing, perhaps for want of a way to the peer: another one follows.
    Pausing { again: Time, until: Time },
    /// Requests can be posted.
    Connected { pair: Pair },
    /// The peer is gone for good, or there was none.
    Gone,
}

/// What the peer answered, when it has.
type Answered = Option<Result<Answer, ConnectError>>;

struct Batch {
    target: Target,
    token: u64,
    requests: Box<[Request]>,
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
    /// A lane to a node that is known.
    pub(crate) fn new(peer: Peer, index: u16, common: &Common) -> Self {
        let mut lane = Lane {
            peer,
            epoch: 0,
            index,
            memory: Vec::new(),
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

    /// Begins anew if the peer is gone and another node has its name. On a device that has failed
    /// nothing begins.
    #[inline]
    pub(crate) fn renew(&mut self, shared: &Shared, device: &Device) {
        if matches!(self.state, State::Gone)
            && !device.health.is_dead()
            && let Some(epoch) = shared.epoch(self.peer)
        {
            self.epoch = epoch;
            self.memory.clear();
            self.responder = None;
            self.state = State::Idle;
        }
    }

    /// Whether the node is gone that the lane is to.
    pub(crate) fn is_stale(&self, shared: &Shared) -> bool {
        shared.epoch(self.peer) != Some(self.epoch)
    }

    /// The lane of the connection that a completion is from, by its number.
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

    /// Whether there is something for [`Lane::submit`] to do, now or later.
    #[inline]
    pub(crate) fn has_unposted(&self) -> bool {
        !self.waiting.is_empty() || !self.list.is_empty()
    }

    /// Whether the lane needs its worker although no completion comes: to ring, to look for an
    /// answer and for how long there is none.
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

    /// The length of the target's memory, which is of this lane's peer.
    #[inline]
    pub(crate) fn learn(&mut self, target: Target, common: &mut Common) -> Option<u64> {
        let key = match target {
            Target::Memory(_) => RegionKey(0),
            Target::Compute(_, key) => RegionKey(key),
        };
        let index = usize::from(key.0);
        match self.memory.get(index) {
            Some(Some(memory)) => Some(memory.len),
            _ => self.learn_anew(target, index, common),
        }
    }

    #[cold]
    fn learn_anew(&mut self, target: Target, index: usize, common: &mut Common) -> Option<u64> {
        let Some(memory) = common.shared.memory(target, self.epoch) else {
            if self.is_stale(&common.shared) {
                self.depart(common);
            }
            // Nothing is known of what a node had that is gone. The batch will be refused as a
            // whole.
            return matches!(self.state, State::Gone).then_some(u64::MAX);
        };
        if self.memory.len() <= index {
            self.memory.resize(index + 1, None);
        }
        self.memory[index] = Some(memory);
        Some(memory.len)
    }

    /// Accepts a checked batch.
    #[inline]
    pub(crate) fn post(
        &mut self,
        common: &mut Common,
        target: Target,
        token: u64,
        requests: &[Request],
    ) {
        if matches!(self.state, State::Gone) {
            let result = Err(VerbError::Disconnected { target });
            common.completed.push_back(Completion { token, result });
        } else if self.waiting.is_empty() && self.has_room(common, requests.len()) {
            self.prepare(common, target, token, requests);
        } else {
            self.waiting.push_back(Batch { target, token, requests: requests.into() });
        }
    }

    #[inline]
    fn has_room(&self, common: &Common, requests: usize) -> bool {
        matches!(self.state, State::Connected { .. })
            && self.used + requests as u32 <= common.depth
            && common.slots.any_free()
    }

    /// Puts a batch, for which there is room, at the end of the list.
    fn prepare(&mut self, common: &mut Common, target: Target, token: u64, requests: &[Request]) {
        let State::Connected { pair } = &self.state else { unreachable!("there is room") };
        let inline = pair.inline;
        let Some(slot) = common.slots.take() else { unreachable!("there is room") };
        let key = match target {
            Target::Memory(_) => 0,
            Target::Compute(_, key) => usize::from(key),
        };
        let memory = self.memory.get(key).copied().flatten();
        let place = |offset: u64| {
            let memory = memory.expect("learned when posted");
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
                Request::Read { remote, local } | Request::ReadIf { remote, local, .. } => {
                    let (address, rkey) = place(remote);
                    self.list.read(id, common.locals.sge(local), address, rkey);
                }
                Request::Write { remote, local } => {
                    let (address, rkey) = place(remote);
                    let from = common.locals.sge(local);
                    self.list.write(id, from, local.len <= inline, address, rkey);
                }
                Request::WriteWord { remote, value } => {
                    let (address, rkey) = place(remote);
                    let from = common.slots.payload(slot, i, &[value]);
                    self.list.write(id, from, from.length <= inline, address, rkey);
                }
                Request::CompareSwap { remote, expected, desired } => {
                    let (address, rkey) = place(remote);
                    self.list.compare_swap(id, old, (expected, desired), address, rkey);
                }
                Request::FetchAdd { remote, add } => {
                    let (address, rkey) = place(remote);
                    self.list.fetch_add(id, old, add, address, rkey);
                }
                Request::Send(message) => {
                    let mut payload = [0; 1 + latchwork_verbs::Message::WORDS];
                    payload[0] = message.from.get().into();
                    payload[1..].copy_from_slice(&message.body);
                    let from = common.slots.payload(slot, i, &payload);
                    self.list.send(id, from, from.length <= inline);
                }
            }
            atomics += usize::from(request.kind() == Kind::Atomic);
        }
        // The requests of a connection complete in the order in which they were posted.
        self.list.signal_last();
        debug_assert!(requests.len() <= BATCH_MAX);
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

    /// Posts what can be posted, with one doorbell. Asks for a connection if there is none.
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
        // SAFETY: every buffer in the list is in a slot or in a region of this node. Both are
        // registered for as long as the endpoint stands, which destroys the pair first, and give
        // out racing words only. A slot is used again, and a local buffer given back to who posted,
        // when the batch's completion has come, or after the pair was destroyed.
        #[allow(unsafe_code)]
        let posted = unsafe { pair.post(&mut self.list) };
        self.list.clear();
        if posted.is_err() {
            // There is room in the queue, so the connection is broken.
            self.fail(common, now());
        }
    }

    /// Offers the peer a connection, which has to stand at `until`.
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
                // Nobody waits for it any more.
                shared.close(peer, epoch, from, answer.data.pair);
            }
        });
        self.state = State::Asking { pair, answer, until };
        common.shared.connect(peer, epoch, offer, answered);
    }

    /// Waits before the next offer, if there is time for one.
    fn pause(&mut self, common: &mut Common, now: Time, until: Time) {
        let again = now + PAUSE;
        if again < until {
            self.state = State::Pausing { again, until };
        } else {
            self.state = State::Idle;
            self.end_all(common);
        }
    }

    /// Looks whether the offer was answered, or for how long it has not been.
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
            // The peer's end of the last connection is gone, and this one takes its place, whether
            // it is used or not.
            self.responder = Some(answer.data.pair);
            pair.connect(&answer.data, common.shared.tuning())?;
            Ok(())
        });
        match connected {
            Ok(()) => {
                self.state = State::Connected { pair };
                // What was on the connection before, whose other end the peer has destroyed.
                self.end_flying(common, |target| VerbError::Ambiguous { target });
            }
            // Addresses that cannot be resolved at the moment, for instance: the way may be back
            // soon.
            Err(ConnectError::Setup(_) | ConnectError::Refused { .. }) => {
                self.pause(common, now, until);
            }
            Err(_) if self.is_stale(&common.shared) => self.depart(common),
            Err(error) => {
                tracing::warn!(peer = ?self.peer, "no connection: {error}");
                self.end_all(common);
            }
        }
    }

    /// The last request of a batch has completed, and with it all before.
    #[inline]
    pub(crate) fn completed(
        &mut self,
        common: &mut Common,
        id: u64,
        ok: bool,
        now: impl FnOnce() -> Time,
    ) {
        if (id >> 32) as u16 != self.generation {
            // Of a connection that was destroyed.
            return;
        }
        if !ok {
            self.fail(common, now());
            return;
        }
        while let Some(batch) = self.flying.pop_front() {
            let outcome = common.slots.outcome(batch.slot, batch.atomics.into());
            let last = batch.sequence == id as u32;
            self.end(common, batch, Ok(outcome));
            if last {
                return;
            }
        }
    }

    /// Whether the connection is one of these queue pairs.
    pub(crate) fn is_on(&self, pairs: &[u32]) -> bool {
        matches!(&self.state, State::Connected { pair } if pairs.contains(&pair.number))
    }

    /// The connection has failed: another one takes its place.
    pub(crate) fn fail(&mut self, common: &mut Common, now: Time) {
        // Destroys the pair.
        self.state = State::Idle;
        self.generation = self.generation.wrapping_add(1);
        // One that fails again and again does not fill a log.
        if self.generation.is_power_of_two() {
            let (peer, connections) = (self.peer, self.generation);
            tracing::warn!(?peer, connections, "a connection is lost, and another one asked for");
        }
        self.list.clear();
        self.ask(common, now, now + common.shared.config.connect_timeout);
    }

    /// The peer is gone: nothing is sent to it any more.
    pub(crate) fn depart(&mut self, common: &mut Common) {
        if matches!(self.state, State::Gone) {
            return;
        }
        tracing::info!(peer = ?self.peer, "a node is gone");
        self.state = State::Gone;
        self.end_all(common);
    }

    /// Ends everything with [`VerbError::Disconnected`].
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
        self.used = 0;
    }

    #[inline]
    fn end(&mut self, common: &mut Common, batch: Flying, result: Result<Outcome, VerbError>) {
        common.slots.give_back(batch.slot);
        self.used = self.used.saturating_sub(batch.requests.into());
        common.completed.push_back(Completion { token: batch.token, result });
    }

    /// Destroys the connection, and tells the peer, whose end is of no use then.
    pub(crate) fn close(&mut self, common: &Common) {
        self.state = State::Gone;
        if let Some(responder) = self.responder.take() {
            common.shared.close(self.peer, self.epoch, common.from, responder);
        }
    }
}
