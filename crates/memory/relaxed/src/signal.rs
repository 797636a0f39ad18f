//! [`Signal`]: tasks of one worker that wait for a condition.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use slab::Slab;

/// Wakes the tasks that wait for a condition.
#[derive(Default)]
pub(crate) struct Signal(RefCell<Slab<Waker>>);

/// One waiter's place in the signal, freed when the waiter is dropped.
struct Place<'a> {
    signal: &'a Signal,
    key: Option<usize>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.signal.0.borrow_mut().try_remove(key);
            drop(waker);
        }
    }
}

impl Signal {
    /// Waits until `ready` returns a value. `ready` is called now, and again after each
    /// [`wake`](Signal::wake).
    pub(crate) async fn wait<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        let mut place = Place { signal: self, key: None };
        poll_fn(|cx| {
            if let Some(value) = ready() {
                return Poll::Ready(value);
            }
            let mut wakers = self.0.borrow_mut();
            match place.key {
                Some(key) => wakers[key].clone_from(cx.waker()),
                None => place.key = Some(wakers.insert(cx.waker().clone())),
            }
            Poll::Pending
        })
        .await
    }

    /// Lets all waiting tasks check their conditions again.
    pub(crate) fn wake(&self) {
        self.0.borrow().iter().for_each(|(_, waker)| waker.wake_by_ref());
    }
}
