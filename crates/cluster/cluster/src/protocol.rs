//! [`Protocol`]: the coherence protocol of a cluster, chosen at run time.

use std::fmt;

use latchwork_selcc::Policy;

/// A coherence protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// SELCC: lines stay in the cache until another node requests them.
    #[default]
    Selcc,
    /// SEL: the baseline without a cache.
    Sel,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Protocol; 2] = [Protocol::Selcc, Protocol::Sel];

    /// The names of all protocols, for a person.
    pub(crate) fn names() -> String {
        Self::ALL.map(Protocol::name).join(" and ")
    }

    /// The protocol's name.
    pub const fn name(self) -> &'static str {
        self.policy().name
    }

    /// The engine's policy for this protocol.
    pub const fn policy(self) -> Policy {
        match self {
            Protocol::Selcc => Policy::SELCC,
            Protocol::Sel => Policy::SEL,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
