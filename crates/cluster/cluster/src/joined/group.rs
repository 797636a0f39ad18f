//! [`NodeGroup`]: the compute nodes of one run of a program.
//!
//! The runs of a cluster are numbered. A run has one seat for each of its compute nodes. A node
//! takes the first free seat of the last run. If the last run is full or broken, the node takes a
//! seat of a new run. Facts of the membership record the runs and the seats, and a fact never
//! changes:
//!
//! ```text
//!   run-7.parties = 3
//!   run-7.seat-0 = C2@41     run-7.seat-1 = C1@38     run-7.seat-2 = C4@45   full: all begin
//!   run-8.parties = 2
//!   run-8.seat-0 = C3@57     run-8.broken                                    C3 died: run 9 next
//! ```
//!
//! # Notifications
//!
//! A node can notify all nodes of its group, for example of its failure. A notification has two
//! steps:
//!
//! 1. The value becomes a fact, so that all nodes read the same value.
//! 2. The sender adds an entry to its contact, which appears in the view. So the other nodes need
//!    not poll the store.

use std::time::Duration;

use latchwork_membership::{MemberState, Membership, NodeIncarnation, NodeName, View, ViewMember};
use latchwork_runtime::{Clock, Time};
use latchwork_strict::{strict_assert, strict_assert_eq};

use super::reports::is_free;
use super::start_patience::{StartPatience, StartWait, listed};
use crate::JoinError;

/// The longest time between two looks at the seats, while seats are free.
const LOOK: Duration = Duration::from_millis(100);

/// The longest value in one exchange, in bytes. A longer value takes several exchanges.
const CHUNK: usize = 512 << 10;

/// The compute nodes that started together. Each node has a rank: its index, from 0, in the order
/// of the node names.
#[derive(Clone, Debug)]
pub struct NodeGroup {
    membership: Membership,
    run: u64,
    parties: Vec<NodeIncarnation>,
    nodes: Vec<NodeName>,
    rank: usize,
}

/// The state of a run, as one node finds it.
enum Standing {
    /// These parties have all seats, and this node is one of them.
    Full(Vec<NodeIncarnation>),
    /// These parties have seats, this node is one of them, and other seats are free.
    Waiting(Vec<NodeIncarnation>),
    /// The run is lost for this node, in one of two ways. The run is broken: a node with a seat is
    /// dead, has left or has stopped waiting (the list is then empty). Or these parties have all
    /// seats, without this node.
    Over(Vec<NodeIncarnation>),
}

impl NodeGroup {
    /// Waits until `parties` compute nodes, with this node, have formed a group.
    pub(crate) fn form(
        membership: &Membership,
        parties: usize,
        patience: StartPatience<'_>,
    ) -> Result<NodeGroup, JoinError> {
        let clock = Clock::start();
        let mut run = last_run(membership)?;
        let mut begun = Vec::new();
        loop {
            let agreed = membership.decide(&parties_of(run), parties.to_string().as_bytes())?;
            let agreed = text(&agreed).parse::<usize>().unwrap_or(0);
            let there = match look(membership, run, parties, agreed)? {
                Standing::Full(seats) => return Ok(NodeGroup::of(membership, run, seats)),
                Standing::Over(without) => {
                    let view = membership.view();
                    begun = without.into_iter().filter(|party| view.is_there(*party)).collect();
                    run += 1;
                    continue;
                }
                Standing::Waiting(there) => there,
            };
            let waiting =
                StartWait::Compute { there: names(&there), wanted: parties, begun: names(&begun) };
            let left = (Time::ZERO + patience.limit) - clock.now();
            if left.is_zero() || !(patience.goes_on)(&waiting) {
                // No other node may wait for this node any more.
                membership.decide(&broken(run), b"")?;
                if !left.is_zero() {
                    return Err(JoinError::GivenUp);
                }
                return Err(JoinError::Group(incomplete(&there, &begun, parties, patience.limit)));
            }
            let revision = membership.view().revision;
            let changed = |view: &View| view.revision != revision;
            // The result does not matter: a node can take a seat without a change of the view.
            let _ = membership.wait(left.min(LOOK), changed);
            if !membership.lease().is_valid() {
                return Err(JoinError::LeaseLost);
            }
        }
    }

    fn of(membership: &Membership, run: u64, mut parties: Vec<NodeIncarnation>) -> NodeGroup {
        parties.sort_unstable();
        let nodes = names(&parties);
        let me = membership.me().node;
        strict_assert!(
            parties.contains(&membership.me().party()),
            "a group without its own node: {parties:?}"
        );
        let rank = nodes.iter().position(|node| *node == me).unwrap_or(0);
        tracing::info!(run, rank, ?nodes, "the nodes of a run have come");
        NodeGroup { membership: membership.clone(), run, parties, nodes, rank }
    }

    /// The rank of this node, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The names of the nodes, by rank.
    pub fn nodes(&self) -> &[NodeName] {
        &self.nodes
    }

    /// The nodes with their member epochs, by rank.
    pub fn parties(&self) -> &[NodeIncarnation] {
        &self.parties
    }

    /// The number of the run. No other group of this cluster has the same number.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Whether no node of the run with this number acts any more, by this view: all of them had
    /// come, and each has left, or is dead and [recovered](is_free). Always false for a run with
    /// dead nodes in clusters without the setting `survive`.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn is_over(&self, run: u64, view: &View) -> Result<bool, JoinError> {
        let parties = self.membership.fact(&parties_of(run))?;
        let parties = parties.and_then(|fact| text(&fact).parse::<usize>().ok()).unwrap_or(0);
        let seats = seats(&self.membership, run, parties)?;
        let is_gone = |party: &NodeIncarnation| {
            view.get(party.node).is_some_and(|now| {
                now.epoch > party.epoch || now.epoch == party.epoch && is_gone(view, now)
            })
        };
        Ok(parties > 0 && seats.len() == parties && seats.iter().all(is_gone))
    }

    /// Whether the nodes of this group are the only compute nodes of the cluster, by this view: all
    /// others have left, or are dead and [recovered](is_free).
    pub fn is_alone(&self, view: &View) -> bool {
        let mut all = view.members.values().filter(|one| one.node.compute().is_some());
        all.all(|now| self.parties.contains(&now.party()) || is_gone(view, now))
    }

    /// Waits until all nodes of the group have given a value under `name`. Returns the values, by
    /// rank. All nodes use each name once. A long value takes several exchanges, and `patience`
    /// holds for each.
    ///
    /// # Errors
    /// When a node has died, has left, or has not come in time; when this node's lease has ended;
    /// when the store fails.
    pub fn exchange<'a>(
        &self,
        name: &str,
        value: &[u8],
        patience: impl Into<latchwork_membership::ExchangePatience<'a>>,
    ) -> Result<Vec<Vec<u8>>, JoinError> {
        let values = self.exchange_rounds(name, value, patience.into(), false)?;
        Ok(values.into_iter().flatten().collect())
    }

    /// As [`exchange`](NodeGroup::exchange), but goes on without the nodes that die before they
    /// have given their values. Their values are `None`, at all nodes that live on. All nodes use
    /// one of the two calls for a name.
    ///
    /// # Errors
    /// As [`exchange`](NodeGroup::exchange), without the deaths of other nodes.
    pub fn exchange_of_living<'a>(
        &self,
        name: &str,
        value: &[u8],
        patience: impl Into<latchwork_membership::ExchangePatience<'a>>,
    ) -> Result<Vec<Option<Vec<u8>>>, JoinError> {
        self.exchange_rounds(name, value, patience.into(), true)
    }

    fn exchange_rounds(
        &self,
        name: &str,
        value: &[u8],
        patience: latchwork_membership::ExchangePatience<'_>,
        outlives: bool,
    ) -> Result<Vec<Option<Vec<u8>>>, JoinError> {
        let clock = Clock::start();
        tracing::debug!(
            run = self.run,
            name,
            bytes = value.len(),
            "waits for all nodes of the run"
        );
        let round = |number: usize, value: &[u8]| -> Result<Vec<Option<Vec<u8>>>, JoinError> {
            let name = format!("run-{}.{name}.{number}", self.run);
            let (membership, parties) = (&self.membership, &self.parties);
            Ok(match outlives {
                true => membership.exchange_of_living(&name, parties, value, patience)?,
                false => {
                    let all = membership.exchange(&name, parties, value, patience)?;
                    all.into_iter().map(Some).collect()
                }
            })
        };
        let mut chunks = value.chunks(CHUNK);
        let mut first = (value.len() as u64).to_le_bytes().to_vec();
        first.extend_from_slice(chunks.next().unwrap_or_default());
        let mut longest = 0;
        let mut split = |mut one: Vec<u8>| {
            let rest = one.split_off(one.len().min(8));
            longest = longest.max(u64::from_le_bytes(one.try_into().unwrap_or_default()));
            rest
        };
        let mut values: Vec<_> =
            round(0, &first)?.into_iter().map(|one| one.map(&mut split)).collect();
        strict_assert_eq!(values.len(), self.parties.len(), "each node has a value or none");
        for number in 1..(longest as usize).div_ceil(CHUNK) {
            let more = round(number, chunks.next().unwrap_or_default())?;
            for (value, more) in values.iter_mut().zip(more) {
                // A node that has died in between has not given its whole value.
                *value = value.take().zip(more).map(|(value, more)| [value, more].concat());
            }
        }
        tracing::debug!(run = self.run, name, waited = ?(clock.now() - Time::ZERO), "all have come");
        Ok(values)
    }

    /// Notifies all nodes of the group, and returns the value of the notification. If another node
    /// has decided this name before, the value of that node counts.
    ///
    /// # Errors
    /// When the store does not answer, or when this node's lease has ended.
    pub fn tell(&self, name: &str, word: &[u8]) -> Result<Vec<u8>, JoinError> {
        let fact = self.word(name);
        let told = self.membership.decide(&fact, word)?;
        // This node adds an entry too, because the first node may have died before it added its
        // own.
        self.membership.contact(&fact, "")?;
        Ok(told)
    }

    /// The value of a notification, if a contact in the view shows the notification. Otherwise the
    /// call does not read the store.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn heard(&self, name: &str) -> Result<Option<Vec<u8>>, JoinError> {
        let (fact, view) = (self.word(name), self.membership.view());
        let rang = |party: &NodeIncarnation| {
            view.get(party.node).is_some_and(|member| {
                member.epoch == party.epoch && member.contact.contains_key(&fact)
            })
        };
        if self.parties.iter().any(rang) { self.told(name) } else { Ok(None) }
    }

    /// The value of a notification, read from the store, or `None` if no node has sent it.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn told(&self, name: &str) -> Result<Option<Vec<u8>>, JoinError> {
        Ok(self.membership.fact(&self.word(name))?)
    }

    fn word(&self, name: &str) -> String {
        format!("run-{}.{name}", self.run)
    }
}

/// Whether a compute node does not act any more, and no trace of it is left.
fn is_gone(view: &View, node: &ViewMember) -> bool {
    match node.state {
        MemberState::Joined => false,
        MemberState::Left => true,
        MemberState::Dead => is_free(view, node),
    }
}

/// The names of parties, in ascending order.
fn names(parties: &[NodeIncarnation]) -> Vec<NodeName> {
    let mut names: Vec<_> = parties.iter().map(|party| party.node).collect();
    names.sort_unstable();
    names
}

fn incomplete(
    there: &[NodeIncarnation],
    begun: &[NodeIncarnation],
    parties: usize,
    limit: Duration,
) -> String {
    let (came, n) = (listed(&names(there)), there.len());
    let without = match begun.is_empty() {
        true => String::new(),
        false => format!("; {} began a run without it", listed(&names(begun))),
    };
    format!(
        "{n} of {parties} compute nodes came within {limit:?} ({came}){without}: start as many as the configuration says \
         (--compute-nodes), at about the same time"
    )
}

fn parties_of(run: u64) -> String {
    format!("run-{run}.parties")
}

fn broken(run: u64) -> String {
    format!("run-{run}.broken")
}

/// The last run that any node has begun to form, or run 0.
fn last_run(membership: &Membership) -> Result<u64, JoinError> {
    let is_there = |run| membership.fact(&parties_of(run)).map(|fact| fact.is_some());
    let (mut low, mut high) = (0, 1);
    while is_there(high)? {
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        strict_assert!(low < middle && middle < high, "the search for the last run stands still");
        if is_there(middle)? { low = middle } else { high = middle }
    }
    Ok(low)
}

/// Reads the state of a run. If a seat is free, this node takes it.
fn look(
    membership: &Membership,
    run: u64,
    parties: usize,
    agreed: usize,
) -> Result<Standing, JoinError> {
    let mine = membership.me().party();
    let mut taken: Vec<NodeIncarnation> = Vec::new();
    if agreed == parties {
        for number in 0..parties {
            let name = format!("run-{run}.seat-{number}");
            let seat = match taken.contains(&mine) {
                false => Some(membership.decide(&name, mine.to_string().as_bytes())?),
                true => membership.fact(&name)?,
            };
            taken.extend(seat.as_deref().and_then(seat_of));
        }
    } else {
        taken = seats(membership, run, agreed)?;
    }
    if membership.fact(&broken(run))?.is_some() {
        return Ok(Standing::Over(Vec::new()));
    }
    strict_assert!(taken.len() <= agreed.max(parties), "more parties than seats: {taken:?}");
    let is_full = taken.len() == agreed;
    if is_full {
        let with = taken.contains(&mine);
        return Ok(if with { Standing::Full(taken) } else { Standing::Over(taken) });
    }
    let view = membership.view();
    // A party without an entry in this node's view has just joined, so it is not gone.
    let is_gone = |party: &NodeIncarnation| {
        view.get(party.node).is_some_and(|member| member.epoch >= party.epoch)
            && !view.is_there(*party)
    };
    if taken.iter().any(is_gone) {
        membership.decide(&broken(run), b"")?;
        return Ok(Standing::Over(Vec::new()));
    }
    if agreed != parties {
        let others = match taken.is_empty() {
            true => "others are".to_owned(),
            false => format!("{} is", listed(&names(&taken))),
        };
        return Err(JoinError::Group(format!(
            "{others} about to start a run of {agreed} compute nodes, and this is to be one of {parties}: use the same \
             --compute-nodes for all"
        )));
    }
    Ok(Standing::Waiting(taken))
}

/// The parties that have seats in a run, in the order of the seats.
fn seats(
    membership: &Membership,
    run: u64,
    parties: usize,
) -> Result<Vec<NodeIncarnation>, JoinError> {
    let mut seats = Vec::new();
    for number in 0..parties {
        let seat = membership.fact(&format!("run-{run}.seat-{number}"))?;
        seats.extend(seat.as_deref().and_then(seat_of));
    }
    Ok(seats)
}

fn seat_of(fact: &[u8]) -> Option<NodeIncarnation> {
    text(fact).parse().ok()
}

/// The facts of a run are ASCII. Bytes that are not UTF-8 count as an empty text.
fn text(fact: &[u8]) -> &str {
    std::str::from_utf8(fact).unwrap_or_default()
}
