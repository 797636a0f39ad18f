//! Checks of the surviving nodes after all have been notified of the lost nodes: caches lose no
//! more frames, and freed memory can be reused.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::Member;
use latchwork_coherence::{AccessMode, CoherentMemory, Need};

use super::{Failed, Process, World};
use crate::WorldCheck;

/// Virtual time in which a notified node reacts.
const SEEN: Duration = Duration::from_millis(1);

/// Maximum number of lines that each survivor requests.
const LINES_MAX: usize = 64;

/// The limit for the wait until the epochs have advanced past all earlier operations. A node at
/// rest publishes its epoch within about a millisecond.
const OUTLAST: Duration = Duration::from_millis(50);

impl World {
    /// Whether this world loses nodes and notifies the other nodes.
    pub(super) fn has_survivors(&self) -> bool {
        let plan = &self.scenario.faults;
        plan.told_us > 0 && plan.departures() > 0
    }

    /// Records the number of lost frames after all notices. Until now, requests to lost nodes have
    /// cost frames. From now on, they must not.
    pub(super) fn all_notified(&self) -> Result<(), Failed> {
        if self.has_survivors() {
            self.go_on(self.now() + SEEN, &|| false)?;
            self.count_lost_frames();
        }
        Ok(())
    }

    fn count_lost_frames(&self) {
        let lost = |at| self.cluster.node(at).lost_frames();
        *self.lost_frames.borrow_mut() = (0..self.cluster.nodes().len()).map(lost).collect();
    }

    /// Checks that the survivors lose no more frames. Each survivor obtains up to [`LINES_MAX`]
    /// lines that any cache has held, in shared and in exclusive mode. Errors are permitted, but no
    /// frame may be lost.
    pub(super) fn press(&self) -> Result<(), Failed> {
        let plan = &self.scenario.faults;
        let mut may_lose = 0;
        if self.scenario.protocol.has_homes() && self.observer.has_lost_memory() {
            // A request may have arrived before its home was lost, and the answer could still write
            // into the frame. So the miss keeps its frame. Where the network reports unsent
            // batches, this holds for the first requests of a worker to each home.
            may_lose =
                if self.scenario.tells_unsent() { plan.lost_memory as usize } else { usize::MAX };
            self.count_lost_frames();
        }
        let lines: Rc<Vec<_>> = Rc::new(self.steps.borrow().lines().take(LINES_MAX).collect());
        let observer = self.observer.clone();
        let scenario = self.scenario.clone();
        self.on_each_survivor(|member| {
            let (lines, observer) = (lines.clone(), observer.clone());
            let process = Process::looking(&member, &scenario);
            async move {
                for &addr in lines.iter() {
                    for mode in [AccessMode::Shared, AccessMode::Exclusive] {
                        let access = async {
                            let _operation = member.memory.enter().await?;
                            member.memory.ensure(Need { addr, mode }).await.map(drop)
                        };
                        observer.operation(process, ("has", addr.to_string(), 2), access).await;
                    }
                }
            }
        })?;
        let lost = self.lost_frames.borrow();
        for (at, &before) in lost.iter().enumerate() {
            let now = self.cluster.node(at).lost_frames();
            if self.cluster.lives(at) && now.saturating_sub(before) > may_lose {
                let text = format!(
                    "C{}: {now} frames are kept for lines of nodes that are gone, and {before} were when it had been told of them",
                    at + 1
                );
                return self.failed(WorldCheck::Leak, text);
            }
        }
        Ok(())
    }

    /// Checks that the reclamation epochs advance, so that no lost node delays the reuse of lines.
    pub(super) fn check_epochs(&self) -> Result<(), Failed> {
        let held_up = Rc::new(RefCell::new(None));
        self.on_each_survivor(|member| {
            let held_up = Rc::clone(&held_up);
            async move {
                let (node, handle) = (member.memory.node().clone(), &member.handle);
                let epochs = node.epochs();
                let end =
                    epochs.outlast(member.memory.port(), handle, handle.now() + OUTLAST).await;
                if end != Ok(true) {
                    let text = format!("C{}: epochs do not go on: {end:?}", member.node + 1);
                    held_up.borrow_mut().get_or_insert(text);
                }
            }
        })?;
        let held_up = held_up.take();
        held_up.map_or(Ok(()), |text| self.failed(WorldCheck::Leak, text))
    }

    fn on_each_survivor<F>(&self, body: impl Fn(Member) -> F) -> Result<(), Failed>
    where
        F: Future<Output = ()> + 'static,
    {
        let workers = self.workers.borrow();
        let first = workers.iter().filter(|(_, member)| member.worker == 0);
        let living = first.filter(|(_, member)| self.cluster.lives(member.node));
        let spawn = |(_, member): &(_, Member)| {
            (member.node, member.handle.spawn_service(body(member.clone())))
        };
        let tasks: Vec<_> = living.map(spawn).collect();
        drop(workers);
        self.all_end(&tasks)
    }
}
