//! What those have who live on, when they know who is gone: caches as large as they were, and memory that is freed and used again.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::Member;

use super::{Failed, World};
use crate::Check;

/// How long nodes give back their lines, and how often they try.
const ROUNDS: usize = 20;
const ROUND: Duration = Duration::from_micros(50);

/// How long it may take until operations that began before are over on all nodes. A node at rest says so about a millisecond later.
const OUTLAST: Duration = Duration::from_millis(50);

impl World {
    /// Whether the living were told of somebody who is gone.
    pub(super) fn has_survivors(&self) -> bool {
        let plan = &self.scenario.faults;
        plan.told_us > 0 && plan.departures() > 0
    }

    /// How many frames each node that lives can use for any line; all of them, if it is at rest and nothing was lost.
    pub(super) fn room(&self) -> Result<Vec<(usize, usize)>, Failed> {
        let found = Rc::new(RefCell::new(Vec::new()));
        self.on_each_survivor(|member| {
            let found = Rc::clone(&found);
            async move {
                let cache = member.memory.node().cache();
                for _ in 0..ROUNDS {
                    let lines: Vec<_> = cache.lines().map(|(line, _)| line).collect();
                    lines.into_iter().for_each(|line| _ = member.memory.evict(line));
                    member.handle.sleep(ROUND).await;
                }
                found.borrow_mut().push((member.node, cache.free_frames()));
            }
        })?;
        let mut found = found.take();
        found.sort_unstable();
        Ok(found)
    }

    /// Since everybody knew who is gone, nobody has lost a frame to a line of theirs, however often it was asked for.
    pub(super) fn check_room(&self, before: &[(usize, usize)]) -> Result<(), Failed> {
        for (&(node, before), (_, now)) in before.iter().zip(self.room()?) {
            if now < before {
                let text = format!(
                    "C{}: {now} frames are left for lines, and {before} were when it knew already who is gone",
                    node + 1
                );
                return self.failed(Check::Leak, text);
            }
        }
        Ok(())
    }

    /// The cluster's epochs go on: nobody who is gone holds up the reuse of lines.
    pub(super) fn check_epochs(&self) -> Result<(), Failed> {
        let held_up = Rc::new(RefCell::new(None));
        self.on_each_survivor(|member| {
            let held_up = Rc::clone(&held_up);
            async move {
                let (node, handle) = (member.memory.node().clone(), &member.handle);
                let epochs = node.epochs();
                let end = epochs.outlast(member.memory.port(), handle, handle.now() + OUTLAST).await;
                if end != Ok(true) {
                    let text = format!("C{}: epochs do not go on: {end:?}", member.node + 1);
                    held_up.borrow_mut().get_or_insert(text);
                }
            }
        })?;
        let held_up = held_up.take();
        held_up.map_or(Ok(()), |text| self.failed(Check::Leak, text))
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
