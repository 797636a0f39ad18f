//! [`SeededBug`]: bugs that a scenario switches on, to prove that the checks detect them.

use latchwork_cluster::ClusterConfig;
use serde::{Deserialize, Serialize};

/// A seeded bug of a scenario. Some switch a rule of the protocol off. "Rule R2" and "rule R4" are
/// rules of the word discipline (the crate `latchwork-latch`). In other seeded
/// bugs, a client, the network or a reclaiming node misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeededBug {
    /// The receiver of a hand-over acts on the latch word before the giver's operation has taken
    /// effect: rule R4 is off.
    NoSettling,
    /// A refused reader clears its shared bit, although the holder may set the bit at the same
    /// time. Rule R2 is off, as in the SELCC paper.
    NoRegisteredWait,
    /// A node that has pledged its copy to a writer uses the copy before the writer reports: rule
    /// R2 is off. The bug has an effect only with the setting `takeover`.
    NoBinding,
    /// A writer sometimes does not mark the bytes that it changed.
    ForgetsDirty,
    /// A reader sometimes returns an earlier answer again.
    Remembers,
    /// A writer sometimes reports a write that it did not execute.
    Forgets,
    /// A task that takes a line out of use does not free the line.
    ForgetsToFree,
    /// A reader sometimes returns an earlier answer, and reports the earlier time as the begin of
    /// its call.
    Backdates,
    /// Nodes do not release a line on request.
    NeverGivesUp,
    /// Nodes do not deduplicate messages.
    KeepsRepeats,
    /// A reader sometimes waits for an event that never comes.
    WaitsForNothing,
    /// A task writes into a page of the tree without a tree operation.
    Scribbles,
    /// Buffered writes become visible in partial store order, although total store order is
    /// promised.
    Overtakes,
    /// A transaction sometimes uses a line without locking it.
    ForgetsToLock,
    /// A transaction that locks only the line that it writes reads the other line before it locks,
    /// instead of after.
    LooksTooEarly,
    /// Nodes send requests to nodes that are known to be lost, and keep a frame for each answer.
    AsksTheGone,
    /// The fabric does not complete batches to a node that was forgotten.
    StrandsBatches,
    /// No node empties the epoch slots of dead nodes.
    BuriesNobody,
    /// A split of an R-tree's page does not raise the sequence number.
    SplitsUncounted,
    /// A query of an R-tree does not read the last of several right siblings.
    StopsBeforeLast,
    /// An insert into an R-tree does not enlarge the parent's box before its entry shows.
    ParentsStaySmall,
    /// A remove from an R-tree makes a box smaller that an insert has just made larger.
    ShrinksUnderInserts,
    /// An entry of an R-tree that moves to another leaf leaves nothing in its old one.
    LeavesNoTrace,
    /// The line of a page that has left a B-link tree is used again at once, although operations
    /// may still know its address. This bug and the next four have an effect only in that tree.
    ReusesPagesAtOnce,
    /// A leaf leaves a B-link tree although an insert has filled it meanwhile.
    UnlinksFilledLeaves,
    /// The left sibling of a page that leaves a B-link tree keeps its range of keys and its right
    /// link.
    ForgetsTheNeighbour,
    /// The parent in a B-link tree loses the entry of a page before the page is marked.
    MarksTooLate,
    /// A remembered address in a B-link tree counts, although another page is there by now.
    TrustsOldAddresses,
    /// A holder gives a line away before it has served all copies of the line. This bug and those
    /// below have an effect only under protocols with homes.
    ServesOutOfOrder,
    /// A home accepts an eviction although the node has to serve others.
    AcceptsEveryEviction,
    /// A node forgets an invalidation that arrives before the grant that it ends.
    ForgetsEarly,
    /// A node that evicts a line does not wait for the home's answer.
    EvictsUnanswered,
    /// A home that recovers a line waits for the answer of one node only.
    HearsOneAnswer,
    /// Nodes do not take the duty of a dead node over to write a line's changes back.
    LosesTheDuty,
    /// A writer of Sherman's tree releases its lock before its write. This bug and those below have
    /// an effect only in that tree.
    ReleasesLocksFirst,
    /// A leaf counts as the right one, whatever its fence keys are.
    IgnoresFenceKeys,
    /// A key is absent if a torn leaf does not show it.
    TrustsTornLeaves,
    /// A hand-over does not write its changes back, although the lines of dead nodes are recovered.
    /// This bug and the next seven have an effect only with the setting `survive`.
    KeepsChanges,
    /// A node takes a dead node out of the latch words before the others have let go of it.
    SweepsEarly,
    /// A line that waits for a dead node does not look at its word.
    TrustsTheDead,
    /// Nodes close a dead node as soon as all have let go of it.
    ClosesAfterOneRound,
    /// What a latch word says of a dead node is changed by an addition.
    MendsByAddition,
    /// A reader drops a copy that a dead node has given it, instead of writing it back.
    DropsOrphans,
    /// A node uses a copy that it has pledged to a dead node, without a look at the word.
    RestoresPledges,
    /// A node that takes the place of a dead giver writes nothing back.
    InheritsClean,
    /// A transaction does not notice rows that come or go where it has looked. This bug and those
    /// below have an effect only in the workload with transactions over a table.
    OverlooksPhantoms,
    /// An optimistic transaction does not validate the rows that it has read.
    SkipsRowValidation,
    /// A transaction under two-phase locking gives its read locks back before it locks new rows.
    DropsReadLocks,
    /// A write under timestamp ordering ignores that a later transaction has read the row.
    IgnoresReadTimestamps,
    /// A new row of a dead node's open transaction stays a conflict. Has an effect only with the
    /// setting `survive`.
    KeepsAbandonedRows,
}

impl SeededBug {
    /// All seeded bugs.
    pub const ALL: [SeededBug; 50] = [
        SeededBug::NoSettling,
        SeededBug::NoRegisteredWait,
        SeededBug::NoBinding,
        SeededBug::ForgetsDirty,
        SeededBug::Remembers,
        SeededBug::Forgets,
        SeededBug::ForgetsToFree,
        SeededBug::Backdates,
        SeededBug::NeverGivesUp,
        SeededBug::KeepsRepeats,
        SeededBug::WaitsForNothing,
        SeededBug::Scribbles,
        SeededBug::Overtakes,
        SeededBug::ForgetsToLock,
        SeededBug::LooksTooEarly,
        SeededBug::AsksTheGone,
        SeededBug::StrandsBatches,
        SeededBug::BuriesNobody,
        SeededBug::SplitsUncounted,
        SeededBug::StopsBeforeLast,
        SeededBug::ParentsStaySmall,
        SeededBug::ShrinksUnderInserts,
        SeededBug::LeavesNoTrace,
        SeededBug::ReusesPagesAtOnce,
        SeededBug::UnlinksFilledLeaves,
        SeededBug::ForgetsTheNeighbour,
        SeededBug::MarksTooLate,
        SeededBug::TrustsOldAddresses,
        SeededBug::ServesOutOfOrder,
        SeededBug::AcceptsEveryEviction,
        SeededBug::ForgetsEarly,
        SeededBug::EvictsUnanswered,
        SeededBug::HearsOneAnswer,
        SeededBug::LosesTheDuty,
        SeededBug::ReleasesLocksFirst,
        SeededBug::IgnoresFenceKeys,
        SeededBug::TrustsTornLeaves,
        SeededBug::KeepsChanges,
        SeededBug::SweepsEarly,
        SeededBug::TrustsTheDead,
        SeededBug::ClosesAfterOneRound,
        SeededBug::MendsByAddition,
        SeededBug::DropsOrphans,
        SeededBug::RestoresPledges,
        SeededBug::InheritsClean,
        SeededBug::OverlooksPhantoms,
        SeededBug::SkipsRowValidation,
        SeededBug::DropsReadLocks,
        SeededBug::IgnoresReadTimestamps,
        SeededBug::KeepsAbandonedRows,
    ];

    pub(super) fn change(self, config: &mut ClusterConfig) {
        let plant = &mut config.selcc.plant;
        let homes = &mut config.directory_plant;
        match self {
            SeededBug::NoSettling => *plant = Some(|rules| rules.settle = false),
            SeededBug::NoRegisteredWait => *plant = Some(|rules| rules.registered_wait = false),
            SeededBug::NoBinding => *plant = Some(|rules| rules.binding = false),
            SeededBug::KeepsChanges => *plant = Some(|rules| rules.survive = false),
            SeededBug::TrustsTheDead => *plant = Some(|rules| rules.looks = false),
            SeededBug::DropsOrphans => *plant = Some(|rules| rules.reader_claims = false),
            SeededBug::RestoresPledges => *plant = Some(|rules| rules.pledger_looks = false),
            SeededBug::InheritsClean => *plant = Some(|rules| rules.inherits_changes = false),
            SeededBug::ClosesAfterOneRound => config.node.waits_twice = false,
            SeededBug::MendsByAddition => config.node.mends_by_swap = false,
            SeededBug::NeverGivesUp => *plant = Some(|rules| rules.invalidate = false),
            SeededBug::KeepsRepeats => config.node.drops_repeats = false,
            SeededBug::AsksTheGone => config.node.heeds_the_gone = false,
            SeededBug::ServesOutOfOrder => *homes = Some(|rules| rules.ordered = false),
            SeededBug::AcceptsEveryEviction => *homes = Some(|rules| rules.stable_owner = false),
            SeededBug::ForgetsEarly => *homes = Some(|rules| rules.remembers_early = false),
            SeededBug::EvictsUnanswered => {
                *homes = Some(|rules| rules.acknowledged_eviction = false);
            }
            SeededBug::HearsOneAnswer => *homes = Some(|rules| rules.hears_all = false),
            SeededBug::LosesTheDuty => *homes = Some(|rules| rules.adopts = false),
            // The clients, the network, the reclaiming nodes, the indexes or the transactions
            // carry out the others.
            _ => {}
        }
    }
}
