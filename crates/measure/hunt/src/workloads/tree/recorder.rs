//! The recorded calls of the tasks, with their answers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use latchwork_blink::TreeError;
use latchwork_history::calls::{Call, CallHistory};
use latchwork_runtime::{Handle, Time};
use latchwork_strict::strict_assert;

use crate::world::Observer;

/// The calls of many clients, key by key.
pub(crate) type Calls<O> = CallHistory<u64, O>;

/// Collects the calls of all tasks.
pub(crate) struct Recorder<O> {
    observer: Rc<Observer>,
    shared: Rc<Shared<O>>,
}

struct Shared<O> {
    calls: RefCell<Calls<O>>,
    /// The calls that have not ended. The call of a crashed task may have taken effect.
    open: RefCell<BTreeMap<u64, (u64, Call<O>)>>,
    next: Cell<u64>,
}

/// The number of polls after which an operation is dropped; `None` for never.
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

    /// Runs one call. `told` makes the operation from the answer. Without an answer, `told` gets
    /// `None`: the call was dropped or failed, and may have taken effect or not.
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
        // A failed call stays open.
        if let Ok(operation) = operation {
            self.shared.open.borrow_mut().remove(&open);
            self.add(key, invoked, returned, operation);
            return Ok(());
        }
        operation.map(drop)
    }

    /// Records the start of a call. Unless it is closed, the call never ends.
    pub(crate) fn open(&self, key: u64, invoked: Time, operation: O) -> u64 {
        let id = self.shared.next.get();
        self.shared.next.set(id + 1);
        let call = Call { invoked, returned: None, operation };
        strict_assert!(!self.shared.open.borrow().contains_key(&id), "two calls have one number");
        self.shared.open.borrow_mut().insert(id, (key, call));
        strict_assert!(
            self.shared.open.borrow().len() as u64 <= id + 1,
            "more calls are open than were made"
        );
        id
    }

    /// Removes an open call. The caller adds the call with its end, if the end is known.
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

/// The answer as an option: an unknown key is `None`. Any other error stays an error.
pub(crate) fn known<T>(answer: Option<Result<T, TreeError>>) -> Result<Option<T>, TreeError> {
    match answer {
        Some(Err(TreeError::NotFound)) => Ok(None),
        other => other.transpose(),
    }
}

/// Whether an insert found its key to be new. Any error but `Exists` stays an error.
pub(crate) fn inserted(answer: Option<Result<(), TreeError>>) -> Result<bool, TreeError> {
    match answer {
        Some(Err(TreeError::Exists)) => Ok(false),
        other => Ok(other.transpose()?.is_some()),
    }
}

/// Drops `future` if it is not ready at its `polls`-th poll. Then there is no result.
pub(crate) async fn drop_after<F: Future>(polls: Polls, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    strict_assert!(polls != Some(0), "a future is dropped before its first poll");
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
