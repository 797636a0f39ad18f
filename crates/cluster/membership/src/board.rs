//! [`Board`]: the present view, its waiters and its followers.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchwork_runtime::sync::Arc;
use latchwork_strict::strict_assert;

use crate::view::View;

/// The callback that gets changed views. It may miss a view when a later view is there.
pub(crate) type Callback = Box<dyn FnMut(&View) + Send>;

/// The present view of a node.
pub(crate) struct Board {
    state: Mutex<Posted>,
    changed: Condvar,
    followers: Mutex<Vec<Arc<Mutex<Follower>>>>,
}

struct Posted {
    view: Arc<View>,
    /// Why the view may be old: the last error of the store.
    trouble: Option<String>,
    stopped: bool,
}

struct Follower {
    callback: Callback,
    /// The last view that the callback got.
    seen: Option<Arc<View>>,
}

// No code under these locks panics half-way through a change, except a callback. A panic of a
// callback on a thread of the node ends the node's lease.
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

    /// Posts a view, unless the present one is newer. Waiters and followers are notified if the
    /// members differ.
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

    /// The last error for messages: empty, or text that begins with a comma.
    pub(crate) fn troubles(&self) -> String {
        locked(&self.state).trouble.as_ref().map_or(String::new(), |why| format!(", but {why}"))
    }

    /// Wakes all waiters, so that they check the lease too.
    pub(crate) fn wake(&self) {
        // The lock is taken so that no thread is between the check in [`Board::wait`] and its
        // sleep. A caller that checked the lease before `wait` can still miss this wake.
        drop(locked(&self.state));
        self.changed.notify_all();
    }

    /// Waits until the members differ from `last`, for `limit`, or until a wake. The wait may end
    /// without a reason. After [`Board::stop`] it ends at once.
    pub(crate) fn wait(&self, last: &Arc<View>, limit: Duration) {
        let state = locked(&self.state);
        if state.view.members == last.members && !state.stopped {
            drop(self.changed.wait_timeout(state, limit));
        }
    }

    /// Ends the threads that serve this board.
    pub(crate) fn stop(&self) {
        locked(&self.state).stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        locked(&self.state).stopped
    }

    /// Sleeps for `limit`. Returns true at once when the threads must end.
    pub(crate) fn pause(&self, limit: Duration) -> bool {
        let state = locked(&self.state);
        let stopped = |state: &mut Posted| !state.stopped;
        let result = self.changed.wait_timeout_while(state, limit, stopped);
        result.unwrap_or_else(PoisonError::into_inner).0.stopped
    }
}
