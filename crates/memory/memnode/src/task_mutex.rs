//! [`Turn`]: a value that one task of the compute node uses at a time, across awaits.

use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::task::{Poll, Waker};

use latchwork_runtime::sync::Mutex;
use latchwork_strict::strict_assert;

/// A value for one task at a time, of any worker of the node.
///
/// The value moves into the guard, and returns when the guard is dropped, also with a cancelled
/// future. So the next holder finds everything that the last one wrote into the value before an
/// await. The return wakes all waiting tasks: waits are rare and short here. A dropped waiter
/// cannot lose a wake.
pub(crate) struct Turn<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    value: Option<T>,
    waiting: Vec<Waker>,
}

impl<T> Turn<T> {
    pub(crate) fn new(value: T) -> Self {
        Turn { state: Mutex::new(State { value: Some(value), waiting: Vec::new() }) }
    }

    /// The value, if no other task has it.
    pub(crate) fn try_take(&self) -> Option<TurnGuard<'_, T>> {
        let value = self.state.lock().value.take()?;
        Some(TurnGuard { turn: self, value: Some(value) })
    }

    /// Waits for the value. This has no deadline of its own: callers that must not wait for long
    /// add one.
    pub(crate) async fn take(&self) -> TurnGuard<'_, T> {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            match state.value.take() {
                Some(value) => Poll::Ready(TurnGuard { turn: self, value: Some(value) }),
                None => {
                    if !state.waiting.iter().any(|w| w.will_wake(cx.waker())) {
                        state.waiting.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// The value of a [`Turn`].
pub(crate) struct TurnGuard<'a, T> {
    turn: &'a Turn<T>,
    value: Option<T>,
}

impl<T> Deref for TurnGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("the guard has the value until it is dropped")
    }
}

impl<T> DerefMut for TurnGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("the guard has the value until it is dropped")
    }
}

impl<T> Drop for TurnGuard<'_, T> {
    fn drop(&mut self) {
        strict_assert!(self.value.is_some(), "the guard has lost the value");
        let waiting = {
            let mut state = self.turn.state.lock();
            strict_assert!(state.value.is_none(), "two tasks had the value");
            state.value = self.value.take();
            std::mem::take(&mut state.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Wake};

    use super::*;

    struct Count(AtomicU32);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_next_holder_finds_what_a_cancelled_one_wrote() {
        let turn = Turn::new(1);
        let count = Arc::new(Count(AtomicU32::new(0)));
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);

        let mut first = Box::pin(async {
            let mut value = turn.take().await;
            *value = 2;
            std::future::pending::<()>().await;
        });
        assert!(first.as_mut().poll(&mut cx).is_pending());
        let mut second = pin!(turn.take());
        assert!(second.as_mut().poll(&mut cx).is_pending());
        assert!(second.as_mut().poll(&mut cx).is_pending(), "polled twice, woken once");
        assert!(turn.try_take().is_none());
        drop(first);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        match second.poll(&mut cx) {
            Poll::Ready(value) => assert_eq!(*value, 2),
            Poll::Pending => panic!("the value is there"),
        };
    }

    #[test]
    fn a_waiter_that_is_gone_does_not_keep_the_wake_from_others() {
        let turn = Turn::new(());
        let counts = [Arc::new(Count(AtomicU32::new(0))), Arc::new(Count(AtomicU32::new(0)))];
        let wakers = counts.clone().map(Waker::from);
        let held = turn.try_take().unwrap();
        let mut gone = Box::pin(turn.take());
        assert!(gone.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
        let mut stays = Box::pin(turn.take());
        assert!(stays.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
        drop(gone);
        drop(held);
        assert_eq!(counts[1].0.load(Ordering::Relaxed), 1);
        assert!(stays.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_ready());
    }
}
