//! [`SeededBug`]: bugs that a scenario switches on, to prove that the checks find them.

use latchwork_cluster::ClusterConfig;
use serde::{Deserialize, Serialize};

/// A seeded bug of a scenario: a rule of the protocol is off, or a client, the network or a
/// reclaiming node misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeededBug {
    /// The receiver of a hand-over acts on the latch word before the giver's operation has taken
    /// effect: rule R4 is off.
    NoSettling,
    /// A refused reader takes its bit back while the holder may still set it again: rule R2 is off,
    /// as in the published scheme.
    NoRegisteredWait,
    /// A node that has pledged its copy to a writer uses the copy before the writer reports: rule
    /// R2 is off. It shows only with `takeover` on.
    NoBinding,
    /// A writer sometimes does not mark the bytes that it changed.
    ForgetsDirty,
    /// A reader sometimes returns its previous answer again.
    Remembers,
    /// A writer sometimes reports a write that it did not do.
    Forgets,
    /// A task that takes a line out of use does not free the line.
    ForgetsToFree,
    /// A reader sometimes returns an earlier answer, and reports that its call began back then.
    Backdates,
    /// Nodes do not release a line on request.
    NeverGivesUp,
    /// Nodes do not deduplicate messages.
    KeepsRepeats,
    /// A reader sometimes waits for an event that never comes.
    WaitsForNothing,
    /// A task writes into a page of the tree without a tree operation.
    Scribbles,
    /// Buffered writes overtake each other, against their promised order.
    Overtakes,
    /// A transaction sometimes does not lock a line.
    ForgetsToLock,
    /// A transaction that locks only the written line reads the other line before its lock, not
    /// after it.
    LooksTooEarly,
    /// Nodes send requests to nodes that they know are lost, and keep a frame for the answer.
    AsksTheGone,
    /// The fabric never completes batches to a node that was forgotten.
    StrandsBatches,
    /// No node empties the epoch slots of dead nodes.
    BuriesNobody,
}

impl SeededBug {
    /// All seeded bugs.
    pub const ALL: [SeededBug; 18] = [
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
    ];

    pub(super) fn change(self, config: &mut ClusterConfig) {
        let rules = &mut config.policy.rules;
        match self {
            SeededBug::NoSettling => rules.settle = false,
            SeededBug::NoRegisteredWait => rules.registered_wait = false,
            SeededBug::NoBinding => rules.binding = false,
            SeededBug::NeverGivesUp => rules.invalidate = false,
            SeededBug::KeepsRepeats => config.node.drops_repeats = false,
            SeededBug::AsksTheGone => config.node.heeds_the_gone = false,
            // The clients, the network, or the reclaiming nodes carry these out.
            SeededBug::ForgetsDirty
            | SeededBug::Remembers
            | SeededBug::Forgets
            | SeededBug::ForgetsToFree
            | SeededBug::Backdates
            | SeededBug::WaitsForNothing
            | SeededBug::Scribbles
            | SeededBug::Overtakes
            | SeededBug::ForgetsToLock
            | SeededBug::LooksTooEarly
            | SeededBug::StrandsBatches
            | SeededBug::BuriesNobody => {}
        }
    }
}
