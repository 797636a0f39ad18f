//! [`Policy`]: the differences between SELCC and SEL.

use latchwork_engine::{Release, Settings};
use latchwork_latch::Rules;

/// The differences between the protocols of the latch word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The protocol's name.
    pub name: &'static str,
    /// The rules of the line machine.
    pub rules: Rules,
    /// Whether the node keeps a line after the access, until another node requests the line or its
    /// frame is needed (SELCC 4.1).
    pub lazy_release: bool,
}

impl Policy {
    /// SELCC: lazy release and invalidation requests.
    pub const SELCC: Policy =
        Policy { name: "selcc", rules: Rules::DISCIPLINE, lazy_release: true };

    /// The rules of the line machine: those of the policy, changed by the settings.
    pub(crate) fn rules(&self, settings: &Settings) -> Rules {
        let Settings { forwarding, takeover, aging, .. } = *settings;
        let starved_at = if settings.priority_matching { settings.starved_at } else { 0 };
        let gives_back = self.lazy_release && aging && settings.release == Release::Adaptive;
        Rules { forwarding, takeover, aging, starved_at, gives_back, ..self.rules }
    }
}
