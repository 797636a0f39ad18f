//! [`Board`]: the present view, who waits for it and who follows it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchwork_runtime::sync::Arc;

use crate::view::View;

/// What is called with every view.
pub(crate) type Callback = Box<dyn FnMut(&View) + Send>;

/// The present view of a node.
pub(crate) struct Board {
    state: Mutex<Posted>,
    changed: Condvar,
    followers: Mutex<Vec<Arc<Mutex<Follower>>>>,
}

struct Posted {
    view: Arc<View>,
    /// Why the view may be old, when the store cannot be asked.
    trouble: Option<String>,
    stopped: bool,
}

struct Follower {
    callback: Callback,
    /// The last view that it was called with.
    seen: Option<Arc<View>>,
}

// Nothing that is locked here is ever half changed: only a callback can panic, and that ends its
// node.
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

    /// Puts up a view, unless a newer one is there. Whoever waits or follows learns of it when it
    /// says something else than the last.
    pub(crate) fn post(&self, view: View) {
        {
            let mut state = locked(&self.state);
            state.trouble = None;
            if view.revision <= state.view.revision {
                return;
            }
            let changed = view.members != state.view.members;
            state.view = Arc::new(view);
            if !changed {
                return;
            }
        }
        self.changed.notify_all();
        let followers = locked(&self.followers).clone();
        followers.iter().for_each(|follower| self.call(follower));
    }

    /// Calls `callback` with the present view, and with every one that comes after and says
    /// something else.
    pub(crate) fn follow(&self, callback: Callback) {
        let follower = Arc::new(Mutex::new(Follower { callback, seen: None }));
        locked(&self.followers).push(Arc::clone(&follower));
        self.call(&follower);
    }

    /// Views reach a follower in their order, because it looks for the newest while it is locked.
    fn call(&self, follower: &Mutex<Follower>) {
        let mut follower = locked(follower);
        let view = self.view();
        let seen = follower.seen.as_ref().is_some_and(|seen| seen.members == view.members);
        if !seen {
            follower.seen = Some(Arc::clone(&view));
            (follower.callback)(&view);
        }
    }

    pub(crate) fn trouble(&self, why: String) {
        locked(&self.state).trouble = Some(why);
    }

    /// For messages: nothing, or text that begins with a comma.
    pub(crate) fn troubles(&self) -> String {
        locked(&self.state).trouble.as_ref().map_or(String::new(), |why| format!(", but {why}"))
    }

    /// Wakes everybody who waits, so that they look at the lease, too.
    pub(crate) fn wake(&self) {
        // Taken so that nobody is between looking and waiting.
        drop(locked(&self.state));
        self.changed.notify_all();
    }

    /// Waits until a view of other content than `last` is there, or `limit` has passed, or somebody
    /// wakes.
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

    /// Sleeps for `limit`; true at once when the threads shall end.
    pub(crate) fn pause(&self, limit: Duration) -> bool {
        let state = locked(&self.state);
        let stopped = |state: &mut Posted| !state.stopped;
        let result = self.changed.wait_timeout_while(state, limit, stopped);
        result.unwrap_or_else(PoisonError::into_inner).0.stopped
    }
}
