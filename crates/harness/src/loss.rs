//! What happens to a run when a node of its cluster is gone: it ends, and says which.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use latchwork_cluster::Group;
use latchwork_membership::{MemberState, Membership, NodeName, View};

use crate::AppError;

/// Between two looks at the view, which membership keeps.
const LOOK: Duration = Duration::from_millis(100);

/// The first node that a run cannot go on without and that is gone, for people.
pub(crate) fn lost(membership: &Membership, group: &Group) -> Option<AppError> {
    if !membership.lease().is_valid() {
        let text = "this node's lease has ended, so that the others go on without it: start it again, with a longer \
                    --member-lease where it was busy";
        return Some(AppError::Failed(text.to_owned()));
    }
    lost_of(&membership.view(), group.nodes())
}

fn lost_of(view: &View, group: &[NodeName]) -> Option<AppError> {
    let memory = view.dead().find(|member| member.node.memory().is_some());
    if let Some(member) = memory {
        return Some(AppError::Failed(format!(
            "memory node {} died, and what it held is lost: begin a new cluster",
            member.node
        )));
    }
    let gone = |node: &&NodeName| view.state(**node) != Some(MemberState::Joined);
    let node = group.iter().find(gone)?;
    let how = match view.state(*node) {
        Some(MemberState::Dead) => "died",
        _ => "left",
    };
    Some(AppError::Failed(format!(
        "compute node {node} {how} during the run: start the programs of all nodes anew"
    )))
}

/// As [`lost`], after an exchange failed: the view may be behind what the exchange has seen.
pub(crate) fn lost_lately(membership: &Membership, group: &Group) -> Option<AppError> {
    // Whether that came in time or not, the answer is in the view.
    let _ = membership.wait(10 * LOOK, |view| lost_of(view, group.nodes()).is_some());
    lost(membership, group)
}

/// Runs `body`, and meanwhile looks whether all nodes are there; `fail` hears of the first that is not.
pub(crate) fn watch<T>(
    membership: &Membership,
    group: &Group,
    fail: impl Fn(AppError) + Send,
    body: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        let (done, ended) = channel::<()>();
        let look = move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if let Some(error) = lost(membership, group) {
                    return fail(error);
                }
            }
        };
        // Without a thread for it the loss shows at the end of the phase.
        let _look = std::thread::Builder::new().name("watch".into()).spawn_scoped(scope, look);
        let result = body();
        drop(done);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchwork_membership::{Member, Role};
    use std::collections::BTreeMap;

    fn view(members: &[(&str, MemberState)]) -> View {
        let member = |(name, state): &(&str, MemberState)| {
            let node: NodeName = name.parse().expect("a name");
            let role = match node {
                NodeName::Memory(_) => Role::Memory { bytes: 1 << 20 },
                NodeName::Compute(_) => Role::Compute,
            };
            let contact = BTreeMap::new();
            (node, Member { node, epoch: 7, role, contact, state: *state })
        };
        View { revision: 9, members: members.iter().map(member).collect() }
    }

    #[test]
    fn the_run_hears_of_its_own_nodes_and_of_memory() {
        use MemberState::{Dead, Joined, Left};
        let group: Vec<NodeName> = ["C1", "C3"].map(|name| name.parse().expect("a name")).into();
        let told = |members: &[(&str, MemberState)]| {
            lost_of(&view(members), &group).map(|error| error.to_string())
        };
        let all = [("M0", Joined), ("C1", Joined), ("C2", Joined), ("C3", Joined)];
        assert_eq!(told(&all), None);
        // C2 is of another run, and M1 may have been there before.
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
    }
}
