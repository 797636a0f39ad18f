//! [`Membership::exchange`]: a barrier at which every compute node gives a value and gets all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::Duration;

use crate::error::MembershipError;
use crate::keys::{Call, decode, encode, foreign};
use crate::membership::{Membership, Shared, fits};
use crate::name::{NodeName, checked};
use crate::store::{Change, Compare, Snapshot};
use crate::time::Deadline;
use crate::view::{Member, MemberState, View};

/// Whoever waits looks this often at its lease.
const LOOK: Duration = Duration::from_millis(200);

/// The exchange that this node has completed last, and with whom.
pub(crate) struct Completed {
    name: String,
    parties: BTreeSet<NodeName>,
}

impl Membership {
    /// Waits until `parties` compute nodes, this one among them, have given a value under `name`, and returns the
    /// values of all, by node. A name is used once in the time of a node, and again only when all who used it
    /// have left.
    ///
    /// When one of those that could still come dies, and those left are too few, everybody learns at once;
    /// likewise when one leaves that was there during the call.
    ///
    /// # Errors
    /// [`MembershipError::Gone`], [`MembershipError::Disagreement`], [`MembershipError::Deadline`] when not all
    /// have come within `limit`; [`MembershipError::LeaseEnded`] as soon as this node's has;
    /// [`MembershipError::TooLong`]; what keeps the store from answering.
    pub fn exchange(
        &self,
        name: &str,
        parties: usize,
        value: &[u8],
        limit: Duration,
    ) -> Result<Vec<(NodeName, Vec<u8>)>, MembershipError> {
        let exchange = Exchange {
            shared: self.shared(),
            name: checked("exchange", name)?,
            parties,
            deadline: Deadline::after(limit),
        };
        exchange.give(value)?;
        exchange.take()
    }
}

struct Exchange<'a> {
    shared: &'a Shared,
    name: &'a str,
    parties: usize,
    deadline: Deadline,
}

/// What is known of an exchange at some moment.
enum Progress {
    Complete(BTreeSet<NodeName>),
    Waiting { revision: u64, given: BTreeSet<NodeName> },
}

impl Exchange<'_> {
    fn disagree(&self, why: String) -> MembershipError {
        MembershipError::Disagreement { exchange: self.name.to_owned(), why }
    }

    /// Puts this node's call and value, in one transaction.
    fn give(&self, value: &[u8]) -> Result<(), MembershipError> {
        let Shared { keys, store, me, .. } = self.shared;
        let call_key = format!("{}{}", keys.exchange(self.name)?, me.node);
        let value_key = format!("{}{}", keys.values(self.name)?, me.node);
        let call = encode(&Call { epoch: me.epoch, parties: self.parties });
        let changes = [
            Change::Put { key: call_key.clone(), value: call, lease: None },
            Change::Put { key: value_key, value: value.to_vec(), lease: None },
        ];
        fits(&format!("the value for exchange {:?}", self.name), &changes[1])?;
        if me.node.compute().is_none() {
            return Err(self.disagree(format!("{} is no compute node", me.node)));
        }
        let mut tried = false;
        while let Some(left) = self.deadline.left() {
            self.shared.check()?;
            let attempt = store.get(&call_key, left).and_then(|old| {
                let compare = match &old {
                    None => Compare::Absent(call_key.clone()),
                    Some(old) if decode::<Call>(&store.describe(), old)?.epoch == me.epoch => {
                        let again = || self.disagree(format!("{} has used the name", me.node));
                        return if tried { Ok(true) } else { Err(again()) };
                    }
                    // Of an earlier node with this id.
                    Some(old) => Compare::Unchanged(call_key.clone(), old.modified),
                };
                tried = true;
                let made = store.commit(&[self.shared.alive(), compare], &changes, left)?;
                // Nobody else writes this key: it was the other comparison, or the answer was lost.
                Ok(made.is_some())
            });
            match attempt {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    let view = self.shared.read_view()?;
                    let here = view.get(me.node).is_some_and(|member| {
                        member.epoch == me.epoch && member.state == MemberState::Joined
                    });
                    if !here {
                        return Err(self.shared.found_ended());
                    }
                }
                Err(error) => self.bear(error)?,
            }
        }
        Err(self
            .shared
            .deadline(&format!("exchange {:?} to begin", self.name), self.deadline.limit))
    }

    /// Goes on after an error that may pass.
    fn bear(&self, error: MembershipError) -> Result<(), MembershipError> {
        if !error.is_passing() {
            return Err(error);
        }
        self.shared.board.trouble(error.to_string());
        self.shared.board.pause(LOOK.min(self.deadline.limit) / 4);
        Ok(())
    }

    /// Waits for the others.
    fn take(&self) -> Result<Vec<(NodeName, Vec<u8>)>, MembershipError> {
        let mut witnessed = BTreeMap::new();
        let mut come = BTreeSet::from([self.shared.me.node]);
        while let Some(left) = self.deadline.left() {
            let looked = self.look(&mut witnessed).and_then(|progress| match progress {
                Progress::Complete(parties) => self.values(&parties).map(Some),
                Progress::Waiting { revision, given } => {
                    come = given;
                    self.shared.check()?;
                    let (root, pause) = (self.shared.keys.root(), left.min(LOOK));
                    self.shared.store.wait(root, revision, pause).map(|_| None)
                }
            });
            match looked {
                Ok(None) => {}
                Ok(Some(values)) => return Ok(values),
                Err(error) => {
                    self.shared.check()?;
                    self.bear(error)?;
                }
            }
        }
        let come: Vec<String> = come.iter().map(NodeName::to_string).collect();
        let (n, parties, come) = (come.len(), self.parties, come.join(" "));
        let what = format!("exchange {:?}: {n} of {parties} nodes have come ({come})", self.name);
        Err(self.shared.deadline(&what, self.deadline.limit))
    }

    fn look(&self, witnessed: &mut BTreeMap<NodeName, u64>) -> Result<Progress, MembershipError> {
        let Shared { keys, store, limit, .. } = self.shared;
        let limit = self.deadline.left().unwrap_or_default().min(*limit);
        let snapshot = store.range(&keys.exchange(self.name)?, limit)?;
        // Read after it, so that whoever has given a value is in the view.
        let view = self.shared.read_view()?;
        let given = self.given(&snapshot, &view)?;
        if given.len() == self.parties {
            return Ok(Progress::Complete(given));
        }
        if given.len() > self.parties {
            let (come, parties) = (given.len(), self.parties);
            return Err(self.disagree(format!("{come} nodes have come for {parties} parties")));
        }
        witnessed.extend(view.compute().map(|member| (member.node, member.epoch)));
        let possible = view.compute().map(|member| member.node).chain(given.iter().copied());
        if possible.collect::<BTreeSet<_>>().len() < self.parties {
            self.gone(&view, &given, witnessed)?;
        }
        Ok(Progress::Waiting { revision: snapshot.revision, given })
    }

    /// Who has given a value, of those who count.
    fn given(
        &self,
        snapshot: &Snapshot,
        view: &View,
    ) -> Result<BTreeSet<NodeName>, MembershipError> {
        let Shared { keys, store, me, .. } = self.shared;
        let prefix = keys.exchange(self.name)?;
        let mut given = BTreeSet::new();
        for entry in &snapshot.entries {
            let node = entry.key.strip_prefix(&prefix).and_then(|node| node.parse().ok());
            let node = node.ok_or_else(|| foreign(&store.describe(), entry, "it names no node"))?;
            let call: Call = decode(&store.describe(), entry)?;
            let holder = view.get(node).filter(|member| member.epoch == call.epoch);
            // Whoever has been in the cluster since this node joined takes part in this exchange, also when it
            // has gone on and left by now. Whoever had left before took part in an earlier one of that name.
            let was_here = |member: &Member| {
                let first = self.shared.first.get(node);
                member.epoch >= me.epoch
                    || first.is_some_and(|first| {
                        first.epoch == member.epoch && first.state == MemberState::Joined
                    })
            };
            let counts = holder.is_some_and(was_here);
            if !counts {
                continue;
            }
            if call.parties != self.parties {
                let (theirs, ours) = (call.parties, self.parties);
                return Err(self.disagree(format!("{node} waits for {theirs} nodes, not {ours}")));
            }
            given.insert(node);
        }
        Ok(given)
    }

    /// Fails when somebody is gone who had not given a value.
    fn gone(
        &self,
        view: &View,
        given: &BTreeSet<NodeName>,
        witnessed: &BTreeMap<NodeName, u64>,
    ) -> Result<(), MembershipError> {
        let missing = view.members.values().filter(|member| !given.contains(&member.node));
        for member in missing.filter(|member| member.node.compute().is_some()) {
            let node = member.node;
            let before = self.shared.first.state(node) == Some(MemberState::Dead);
            let how = match member.state {
                MemberState::Dead if !before => "died",
                MemberState::Left if witnessed.get(&node) == Some(&member.epoch) => "left",
                _ => continue,
            };
            return Err(MembershipError::Gone { exchange: self.name.to_owned(), node, how });
        }
        Ok(())
    }

    /// The values of all.
    fn values(
        &self,
        parties: &BTreeSet<NodeName>,
    ) -> Result<Vec<(NodeName, Vec<u8>)>, MembershipError> {
        let Shared { keys, store, limit, .. } = self.shared;
        let prefix = keys.values(self.name)?;
        let mut values = Vec::with_capacity(parties.len());
        for node in parties {
            let entry = store.get(&format!("{prefix}{node}"), *limit)?;
            let lost = || self.disagree(format!("the value of {node} is gone"));
            values.push((*node, entry.ok_or_else(lost)?.value));
        }
        self.tidy(parties);
        Ok(values)
    }

    /// Deletes what this node gave for the exchange before this one, when all of that have come to this one: so
    /// they have it.
    fn tidy(&self, parties: &BTreeSet<NodeName>) {
        let Shared { keys, store, me, limit, completed, .. } = self.shared;
        let now = Completed { name: self.name.to_owned(), parties: parties.clone() };
        let last = completed.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        let Some(last) = last.filter(|last| last.parties.is_subset(parties)) else { return };
        let (Ok(calls), Ok(values)) = (keys.exchange(&last.name), keys.values(&last.name)) else {
            return;
        };
        let deletes = [calls, values].map(|prefix| Change::Delete(format!("{prefix}{}", me.node)));
        if let Err(error) = store.commit(&[self.shared.alive()], &deletes, *limit) {
            tracing::debug!(%error, "an old exchange stays");
        }
    }
}
