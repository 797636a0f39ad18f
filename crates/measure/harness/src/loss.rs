//! Detects the loss of a node, after which a run of many processes cannot continue.

use std::time::Duration;

use latchwork_membership::{MemberState, Membership, NodeIncarnation, NodeName, View};

use crate::AppError;

/// How long the view may lag behind a failed exchange.
const BEHIND: Duration = Duration::from_secs(1);

/// A lost node that the run needs.
#[derive(Debug)]
pub(crate) struct Loss {
    /// The lost node. `None` if it is this process's node.
    pub(crate) node: Option<NodeName>,
    /// Whether the node died. False after a graceful leave.
    pub(crate) died: bool,
    /// The error with which the run ends.
    pub(crate) error: AppError,
}

impl Loss {
    fn of(node: NodeName, died: bool, text: String) -> Loss {
        Loss { node: Some(node), died, error: AppError::Failed(text) }
    }
}

/// The first loss that ends the run: this node's lease, a dead memory node, or a node of the group
/// that died or left.
pub(crate) fn lost(membership: &Membership, group: &[NodeIncarnation]) -> Option<Loss> {
    if !membership.lease().is_valid() {
        let text = "this node's lease has ended, so that the others go on without it: start it again, with a longer \
                    --set member-lease where it was busy";
        return Some(Loss { node: None, died: true, error: AppError::Failed(text.to_owned()) });
    }
    lost_of(&membership.view(), group, None)
}

/// A dead node of the group other than `node`, or a dead memory node. A process that fails because
/// of another node's death may be dead, too. So the other death may be the cause.
pub(crate) fn died_besides(
    membership: &Membership,
    group: &[NodeIncarnation],
    node: NodeName,
) -> Option<Loss> {
    lost_of(&membership.view(), group, Some(node)).filter(|loss| loss.died)
}

fn lost_of(view: &View, group: &[NodeIncarnation], besides: Option<NodeName>) -> Option<Loss> {
    let memory = view.dead().find(|member| member.node.memory().is_some());
    if let Some(member) = memory {
        let node = member.node;
        let text =
            format!("memory node {node} died, and what it held is lost: begin a new cluster");
        return Some(Loss::of(node, true, text));
    }
    let is_lost = |party: &&NodeIncarnation| Some(party.node) != besides && !view.is_there(**party);
    let NodeIncarnation { node, epoch } = *group.iter().find(is_lost)?;
    let now = view.get(node).filter(|now| now.epoch == epoch);
    let died = now.is_some_and(|now| now.state == MemberState::Dead);
    let how = if died { "died" } else { "left" };
    Some(Loss::of(
        node,
        died,
        format!("compute node {node} {how} during the run: start all programs anew"),
    ))
}

/// As [`lost`], after a failed exchange. The view may show the loss a little later than the
/// exchange, so this waits for up to [`BEHIND`].
pub(crate) fn lost_lately(membership: &Membership, group: &[NodeIncarnation]) -> Option<Loss> {
    // The result of the wait is not needed: the next line reads the view again.
    let _ = membership.wait(BEHIND, |view| lost_of(view, group, None).is_some());
    lost(membership, group)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use latchwork_membership::{Role, ViewMember};

    use super::*;

    fn view(members: &[(&str, MemberState)]) -> View {
        let member = |(name, state): &(&str, MemberState)| {
            let node: NodeName = name.parse().expect("a name");
            let role = match node {
                NodeName::Memory(_) => Role::Memory { bytes: 1 << 20, chip_bytes: 0 },
                NodeName::Compute(_) => Role::Compute,
            };
            let contact = BTreeMap::new();
            (node, ViewMember { node, epoch: 7, role, contact, state: *state })
        };
        View { revision: 9, members: members.iter().map(member).collect() }
    }

    #[test]
    fn the_run_hears_of_its_own_nodes_and_of_memory() {
        use MemberState::{Dead, Joined, Left};
        let party = |name: &str| NodeIncarnation { node: name.parse().expect("a name"), epoch: 7 };
        let group = ["C1", "C3"].map(party);
        let told = |members: &[(&str, MemberState)]| {
            lost_of(&view(members), &group, None).map(|loss| loss.error.to_string())
        };
        let all = [("M0", Joined), ("C1", Joined), ("C2", Joined), ("C3", Joined)];
        assert_eq!(told(&all), None);
        // C2 belongs to another run, and the run does not need a memory node that left.
        assert_eq!(told(&[all[0], all[1], ("C2", Dead), all[3]]), None);
        assert_eq!(told(&[all[0], ("M1", Left), all[1], all[3]]), None);
        for (members, how) in [
            ([all[0], all[1], ("C3", Dead)], "compute node C3 died"),
            ([all[0], all[1], ("C3", Left)], "compute node C3 left"),
            ([("M0", Dead), all[1], all[3]], "memory node M0 died"),
        ] {
            let line = told(&members).expect("one is gone");
            assert!(line.contains(how) && !line.contains('\n'), "{line}");
        }
        assert!(told(&[all[0], all[1]]).is_some(), "who is not in the view is not there");
        let again = [party("C1"), NodeIncarnation { epoch: 6, ..party("C3") }];
        let error =
            lost_of(&view(&all), &again, None).expect("another has the id").error.to_string();
        assert!(error.contains("compute node C3 left"), "{error}");
    }

    #[test]
    fn a_node_that_died_because_of_another_is_not_the_one_to_name() {
        use MemberState::{Dead, Joined};
        let group = ["C1", "C3"]
            .map(|name| NodeIncarnation { node: name.parse().expect("a name"), epoch: 7 });
        let besides = |members: &[(&str, MemberState)]| {
            let loss = lost_of(&view(members), &group, Some(group[0].node));
            loss.map(|loss| loss.error.to_string())
        };
        let line = besides(&[("C1", Dead), ("C3", Dead)]).expect("C3 is dead as well");
        assert!(line.contains("compute node C3 died"), "{line}");
        assert_eq!(besides(&[("C1", Dead), ("C3", Joined)]), None);
    }
}
