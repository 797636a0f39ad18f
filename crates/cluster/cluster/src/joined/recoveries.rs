//! [`Recoveries`]: when a node took which step of the recovery from the death of another one.

use std::time::Duration;

use latchwork_membership::{NodeIncarnation, NodeName, View};
use latchwork_peers::RecoveryStep;
use latchwork_runtime::sync::Mutex;
use latchwork_runtime::{Clock, Time};

use crate::recover::Swept;

/// What one node knows of the recovery from the death of a compute node. `None`: the node has not
/// come to that yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRecovery {
    /// The dead node.
    pub dead: NodeIncarnation,
    /// When this node's view showed the death, since all nodes of its group had come.
    pub known: Duration,
    /// When the view showed that all members had fenced the dead node, since `known`.
    pub fenced: Option<Duration>,
    /// When the view showed that no line of any node depended on the dead node any more, since
    /// `known`. Only the node that sweeps has this.
    pub claimed: Option<Duration>,
    /// When no latch word named the dead node any more, since `known`: the sweep had ended, or the
    /// view showed that.
    pub swept: Option<Duration>,
    /// Latch words that this node took the dead node out of, in its sweeps. Words that living nodes
    /// changed before the sweep are not counted.
    pub lines_released: u64,
    /// Those of them that named the dead node as the holder: what it wrote last to these lines, and
    /// no other node has seen, may be gone.
    pub lines_reverted: u64,
}

/// The recoveries that a node has taken part in, by the time when it knew of the death.
pub(super) struct Recoveries {
    clock: Clock,
    known: Mutex<Vec<(NodeRecovery, Time)>>,
}

impl Recoveries {
    pub(super) fn new() -> Recoveries {
        Recoveries { clock: Clock::start(), known: Mutex::default() }
    }

    /// The present time, on the clock of these recoveries.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Notes the nodes that died between two views.
    pub(super) fn see(&self, before: &View, view: &View) {
        let now = self.clock.now();
        let died = view.dead().map(|member| member.party()).filter(|party| {
            party.node.compute().is_some() && before.dead().all(|earlier| earlier.party() != *party)
        });
        self.known.lock().extend(died.map(|dead| {
            let recovery = NodeRecovery {
                dead,
                known: Duration::ZERO,
                fenced: None,
                claimed: None,
                swept: None,
                lines_released: 0,
                lines_reverted: 0,
            };
            (recovery, now)
        }));
    }

    /// Notes that the node begins a step for the latest holder of this name.
    pub(super) fn begin(&self, step: RecoveryStep, dead: NodeName) {
        self.note(dead, |recovery, time| match step {
            RecoveryStep::LetGo => _ = recovery.fenced.get_or_insert(time),
            RecoveryStep::Sweep => _ = recovery.claimed.get_or_insert(time),
            RecoveryStep::Clear => _ = recovery.swept.get_or_insert(time),
            RecoveryStep::Drain | RecoveryStep::Close => {}
        });
    }

    /// Notes the end of an attempt at a sweep.
    pub(super) fn end_sweep(&self, dead: NodeName, swept: &Swept, done: bool) {
        self.note(dead, |recovery, time| {
            recovery.lines_released += swept.released.get();
            recovery.lines_reverted += swept.reverted.get();
            if done {
                recovery.swept.get_or_insert(time);
            }
        });
    }

    fn note(&self, dead: NodeName, note: impl FnOnce(&mut NodeRecovery, Duration)) {
        let now = self.clock.now();
        let mut known = self.known.lock();
        if let Some((recovery, since)) =
            known.iter_mut().rev().find(|(recovery, _)| recovery.dead.node == dead)
        {
            note(recovery, now - *since);
        }
    }

    /// All recoveries. `known` counts from `began`.
    pub(super) fn since(&self, began: Time) -> Vec<NodeRecovery> {
        let with_time = |(recovery, known): &(NodeRecovery, Time)| NodeRecovery {
            known: (*known).max(began) - began,
            ..recovery.clone()
        };
        self.known.lock().iter().map(with_time).collect()
    }
}
