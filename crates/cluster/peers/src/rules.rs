//! [`PeerRules`]: the rules of the order, each with a switch for the model in `tests/model`.

/// The rules of [`Peers`](crate::Peers). Clusters use the default, where every rule holds. The
/// model switches off one rule at a time, and finds a run that breaks an invariant of the crate's
/// page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerRules {
    /// A node reports a fence only after the fabric has confirmed the fence.
    pub certain_fence: bool,
    /// A node reclaims a dead node only after every member has reported the fence. Without this
    /// rule the node's own fence is enough.
    pub all_report: bool,
    /// A report counts for one member epoch only. Without this rule a report counts for every
    /// holder of the id.
    pub epoch_counts: bool,
    /// A view that is older than an earlier arrival changes nothing. Without this rule the view
    /// that arrives last counts.
    pub latest_counts: bool,
    /// A node tries to fence a dead node before it forgets the dead node.
    pub fence_before_forget: bool,
    /// A node forgets the earlier holder of an id before it admits the next one.
    pub forget_before_admit: bool,
    /// A compute node acts only after all compute nodes with lower member epochs have reported that
    /// they know this node. Without this rule it is enough that this node knows those nodes.
    pub mutual_introduction: bool,
    /// A node drains only after all nodes have let go of the dead node.
    pub let_go_first: bool,
    /// A node closes only after all nodes have drained for each dead node, so that it closes all
    /// dead nodes together. Without this rule it closes each dead node alone.
    pub close_together: bool,
    /// A compute node that joins during a recovery acts only after all nodes have closed.
    pub act_after_close: bool,
    /// A compute node that acts takes all steps, also for a dead node that it never met. Without
    /// this rule it counts as one that has closed.
    pub actors_let_go: bool,
    /// A node reclaims a dead node only after all members have fenced every dead compute node. A
    /// dead node that has not cleared may have operations in flight that name another dead node.
    pub fence_all_first: bool,
    /// The compute nodes recover the lines of a dead compute node before they reclaim it. This is
    /// no rule of the order but a setting of the cluster, the same for all nodes.
    pub recovers: bool,
}

impl PeerRules {
    /// Whether every rule holds.
    pub(crate) fn are_whole(self) -> bool {
        PeerRules { recovers: false, ..self } == PeerRules::default()
    }
}

impl Default for PeerRules {
    fn default() -> Self {
        PeerRules {
            certain_fence: true,
            all_report: true,
            epoch_counts: true,
            latest_counts: true,
            fence_before_forget: true,
            forget_before_admit: true,
            mutual_introduction: true,
            let_go_first: true,
            close_together: true,
            act_after_close: true,
            actors_let_go: true,
            fence_all_first: true,
            recovers: false,
        }
    }
}
