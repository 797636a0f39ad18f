//! Calls and their answers, as the tasks of a worker saw them.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use latchwork_blink::TreeError;
use latchwork_runtime::{Handle, Time};
use latchwork_workload::history::{Call, History, MapOperation};

use crate::content::{Content, Operation};

/// The calls of many clients, key by key.
pub(crate) type Calls = History<u64, Operation>;

/// Collects the calls of one worker.
#[derive(Clone)]
pub(crate) struct Recorder {
    handle: Handle,
    calls: Rc<RefCell<Calls>>,
}

/// How often an operation is polled before it is dropped; `None` for as often as it wants.
pub(crate) type Polls = Option<u64>;

impl Recorder {
    pub(crate) fn new(handle: &Handle) -> Recorder {
        Recorder { handle: handle.clone(), calls: Rc::default() }
    }

    pub(crate) fn now(&self) -> Time {
        self.handle.now()
    }

    pub(crate) fn add(
        &self,
        key: u64,
        invoked: Time,
        returned: Option<Time>,
        operation: Operation,
    ) {
        self.calls.borrow_mut().record(key, Call { invoked, returned, operation });
    }

    /// A key that was seen, or not, some time since `invoked`.
    pub(crate) fn saw(&self, key: u64, invoked: Time, found: Option<Content>) {
        self.add(key, invoked, Some(self.now()), Operation::Map(MapOperation::Get { found }));
    }

    /// Runs one call. `told` makes the operation from the answer; from `None` when there is none,
    /// since the call was dropped: it may have had its effect, or not.
    pub(crate) async fn call<T>(
        &self,
        key: u64,
        polls: Polls,
        call: impl Future<Output = Result<T, TreeError>>,
        told: impl FnOnce(Option<Result<T, TreeError>>) -> Result<Operation, TreeError>,
    ) -> Result<(), TreeError> {
        let invoked = self.now();
        let answer = drop_after(polls, call).await;
        let returned = answer.is_some().then(|| self.now());
        self.add(key, invoked, returned, told(answer)?);
        Ok(())
    }

    pub(crate) fn take(&self) -> Calls {
        self.calls.take()
    }
}

/// Drops `future` when it is not ready at its `polls`-th poll; then there is no result.
pub(crate) async fn drop_after<F: Future>(polls: Polls, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == Some(1) => Poll::Ready(None),
        Poll::Pending => {
            left = left.map(|polls| polls - 1);
            Poll::Pending
        }
    })
    .await
}
