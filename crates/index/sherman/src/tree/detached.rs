//! [`Detached`]: a future that goes on after its drop.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use latchwork_runtime::Handle;

/// A future that a drop does not stop: a task of the executor finishes it. A lock that is being
/// taken, and a batch that releases one, must come to their ends.
pub(super) struct Detached<T: 'static> {
    handle: Handle,
    future: Option<Pin<Box<dyn Future<Output = T>>>>,
}

impl<T: 'static> Detached<T> {
    pub(super) fn new(handle: &Handle, future: impl Future<Output = T> + 'static) -> Detached<T> {
        Detached { handle: handle.clone(), future: Some(Box::pin(future)) }
    }
}

impl<T: 'static> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let future = self.future.as_mut().expect("not polled after its end");
        let output = std::task::ready!(future.as_mut().poll(context));
        self.future = None;
        Poll::Ready(output)
    }
}

impl<T: 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        // While a thread unwinds, its executor runs no task any more.
        if let Some(future) = self.future.take()
            && !std::thread::panicking()
        {
            drop(self.handle.spawn_finisher(async move { drop(future.await) }));
        }
    }
}
