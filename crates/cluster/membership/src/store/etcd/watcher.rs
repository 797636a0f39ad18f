//! [`Watcher`]: watches all changes under a prefix, on behalf of all waiters of one store.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Error, Event, WatchClient, WatchOptions};
use latchwork_runtime::sync::{Arc, Weak};
use tokio::runtime::Handle;

use crate::time::Deadline;

/// The time that the watcher waits after the end of a stream, before it opens the next one.
const RETRY: Duration = Duration::from_millis(100);

/// The changes under a prefix, as far as the watcher has received them.
pub(super) struct Watcher {
    heard: Mutex<Heard>,
    news: Condvar,
}

struct Heard {
    /// The revision of the latest change that was received, or 0.
    revision: u64,
    /// The reason why no changes arrive at present.
    trouble: Option<String>,
}

impl Watcher {
    /// Watches all changes after a revision, until the watcher is dropped.
    pub(super) fn start(
        runtime: &Handle,
        client: WatchClient,
        prefix: &str,
        after: u64,
    ) -> Arc<Self> {
        let heard = Mutex::new(Heard { revision: 0, trouble: None });
        let watcher = Arc::new(Watcher { heard, news: Condvar::new() });
        runtime.spawn(watch(Arc::downgrade(&watcher), client, prefix.to_owned(), after));
        watcher
    }

    /// Waits until a change after revision `after`, or for `limit`. Returns whether there was a
    /// change. The error is the reason why the watcher does not know.
    pub(super) fn wait(&self, after: u64, limit: Duration) -> Result<bool, String> {
        let deadline = Deadline::after(limit);
        let mut heard = self.heard();
        loop {
            if heard.revision > after {
                return Ok(true);
            }
            if let Some(trouble) = &heard.trouble {
                return Err(trouble.clone());
            }
            let Some(left) = deadline.left() else { return Ok(false) };
            heard = self.news.wait_timeout(heard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, revision: u64) {
        let mut heard = self.heard();
        heard.trouble = None;
        heard.revision = heard.revision.max(revision);
        drop(heard);
        self.news.notify_all();
    }

    fn fail(&self, why: String) {
        self.heard().trouble = Some(why);
        self.news.notify_all();
    }
}

async fn watch(watcher: Weak<Watcher>, mut client: WatchClient, prefix: String, after: u64) {
    let mut next = after + 1;
    while watcher.strong_count() > 0 {
        let failed = listen(&watcher, &mut client, &prefix, &mut next).await;
        let Some(watcher) = watcher.upgrade() else { return };
        match failed {
            Ok(()) => {}
            Err(error) => watcher.fail(error.to_string()),
        }
        drop(watcher);
        tokio::time::sleep(RETRY).await;
    }
}

/// Receives changes until the stream ends. `next` is the first revision that has not arrived yet.
async fn listen(
    watcher: &Weak<Watcher>,
    client: &mut WatchClient,
    prefix: &str,
    next: &mut u64,
) -> Result<(), Error> {
    let start = i64::try_from(*next).unwrap_or(i64::MAX);
    let options = WatchOptions::new().with_prefix().with_start_revision(start).with_fragment();
    let mut stream = client.watch(prefix, Some(options)).await?;
    while let Some(message) = stream.message().await? {
        let Some(watcher) = watcher.upgrade() else { return Ok(()) };
        if message.compact_revision() > 0 {
            // etcd has compacted (deleted) the changes in between. Each waiter reads the store
            // after this wake.
            let revision = message.compact_revision().unsigned_abs();
            *next = revision;
            watcher.hear(revision);
            return Ok(());
        }
        if message.canceled() {
            return Err(Error::WatchError(message.cancel_reason().to_owned()));
        }
        let revision = |event: &Event| event.kv().map_or(0, |kv| kv.mod_revision().unsigned_abs());
        let latest = message.events().iter().map(revision).max().unwrap_or(0);
        *next = (*next).max(latest + 1);
        watcher.hear(latest);
    }
    Err(Error::WatchError("the watch was ended".into()))
}
