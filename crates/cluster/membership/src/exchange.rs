//! [`Membership::exchange`]: a barrier at which every party gives a value and gets all values.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use latchwork_strict::{strict_assert, strict_assert_eq};

use crate::error::MembershipError;
use crate::key_name::checked;
use crate::keys::{Call, decode, encode, foreign};
use crate::membership::Membership;
use crate::name::{NodeIncarnation, NodeName};
use crate::shared::{Completed, Shared, fits};
use crate::store::{Compare, KeyChange, Snapshot};
use crate::time::Deadline;
use crate::view::{MemberState, View};

const _: () = assert!(!LOOK.is_zero(), "a waiting party spins");
/// The longest time between two checks of a waiting party. It checks its lease, and
/// [`ExchangePatience::goes_on`].
const LOOK: Duration = Duration::from_millis(100);

/// The ends of a party without a value.
const DIED: &str = "died";
const LEFT: &str = "left";

/// How long a party of an exchange waits for the other parties.
#[derive(Clone, Copy)]
pub struct ExchangePatience<'a> {
    /// The longest wait.
    pub limit: Duration,
    /// The wait ends when this returns false. A waiting party calls it about ten times a second,
    /// and after each change in the store.
    pub goes_on: &'a dyn Fn() -> bool,
}

impl From<Duration> for ExchangePatience<'static> {
    fn from(limit: Duration) -> Self {
        ExchangePatience { limit, goes_on: &|| true }
    }
}

impl fmt::Debug for ExchangePatience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Membership {
    /// Waits until each of `parties` has given a value under `name`. Returns the values in the
    /// order of the parties. This node is one of the parties. A node uses a name only once. Nodes
    /// that are not parties have no influence.
    ///
    /// If a party dies or leaves before it has given its value, the exchange fails for each other
    /// party when that party notices the end.
    ///
    /// # Errors
    /// [`MembershipError::PeerLeft`]; [`MembershipError::Disagreement`];
    /// [`MembershipError::Deadline`] when a party has not come in time;
    /// [`MembershipError::GivenUp`]; [`MembershipError::LeaseEnded`] and [`MembershipError::Left`]
    /// of this node; [`MembershipError::Name`]; [`MembershipError::TooLong`]; an error of the
    /// store.
    pub fn exchange<'a>(
        &self,
        name: &str,
        parties: &[NodeIncarnation],
        value: &[u8],
        patience: impl Into<ExchangePatience<'a>>,
    ) -> Result<Vec<Vec<u8>>, MembershipError> {
        let exchange = self.exchange_of(name, parties, patience.into(), false)?;
        exchange.give(value)?;
        let values = exchange.take()?;
        strict_assert!(values.iter().all(Option::is_some), "a value is missing");
        Ok(values.into_iter().flatten().collect())
    }

    /// As [`exchange`](Membership::exchange), but goes on without the parties that die before they
    /// have given their values. Their values are `None`, and they are the same at all parties that
    /// live on. All parties use one of the two calls for a name.
    ///
    /// # Errors
    /// As [`exchange`](Membership::exchange), but [`MembershipError::PeerLeft`] only after a
    /// graceful leave.
    pub fn exchange_of_living<'a>(
        &self,
        name: &str,
        parties: &[NodeIncarnation],
        value: &[u8],
        patience: impl Into<ExchangePatience<'a>>,
    ) -> Result<Vec<Option<Vec<u8>>>, MembershipError> {
        let exchange = self.exchange_of(name, parties, patience.into(), true)?;
        exchange.give(value)?;
        exchange.take()
    }

    fn exchange_of<'a>(
        &'a self,
        name: &'a str,
        parties: &'a [NodeIncarnation],
        ExchangePatience { limit, goes_on }: ExchangePatience<'a>,
        outlives: bool,
    ) -> Result<Exchange<'a>, MembershipError> {
        Ok(Exchange {
            shared: self.shared(),
            name: checked("exchange", name)?,
            parties,
            deadline: Deadline::after(limit),
            goes_on,
            outlives,
        })
    }
}

struct Exchange<'a> {
    shared: &'a Shared,
    name: &'a str,
    parties: &'a [NodeIncarnation],
    deadline: Deadline,
    goes_on: &'a dyn Fn() -> bool,
    /// Whether the exchange goes on without the parties that have died.
    outlives: bool,
}

/// The state of an exchange at one moment.
enum Progress {
    /// These parties have given their values. All others have died without a value.
    Complete(BTreeSet<NodeName>),
    Waiting {
        revision: u64,
        given: BTreeSet<NodeName>,
    },
}

impl Exchange<'_> {
    fn disagree(&self, why: String) -> MembershipError {
        MembershipError::Disagreement { exchange: self.name.to_owned(), why }
    }

    /// Puts this node's [`Call`] and its value in one transaction, so that another party that sees
    /// the call also finds the value.
    fn give(&self, value: &[u8]) -> Result<(), MembershipError> {
        let Shared { keys, store, me, .. } = self.shared;
        let call_key = format!("{}{}", keys.exchange(self.name)?, me.node);
        let value_key = format!("{}{}", keys.values(self.name)?, me.node);
        let parties = self.parties.iter().map(NodeIncarnation::to_string).collect();
        let call = encode(&Call { epoch: me.epoch, parties });
        let changes = [
            KeyChange::Put { key: call_key.clone(), value: call, lease: None },
            KeyChange::Put { key: value_key, value: value.to_vec(), lease: None },
        ];
        fits(&format!("the value for exchange {:?}", self.name), &changes[1])?;
        if !self.parties.contains(&me.party()) {
            return Err(self.disagree(format!("{} is none of the parties", me.node)));
        }
        let mut tried = false;
        while let Some(left) = self.left()? {
            self.shared.check()?;
            strict_assert!(self.shared.me.epoch > 0, "a member without an epoch");
            let attempt = store.get(&call_key, left).and_then(|old| {
                let compare = match &old {
                    None => Compare::Absent(call_key.clone()),
                    Some(old) if decode::<Call>(&store.describe(), old)?.epoch == me.epoch => {
                        let again = || self.disagree(format!("{} has used the name", me.node));
                        return if tried { Ok(true) } else { Err(again()) };
                    }
                    // An earlier holder of this id has left this call.
                    Some(old) => Compare::Unchanged(call_key.clone(), old.modified),
                };
                tried = true;
                let made = store.commit(&[self.shared.alive(), compare], &changes, left)?;
                // No other node writes this key. So if the transaction fails, there are two cases.
                // This node is not in the cluster, or an earlier attempt took effect and its answer
                // was lost.
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

    /// The time left, or `None` after the deadline, or an error when the caller has given up.
    fn left(&self) -> Result<Option<Duration>, MembershipError> {
        match (self.goes_on)() {
            true => Ok(self.deadline.left()),
            false => Err(MembershipError::GivenUp { exchange: self.name.to_owned() }),
        }
    }

    /// Pauses after an error that may pass. Returns any other error.
    fn bear(&self, error: MembershipError) -> Result<(), MembershipError> {
        if !error.is_passing() {
            return Err(error);
        }
        self.shared.board.trouble(error.to_string());
        self.shared.board.pause(LOOK.min(self.deadline.limit) / 4);
        Ok(())
    }

    /// Waits until all parties have given their values, and returns the values. With `outlives`, a
    /// party that has died without a value has none.
    fn take(&self) -> Result<Vec<Option<Vec<u8>>>, MembershipError> {
        let mut come = BTreeSet::from([self.shared.me.node]);
        while let Some(left) = self.left()? {
            let looked = self.look().and_then(|progress| match progress {
                Progress::Complete(given) => self.values(&given).map(Some),
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
        let is_missing = |party: &&NodeIncarnation| !come.contains(&party.node);
        let missing = self.parties.iter().filter(is_missing).map(|party| party.node.to_string());
        let missing: Vec<String> = missing.collect();
        let (n, parties) = (come.len(), self.parties.len());
        let (name, missing) = (self.name, missing.join(" "));
        let what =
            format!("exchange {name:?}: {n} of {parties} nodes have come, without {missing}");
        Err(self.shared.deadline(&what, self.deadline.limit))
    }

    fn look(&self) -> Result<Progress, MembershipError> {
        let Shared { keys, store, limit, .. } = self.shared;
        let limit = self.deadline.left().unwrap_or_default().min(*limit);
        let snapshot = store.range(&keys.exchange(self.name)?, limit)?;
        let given = self.given(&snapshot)?;
        if given.len() == self.parties.len() {
            strict_assert!(
                given.is_subset(&self.parties.iter().map(|party| party.node).collect()),
                "a stranger gave a value"
            );
            strict_assert!(given.len() <= self.parties.len(), "more values than parties");
            return Ok(Progress::Complete(given));
        }
        // The view is newer than the snapshot, so a party may have given its value and left in
        // between. In this case the snapshot lacks the value, and the view shows that the party
        // left. A second snapshot, which is newer than the view, has the value.
        let view = self.shared.read_view()?;
        let gone: Vec<_> = self.gone(&view, &given).collect();
        if !gone.is_empty() {
            let snapshot = store.range(&keys.exchange(self.name)?, limit)?;
            let given = self.given(&snapshot)?;
            let mut dead = 0;
            for (party, how) in gone {
                match given.contains(&party.node) {
                    true => {}
                    // A dead node gives nothing any more. So all parties miss the same values.
                    false if self.outlives && how == DIED => dead += 1,
                    false => {
                        let (exchange, node) = (self.name.to_owned(), party.node);
                        return Err(MembershipError::PeerLeft { exchange, node, how });
                    }
                }
            }
            if given.len() + dead == self.parties.len() {
                return Ok(Progress::Complete(given));
            }
        }
        Ok(Progress::Waiting { revision: snapshot.revision, given })
    }

    /// The parties that have given a value, as the snapshot shows.
    fn given(&self, snapshot: &Snapshot) -> Result<BTreeSet<NodeName>, MembershipError> {
        let Shared { keys, store, .. } = self.shared;
        let prefix = keys.exchange(self.name)?;
        let mut given = BTreeSet::new();
        for entry in &snapshot.entries {
            let node = entry.key.strip_prefix(&prefix).and_then(|node| node.parse().ok());
            let node = node.ok_or_else(|| foreign(&store.describe(), entry, "it names no node"))?;
            let call: Call = decode(&store.describe(), entry)?;
            // An earlier holder of a party's id, or a node that is no party, used the same name.
            if !self.parties.contains(&NodeIncarnation { node, epoch: call.epoch }) {
                continue;
            }
            let ours = self.parties.iter().map(NodeIncarnation::to_string);
            if !ours.eq(call.parties.iter().cloned()) {
                let ours: Vec<_> = self.parties.iter().map(NodeIncarnation::to_string).collect();
                let (theirs, ours) = (call.parties.join(" "), ours.join(" "));
                return Err(self.disagree(format!("{node} waits for {theirs}, and not for {ours}")));
            }
            given.insert(node);
        }
        Ok(given)
    }

    /// The parties that died or left without a value, and how they ended.
    fn gone(
        &self,
        view: &View,
        given: &BTreeSet<NodeName>,
    ) -> impl Iterator<Item = (NodeIncarnation, &'static str)> {
        let missing = self.parties.iter().filter(|party| !given.contains(&party.node));
        missing.filter_map(|party| {
            let how = match view.get(party.node) {
                Some(member) if member.epoch == party.epoch => match member.state {
                    MemberState::Joined => return None,
                    MemberState::Dead => DIED,
                    MemberState::Left => LEFT,
                },
                // The id has a later holder. A party that outlives others has a later holder of its
                // id after its own death.
                Some(member) if self.outlives && member.epoch > party.epoch => DIED,
                // The party has left. A party that never joined counts as left too.
                _ => LEFT,
            };
            strict_assert!(!given.contains(&party.node), "a party that gave its value is missed");
            Some((*party, how))
        })
    }

    /// The values of the parties, of those that have given one.
    fn values(&self, given: &BTreeSet<NodeName>) -> Result<Vec<Option<Vec<u8>>>, MembershipError> {
        let Shared { keys, store, limit, .. } = self.shared;
        let prefix = keys.values(self.name)?;
        let mut values = Vec::with_capacity(self.parties.len());
        for NodeIncarnation { node, .. } in self.parties {
            if !given.contains(node) {
                values.push(None);
                continue;
            }
            let entry = store.get(&format!("{prefix}{node}"), *limit)?;
            let lost = || self.disagree(format!("the value of {node} is gone"));
            values.push(Some(entry.ok_or_else(lost)?.value));
        }
        self.tidy();
        strict_assert_eq!(values.len(), self.parties.len());
        Ok(values)
    }

    /// Deletes this node's value of its previous exchange, if all parties of the previous exchange
    /// are in the present one. That is safe if each node runs its exchanges one after the other:
    ///
    /// 1. All parties have given their values in the present exchange, or are dead.
    /// 2. So each party of the previous exchange that lives has ended it, and needs its values no
    ///    more.
    fn tidy(&self) {
        let Shared { keys, store, me, limit, completed, .. } = self.shared;
        let parties: BTreeSet<NodeIncarnation> = self.parties.iter().copied().collect();
        let now = Completed { name: self.name.to_owned(), parties: parties.clone() };
        let last = completed.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        let Some(last) = last.filter(|last| last.parties.is_subset(&parties)) else { return };
        let (Ok(calls), Ok(values)) = (keys.exchange(&last.name), keys.values(&last.name)) else {
            return;
        };
        let deletes =
            [calls, values].map(|prefix| KeyChange::Delete(format!("{prefix}{}", me.node)));
        if let Err(error) = store.commit(&[self.shared.alive()], &deletes, *limit) {
            tracing::debug!(%error, "an old exchange stays");
        }
    }
}
