//! Measured code on the workers of an embedded cluster of two compute nodes.

use std::thread;
use std::time::Duration;

use latchwork_cluster::{Embedded, Member};
use latchwork_runtime::Handle;
use latchwork_runtime::sync::{AtomicUsize, Ordering};

use crate::error::Failure;
use crate::timer::pin;

/// How long workers wait for each other before they start.
const START_MAX: Duration = Duration::from_secs(600);

/// The workers that work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Team {
    pub(crate) threads: usize,
    /// Threads work on both nodes. Otherwise, and with a single thread, the second node is alive
    /// and idle.
    pub(crate) across: bool,
}

/// Frames in use on the first node.
pub(crate) fn frames_used(cluster: &Embedded) -> usize {
    let cache = cluster.nodes()[0].cache();
    cache.capacity() - cache.free_frames()
}

/// Runs `body` on the working workers, each with what `open` returns there, from the moment when
/// all of them are ready.
pub(crate) fn run<O, T: Send, E>(
    cluster: &Embedded,
    team: Team,
    open: impl AsyncFn(&Member) -> Result<O, E> + Sync,
    body: impl AsyncFn(usize, Member, O) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure>
where
    Failure: From<E>,
{
    let across = team.across && team.threads > 1;
    let per_node = if across { team.threads / 2 } else { team.threads };
    let ready = &AtomicUsize::new(0);
    let (open, body) = (&open, &body);
    let ends = cluster.run_on(per_node, async |member| {
        if !across && member.node != 0 {
            return None;
        }
        pin(member.index);
        // Also after an error, so that the other workers do not wait for this one.
        let opened = open(&member).await;
        ready.fetch_add(1, Ordering::AcqRel);
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return Some(Err(error.into())),
        };
        all_ready(&member.handle, ready, team.threads).await;
        Some(body(member.index, member, opened).await)
    })?;
    ends.into_iter().flatten().collect()
}

/// Polls until all workers are ready. A polling worker also serves requests, so no preparation
/// waits for another.
async fn all_ready(handle: &Handle, ready: &AtomicUsize, all: usize) {
    let deadline = handle.now() + START_MAX;
    // A worker that never becomes ready has ended with an error, which is reported in the end.
    while ready.load(Ordering::Acquire) < all && handle.now() < deadline {
        handle.yield_now().await;
        thread::yield_now();
    }
}
