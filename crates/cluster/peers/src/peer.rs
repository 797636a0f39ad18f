//! [`Peer`]: what one node knows of one id, and how far its own work for that id is.

use crate::{NodeState, NodeView};

/// The connection of this node's fabric to the holders of one id. The number is a member epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Link {
    /// The fabric knows no holder of the id.
    None,
    /// The fabric is being asked to admit this holder.
    Admitting(u64),
    /// The fabric refused this holder. A retry asks again.
    Refused(u64),
    /// The fabric knows this holder.
    Known(u64),
    /// The fabric removes this holder, and the local waits for its answers end.
    Forgetting(u64),
}

/// How far one effect is that ends well or badly, and may be repeated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Progress {
    /// Not asked for.
    Open,
    /// Asked for, and not ended.
    Running,
    /// Ended badly. A retry asks again.
    Failed,
    /// Ended well.
    Done,
}

impl Progress {
    pub(crate) fn ended(done: bool) -> Progress {
        if done { Progress::Done } else { Progress::Failed }
    }

    fn reopen(&mut self) {
        if *self == Progress::Failed {
            *self = Progress::Open;
        }
    }
}

/// What one node knows of one id.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Peer {
    /// The latest holder: its member epoch and its state.
    pub(crate) epoch: u64,
    pub(crate) state: NodeState,
    pub(crate) has_slot: bool,
    pub(crate) is_reachable: bool,
    /// The latest holder has reported that it knows this node.
    pub(crate) knows_me: bool,
    /// A view showed that every member has fenced the latest holder. This never becomes false.
    /// Fences last, and the dead node cannot reach a node that joins after that view.
    pub(crate) is_fenced_by_all: bool,
    /// The fabric may still know an earlier holder.
    pub(crate) link: Link,
    /// The holder that the fabric is fencing. This may be an earlier holder than the latest.
    pub(crate) fencing: Option<u64>,
    /// The fence of the latest holder. `fencing` says whether it is running.
    pub(crate) fence: Progress,
    /// The report that this node knows the latest holder.
    pub(crate) knows: Progress,
    /// The report that this node has fenced the latest holder.
    pub(crate) fenced: Progress,
    /// The reclaim of the latest holder.
    pub(crate) reclaim: Progress,
}

impl Peer {
    pub(crate) fn new<N>(view: &NodeView<N>) -> Peer {
        Peer {
            epoch: view.epoch,
            state: view.state,
            has_slot: view.has_slot,
            is_reachable: view.is_reachable,
            knows_me: false,
            is_fenced_by_all: false,
            link: Link::None,
            fencing: None,
            fence: Progress::Open,
            knows: Progress::Open,
            fenced: Progress::Open,
            reclaim: Progress::Open,
        }
    }

    /// The id has a later holder. The effects for the earlier holder that are running go on.
    pub(crate) fn replace<N>(&mut self, view: &NodeView<N>) {
        let Peer { link, fencing, .. } = *self;
        *self = Peer { link, fencing, ..Peer::new(view) };
    }

    /// Whether an effect on the connection is running. Such effects run one after the other.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.link, Link::Admitting(_) | Link::Forgetting(_)) || self.fencing.is_some()
    }

    /// Drops failures that matter no more, because the holder has died, has left or has a
    /// successor.
    pub(crate) fn tidy(&mut self) {
        let is_joined = self.state == NodeState::Joined;
        if !is_joined {
            self.knows.reopen();
        }
        if matches!(self.link, Link::Refused(epoch) if !is_joined || epoch != self.epoch) {
            self.link = Link::None;
        }
    }

    /// Whether an effect has failed and is worth another attempt.
    pub(crate) fn has_failed(&self) -> bool {
        let all = [self.fence, self.knows, self.fenced, self.reclaim];
        matches!(self.link, Link::Refused(_)) || all.contains(&Progress::Failed)
    }

    /// Opens everything that has failed, except a fence while an effect on the connection is
    /// running.
    pub(crate) fn retry(&mut self) {
        if matches!(self.link, Link::Refused(_)) {
            self.link = Link::None;
        }
        for progress in [&mut self.knows, &mut self.fenced, &mut self.reclaim] {
            progress.reopen();
        }
        // While the fabric forgets the peer, a failed fence stays `Failed`: the attempt still
        // counts.
        if !self.is_busy() {
            self.fence.reopen();
        }
    }

    /// Asserts what holds between any two steps. `is_served` says whether this node can reclaim.
    pub(crate) fn check(&self, is_served: bool) {
        use Progress::Open;
        let is_dead = self.state == NodeState::Dead;
        let is_joined = self.state == NodeState::Joined;
        assert!(self.fence != Progress::Running, "`fencing` says what is running");
        assert!(is_dead || self.fence == Open, "only a dead node is fenced");
        assert!(is_dead || self.reclaim == Open, "only a dead node is reclaimed");
        assert!(is_dead || !self.is_fenced_by_all, "members fence only a dead node");
        assert!(
            self.fenced == Open || self.fence == Progress::Done,
            "a fence is reported after it is certain"
        );
        assert!(
            self.reclaim == Open
                || self.is_fenced_by_all && self.fence == Progress::Done && self.has_slot,
            "a slot is emptied after all members have fenced its node"
        );
        assert!(self.reclaim == Open || is_served, "this node can reclaim");
        assert!(
            self.knows == Open || !is_joined || self.link == Link::Known(self.epoch),
            "a member is reported as known, and the fabric does not know it"
        );
        let is_linked = matches!(
            self.link,
            Link::Admitting(epoch) | Link::Known(epoch) if epoch == self.epoch
        );
        assert!(!is_linked || self.is_reachable, "a peer without an address is admitted");
        assert!(
            self.fenced != Progress::Running || is_dead,
            "the report on a fence is one on a dead node"
        );
        assert!(self.fencing.is_none_or(|epoch| epoch <= self.epoch), "a holder from no view");
        assert!(
            self.fencing != Some(self.epoch) || is_dead && self.fence == Open,
            "the running fence is one of a dead node"
        );
        match self.link {
            Link::None => {}
            Link::Admitting(epoch) => {
                assert!(epoch <= self.epoch, "a holder from no view");
                assert!(self.fencing.is_none(), "effects on the connection run one by one");
            }
            Link::Refused(epoch) => {
                assert!(epoch == self.epoch && is_joined, "a refusal of a holder that is gone");
            }
            Link::Known(epoch) => {
                assert!(epoch <= self.epoch, "a holder from no view");
                let is_gone = epoch < self.epoch || !is_joined;
                assert!(!is_gone || self.is_busy(), "a holder that is gone is forgotten at once");
            }
            Link::Forgetting(epoch) => {
                assert!(epoch < self.epoch || !is_joined, "a member is forgotten");
                assert!(self.fencing.is_none(), "effects on the connection run one by one");
                let is_tried = epoch < self.epoch || !is_dead || self.fence != Open;
                assert!(is_tried, "a dead node is forgotten before an attempt to fence it");
            }
        }
    }
}
