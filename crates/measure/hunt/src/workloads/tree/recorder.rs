//! [`Recorder`]: records the calls of the tasks with their answers.

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

/// The calls of all clients, by key.
pub(crate) type Calls<O> = CallHistory<u64, O>;

/// Records the calls of all tasks. Clones share the calls.
pub(crate) struct Recorder<O> {
    observer: Rc<Observer>,
    shared: Rc<Shared<O>>,
}

struct Shared<O> {
    calls: RefCell<Calls<O>>,
    /// The calls in progress. A call whose task dies stays in the record, because the call may have
    /// taken effect.
    open: RefCell<BTreeMap<u64, (u64, Call<O>)>>,
    next: Cell<u64>,
}

/// The number of polls after which an operation is dropped. `None`: the operation is not dropped.
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

    /// Runs one call and records it. `told` makes the recorded operation from the answer. `told`
    /// gets `None` for a call without an answer, which may have taken effect or not.
    pub(crate) async fn call<T, E>(
        &self,
        handle: &Handle,
        (key, polls): (u64, Polls),
        call: impl Future<Output = Result<T, E>>,
        told: impl Fn(Option<Result<T, E>>) -> Result<O, E>,
    ) -> Result<(), E> {
        let invoked = self.observer.time(handle);
        let open = self.open(key, invoked, told(None)?);
        let answer = drop_after(polls, call).await;
        let returned = answer.is_some().then(|| self.observer.time(handle));
        let operation = told(answer);
        // A failed call stays open, because it may have taken effect.
        if let Ok(operation) = operation {
            self.shared.open.borrow_mut().remove(&open);
            self.add(key, invoked, returned, operation);
            return Ok(());
        }
        operation.map(drop)
    }

    /// Records the start of a call, and returns its number. The call has no end unless
    /// [`close`](Recorder::close) removes it.
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

    /// Removes an open call. If the end of the call is known, the caller then adds the whole call.
    pub(crate) fn close(&self, open: u64) {
        self.shared.open.borrow_mut().remove(&open);
    }

    /// All calls, open calls included. Empties the recorder.
    pub(crate) fn take(&self) -> Calls<O> {
        let mut calls = self.shared.calls.take();
        for (_, (key, call)) in self.shared.open.take() {
            calls.record(key, call);
        }
        calls
    }
}

/// The answer of a call on an existing key. `None` if the key was not in the tree, or if there is
/// no answer. Other errors stay errors.
pub(crate) fn known<T>(answer: Option<Result<T, TreeError>>) -> Result<Option<T>, TreeError> {
    match answer {
        Some(Err(TreeError::NotFound)) => Ok(None),
        other => other.transpose(),
    }
}

/// Whether an insert succeeded. False if the key existed, or if there is no answer. Other errors
/// stay errors.
pub(crate) fn inserted(answer: Option<Result<(), TreeError>>) -> Result<bool, TreeError> {
    match answer {
        Some(Err(TreeError::Exists)) => Ok(false),
        other => Ok(other.transpose()?.is_some()),
    }
}

/// Runs `future`, and drops it if it is not ready at its `polls`-th poll. `None` if the future was
/// dropped.
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
