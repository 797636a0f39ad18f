//! [`Promise`]: a result that many tasks wait for.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use latchwork_runtime::sync::{Arc, Mutex};
use latchwork_strict::strict_assert;
use slab::Slab;

/// A result that is set once, for tasks of any thread.
///
/// # Why no waiter misses the result or sees it too early
///
/// 1. The result and the wakers are under one lock.
/// 2. A waiter checks for the result and leaves its waker in one critical section.
/// 3. [`keep`](Promise::keep) sets the result and takes the wakers in one critical section.
/// 4. If the waiter's section comes first, its waker is among the wakers taken. If the waiter's
///    section comes second, the waiter finds the result. So no waiter misses the result.
/// 5. The work before `keep` (for example a sync) happens before `keep` releases the lock. The code
///    after the wait runs after the waiter has acquired the lock. So no waiter sees the result too
///    early.
///
/// `keep` wakes the wakers outside of the lock. A waker that is woken twice does no harm.
#[derive(Debug)]
pub(crate) struct Promise<T>(Mutex<Kept<T>>);

#[derive(Debug)]
struct Kept<T> {
    result: Option<T>,
    wakers: Slab<Waker>,
}

impl<T> Default for Promise<T> {
    fn default() -> Self {
        Promise(Mutex::new(Kept { result: None, wakers: Slab::new() }))
    }
}

impl<T: Clone> Promise<T> {
    /// Sets the result for all present and future waiters. The first result counts.
    pub(crate) fn keep(&self, result: T) {
        let wakers = {
            let mut kept = self.0.lock();
            kept.result.get_or_insert(result);
            std::mem::take(&mut kept.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// The result, if it is set.
    pub(crate) fn result(&self) -> Option<T> {
        self.0.lock().result.clone()
    }

    pub(crate) fn wait(self: &Arc<Self>) -> Wait<T> {
        Wait { promise: self.clone(), key: None }
    }
}

/// A future that is ready when the promise is kept. Dropping the future removes its waker.
pub(crate) struct Wait<T: Clone> {
    promise: Arc<Promise<T>>,
    key: Option<usize>,
}

impl<T: Clone> Future for Wait<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        let mut kept = this.promise.0.lock();
        if let Some(result) = &kept.result {
            let result = result.clone();
            strict_assert!(kept.wakers.is_empty(), "a future waits for a kept promise");
            // `keep` has taken the waker of this future.
            this.key = None;
            return Poll::Ready(result);
        }
        match this.key.and_then(|key| kept.wakers.get_mut(key)) {
            Some(waker) => waker.clone_from(cx.waker()),
            None => this.key = Some(kept.wakers.insert(cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl<T: Clone> Drop for Wait<T> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let mut kept = self.promise.0.lock();
            // `wakers` holds the waker of this future only until the promise is kept. After that no
            // future leaves a waker.
            let waker = if kept.result.is_none() { kept.wakers.try_remove(key) } else { None };
            drop(kept);
            drop(waker);
        }
    }
}
