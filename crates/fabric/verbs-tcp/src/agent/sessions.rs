//! [`Seats`]: lets the agent execute for one connection per session, and for no connection of a
//! fenced member epoch.
//!
//! A session is the random number of a client's send queue. When a connection fails, the client
//! connects again with the same session. The agent welcomes the new connection only when no batch
//! of the old connection can be executed any more. After the welcome, the outcome of such a batch
//! may be unknown to the client, but the outcome does not change. The agent ensures this in two
//! steps:
//!
//! 1. The agent stops the old connection.
//! 2. The new connection waits for the gate of the session: a lock that a connection's task holds
//!    while it may execute.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use latchwork_runtime::sync::Mutex;
use latchwork_strict::strict_assert;
use tokio::sync::{Mutex as Gate, Notify, OwnedMutexGuard};

use crate::wire::{ClientGreeting, Refusal, TcpNode};

type Session = [u8; 16];

/// The authenticated connections of a node's agent.
pub(crate) struct Seats {
    table: Arc<Mutex<Table>>,
    max: usize,
}

#[derive(Default)]
struct Table {
    taken: BTreeMap<Session, Entry>,
    fenced: BTreeMap<TcpNode, u64>,
}

struct Entry {
    stop: Arc<Notify>,
    gate: Arc<Gate<()>>,
    from: TcpNode,
    epoch: u64,
    /// Whether this entry's connection has ended while an earlier connection of the session still
    /// holds the gate.
    abandoned: bool,
}

/// The connections that a fence has notified to stop.
#[must_use = "a connection may still execute"]
pub(crate) struct Stopping(Vec<Arc<Gate<()>>>);

impl Stopping {
    /// Waits until no connection executes any more.
    pub(crate) async fn ended(self) {
        for gate in self.0 {
            drop(gate.lock().await);
        }
    }
}

/// The right of a connection to execute for its session. The right ends when the seat is dropped or
/// stopped.
pub(crate) struct Seat {
    table: Arc<Mutex<Table>>,
    session: Session,
    stop: Arc<Notify>,
    gate: Arc<Gate<()>>,
    /// The held gate. This field is dropped after the entry is removed. So when the next connection
    /// gets the gate, no task executes for the session.
    inside: Option<OwnedMutexGuard<()>>,
}

impl Seats {
    pub(crate) fn new(max: usize) -> Self {
        Seats { table: Arc::default(), max }
    }

    /// Takes the session's seat. The call first stops the connection that has the seat, and waits
    /// for its end.
    ///
    /// A newer connection can take the seat away, also while this call waits. So the caller must
    /// run all later work inside [`Seat::until_stopped`].
    pub(crate) async fn take(&self, introduction: &ClientGreeting) -> Result<Seat, Refusal> {
        let ClientGreeting { from, epoch, session, .. } = *introduction;
        let stop = Arc::new(Notify::new());
        let gate = {
            let mut table = self.table.lock();
            if table.fenced.get(&from).is_some_and(|&fence| epoch < fence) {
                return Err(Refusal::Epoch);
            }
            let gate = match table.taken.get(&session) {
                Some(entry) => {
                    entry.stop.notify_one();
                    Arc::clone(&entry.gate)
                }
                None if table.taken.len() >= self.max => return Err(Refusal::Busy),
                None => Arc::default(),
            };
            let (stop, gate) = (Arc::clone(&stop), Arc::clone(&gate));
            let entry = Entry { stop, gate: Arc::clone(&gate), from, epoch, abandoned: false };
            table.taken.insert(session, entry);
            strict_assert!(table.taken.len() <= self.max, "more sessions than seats");
            strict_assert!(
                table.fenced.get(&from).is_none_or(|&fence| epoch >= fence),
                "a fenced node is seated"
            );
            gate
        };
        let table = Arc::clone(&self.table);
        let mut seat = Seat { table, session, stop, gate, inside: None };
        match until(&seat.stop, Arc::clone(&seat.gate).lock_owned()).await {
            Some(guard) => {
                seat.inside = Some(guard);
                Ok(seat)
            }
            // During the wait, a newer connection of the session has come, or the node was fenced.
            None => Err(Refusal::Busy),
        }
    }

    /// From now on refuses connections of `node` with a member epoch below `epoch`, and notifies
    /// its existing ones. The result waits for their end.
    pub(crate) fn fence(&self, node: TcpNode, epoch: u64) -> Stopping {
        let mut table = self.table.lock();
        let fence = table.fenced.entry(node).or_default();
        *fence = epoch.max(*fence);
        let fence = *fence;
        strict_assert!(fence >= epoch, "a fence falls");
        let old = |entry: &&Entry| entry.from == node && entry.epoch < fence;
        let stop = |entry: &Entry| {
            entry.stop.notify_one();
            Arc::clone(&entry.gate)
        };
        strict_assert!(table.fenced.get(&node) == Some(&fence), "a fence is forgotten");
        Stopping(table.taken.values().filter(old).map(stop).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.table.lock().taken.len()
    }
}

impl Seat {
    /// Runs `work` until it ends, or until a newer connection or a fence takes the seat. In the
    /// second case `work` is dropped, and the result is `None`.
    pub(crate) async fn until_stopped<F: Future>(&self, work: F) -> Option<F::Output> {
        until(&self.stop, work).await
    }
}

/// Runs `work` until it ends or `stop` is notified. If both happen, the notification counts.
async fn until<F: Future>(stop: &Notify, work: F) -> Option<F::Output> {
    let (mut stopped, mut work) = (pin!(stop.notified()), pin!(work));
    poll_fn(|context| {
        if stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    })
    .await
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        let Some(entry) = table.taken.get_mut(&self.session) else { return };
        let remove = if Arc::ptr_eq(&entry.stop, &self.stop) {
            // The entry stays while an earlier connection holds the gate. Otherwise the next
            // connection would get a new gate and would not wait for the earlier connection.
            entry.abandoned = self.inside.is_none() && self.gate.try_lock().is_err();
            !entry.abandoned
        } else {
            entry.abandoned && self.inside.is_some() && Arc::ptr_eq(&entry.gate, &self.gate)
        };
        if remove {
            table.taken.remove(&self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

    use super::*;

    fn introduction(session: u8, epoch: u64) -> ClientGreeting {
        let from = TcpNode::Compute(ComputeNodeId::new(3).unwrap());
        let to = TcpNode::Memory(MemoryNodeId(0));
        ClientGreeting { from, to, epoch, incarnation: 0, session: [session; 16] }
    }

    fn run<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn a_second_connection_of_a_session_waits_until_the_first_has_stopped() {
        run(async {
            let seats = Arc::new(Seats::new(1));
            let first = seats.take(&introduction(1, 0)).await.unwrap();
            assert_eq!(seats.take(&introduction(2, 0)).await.err(), Some(Refusal::Busy));
            let ended = Arc::new(AtomicBool::new(false));
            let task = tokio::spawn({
                let ended = Arc::clone(&ended);
                async move {
                    let never = first.until_stopped(std::future::pending::<()>()).await;
                    assert_eq!(never, None);
                    // This connection still executes, so no other connection of the session may
                    // execute.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    ended.store(true, Ordering::Relaxed);
                    drop(first);
                }
            });
            let second = seats.take(&introduction(1, 0)).await.unwrap();
            assert!(ended.load(Ordering::Relaxed));
            assert_eq!(seats.len(), 1);
            drop(second);
            assert_eq!(seats.len(), 0);
            task.await.unwrap();
        });
    }

    #[test]
    fn a_fence_stops_old_epochs_and_waits_for_their_end() {
        run(async {
            let seats = Arc::new(Seats::new(9));
            let old = seats.take(&introduction(1, 4)).await.unwrap();
            let new = seats.take(&introduction(2, 5)).await.unwrap();
            let node = introduction(1, 4).from;
            let short = Duration::from_millis(10);
            let ended = tokio::time::timeout(short, seats.fence(node, 5).ended()).await;
            assert!(ended.is_err(), "it has not stopped yet");
            // The fence holds before the old connection has stopped.
            assert_eq!(seats.take(&introduction(3, 4)).await.err(), Some(Refusal::Epoch));
            assert_eq!(old.until_stopped(std::future::pending::<()>()).await, None);
            drop(old);
            seats.fence(node, 5).ended().await;
            assert_eq!(seats.take(&introduction(3, 4)).await.err(), Some(Refusal::Epoch));
            assert_eq!(new.until_stopped(async { 7 }).await, Some(7));
            assert!(seats.take(&introduction(4, 5)).await.is_ok());
        });
    }
}
