//! Batches under way: what is expected of the agent, and what came of it.

use latchwork_verbs::{BATCH_MAX, LocalBuffer, Outcome, Request};

/// A batch from its post to its completion.
pub(crate) struct Flight {
    pub(crate) token: u64,
    /// The target's region, which the completion's error names.
    pub(crate) region: u16,
    pub(crate) outcome: Outcome,
    /// Atomics whose old values have come.
    pub(crate) atomics: usize,
    /// Frames whose replies have not come, and messages that wait to be sent again.
    pub(crate) open: usize,
    /// Whether all of it has been put into frames.
    pub(crate) whole: bool,
}

impl Flight {
    pub(crate) fn new(token: u64, region: u16) -> Self {
        let outcome = Outcome::default();
        Flight { token, region, outcome, atomics: 0, open: 0, whole: false }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.whole && self.open == 0
    }
}

/// What the reply has for one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    /// Nothing.
    Done,
    /// Eight bytes.
    Old,
    /// As many bytes as the buffer has; perhaps none at all if the READ had a condition.
    Data { local: LocalBuffer, optional: bool },
    /// Nothing; the message may be undone, for want of room in the inbox.
    Delivery,
}

impl Expect {
    fn of(request: &Request) -> Self {
        match *request {
            Request::Read { local, .. } => Expect::Data { local, optional: false },
            Request::ReadIf { local, .. } => Expect::Data { local, optional: true },
            Request::Write { .. } | Request::WriteWord { .. } => Expect::Done,
            Request::CompareSwap { .. } | Request::FetchAdd { .. } => Expect::Old,
            Request::Send(_) => Expect::Delivery,
        }
    }
}

/// A frame whose reply has not come. Replies come in the order of the frames.
pub(crate) struct Sent {
    pub(crate) seq: u32,
    /// Its batch, in the slab of flights.
    pub(crate) flight: usize,
    expects: [Expect; BATCH_MAX],
    len: usize,
}

impl Sent {
    pub(crate) fn new(seq: u32, flight: usize, requests: &[Request]) -> Self {
        let mut expects = [Expect::Done; BATCH_MAX];
        for (expect, request) in expects.iter_mut().zip(requests) {
            *expect = Expect::of(request);
        }
        Sent { seq, flight, expects, len: requests.len() }
    }

    pub(crate) fn expects(&self) -> &[Expect] {
        &self.expects[..self.len]
    }
}

/// The piece of `request` that begins `done` bytes behind its start and has `max` bytes at most; and how many
/// it has, of how many.
pub(crate) fn piece(request: &Request, done: u32, max: u32) -> (Request, u32, u32) {
    let cut = |remote: u64, local: LocalBuffer| {
        let len = (local.len - done).min(max);
        let offset = local.offset + u64::from(done);
        (remote + u64::from(done), LocalBuffer { region: local.region, offset, len }, len)
    };
    match *request {
        Request::Write { remote, local } => {
            let (remote, part, len) = cut(remote, local);
            (Request::Write { remote, local: part }, len, local.len)
        }
        // Its condition is on an atomic in another frame.
        Request::Read { remote, local } | Request::ReadIf { remote, local, .. } => {
            let (remote, part, len) = cut(remote, local);
            (Request::Read { remote, local: part }, len, local.len)
        }
        other => (other, 0, 0),
    }
}
