//! [`ShmEndpoint`]: collects batches, and executes them when the doorbell rings.

use std::collections::VecDeque;
use std::sync::Arc;

use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{
    BATCH_MAX, Completion, ComputeNodeId, Target, VerbError, WorkRequest, check_batch,
};

use crate::execute::{Barriers, Progress, Stop};
use crate::node::Node;
use crate::routes::Routes;
use crate::shared::Shared;

/// One worker's endpoint on the shared-memory fabric; see [`latchwork_verbs::Endpoint`].
///
/// The thread that rings executes the batches, and the next poll reports their completions. After a
/// node was cut off, a post executes the earlier batches. Only a message to a full inbox holds its
/// batch back. Every ring and every poll executes such a batch again, from the request at which the
/// batch stopped.
pub struct ShmEndpoint {
    routes: Routes,
    posted: Vec<Posted>,
    // The requests of all posted batches, in the order of posting.
    requests: Vec<WorkRequest>,
    stalled: VecDeque<Stalled>,
    completed: VecDeque<Completion>,
}

/// The largest number of bytes that one hint prefetches for a WRITE. A longer hint would displace
/// too much other data from a small first-level cache.
const EXPECTED_MAX: u32 = 4 << 10;

struct Posted {
    target: Target,
    token: u64,
    len: usize,
}

struct Stalled {
    posted: Posted,
    requests: Box<[WorkRequest]>,
    progress: Progress,
}

impl ShmEndpoint {
    pub(crate) fn new(shared: Arc<Shared>, id: ComputeNodeId, own: Arc<Node>) -> Self {
        ShmEndpoint {
            routes: Routes::new(shared, id, own),
            posted: Vec::new(),
            requests: Vec::with_capacity(BATCH_MAX),
            stalled: VecDeque::new(),
            completed: VecDeque::new(),
        }
    }

    /// Whether a post now executes earlier batches. True after a node was cut off or replaced,
    /// because earlier batches may be for this node.
    #[inline]
    pub fn submits_at_post(&self) -> bool {
        self.routes.is_outdated()
    }

    /// Whether a poll now executes requests: a message that found no room, and the requests behind
    /// the message in its batch.
    #[inline]
    pub fn submits_at_poll(&self) -> bool {
        !self.stalled.is_empty()
    }

    fn complete(&mut self, token: u64, progress: &Progress, end: Result<(), VerbError>) {
        let result = end.map(|()| progress.outcome);
        self.completed.push_back(Completion { token, result });
    }

    fn retry_stalled(&mut self, barriers: &mut Barriers) {
        // Each batch gets one attempt. A batch that still finds its inbox full goes to the back of
        // the queue. So the remaining batches keep their order.
        for _ in 0..self.stalled.len() {
            let Some(mut batch) = self.stalled.pop_front() else { return };
            let Stalled { posted: Posted { target, token, .. }, requests, progress } = &mut batch;
            match progress.advance(&self.routes, barriers, *target, requests) {
                Ok(()) => self.complete(*token, progress, Ok(())),
                Err(Stop::Failed(error)) => self.complete(*token, progress, Err(error)),
                Err(Stop::InboxFull) => self.stalled.push_back(batch),
            }
        }
    }

    fn execute_posted(&mut self, barriers: &mut Barriers) {
        let (mut batches, mut requests) =
            (std::mem::take(&mut self.posted), std::mem::take(&mut self.requests));
        let mut rest = &requests[..];
        for posted in batches.drain(..) {
            strict_assert!(rest.len() >= posted.len, "requests of a posted batch are missing");
            let (batch, behind) = rest.split_at(posted.len);
            strict_assert!(
                posted.len > 0 && posted.len <= BATCH_MAX,
                "a batch of {} requests",
                posted.len
            );
            rest = behind;
            let mut progress = Progress::default();
            match progress.advance(&self.routes, barriers, posted.target, batch) {
                Ok(()) => self.complete(posted.token, &progress, Ok(())),
                Err(Stop::Failed(error)) => self.complete(posted.token, &progress, Err(error)),
                Err(Stop::InboxFull) => {
                    self.stalled.push_back(Stalled { posted, requests: batch.into(), progress });
                }
            }
        }
        strict_assert!(rest.is_empty(), "requests belong to no batch");
        requests.clear();
        strict_assert!(
            self.posted.is_empty() && self.requests.is_empty(),
            "a batch is posted while batches are executed"
        );
        (self.posted, self.requests) = (batches, requests);
    }

    fn execute_all(&mut self) {
        let mut barriers = Barriers::default();
        strict_assert!(
            self.posted.iter().map(|posted| posted.len).sum::<usize>() == self.requests.len(),
            "each request is of one batch"
        );
        self.retry_stalled(&mut barriers);
        self.execute_posted(&mut barriers);
        barriers.finish();
    }

    /// After a node was cut off: executes all posted batches, so that the batches for this node
    /// end. Only afterwards does the endpoint look up a new node under the same id. (A batch for
    /// another node with a full inbox keeps waiting.)
    #[cold]
    fn renew_routes(&mut self) {
        self.routes.leave_dead();
        self.execute_all();
        self.routes.forget_dead();
    }
}

impl latchwork_verbs::Endpoint for ShmEndpoint {
    fn post(
        &mut self,
        target: Target,
        token: u64,
        requests: &[WorkRequest],
    ) -> Result<(), VerbError> {
        if self.routes.is_outdated() {
            self.renew_routes();
        }
        let extent = self.routes.learn_target(target)?;
        check_batch(target, requests, extent, |key| self.routes.learn_local(key))?;
        self.posted.push(Posted { target, token, len: requests.len() });
        strict_assert!(
            requests.len() <= BATCH_MAX && !requests.is_empty(),
            "a bad batch was accepted"
        );
        let first = self.requests.len();
        self.requests.extend_from_slice(requests);
        // From here on the requests address the region of the node, which has both ranges.
        let posted = &mut self.requests[first..];
        // Where nothing is on chip, each offset is its own place, and a miss counts instructions.
        if let Some(extent) = extent.filter(|extent| extent.chip_bytes > 0) {
            posted.iter_mut().for_each(|request| request.place(extent));
        }
        posted.iter().for_each(|request| self.routes.fetch_ahead(target, request));
        strict_assert_eq!(
            self.posted.iter().map(|posted| posted.len).sum::<usize>(),
            self.requests.len(),
            "each request is of one batch"
        );
        Ok(())
    }

    fn expect_write(&mut self, target: Target, remote: u64, len: u32) {
        // The address may come from a peer and be wrong, so an address outside of the memory is
        // ignored.
        if let Ok(Some(extent)) = self.routes.learn_target(target)
            && let Ok(to) = self.routes.destination(target)
        {
            to.expect_write(extent.place(remote), len.min(EXPECTED_MAX));
        }
    }

    fn ring(&mut self) {
        if self.routes.is_outdated() {
            self.renew_routes();
        }
        if self.posted.is_empty() && self.stalled.is_empty() {
            return;
        }
        self.execute_all();
        strict_assert!(
            self.posted.is_empty() && self.requests.is_empty(),
            "a rung batch stays in the queue"
        );
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> bool {
        if !self.stalled.is_empty() {
            let mut barriers = Barriers::default();
            self.retry_stalled(&mut barriers);
            barriers.finish();
        }
        let some = !self.completed.is_empty();
        self.completed.drain(..).for_each(sink);
        strict_assert!(self.completed.is_empty(), "a completion is reported twice");
        some
    }

    fn in_flight(&self) -> usize {
        self.posted.len() + self.stalled.len() + self.completed.len()
    }

    fn may_park(&self) -> bool {
        // No event wakes the worker for its batches. Posted batches wait for the worker's ring,
        // executed batches for its poll, and batches for a full inbox for its next attempt.
        self.in_flight() == 0
    }
}
