//! [`Protocol`]: the coherence protocol of a cluster, chosen at run time.
//!
//! This is the one place between the engine and the programs that names the protocols: another one
//! is a line of the list, and an arm of each `match` here, which the compiler asks for. The worlds
//! of hunts draw from some protocols by name (`latchwork_hunt::Scenario::from_seed`), and so do
//! some tests.

use std::fmt;
use std::sync::Arc;

use latchwork_engine::{Node, NodeParts, Truth};
use latchwork_homes::{Conflicts, Directory, Holders, HomePlace, HomeSettings, Homes, Rules};
pub use latchwork_homes::{agent, beside};
use latchwork_memnode::Geometry;
pub(crate) use latchwork_selcc::ARENA_MAX;
use latchwork_selcc::{LatchCount, LatchWords, Policy, Selcc, SelccSettings};
pub use latchwork_selcc::{describe_atomic, describe_word, read_message, roll_forward};
use latchwork_verbs::{GlobalAddr, Message, Region};

macro_rules! protocols {
    ($($(#[$doc:meta])* $protocol:ident $name:literal,)*) => {
        /// A coherence protocol.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum Protocol { $($(#[$doc])* $protocol,)* }

        impl Protocol {
            /// All protocols.
            pub const ALL: [Protocol; [$(Protocol::$protocol),*].len()] =
                [$(Protocol::$protocol),*];

            /// The protocol's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Protocol::$protocol => $name,)*
                }
            }
        }
    };
}

protocols! {
    /// SELCC: lines stay in the cache until another node requests them.
    #[default]
    Selcc "selcc",
    /// SEL: the baseline, which releases a line after every access.
    Sel "sel",
    /// GAM: a home for each line resolves all conflicts.
    Gam "gam",
    /// ScaleStore: a home for each line names its holders, and the requesters resolve conflicts.
    ScaleStore "scalestore",
}

/// How a protocol is built.
enum Build {
    /// The protocols of the latch word.
    LatchWord(Policy),
    /// The protocols with a directory.
    Directory(Rules),
}

impl Protocol {
    const fn build(self) -> Build {
        match self {
            Protocol::Selcc => Build::LatchWord(Policy::SELCC),
            Protocol::Sel => Build::LatchWord(Policy::SEL),
            Protocol::Gam => Build::Directory(Rules::GAM),
            Protocol::ScaleStore => Build::Directory(Rules::SCALESTORE),
        }
    }

    /// The names of all protocols, for messages.
    pub(crate) fn names() -> String {
        let [others @ .., last] = Self::ALL.map(Protocol::name);
        format!("{} and {last}", others.join(", "))
    }

    /// Whether a node keeps a line after the access (lazy release).
    pub const fn keeps_lines(self) -> bool {
        match self.build() {
            Build::LatchWord(policy) => policy.lazy_release,
            Build::Directory(_) => true,
        }
    }

    /// Whether a node requests a line from the nodes that own it. Otherwise a refused access tries
    /// again, and may fail at its deadline under load.
    pub const fn requests_lines(self) -> bool {
        match self.build() {
            Build::LatchWord(policy) => policy.rules.invalidate,
            Build::Directory(_) => true,
        }
    }

    /// Whether each line has a home, so that each memory node needs an agent.
    pub const fn has_homes(self) -> bool {
        matches!(self.build(), Build::Directory(_))
    }

    /// Whether the requesters resolve conflicts, so that there are several ways to do so.
    pub const fn has_ways_of_conflict(self) -> bool {
        match self.build() {
            Build::LatchWord(_) => false,
            Build::Directory(rules) => !matches!(rules.conflicts, Conflicts::AtHome),
        }
    }

    /// The names of the counts that only this protocol has.
    pub(crate) const fn own_counts(self) -> &'static [&'static str] {
        match self.build() {
            Build::LatchWord(_) => LatchCount::NAMES,
            Build::Directory(_) => &[],
        }
    }
}

/// The line of a message between nodes, and the message as text.
pub fn describe(message: &Message) -> (Option<GlobalAddr>, String) {
    match latchwork_homes::describe(message) {
        Some((line, text)) => (Some(line), text),
        None => {
            let line = read_message(message).map(|(line, _)| line);
            (line, latchwork_selcc::describe(message))
        }
    }
}

/// What the protocol itself says of the lines of a pool, whose memory nodes have these memories and
/// these homes. `survives`: the nodes recover the lines of dead nodes.
pub(crate) fn truth(
    protocol: Protocol,
    geometry: Geometry,
    memories: Vec<Arc<Region>>,
    homes: &[Arc<Holders>],
    survives: bool,
) -> Box<dyn Truth> {
    match protocol.build() {
        Build::LatchWord(_) => Box::new(LatchWords::new(geometry, memories, survives)),
        Build::Directory(_) => Box::new(Homes::new(homes.to_vec())),
    }
}

/// A node, and its entries if it is a home that writes them down for checks.
pub(crate) type Built = (Arc<Node>, Option<Arc<Holders>>);

/// Builds the agent of a memory node. `None`: the protocol has no homes. `checked`: the agent
/// writes its entries down for the [`Truth`].
pub(crate) fn new_agent(
    parts: NodeParts,
    protocol: Protocol,
    changes: Changes<'_>,
    checked: bool,
) -> Option<Built> {
    let Build::Directory(rules) = protocol.build() else { return None };
    let holders = checked.then(Arc::<Holders>::default);
    let directory = Directory::new(changed(rules, changes), HomePlace::Agents, holders.clone());
    Some((Node::new(parts, directory), holders))
}

/// Builds a compute node that runs the protocol. `checked`: a home writes its entries down.
pub(crate) fn new_node(
    parts: NodeParts,
    protocol: Protocol,
    (changes, place): (Changes<'_>, HomePlace),
    selcc: &SelccSettings,
    checked: bool,
) -> Built {
    match protocol.build() {
        Build::LatchWord(policy) => {
            let protocol = Selcc::new(policy, &parts.settings, selcc.clone());
            (Node::new(parts, protocol), None)
        }
        Build::Directory(rules) => {
            let is_home = matches!(place, HomePlace::Compute { .. });
            let holders = (checked && is_home).then(Arc::<Holders>::default);
            let directory = Directory::new(changed(rules, changes), place, holders.clone());
            (Node::new(parts, directory), holders)
        }
    }
}

/// The settings of the homes, and a mistake in the rules that a test plants.
type Changes<'a> = (&'a HomeSettings, Option<fn(&mut Rules)>);

/// The rules of a directory protocol with these changes.
fn changed(rules: Rules, (homes, plant): Changes<'_>) -> Rules {
    let mut rules = homes.apply(rules);
    if let Some(plant) = plant {
        plant(&mut rules);
    }
    rules
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
