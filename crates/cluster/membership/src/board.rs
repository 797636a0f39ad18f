//! [`Board`]: the latest view that a node knows, the threads that wait for changes of the view, and
//! the callbacks (followers) that get the changes.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchwork_runtime::sync::Arc;
use latchwork_strict::strict_assert;

use crate::view::View;

/// A callback that gets changed views. A callback may miss a view when a later view has arrived.
pub(crate) type Callback = Box<dyn FnMut(&View) + Send>;

/// The latest view that a node knows.
pub(crate) struct Board {
    state: Mutex<Posted>,
    changed: Condvar,
    followers: Mutex<Vec<Arc<Mutex<Follower>>>>,
}

struct Posted {
    view: Arc<View>,
    /// The last error of the store, because of which the view may be old.
    trouble: Option<String>,
    stopped: bool,
}

struct Follower {
    callback: Callback,
    /// The last view that the callback got.
    seen: Option<Arc<View>>,
}

// A panic cannot leave the data under these locks half changed, except a panic of a callback. A
// panic of a callback on a thread of the node ends the node's lease.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    pub(crate) fn new(view: View) -> Self {
        let state = Posted { view: Arc::new(view), trouble: None, stopped: false };
        Board { state: Mutex::new(state), changed: Condvar::new(), followers: Mutex::default() }
    }

    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&locked(&self.state).view)
    }

    /// Replaces the view, unless the present view is as new or newer. Wakes waiters and calls
    /// followers if the members differ.
    pub(crate) fn post(&self, view: View) {
        {
            let mut state = locked(&self.state);
            state.trouble = None;
            if view.revision <= state.view.revision {
                return;
            }
            let changed = view.members != state.view.members;
            state.view = Arc::new(view);
            strict_assert!(
                state.view.members.iter().all(|(node, member)| *node == member.node),
                "a member is known by another name"
            );
            if !changed {
                return;
            }
        }
        self.changed.notify_all();
        let followers = locked(&self.followers).clone();
        followers.iter().for_each(|follower| self.call(follower));
    }

    /// Calls `callback` with the present view, and with each later view whose members differ.
    pub(crate) fn follow(&self, callback: Callback) {
        let follower = Arc::new(Mutex::new(Follower { callback, seen: None }));
        locked(&self.followers).push(Arc::clone(&follower));
        self.call(&follower);
    }

    /// Calls a follower with the newest view, unless the follower has seen the same members. The
    /// view is read under the follower's lock, so views arrive in order.
    fn call(&self, follower: &Mutex<Follower>) {
        let mut follower = locked(follower);
        let view = self.view();
        let seen = follower.seen.as_ref().is_some_and(|seen| seen.members == view.members);
        if !seen {
            follower.seen = Some(Arc::clone(&view));
            strict_assert!(
                follower.seen.as_ref().is_none_or(|seen| seen.revision <= view.revision),
                "a follower goes back to an older view"
            );
            (follower.callback)(&view);
        }
    }

    pub(crate) fn trouble(&self, why: String) {
        locked(&self.state).trouble = Some(why);
    }

    /// The last error of the store for messages: empty, or text that begins with a comma.
    pub(crate) fn troubles(&self) -> String {
        locked(&self.state).trouble.as_ref().map_or(String::new(), |why| format!(", but {why}"))
    }

    /// Wakes all waiters, so that they check the lease too.
    pub(crate) fn wake(&self) {
        // Once this thread has had the lock, each waiting thread is before its check in
        // [`Board::wait`], or asleep. A thread before its check sees the cause of this wake. A
        // sleeping thread gets the notification.
        drop(locked(&self.state));
        self.changed.notify_all();
    }

    /// Waits until the members differ from `last`, until `limit` has passed, or until a wake. The
    /// wait may also end without a cause. It ends at once after [`Board::stop`], and when `is_over`
    /// is true. `is_over` runs under the lock that [`Board::wake`] takes. So no wake is lost if
    /// `is_over` sees its cause.
    pub(crate) fn wait(&self, last: &Arc<View>, limit: Duration, is_over: impl Fn() -> bool) {
        let state = locked(&self.state);
        if state.view.members == last.members && !state.stopped && !is_over() {
            drop(self.changed.wait_timeout(state, limit));
        }
    }

    /// Makes the threads that serve this board end.
    pub(crate) fn stop(&self) {
        locked(&self.state).stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        locked(&self.state).stopped
    }

    /// Sleeps for `limit`, or until [`Board::stop`]. Returns whether the threads must end.
    pub(crate) fn pause(&self, limit: Duration) -> bool {
        let state = locked(&self.state);
        let stopped = |state: &mut Posted| !state.stopped;
        let result = self.changed.wait_timeout_while(state, limit, stopped);
        result.unwrap_or_else(PoisonError::into_inner).0.stopped
    }
}
