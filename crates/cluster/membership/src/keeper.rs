//! Two threads of a node: the keeper renews the lease, the follower follows the view.
//!
//! There are two threads so that a slow callback does not delay a renewal. The third thread of a
//! node is in [`process_watch`](crate::process_watch).

use std::thread;
use std::time::Duration;

use latchwork_runtime::sync::Arc;
use latchwork_strict::strict_assert;

use crate::error::MembershipError;
use crate::lease::interval;
use crate::process_watch::{self, News};
use crate::shared::Shared;
use crate::time::since_boot;
use crate::view::{MemberState, View, ViewMember};

/// The interval at which a waiting thread checks whether it must end.
const LOOK: Duration = Duration::from_millis(200);
/// The time that a thread waits after an error of the store, before it tries again.
const RETRY: Duration = Duration::from_millis(50);

/// The keeper logs a renewal as late when less than one half (1/`LATE`) of the lease was left.
const LATE: u32 = 2;
const _: () = assert!(LATE > 1 && RETRY.as_millis() < LOOK.as_millis());

pub(crate) fn start(shared: &Arc<Shared>) -> Result<(), MembershipError> {
    let news = News::of(shared)?;
    let started = spawn(shared, "keeper", keep)
        .and_then(|()| spawn(shared, "follower", follow))
        .and_then(|()| spawn(shared, "deaths", move |shared| process_watch::watch(shared, &news)));
    started.inspect_err(|_| shared.board.stop())
}

fn spawn(
    shared: &Arc<Shared>,
    name: &str,
    body: impl FnOnce(&Shared) + Send + 'static,
) -> Result<(), MembershipError> {
    let shared = Arc::clone(shared);
    let name = format!("{name}-{}", shared.me.node);
    let thread = thread::Builder::new().name(name).spawn(move || {
        let watch = Watch(&shared);
        body(watch.0);
    });
    thread.map(drop).map_err(|error| MembershipError::Thread { why: error.to_string() })
}

/// Ends the lease when the watched thread panics, most likely in a callback. Without its keeper a
/// node renews no lease, and without its follower a node learns of no death.
pub(crate) struct Watch<'a>(pub(crate) &'a Shared);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lost();
        }
    }
}

/// Renews the lease until the node stops or the lease has ended. A leave, a death or the drop of
/// the last copy of [`Membership`](crate::Membership) stops the node.
fn keep(shared: &Shared) {
    let interval = interval(shared.ttl);
    strict_assert!(
        !interval.is_zero() && interval < shared.ttl,
        "a lease ends before it is renewed"
    );
    let (mut late, mut failures) = (Occasions::default(), Occasions::default());
    // The first renewal comes at once, because joining may have used most of the lease.
    let mut pause = Duration::ZERO;
    while !shared.board.pause(pause) {
        let sent = since_boot();
        match shared.store.keep_alive(shared.lease_id, interval) {
            Ok(ttl) => {
                let (left, ttl) = (shared.lease.left(), ttl.min(shared.ttl));
                if shared.lease.extend(sent, ttl) && left < ttl / LATE && late.is_due() {
                    tracing::warn!(
                        node = %shared.me.node, ?left, lease = ?ttl, times = late.0,
                        "a renewal of the lease was late: the machine or the store is busy; a longer lease bears more"
                    );
                }
                pause = interval.saturating_sub(since_boot().saturating_sub(sent));
            }
            // Only the store can say that it has ended the lease. Whatever else it says, the lease
            // is valid until its time is over.
            Err(MembershipError::LeaseEnded) => {
                // A node that has left needs no warning.
                if shared.check() != Err(MembershipError::Left) {
                    tracing::warn!(node = %shared.me.node, "the store has ended the lease");
                }
                shared.lease.end();
            }
            Err(error) => {
                if failures.is_due() {
                    let left = shared.lease.left();
                    tracing::warn!(
                        node = %shared.me.node, %error, ?left, times = failures.0,
                        "the lease cannot be renewed now"
                    );
                }
                shared.board.trouble(error.to_string());
                pause = interval / 4;
            }
        }
        if !shared.lease.is_valid() {
            if shared.check() != Err(MembershipError::Left) {
                tracing::warn!(node = %shared.me.node, "the lease may have ended: this node stops");
            }
            shared.lost();
            return;
        }
    }
}

/// Counts a repeated event. Only the first, second, fourth, eighth occurrence and so on are
/// reported.
#[derive(Default)]
struct Occasions(u64);

impl Occasions {
    fn is_due(&mut self) -> bool {
        self.0 += 1;
        self.0.is_power_of_two()
    }
}

/// Logs the changes of other nodes between two views.
fn tell(me: &ViewMember, before: &View, after: &View) {
    for member in after.members.values().filter(|member| member.node != me.node) {
        let (node, epoch) = (member.node, member.epoch);
        if before.get(node).is_some_and(|old| (old.epoch, old.state) == (epoch, member.state)) {
            continue;
        }
        match member.state {
            MemberState::Joined => tracing::info!(%node, epoch, "another node has joined"),
            MemberState::Left => tracing::info!(%node, epoch, "another node has left"),
            MemberState::Dead => tracing::warn!(%node, epoch, "another node has died"),
        }
    }
}

/// Reads the view whenever the store reports a possible change.
fn follow(shared: &Shared) {
    let prefix = shared.keys.view();
    let mut revision = shared.board.view().revision;
    let mut failed = false;
    while !shared.board.is_stopped() {
        let news = if failed { Ok(true) } else { shared.store.wait(&prefix, revision, LOOK) };
        let view = news.and_then(|news| if news { shared.read_view().map(Some) } else { Ok(None) });
        failed = match view {
            Ok(None) => false,
            Ok(Some(view)) => {
                revision = view.revision;
                tell(&shared.me, &shared.board.view(), &view);
                if shared.has_ended(&view) {
                    shared.lost();
                }
                shared.board.post(view);
                false
            }
            Err(error) => {
                shared.board.trouble(error.to_string());
                shared.board.pause(RETRY);
                true
            }
        };
    }
}

impl Shared {
    /// Whether a view shows that this node is not in the cluster any more.
    pub(crate) fn has_ended(&self, view: &View) -> bool {
        let me = view.get(self.me.node);
        !me.is_some_and(|me| me.epoch == self.me.epoch && me.state == MemberState::Joined)
    }
}
