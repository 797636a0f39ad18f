//! [`Group`]: the compute nodes that do something together, such as one run of a program.
//!
//! Runs of a cluster are numbered, and each has as many seats as it has compute nodes. A node takes the first seat that
//! nobody has, of the last run that is not full. All of it is decided by facts, which never change:
//!
//! ```text
//!   run-7.parties = 3
//!   run-7.seat-0 = C2@41     run-7.seat-1 = C1@38     run-7.seat-2 = C4@45       full: everybody begins
//!   run-8.parties = 2
//!   run-8.seat-0 = C3@57     run-8.broken                                        C3 has died: run 9 is next
//! ```

use std::time::Duration;

use latchwork_membership::{MemberState, Membership, NodeName};
use latchwork_runtime::Clock;

use crate::JoinError;

/// How long one look for those that are missing takes.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes of a value in one exchange of membership. What is longer takes several.
const CHUNK: usize = 512 << 10;

/// The compute nodes that started together, by rank: a number from 0 for each, in the order of their names.
#[derive(Clone, Debug)]
pub struct Group {
    membership: Membership,
    run: u64,
    nodes: Vec<NodeName>,
    rank: usize,
}

/// Who has a seat: a node, as it was started then.
type Seat = (NodeName, u64);

/// How a run that a node looks at stands.
enum Standing {
    /// All seats are taken, by these.
    Full(Vec<Seat>),
    /// This node has a seat, and others are free.
    Waiting,
    /// Somebody who had a seat is gone, or it began without this node.
    Over,
}

impl Group {
    /// Waits until so many compute nodes, this one among them, want to form a group.
    pub(crate) fn form(
        membership: &Membership,
        parties: usize,
        limit: Duration,
    ) -> Result<Group, JoinError> {
        let clock = Clock::start();
        let deadline = clock.now() + limit;
        let mut run = last_run(membership)?;
        let me = membership.me();
        loop {
            let agreed = membership.decide(&parties_of(run), parties.to_string().as_bytes())?;
            let agreed = text(&agreed).parse::<usize>().unwrap_or(0);
            match look(membership, run, parties, agreed)? {
                Standing::Full(seats) => {
                    let mut nodes: Vec<_> = seats.into_iter().map(|(node, _)| node).collect();
                    nodes.sort_unstable();
                    let rank = nodes.iter().position(|node| *node == me.node).unwrap_or(0);
                    return Ok(Group { membership: membership.clone(), run, nodes, rank });
                }
                Standing::Over => run += 1,
                Standing::Waiting => {
                    let left = deadline - clock.now();
                    if left.is_zero() {
                        // Nobody is to wait for this node any more.
                        membership.decide(&broken(run), b"")?;
                        let there = seats(membership, run, parties)?.len();
                        return Err(JoinError::Group(format!(
                            "{there} of {parties} compute nodes came within {limit:?}: start as many as --compute-nodes \
                             says, at about the same time"
                        )));
                    }
                    let revision = membership.view().revision;
                    let changed = |view: &latchwork_membership::View| view.revision != revision;
                    // Whether the view has changed or not: seats are taken without.
                    let _ = membership.wait(left.min(LOOK), changed);
                    if !membership.lease().is_valid() {
                        return Err(JoinError::LeaseLost);
                    }
                }
            }
        }
    }

    /// This node's rank, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The nodes, by rank.
    pub fn nodes(&self) -> &[NodeName] {
        &self.nodes
    }

    /// The number of the run, which no other group of this cluster has.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Waits until all nodes of the group have given a value under `name`, and returns the values, by rank. Each name is used
    /// once, and by all.
    ///
    /// # Errors
    /// When one of them is gone, or has not come within `limit`; when this one's lease has ended.
    pub fn exchange(
        &self,
        name: &str,
        value: &[u8],
        limit: Duration,
    ) -> Result<Vec<Vec<u8>>, JoinError> {
        let mut chunks = value.chunks(CHUNK);
        let mut first = (value.len() as u64).to_le_bytes().to_vec();
        first.extend_from_slice(chunks.next().unwrap_or_default());
        let mut lengths = Vec::new();
        let mut values = Vec::new();
        for mut one in self.round(name, 0, &first, limit)? {
            let rest = one.split_off(one.len().min(8));
            lengths.push(u64::from_le_bytes(one.try_into().unwrap_or_default()));
            values.push(rest);
        }
        let longest = lengths.into_iter().max().unwrap_or(0) as usize;
        for number in 1..longest.div_ceil(CHUNK) {
            let more = self.round(name, number, chunks.next().unwrap_or_default(), limit)?;
            values.iter_mut().zip(more).for_each(|(value, more)| value.extend(more));
        }
        Ok(values)
    }

    fn round(
        &self,
        name: &str,
        number: usize,
        value: &[u8],
        limit: Duration,
    ) -> Result<Vec<Vec<u8>>, JoinError> {
        let name = format!("run-{}.{name}.{number}", self.run);
        let values = self.membership.exchange(&name, self.nodes.len(), value, limit)?;
        // By node, which is by rank.
        Ok(values.into_iter().map(|(_, value)| value).collect())
    }
}

fn parties_of(run: u64) -> String {
    format!("run-{run}.parties")
}

fn broken(run: u64) -> String {
    format!("run-{run}.broken")
}

/// The last run that anybody has begun to form, or the first of all.
fn last_run(membership: &Membership) -> Result<u64, JoinError> {
    let is_there = |run| membership.fact(&parties_of(run)).map(|fact| fact.is_some());
    let (mut low, mut high) = (0, 1);
    while is_there(high)? {
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_there(middle)? { low = middle } else { high = middle }
    }
    Ok(low)
}

/// Looks at a run, and takes a seat of it if there is one.
fn look(
    membership: &Membership,
    run: u64,
    parties: usize,
    agreed: usize,
) -> Result<Standing, JoinError> {
    let me = membership.me();
    let mine = (me.node, me.epoch);
    let mut taken = Vec::new();
    if agreed == parties {
        for number in 0..parties {
            let name = format!("run-{run}.seat-{number}");
            let wanted = format!("{}@{}", me.node, me.epoch);
            let has_one = taken.contains(&mine);
            let seat = match has_one {
                false => Some(membership.decide(&name, wanted.as_bytes())?),
                true => membership.fact(&name)?,
            };
            taken.extend(seat.as_deref().and_then(seat_of));
        }
    } else {
        taken = seats(membership, run, agreed)?;
    }
    if membership.fact(&broken(run))?.is_some() {
        return Ok(Standing::Over);
    }
    let is_full = taken.len() == agreed;
    if is_full {
        return Ok(if taken.contains(&mine) { Standing::Full(taken) } else { Standing::Over });
    }
    let view = membership.view();
    let is_gone = |(node, epoch): &Seat| {
        view.get(*node).is_some_and(|member| {
            member.epoch > *epoch || member.epoch == *epoch && member.state != MemberState::Joined
        })
    };
    if taken.iter().any(is_gone) {
        membership.decide(&broken(run), b"")?;
        return Ok(Standing::Over);
    }
    if agreed != parties {
        return Err(JoinError::Group(format!(
            "others are about to start a run of {agreed} compute nodes, and this is to be one of {parties}: use the same \
             --compute-nodes for all"
        )));
    }
    Ok(Standing::Waiting)
}

/// The seats of a run that are taken.
fn seats(membership: &Membership, run: u64, parties: usize) -> Result<Vec<Seat>, JoinError> {
    let mut seats = Vec::new();
    for number in 0..parties {
        let seat = membership.fact(&format!("run-{run}.seat-{number}"))?;
        seats.extend(seat.as_deref().and_then(seat_of));
    }
    Ok(seats)
}

fn seat_of(fact: &[u8]) -> Option<Seat> {
    let (node, epoch) = text(fact).split_once('@')?;
    Some((node.parse().ok()?, epoch.parse().ok()?))
}

/// Facts of this module are ASCII; anything else is somebody else's, and means nothing.
fn text(fact: &[u8]) -> &str {
    std::str::from_utf8(fact).unwrap_or_default()
}
