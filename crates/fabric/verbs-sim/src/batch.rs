//! [`Batch`]: the target, the token and the requests of a posted batch.

use latchwork_strict::strict_assert;
use latchwork_verbs::{BATCH_MAX, Target, WorkRequest, WorkRequestKind};

/// A batch as it was posted.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) target: Target,
    pub(crate) token: u64,
    pub(crate) requests: [WorkRequest; BATCH_MAX],
    pub(crate) len: usize,
}

impl Batch {
    /// Copies `requests`, 1 to [`BATCH_MAX`] of them. A `ReadIf` becomes a READ, because a NIC
    /// cannot check the condition.
    pub(crate) fn new(target: Target, token: u64, requests: &[WorkRequest]) -> Self {
        let len = requests.len();
        strict_assert!(len > 0 && len <= BATCH_MAX, "a batch of {len} requests");
        let requests = std::array::from_fn(|i| requests[i.min(len - 1)].unconditional());
        Batch { target, token, requests, len }
    }

    pub(crate) fn renew(&mut self, target: Target, token: u64, requests: &[WorkRequest]) {
        (self.target, self.token, self.len) = (target, token, requests.len());
        strict_assert!(self.len > 0 && self.len <= BATCH_MAX, "a batch of {} requests", self.len);
        for (slot, request) in self.requests.iter_mut().zip(requests) {
            *slot = request.unconditional();
        }
    }

    pub(crate) fn requests(&self) -> &[WorkRequest] {
        &self.requests[..self.len]
    }

    /// The number of READs and atomics in the batch.
    pub(crate) fn reads(&self) -> usize {
        let counts =
            |r: &&WorkRequest| matches!(r.kind(), WorkRequestKind::Read | WorkRequestKind::Atomic);
        self.requests().iter().filter(counts).count()
    }
}
