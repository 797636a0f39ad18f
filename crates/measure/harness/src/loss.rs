//! The loss of a node or of memory, after which a run of many processes cannot continue.

use std::time::Duration;

use latchwork_membership::{MemberState, Membership, NodeIncarnation, NodeName, View};

use crate::AppError;

/// How far the view may lag behind an exchange.
const BEHIND: Duration = Duration::from_secs(1);

/// A lost node without which a run cannot continue.
#[derive(Debug)]
pub(crate) struct Loss {
    /// The node, if it is not this one.
    pub(crate) node: Option<NodeName>,
    /// Whether the node died, instead of a graceful leave.
    pub(crate) died: bool,
    /// The text for people.
    pub(crate) error: AppError,
}

impl Loss {
    fn of(node: NodeName, died: bool, text: String) -> Loss {
        Loss { node: Some(node), died, error: AppError::Failed(text) }
    }
}

/// The first lost node without which a run cannot continue.
pub(crate) fn lost(membership: &Membership, group: &[NodeIncarnation]) -> Option<Loss> {
    if !membership.lease().is_valid() {
        let text = "this node's lease has ended, so that the others go on without it: start it again, with a longer \
                    --set member-lease where it was busy";
        return Some(Loss { node: None, died: true, error: AppError::Failed(text.to_owned()) });
    }
    lost_of(&membership.view(), group, None)
}

/// A dead node of the group other than `node`. A process that fails because of a death also ends,
/// and is dead as well.
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
        format!("compute node {node} {how} during the run: start the programs of all nodes anew"),
    ))
}

/// As [`lost`], after an exchange failed: the view may lag behind the exchange.
pub(crate) fn lost_lately(membership: &Membership, group: &[NodeIncarnation]) -> Option<Loss> {
    // The view has the answer, whether the wait ended in time or not.
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
                NodeName::Memory(_) => Role::Memory { bytes: 1 << 20 },
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
        // C2 is of another run, and M1 may have left before.
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
    fn whoever_died_because_of_another_is_not_the_one_to_name() {
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
