//! [`Promise`]: a result that many wait for.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use latchwork_runtime::sync::{Arc, Mutex};
use slab::Slab;

/// A result that comes once, from one thread to tasks of any.
///
/// # Why nobody waits for what has come, or sees it before
///
/// Result and wakers are under one lock. Who waits looks at the result and leaves its waker in the
/// same critical section; who keeps the promise sets the result and takes the wakers in one. Either
/// the first comes before, and its waker is among those taken; or it comes after, and finds the
/// result. What was done before the promise was kept (a sync, say) is ordered before the lock's
/// release, and what follows the wait after its acquisition. Wakers are woken outside of the lock,
/// and a waker that is woken twice does no harm.
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
    /// Gives the result to all who wait, now and later. The first one counts.
    pub(crate) fn keep(&self, result: T) {
        let wakers = {
            let mut kept = self.0.lock();
            kept.result.get_or_insert(result);
            std::mem::take(&mut kept.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// The result, if it has come.
    pub(crate) fn result(&self) -> Option<T> {
        self.0.lock().result.clone()
    }

    /// Waits for the result.
    pub(crate) fn wait(self: &Arc<Self>) -> Wait<T> {
        Wait { promise: self.clone(), key: None }
    }
}

/// Is ready when the promise was kept. Dropping it leaves nothing behind.
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
            // Its waker went with the others.
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
            // The wakers are only all here until the promise is kept, and nobody waits anew after
            // that.
            let waker = if kept.result.is_none() { kept.wakers.try_remove(key) } else { None };
            drop(kept);
            drop(waker);
        }
    }
}
