//! Calls and their answers, as the tasks saw them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use latchwork_blink::TreeError;
use latchwork_runtime::{Handle, Time};
use latchwork_workload::history::{Call, History};

use crate::world::Observer;

/// The calls of many clients, key by key.
pub(crate) type Calls<O> = History<u64, O>;

/// Collects the calls of all tasks.
pub(crate) struct Recorder<O> {
    observer: Rc<Observer>,
    shared: Rc<Shared<O>>,
}

struct Shared<O> {
    calls: RefCell<Calls<O>>,
    /// Calls that have not ended. Whoever dies in one may have had its effect.
    open: RefCell<BTreeMap<u64, (u64, Call<O>)>>,
    next: Cell<u64>,
}

/// How often an operation is polled before it is dropped; `None` for as often as it wants.
pub(crate) type Polls = Option<u64>;

impl<O> Clone for Recorder<O> {
    fn clone(&self) -> Self {
        Recorder { observer: self.observer.clone(), shared: self.shared.clone() }
    }
}

impl<O> Recorder<O> {
    pub(crate) fn new(observer: &Rc<Observer>) -> Recorder<O> {
        let (calls, open, next) = (RefCell::default(), RefCell::default(), Cell::new(0));
        let shared = Rc::new(Shared { calls, open, next });
        Recorder { observer: observer.clone(), shared }
    }

    pub(crate) fn add(&self, key: u64, invoked: Time, returned: Option<Time>, operation: O) {
        self.shared.calls.borrow_mut().record(key, Call { invoked, returned, operation });
    }

    /// Runs one call. `told` makes the operation from the answer; from `None` when there is none,
    /// since the call was dropped or failed: it may have had its effect, or not.
    pub(crate) async fn call<T>(
        &self,
        handle: &Handle,
        (key, polls): (u64, Polls),
        call: impl Future<Output = Result<T, TreeError>>,
        told: impl Fn(Option<Result<T, TreeError>>) -> Result<O, TreeError>,
    ) -> Result<(), TreeError> {
        let invoked = self.observer.time(handle);
        let open = self.open(key, invoked, told(None)?);
        let answer = drop_after(polls, call).await;
        let returned = answer.is_some().then(|| self.observer.time(handle));
        let operation = told(answer);
        // What failed stays open.
        if let Ok(operation) = operation {
            self.shared.open.borrow_mut().remove(&open);
            self.add(key, invoked, returned, operation);
            return Ok(());
        }
        operation.map(drop)
    }

    /// A call that has begun. Unless it is closed, it never ends.
    pub(crate) fn open(&self, key: u64, invoked: Time, operation: O) -> u64 {
        let id = self.shared.next.get();
        self.shared.next.set(id + 1);
        let call = Call { invoked, returned: None, operation };
        self.shared.open.borrow_mut().insert(id, (key, call));
        id
    }

    /// Forgets an open call; whoever knows how it ended adds it.
    pub(crate) fn close(&self, open: u64) {
        self.shared.open.borrow_mut().remove(&open);
    }

    /// All calls so far.
    pub(crate) fn take(&self) -> Calls<O> {
        let mut calls = self.shared.calls.take();
        for (_, (key, call)) in self.shared.open.take() {
            calls.record(key, call);
        }
        calls
    }
}

/// The answer, if the key was known; any other failure is one.
pub(crate) fn known<T>(answer: Option<Result<T, TreeError>>) -> Result<Option<T>, TreeError> {
    match answer {
        Some(Err(TreeError::NotFound)) => Ok(None),
        other => other.transpose(),
    }
}

/// Whether an insert found its key to be new; any other failure is one.
pub(crate) fn inserted(answer: Option<Result<(), TreeError>>) -> Result<bool, TreeError> {
    match answer {
        Some(Err(TreeError::Exists)) => Ok(false),
        other => Ok(other.transpose()?.is_some()),
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
