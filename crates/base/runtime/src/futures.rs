//! The futures that a [`crate::Handle`] returns.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::Time;
use crate::shared::Core;
use crate::timers::TimerKey;

/// A future that is ready in a sweep that begins at its deadline or later. A poll before the
/// deadline registers a timer. Dropping the future removes the timer.
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    core: Rc<Core>,
    deadline: Time,
    timer: Option<TimerKey>,
}

impl Sleep {
    pub(crate) fn new(core: Rc<Core>, deadline: Time) -> Self {
        Sleep { core, deadline, timer: None }
    }

    /// The time at which the future becomes ready.
    pub fn deadline(&self) -> Time {
        self.deadline
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.deadline <= self.core.sweep_time.get() {
            return Poll::Ready(());
        }
        let this = &mut *self;
        let mut timers = this.core.timers.borrow_mut();
        let stale = match this.timer.and_then(|key| timers.waker_mut(key)) {
            Some(waker) if waker.will_wake(cx.waker()) => None,
            Some(waker) => Some(std::mem::replace(waker, cx.waker().clone())),
            None => {
                this.timer = Some(timers.set(this.deadline, cx.waker().clone()));
                None
            }
        };
        drop(timers);
        drop(stale);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.timer {
            let waker = self.core.timers.borrow_mut().cancel(key);
            drop(waker);
        }
    }
}

/// A future that is ready at its second poll. The first poll wakes the task again, for a later
/// sweep.
#[must_use = "futures do nothing unless awaited"]
#[derive(Default)]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A future that yields once when [`Handle::coop`](crate::Handle::coop) or
/// [`Handle::catch_up`](crate::Handle::catch_up) has decided so. Otherwise the future is ready at
/// once.
#[must_use = "futures do nothing unless awaited"]
pub struct Coop(YieldNow);

impl Coop {
    pub(crate) fn new(yields: bool) -> Self {
        Coop(YieldNow { yielded: !yields })
    }
}

impl Future for Coop {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}
