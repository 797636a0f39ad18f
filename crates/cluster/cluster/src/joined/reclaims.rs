//! [`Reclaims`]: reclaims dead compute nodes. A dead node is reclaimed when all members have fenced
//! it.
//!
//! ```text
//!   node C3 is dead       each node:  fence C3 ──► contact "fenced-C3 = EPOCH"
//!   (membership)                                        │ of every member
//!                                                       ▼
//!                         each compute node:  C3's epoch slot := empty      (the first does it, the others find it done)
//! ```
//!
//! The present view decides which members count:
//!
//! - A node that joins later has nothing that the dead node could know of. A memory node that joins
//!   later is not part of the pool.
//! - A member that dies before it reports the fence is not waited for. If it is a memory node, its
//!   content is lost. If it is a compute node, latch words name its lines, and no node frees these.

use std::collections::BTreeSet;
use std::rc::Rc;

use latchwork_fabric::Port;
use latchwork_membership::{Member, NodeName, View};
use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
use latchwork_verbs::{ComputeNodeId, SetupError};

use crate::ports::Ports;
use crate::reclaim::{empty_slot, may_begin};

/// The key in a node's contact for a dead node that it has fenced. The value is the dead node's
/// member epoch.
pub(super) fn fenced(node: NodeName) -> String {
    format!("fenced-{node}")
}

/// Whether all members report that they have fenced this dead node.
pub(super) fn is_fenced_by_all(view: &View, dead: &Member) -> bool {
    let (key, epoch) = (fenced(dead.node), dead.epoch.to_string());
    may_begin(view.joined().map(|member| member.contact.get(&key) == Some(&epoch)))
}

/// The nodes that this process has reclaimed, and an executor and a port for the work.
#[derive(Default)]
pub(super) struct Reclaims {
    done: BTreeSet<ComputeNodeId>,
    // Made at the first death, and used for all: a registered region is never removed.
    worker: Option<(Executor<RealDriver>, Rc<Port>)>,
}

impl Reclaims {
    /// Empties the epoch slot of a dead node, as the node `own`. Returns whether the slot is empty.
    pub(super) fn reclaim(
        &mut self,
        own: ComputeNodeId,
        ports: &Ports,
        dead: ComputeNodeId,
    ) -> bool {
        if self.done.contains(&dead) {
            return true;
        }
        // After a failure the thread tries again later.
        let done = self.try_to(own, ports, dead).unwrap_or(false);
        if done {
            self.done.insert(dead);
        }
        done
    }

    fn try_to(
        &mut self,
        own: ComputeNodeId,
        ports: &Ports,
        dead: ComputeNodeId,
    ) -> Result<bool, SetupError> {
        let (executor, port) = match &mut self.worker {
            Some(worker) => worker,
            none => {
                let executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
                let port = ports.port(own, &executor.handle())?;
                executor.handle().add_poller(port.poller());
                none.insert((executor, port))
            }
        };
        let handle = executor.handle();
        Ok(executor.block_on(empty_slot(port, &handle, dead)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchwork_membership::{MemberState, Role};
    use std::collections::BTreeMap;

    fn member(name: &str, state: MemberState, says: &[(&str, &str)]) -> Member {
        let node: NodeName = name.parse().expect("a name");
        let role = match node {
            NodeName::Memory(_) => Role::Memory { bytes: 1 << 20 },
            NodeName::Compute(_) => Role::Compute,
        };
        let contact = says.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Member { node, epoch: 7, role, contact: contact.collect(), state }
    }

    #[test]
    fn every_member_has_to_keep_the_dead_out_and_with_its_last_epoch() {
        use MemberState::{Dead, Joined, Left};
        let dead = member("C3", Dead, &[]);
        let judge = |members: &[Member]| {
            let members: BTreeMap<_, _> = members.iter().map(|m| (m.node, m.clone())).collect();
            is_fenced_by_all(&View { revision: 9, members }, &dead)
        };
        let says: &[(&str, &str)] = &[("fenced-C3", "7")];
        let (m0, c1) = (member("M0", Joined, says), member("C1", Joined, says));
        assert!(judge(&[m0.clone(), c1.clone(), dead.clone()]));
        for silent in ["M1", "C2"] {
            let silent = member(silent, Joined, &[("fenced-C4", "7")]);
            assert!(!judge(&[m0.clone(), c1.clone(), dead.clone(), silent]));
        }
        let old = member("M1", Joined, &[("fenced-C3", "6")]);
        assert!(!judge(&[m0.clone(), c1.clone(), old]));
        // A member that died or left has no memory that the dead node could touch.
        let gone = [member("M1", Dead, &[]), member("C2", Left, &[])];
        assert!(judge(&[m0, c1, dead.clone(), gone[0].clone(), gone[1].clone()]));
    }
}
