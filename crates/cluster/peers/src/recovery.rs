//! The steps of the recovery from the death of a compute node, and what one node knows of them.

use crate::progress::Progress;

/// A step of the recovery from the death of a compute node. Each compute node takes each step,
/// except [`Sweep`](RecoveryStep::Sweep), and reports its end. The next step begins when all
/// compute nodes have reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecoveryStep {
    /// The node lets go of the dead node: it answers what it has queued, and sends no requests
    /// until it has closed.
    LetGo,
    /// The node handles all messages that other nodes sent before they let go.
    Drain,
    /// No request of the node is left at a living node. Each line resolves what it waits for. The
    /// step ends when no line depends on the dead node.
    Close,
    /// One node takes the dead node out of all latch words.
    Sweep,
    /// All operations are complete that may have found the dead node in a latch word.
    Clear,
}

impl RecoveryStep {
    /// All steps, in their order.
    pub const ALL: [RecoveryStep; 5] = [
        RecoveryStep::LetGo,
        RecoveryStep::Drain,
        RecoveryStep::Close,
        RecoveryStep::Sweep,
        RecoveryStep::Clear,
    ];

    fn next(self) -> Option<RecoveryStep> {
        Self::ALL.get(self as usize + 1).copied()
    }
}

/// What one node knows of the recovery from the death of one peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Recovery {
    /// The node's present step. `None`: the last step is over at all nodes.
    pub(crate) step: Option<RecoveryStep>,
    /// The effect of the step.
    pub(crate) effect: Progress,
    /// The report on the end of the step.
    pub(crate) report: Progress,
    /// The last step that a view has shown to be over at all nodes. This never goes back: a node
    /// that joins later has not met the dead node.
    pub(crate) over: Option<RecoveryStep>,
}

impl Recovery {
    /// The recovery from a death to come. `is_late`: the node is dead in the first view that shows
    /// it, and this node does not act yet. This node acts only after all have closed, so it has
    /// nothing to close. A node that acts takes all steps, also if the dead node has never acted:
    /// the others close what they have asked of this node.
    pub(crate) fn new(is_late: bool) -> Recovery {
        let (step, effect) = match is_late {
            true => (RecoveryStep::Close, Progress::Done),
            false => (RecoveryStep::LetGo, Progress::Open),
        };
        Recovery { step: Some(step), effect, report: Progress::Open, over: None }
    }

    /// Whether this step is over at all nodes.
    pub(crate) fn is_over(&self, step: RecoveryStep) -> bool {
        self.over >= Some(step)
    }

    /// Goes on to the next step, when the present one is over at all nodes. An effect that runs
    /// ends first. Without `let_go_first` the node drains after its own report.
    pub(crate) fn go_on(&mut self, let_go_first: bool) {
        while let Some(step) = self.step
            && (self.is_over(step)
                || !let_go_first && step == RecoveryStep::LetGo && self.report == Progress::Done)
            && self.effect != Progress::Running
            && self.report != Progress::Running
        {
            (self.step, self.effect, self.report) = (step.next(), Progress::Open, Progress::Open);
        }
    }
}
