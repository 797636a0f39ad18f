//! [`caught`]: a future whose panic does not end its thread.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::thread;

/// What a future returns, or the panic with which it ended. The worker lives on: transactions that
/// the future had begun are rolled back, and other workers need not wait for what it held until a
/// deadline.
pub(crate) async fn caught<T>(body: impl Future<Output = T>) -> thread::Result<T> {
    let mut body = pin!(body);
    poll_fn(|context| {
        // Unwind safe: the body is not polled again, and its instance opens nothing any more.
        let polled = catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(context)));
        match polled {
            Ok(end) => end.map(Ok),
            Err(payload) => Poll::Ready(Err(payload)),
        }
    })
    .await
}
