//! [`Port`]: an endpoint with its operations, for one worker.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use latchwork_runtime::{Handle, Poller, Time};
use latchwork_strict::{strict_assert, strict_assert_eq, strict_check};
use latchwork_verbs::{
    AtomicOutcome, ComputeNodeId, Endpoint as _, Extent, MemoryNodeId, Region, RegionKey,
    SetupError, Target, VerbError, WorkRequest,
};

use crate::backend::{AnyEndpoint, AnyFabric};
use crate::buffers::{Buffer, Buffers};
use crate::closed::Closed;
use crate::operations::{After, BatchResult, Operation, Operations};
use crate::permission::Permission;

/// The bytes of one buffer of the control plane. A longer transfer takes several pieces, one after
/// another.
pub(crate) const SLOT_BYTES: usize = 4096;

/// The number of these buffers. At most this many control-plane transfers with a buffer run at one
/// time.
const SLOTS: u16 = 16;
const _: () = assert!(SLOT_BYTES.is_multiple_of(8), "a buffer holds whole words");
const _: () = assert!(SLOTS > 0, "a transfer of the control plane needs a buffer");

fn buffers(
    fabric: &AnyFabric,
    node: ComputeNodeId,
    count: u16,
    size: usize,
) -> Result<Buffers, SetupError> {
    let region = Region::zeroed(usize::from(count) * size)?;
    let key = fabric.register(node, region.clone())?;
    Ok(Buffers::new(region, key, count, size))
}

/// One worker's access to the fabric: an endpoint, and a slab that records what to do when each
/// batch completes.
///
/// A port has two kinds of users. An engine posts batches with a tag of its own, and gets the tag
/// back from [`Port::poll`]. The control plane awaits [`Port::execute`] and the word operations
/// ([`Port::read_words`] and others), which use registered scratch memory of the port.
///
/// A port makes no progress by itself. On every sweep of the worker some code must call
/// [`Port::poll`] and [`Port::ring`]. The engine's own poller does so. A worker without an engine
/// uses the poller of [`Port::poller`].
pub struct Port {
    node: ComputeNodeId,
    fabric: AnyFabric,
    permission: Permission,
    inner: RefCell<Inner>,
    /// The buffers of the control plane.
    pub(crate) scratch: Buffers,
}

struct Inner {
    endpoint: AnyEndpoint,
    operations: Operations,
    // Empty between calls; kept so that its memory is used again.
    after: Vec<After>,
}

impl Inner {
    /// Checks that each batch in flight has an entry. The other entries are results that no future
    /// has taken.
    fn check(&self) {
        let (batches, entries) = (self.endpoint.in_flight(), self.operations.len());
        assert!(batches <= entries, "{batches} batches in flight, and {entries} operations");
    }

    /// Whether the node has fenced itself. To be called before each operation that may submit a
    /// batch. The first call after the end of the permission ends all batches in flight with
    /// [`VerbError::SelfFenced`]. That call also drops the endpoint, so that batches that wait for
    /// room are never submitted.
    #[inline]
    fn is_self_fenced(&mut self, permission: &Permission) -> bool {
        permission.has_ended() && self.close()
    }

    #[cold]
    fn close(&mut self) -> bool {
        if !matches!(self.endpoint, AnyEndpoint::Closed(_)) {
            let mut closed = Closed::default();
            self.operations.in_flight().for_each(|token| closed.fail(token));
            // The endpoint is dropped before any of these completions is polled. After the drop no
            // fabric uses the local buffers, so their owners may use them.
            self.endpoint = AnyEndpoint::Closed(closed);
            strict_assert_eq!(
                self.endpoint.in_flight(),
                self.operations.in_flight().count(),
                "a batch in flight would get no end"
            );
        }
        true
    }
}

impl Port {
    /// Makes a port for one worker of `node`, which runs on the executor of `handle`.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`], [`SetupError::TooManyRegions`], [`SetupError::Region`], and
    /// [`SetupError::System`] on RDMA devices.
    pub fn new(
        fabric: &AnyFabric,
        node: ComputeNodeId,
        handle: &Handle,
    ) -> Result<Rc<Port>, SetupError> {
        Port::permitted(fabric, node, handle, Permission::default())
    }

    /// Like [`Port::new`], for a node that may touch memory only while the permission lasts. The
    /// port checks the permission before every operation that may ring a doorbell. The first check
    /// after the end of the permission ends all batches in flight with [`VerbError::SelfFenced`].
    /// All later batches end in the same way. The next [`Port::poll`] reports the ends of these
    /// batches.
    ///
    /// # Errors
    /// Like [`Port::new`].
    pub fn permitted(
        fabric: &AnyFabric,
        node: ComputeNodeId,
        handle: &Handle,
        permission: Permission,
    ) -> Result<Rc<Port>, SetupError> {
        let endpoint = fabric.endpoint(node, handle)?;
        let scratch = buffers(fabric, node, SLOTS, SLOT_BYTES)?;
        let inner = Inner { endpoint, operations: Operations::default(), after: Vec::new() };
        let fabric = fabric.clone();
        Ok(Rc::new(Port { node, fabric, permission, inner: RefCell::new(inner), scratch }))
    }

    /// The compute node of this worker.
    pub fn node(&self) -> ComputeNodeId {
        self.node
    }

    /// The lengths of the memory of a memory node; see [`AnyFabric::extent`].
    pub fn extent(&self, node: MemoryNodeId) -> Option<Extent> {
        self.fabric.extent(node)
    }

    /// The length in bytes up to which a WRITE to a memory node is whole, even if this node dies;
    /// see [`AnyFabric::whole_write`].
    pub fn whole_write(&self) -> u32 {
        self.fabric.whole_write()
    }

    /// Registers memory of the port's node, for the local buffers of posted batches.
    ///
    /// # Errors
    /// [`SetupError::TooManyRegions`], and [`SetupError::System`] on RDMA devices.
    pub fn register(&self, region: Arc<Region>) -> Result<RegionKey, SetupError> {
        self.fabric.register(self.node, region)
    }

    /// Registers memory for `count` buffers of `size` bytes, a multiple of 8.
    ///
    /// # Errors
    /// As [`register`](Port::register), and [`SetupError::Region`].
    pub fn buffers(&self, count: u16, size: usize) -> Result<Buffers, SetupError> {
        buffers(&self.fabric, self.node, count, size)
    }

    /// Posts a batch whose completion [`Port::poll`] reports with `tag`. Until this report the
    /// local buffers of the batch belong to the fabric.
    ///
    /// # Errors
    /// An error in the batch. Then the batch has no effect, and nothing is reported.
    pub fn post(
        &self,
        target: Target,
        requests: &[WorkRequest],
        tag: u64,
    ) -> Result<(), VerbError> {
        self.submit(target, requests, Operation::Engine { tag }).map(drop)
    }

    /// Posts a batch without a report of its end. The batch must have no local buffers, because no
    /// code would learn when the buffers are free.
    ///
    /// # Errors
    /// An error in the batch.
    pub fn post_unreported(
        &self,
        target: Target,
        requests: &[WorkRequest],
    ) -> Result<(), VerbError> {
        debug_assert!(requests.iter().all(|request| request.local().is_none()));
        self.submit(target, requests, Operation::Orphan { buffer: None }).map(drop)
    }

    fn submit(
        &self,
        target: Target,
        requests: &[WorkRequest],
        operation: Operation,
    ) -> Result<u64, VerbError> {
        let inner = &mut *self.inner.borrow_mut();
        if self.permission.can_end() && inner.endpoint.submits_at_post() {
            inner.is_self_fenced(&self.permission);
        }
        let Inner { endpoint, operations, .. } = inner;
        let token = operations.insert(operation);
        endpoint.post(target, token, requests).inspect_err(|_| operations.cancel(token))?;
        strict_assert!(endpoint.in_flight() > 0, "an accepted batch is not in flight");
        strict_check!(inner);
        Ok(token)
    }

    /// Posts a batch and waits for its completion.
    ///
    /// Dropping the future does not cancel the batch. The batch may still take effect, and its
    /// entry in the slab stays until the completion. The local buffers in `requests` must stay
    /// untouched until the completion, and a caller that drops the future does not see the
    /// completion. So this function is for buffers that outlive any operation, and for requests
    /// without buffers. [`execute_in`](Port::execute_in) is for all others.
    ///
    /// # Errors
    /// An error in the batch, a failure of its target, or [`VerbError::SelfFenced`].
    pub async fn execute(
        &self,
        target: Target,
        requests: &[WorkRequest],
    ) -> Result<AtomicOutcome, VerbError> {
        self.execute_in(target, requests, None).await.map(|(outcome, _)| outcome)
    }

    /// Like [`Port::execute`], for requests whose local buffers are all in `buffer`. Returns the
    /// buffer. When the future is dropped or the batch fails, the buffer is freed after the
    /// completion.
    ///
    /// # Errors
    /// As [`execute`](Port::execute).
    pub async fn execute_in(
        &self,
        target: Target,
        requests: &[WorkRequest],
        buffer: Option<Buffer>,
    ) -> Result<(AtomicOutcome, Option<Buffer>), VerbError> {
        strict_assert!(
            buffer.as_ref().is_none_or(|buffer| {
                requests.iter().filter_map(WorkRequest::local).all(|local| buffer.contains(local))
            }),
            "a batch has a buffer, and reads or writes other memory"
        );
        // The operation starts with a waker that does nothing. The first poll follows at once and
        // sets the real waker.
        let operation = Operation::Awaited { waker: Waker::noop().clone(), buffer };
        let token = self.submit(target, requests, operation)?;
        let mut execution = Execution { port: self, token: Some(token) };
        let (result, buffer) = poll_fn(|context| execution.poll(context)).await;
        result.map(|outcome| (outcome, buffer))
    }

    /// Passes the tag and the result of every completed engine batch to `sink`, and wakes the
    /// futures of the other batches. Returns true when any batch completed.
    ///
    /// The sink may post.
    pub fn poll(&self, sink: &mut dyn FnMut(u64, Result<AtomicOutcome, VerbError>)) -> bool {
        let mut after = {
            let inner = &mut *self.inner.borrow_mut();
            if self.permission.can_end() && inner.endpoint.submits_at_poll() {
                inner.is_self_fenced(&self.permission);
            }
            let Inner { endpoint, operations, after } = inner;
            endpoint.poll(&mut |completion| after.push(operations.complete(completion)));
            let after = std::mem::take(after);
            strict_check!(inner);
            after
        };
        let some = !after.is_empty();
        for after in after.drain(..) {
            match after {
                After::Report { tag, result } => sink(tag, result),
                After::Wake(waker) => waker.wake(),
                After::Free(buffer) => drop(buffer),
            }
        }
        self.inner.borrow_mut().after = after;
        some
    }

    /// Announces that a WRITE of `len` bytes to offset `remote` of `target` is likely to come; see
    /// [`latchwork_verbs::Endpoint::expect_write`].
    pub fn expect_write(&self, target: Target, remote: u64, len: u32) {
        self.inner.borrow_mut().endpoint.expect_write(target, remote, len);
    }

    /// Submits the posted batches. To be called at the end of every sweep.
    pub fn ring(&self) {
        let inner = &mut *self.inner.borrow_mut();
        if self.permission.can_end()
            && inner.endpoint.in_flight() > 0
            && inner.is_self_fenced(&self.permission)
        {
            return;
        }
        inner.endpoint.ring();
    }

    /// Whether the permission has ended. If true, batches that are posted now take no effect.
    pub fn is_barred(&self) -> bool {
        self.permission.has_ended()
    }

    /// Whether the permission can end at all.
    pub fn can_be_barred(&self) -> bool {
        self.permission.can_end()
    }

    /// The number of posted batches whose completions have not been polled.
    pub fn in_flight(&self) -> usize {
        self.inner.borrow().endpoint.in_flight()
    }

    /// Whether this port lets the worker park: true when every batch in flight will notify the
    /// executor.
    pub fn may_park(&self) -> bool {
        self.inner.borrow().endpoint.may_park()
    }

    /// Sleeps until a completion may have arrived; see [`latchwork_verbs::Endpoint::doze`].
    pub fn doze(&self, time: Duration) -> bool {
        self.inner.borrow().endpoint.doze(time)
    }

    /// The number of entries in the operation slab: batches in flight, and results that no future
    /// has taken yet.
    pub fn operations(&self) -> usize {
        self.inner.borrow().operations.len()
    }

    /// A poller that polls and rings this port, for a worker without an engine. The poller drops
    /// the reports of tags.
    pub fn poller(self: &Rc<Self>) -> Rc<dyn Poller> {
        Rc::new(PortPoller(Rc::clone(self)))
    }
}

/// The part of a future that waits for the result of its batch. Dropping it gives the result up.
struct Execution<'a> {
    port: &'a Port,
    token: Option<u64>,
}

impl Execution<'_> {
    fn poll(&mut self, context: &Context<'_>) -> Poll<(BatchResult, Option<Buffer>)> {
        let token = self.token.expect("not polled after its end");
        let done = self.port.inner.borrow_mut().operations.poll(token, context.waker());
        let Some(ended) = done else { return Poll::Pending };
        self.token = None;
        Poll::Ready(ended)
    }
}

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        let Some(token) = self.token else { return };
        let buffer = self.port.inner.borrow_mut().operations.abandon(token);
        drop(buffer);
    }
}

struct PortPoller(Rc<Port>);

impl Poller for PortPoller {
    fn poll(&self, _now: Time) -> bool {
        self.0.poll(&mut |_, _| {})
    }

    fn flush(&self) {
        self.0.ring();
    }

    fn may_park(&self) -> bool {
        self.0.may_park()
    }

    fn doze(&self, time: Duration) -> bool {
        self.0.doze(time)
    }
}
