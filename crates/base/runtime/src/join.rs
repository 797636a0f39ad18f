//! [`JoinHandle`]: gives the result of a spawned task, and can abort the task.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use latchwork_strict::strict_assert;

use crate::Aborted;
use crate::mailbox::TaskId;
use crate::shared::Core;

struct Join<T> {
    /// The result. `None` before the end of the task, and after the result was taken.
    result: Option<Result<T, Aborted>>,
    ended: bool,
    waker: Option<Waker>,
}

/// The handle of a spawned task. As a future, the handle gives the task's result, or [`Aborted`].
/// Dropping the handle detaches the task, which continues.
pub struct JoinHandle<T> {
    join: Rc<RefCell<Join<T>>>,
    core: Rc<Core>,
    task: TaskId,
}

impl<T> JoinHandle<T> {
    /// Aborts the task: drops its future at once, or after the current poll if the task is running.
    /// Does nothing when the task has ended.
    pub fn abort(&self) {
        self.core.abort(self.task);
    }

    /// Whether the task has ended, with a result or aborted.
    pub fn is_finished(&self) -> bool {
        self.join.borrow().ended
    }

    /// Takes the result. `None` while the task has not ended, and after the result was taken.
    pub fn take(&self) -> Option<Result<T, Aborted>> {
        self.join.borrow_mut().result.take()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Aborted>;

    /// # Panics
    /// When the result was taken before.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut join = self.join.borrow_mut();
        if let Some(result) = join.result.take() {
            return Poll::Ready(result);
        }
        assert!(!join.ended, "the result of this task was taken before");
        if !join.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            join.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// The task's counterpart of a [`JoinHandle`]. If it is dropped before [`Completion::finish`], the
/// result is [`Aborted`].
pub(crate) struct Completion<T>(Rc<RefCell<Join<T>>>);

impl<T> Completion<T> {
    pub(crate) fn finish(self, value: T) {
        self.end(Ok(value));
    }

    fn end(&self, result: Result<T, Aborted>) {
        let waker = {
            let mut join = self.0.borrow_mut();
            if join.ended {
                return;
            }
            strict_assert!(join.result.is_none(), "a running task has no result yet");
            join.ended = true;
            join.result = Some(result);
            strict_assert!(join.ended && join.result.is_some());
            join.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Completion<T> {
    fn drop(&mut self) {
        self.end(Err(Aborted));
    }
}

/// Makes both counterparts for a task that is about to be spawned. [`Unbound::bind`] makes the
/// handle when the task has its id.
pub(crate) fn pair<T>() -> (Completion<T>, Unbound<T>) {
    let join = Rc::new(RefCell::new(Join { result: None, ended: false, waker: None }));
    (Completion(Rc::clone(&join)), Unbound(join))
}

/// The counterpart of a [`Completion`] before its task has an id.
pub(crate) struct Unbound<T>(Rc<RefCell<Join<T>>>);

impl<T> Unbound<T> {
    pub(crate) fn bind(self, core: Rc<Core>, task: TaskId) -> JoinHandle<T> {
        JoinHandle { join: self.0, core, task }
    }
}
