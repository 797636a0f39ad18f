//! [`caught`]: a future whose panic does not end its thread.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::thread;

/// Returns the result of a future, or the panic with which it ended. The worker continues to run
/// after a panic. So the open transactions of the future are undone, and other workers need not
/// wait until a deadline for its locks.
pub(crate) async fn caught<T>(body: impl Future<Output = T>) -> thread::Result<T> {
    let mut body = pin!(body);
    poll_fn(|context| {
        // Unwind safe: the body is not polled again, and the caller marks its instance as failed.
        let polled = catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(context)));
        match polled {
            Ok(end) => end.map(Ok),
            Err(payload) => Poll::Ready(Err(payload)),
        }
    })
    .await
}
