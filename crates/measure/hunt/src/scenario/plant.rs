//! [`Plant`]: bugs put in on purpose, to see that they are found.

use latchwork_cluster::ClusterConfig;
use serde::{Deserialize, Serialize};

/// A bug that a scenario puts in: a rule of the protocol switched off, or a client that cheats.
/// Nothing of it is in the protocol's code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plant {
    /// The receiver of a hand-over acts on the latch word before the giver's own operation has
    /// landed: rule R4 off.
    NoSettling,
    /// A refused reader takes its bit back while the holder may set it again: rule R2 off, the
    /// published scheme.
    NoRegisteredWait,
    /// A node that has pledged its copy to a writer takes it into use again before the writer
    /// reports: rule R2 off. Shows where `takeover` is on.
    NoBinding,
    /// A writer now and then forgets to say what it changed.
    ForgetsDirty,
    /// A reader now and then answers what it answered the last time.
    Remembers,
    /// A writer now and then says that it has written what it has not.
    Forgets,
    /// Who takes a line out of use forgets to free it.
    ForgetsToFree,
    /// A reader now and then answers what it answered before, and says that it has been asking
    /// since.
    Backdates,
    /// Nodes that are asked for a line do not give it up.
    NeverGivesUp,
    /// Nodes take messages that arrive twice for two.
    KeepsRepeats,
    /// A reader now and then waits for something that nobody will do.
    WaitsForNothing,
    /// Somebody writes into a page of the tree who is none of its operations.
    Scribbles,
    /// Buffered writes overtake each other, whatever order they are to have.
    Overtakes,
    /// A transaction now and then forgets to lock a line.
    ForgetsToLock,
    /// A transaction that locks only what it writes looks at what it reads before that, and not
    /// behind it.
    LooksTooEarly,
    /// Nodes ask those of whom they know that they are gone, and keep a frame for the answer.
    AsksTheGone,
    /// A fabric never tells what became of batches to a node that was given up.
    StrandsBatches,
    /// Nobody empties the epoch slots of the dead.
    BuriesNobody,
}

impl Plant {
    /// All there are.
    pub const ALL: [Plant; 18] = [
        Plant::NoSettling,
        Plant::NoRegisteredWait,
        Plant::NoBinding,
        Plant::ForgetsDirty,
        Plant::Remembers,
        Plant::Forgets,
        Plant::ForgetsToFree,
        Plant::Backdates,
        Plant::NeverGivesUp,
        Plant::KeepsRepeats,
        Plant::WaitsForNothing,
        Plant::Scribbles,
        Plant::Overtakes,
        Plant::ForgetsToLock,
        Plant::LooksTooEarly,
        Plant::AsksTheGone,
        Plant::StrandsBatches,
        Plant::BuriesNobody,
    ];

    pub(super) fn change(self, config: &mut ClusterConfig) {
        let rules = &mut config.node.policy.rules;
        match self {
            Plant::NoSettling => rules.settle = false,
            Plant::NoRegisteredWait => rules.registered_wait = false,
            Plant::NoBinding => rules.binding = false,
            Plant::NeverGivesUp => rules.invalidate = false,
            Plant::KeepsRepeats => config.node.drops_repeats = false,
            Plant::AsksTheGone => config.node.heeds_the_gone = false,
            // Clients do these, the network, and those who are told of the dead.
            Plant::ForgetsDirty
            | Plant::Remembers
            | Plant::Forgets
            | Plant::ForgetsToFree
            | Plant::Backdates
            | Plant::WaitsForNothing
            | Plant::Scribbles
            | Plant::Overtakes
            | Plant::ForgetsToLock
            | Plant::LooksTooEarly
            | Plant::StrandsBatches
            | Plant::BuriesNobody => {}
        }
    }
}
