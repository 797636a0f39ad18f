//! [`Membership::exchange`]: a barrier at which every party gives a value and gets all.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::PoisonError;
use std::time::Duration;

use crate::error::MembershipError;
use crate::keys::{Call, decode, encode, foreign};
use crate::membership::{Membership, Shared, fits};
use crate::name::{NodeName, Party, checked};
use crate::store::{Change, Compare, Snapshot};
use crate::time::Deadline;
use crate::view::{MemberState, View};

/// Whoever waits looks this often at its lease, and whether the wait is still of use.
const LOOK: Duration = Duration::from_millis(100);

/// How long to wait for others.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// At most so long.
    pub limit: Duration,
    /// Not any more once this says no; it is asked ten times a second.
    pub goes_on: &'a dyn Fn() -> bool,
}

impl From<Duration> for Patience<'static> {
    fn from(limit: Duration) -> Self {
        Patience { limit, goes_on: &|| true }
    }
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The exchange that this node has completed last, and with whom.
pub(crate) struct Completed {
    name: String,
    parties: BTreeSet<Party>,
}

impl Membership {
    /// Waits until each of `parties`, this node among them, has given a value under `name`, and
    /// returns the values, in the order of the parties. A name is used once in the time of a node.
    /// Other nodes are nobody's concern here, whatever becomes of them.
    ///
    /// When a party dies or leaves that has not given its value, everybody learns at once.
    ///
    /// # Errors
    /// [`MembershipError::Gone`], [`MembershipError::Disagreement`], [`MembershipError::Deadline`]
    /// when not all have come in time; [`MembershipError::GivenUp`];
    /// [`MembershipError::LeaseEnded`] as soon as this node's has; [`MembershipError::TooLong`];
    /// what keeps the store from answering.
    pub fn exchange<'a>(
        &self,
        name: &str,
        parties: &[Party],
        value: &[u8],
        patience: impl Into<Patience<'a>>,
    ) -> Result<Vec<Vec<u8>>, MembershipError> {
        let Patience { limit, goes_on } = patience.into();
        let exchange = Exchange {
            shared: self.shared(),
            name: checked("exchange", name)?,
            parties,
            deadline: Deadline::after(limit),
            goes_on,
        };
        exchange.give(value)?;
        exchange.take()
    }
}

struct Exchange<'a> {
    shared: &'a Shared,
    name: &'a str,
    parties: &'a [Party],
    deadline: Deadline,
    goes_on: &'a dyn Fn() -> bool,
}

/// What is known of an exchange at some moment.
enum Progress {
    Complete,
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
        let parties = self.parties.iter().map(Party::to_string).collect();
        let call = encode(&Call { epoch: me.epoch, parties });
        let changes = [
            Change::Put { key: call_key.clone(), value: call, lease: None },
            Change::Put { key: value_key, value: value.to_vec(), lease: None },
        ];
        fits(&format!("the value for exchange {:?}", self.name), &changes[1])?;
        if !self.parties.contains(&me.party()) {
            return Err(self.disagree(format!("{} is none of the parties", me.node)));
        }
        let mut tried = false;
        while let Some(left) = self.left()? {
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

    /// How much time is left; an error when nobody wants to wait any more.
    fn left(&self) -> Result<Option<Duration>, MembershipError> {
        match (self.goes_on)() {
            true => Ok(self.deadline.left()),
            false => Err(MembershipError::GivenUp { exchange: self.name.to_owned() }),
        }
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
    fn take(&self) -> Result<Vec<Vec<u8>>, MembershipError> {
        let mut come = BTreeSet::from([self.shared.me.node]);
        while let Some(left) = self.left()? {
            let looked = self.look().and_then(|progress| match progress {
                Progress::Complete => self.values().map(Some),
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
        let is_missing = |party: &&Party| !come.contains(&party.node);
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
            return Ok(Progress::Complete);
        }
        // Read after it: whoever is gone in the view without a value in the snapshot may still have
        // given one before it went, which the next look shows.
        let view = self.shared.read_view()?;
        if let Some((party, how)) = self.gone(&view, &given) {
            let snapshot = store.range(&keys.exchange(self.name)?, limit)?;
            if !self.given(&snapshot)?.contains(&party.node) {
                let (exchange, node) = (self.name.to_owned(), party.node);
                return Err(MembershipError::Gone { exchange, node, how });
            }
        }
        Ok(Progress::Waiting { revision: snapshot.revision, given })
    }

    /// Which parties have given a value.
    fn given(&self, snapshot: &Snapshot) -> Result<BTreeSet<NodeName>, MembershipError> {
        let Shared { keys, store, .. } = self.shared;
        let prefix = keys.exchange(self.name)?;
        let mut given = BTreeSet::new();
        for entry in &snapshot.entries {
            let node = entry.key.strip_prefix(&prefix).and_then(|node| node.parse().ok());
            let node = node.ok_or_else(|| foreign(&store.describe(), entry, "it names no node"))?;
            let call: Call = decode(&store.describe(), entry)?;
            // What others gave under this name was in another exchange.
            if !self.parties.contains(&Party { node, epoch: call.epoch }) {
                continue;
            }
            let ours = self.parties.iter().map(Party::to_string);
            if !ours.eq(call.parties.iter().cloned()) {
                let ours: Vec<_> = self.parties.iter().map(Party::to_string).collect();
                let (theirs, ours) = (call.parties.join(" "), ours.join(" "));
                return Err(self.disagree(format!("{node} waits for {theirs}, and not for {ours}")));
            }
            given.insert(node);
        }
        Ok(given)
    }

    /// A party that is gone and had not given a value, and how it went.
    fn gone(&self, view: &View, given: &BTreeSet<NodeName>) -> Option<(Party, &'static str)> {
        let mut missing = self.parties.iter().filter(|party| !given.contains(&party.node));
        missing.find_map(|party| {
            let how = match view.get(party.node) {
                Some(member) if member.epoch == party.epoch => match member.state {
                    MemberState::Joined => return None,
                    MemberState::Dead => "died",
                    MemberState::Left => "left",
                },
                // Only an id that was left is given again.
                _ => "left",
            };
            Some((*party, how))
        })
    }

    /// The values of all.
    fn values(&self) -> Result<Vec<Vec<u8>>, MembershipError> {
        let Shared { keys, store, limit, .. } = self.shared;
        let prefix = keys.values(self.name)?;
        let mut values = Vec::with_capacity(self.parties.len());
        for Party { node, .. } in self.parties {
            let entry = store.get(&format!("{prefix}{node}"), *limit)?;
            let lost = || self.disagree(format!("the value of {node} is gone"));
            values.push(entry.ok_or_else(lost)?.value);
        }
        self.tidy();
        Ok(values)
    }

    /// Deletes what this node gave for the exchange before this one, when all of that have come to
    /// this one: so they have it.
    fn tidy(&self) {
        let Shared { keys, store, me, limit, completed, .. } = self.shared;
        let parties: BTreeSet<Party> = self.parties.iter().copied().collect();
        let now = Completed { name: self.name.to_owned(), parties: parties.clone() };
        let last = completed.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        let Some(last) = last.filter(|last| last.parties.is_subset(&parties)) else { return };
        let (Ok(calls), Ok(values)) = (keys.exchange(&last.name), keys.values(&last.name)) else {
            return;
        };
        let deletes = [calls, values].map(|prefix| Change::Delete(format!("{prefix}{}", me.node)));
        if let Err(error) = store.commit(&[self.shared.alive()], &deletes, *limit) {
            tracing::debug!(%error, "an old exchange stays");
        }
    }
}
