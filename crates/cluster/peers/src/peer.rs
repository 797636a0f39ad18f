//! [`Peer`]: what one node knows of one id, and the progress of the node's own effects for that id.

use crate::progress::Progress;
use crate::recovery::Recovery;
use crate::{NodeState, NodeView};

/// The state of this node's fabric for one id. The number is the member epoch of a holder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Link {
    /// The fabric knows no holder of the id.
    None,
    /// The fabric is admitting this holder.
    Admitting(u64),
    /// The fabric refused this holder. [`PeerInput::Retry`](crate::PeerInput::Retry) repeats the
    /// request.
    Refused(u64),
    /// The fabric knows this holder.
    Known(u64),
    /// The fabric is removing this holder. The local waits for the holder's answers end.
    Forgetting(u64),
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
    /// A view showed that every member has fenced the latest holder. The value never becomes false
    /// again for this holder: no fence is undone, and the dead node cannot reach a node that joins
    /// after that view.
    pub(crate) is_fenced_by_all: bool,
    /// The connection, which may still be one to an earlier holder.
    pub(crate) link: Link,
    /// The member epoch of the holder that the fabric is fencing now. It may be an earlier holder.
    pub(crate) fencing: Option<u64>,
    /// The fence of the latest holder. The value is never `Running`: `fencing` says whether a fence
    /// runs.
    pub(crate) fence: Progress,
    /// The report that this node knows the latest holder.
    pub(crate) knows: Progress,
    /// The report that this node has fenced the latest holder.
    pub(crate) fenced: Progress,
    /// The recovery from the death of the latest holder.
    pub(crate) recovery: Recovery,
    /// The reclaim of the latest holder.
    pub(crate) reclaim: Progress,
    /// The report that the reclaim after a recovery has ended.
    pub(crate) reclaimed: Progress,
}

impl Peer {
    /// `is_late`: this node acts only after all have closed this peer.
    pub(crate) fn new<N>(view: &NodeView<N>, is_late: bool) -> Peer {
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
            recovery: Recovery::new(is_late),
            reclaim: Progress::Open,
            reclaimed: Progress::Open,
        }
    }

    /// The id has a later holder. Running effects for the earlier holder continue.
    pub(crate) fn replace<N>(&mut self, view: &NodeView<N>, is_late: bool) {
        let Peer { link, fencing, .. } = *self;
        *self = Peer { link, fencing, ..Peer::new(view, is_late) };
    }

    /// Whether the fabric is admitting, forgetting or fencing a holder of the id. At most one of
    /// these effects runs at a time.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.link, Link::Admitting(_) | Link::Forgetting(_)) || self.fencing.is_some()
    }

    /// Drops failures that no longer matter, because the holder has died, has left or has a
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
        let Recovery { effect, report, .. } = self.recovery;
        let mine = [self.fence, self.knows, self.fenced, self.reclaim, self.reclaimed];
        let mut all = mine.into_iter().chain([effect, report]);
        matches!(self.link, Link::Refused(_)) || all.any(|it| it == Progress::Failed)
    }

    /// Reopens every effect that has failed, so that the machine asks for it again. A failed fence
    /// stays failed while another effect on the connection runs.
    pub(crate) fn retry(&mut self) {
        if matches!(self.link, Link::Refused(_)) {
            self.link = Link::None;
        }
        let Recovery { effect, report, .. } = &mut self.recovery;
        for progress in [&mut self.knows, &mut self.fenced, effect, report] {
            progress.reopen();
        }
        self.reclaim.reopen();
        self.reclaimed.reopen();
        // The failed fence stays `Failed` while the fabric forgets the peer. Its attempt still
        // counts as the one that has to precede `Forget`.
        if !self.is_busy() {
            self.fence.reopen();
        }
    }

    /// Asserts what holds between any two steps. `is_served` says whether this node can reclaim
    /// dead nodes.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub(crate) fn check(&self, is_served: bool) {
        use Progress::Open;
        let is_dead = self.state == NodeState::Dead;
        let is_joined = self.state == NodeState::Joined;
        assert!(self.fence != Progress::Running, "`fencing` says what is running");
        assert!(is_dead || self.fence == Open, "only a dead node is fenced");
        assert!(is_dead || self.reclaim == Open, "only a dead node is reclaimed");
        assert!(is_dead || !self.is_fenced_by_all, "members fence only a dead node");
        let recovery = &self.recovery;
        let is_new = *recovery == Recovery::new(false);
        assert!(is_dead || is_new, "only the death of a node is recovered");
        assert!(
            is_new || *recovery == Recovery::new(true) || self.is_fenced_by_all,
            "the recovery begins after all members have fenced the node"
        );
        assert!(
            recovery.report == Open || recovery.effect == Progress::Done,
            "a step is reported after its end"
        );
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
            self.reclaimed == Open || self.reclaim == Progress::Done,
            "a reclaim is reported after its end"
        );
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
