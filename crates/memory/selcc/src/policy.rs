//! [`Policy`]: the differences between SELCC and SEL.

use latchwork_engine::{NodeSettings, Release};
use latchwork_latch::Rules;

use crate::settings::SelccSettings;

/// The differences between the protocols of the latch word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The rules of the line machine. The settings of a node replace `forwarding`, `takeover`,
    /// `survive`, `aging`, `starved_at` and `gives_back`, so a policy does not decide those.
    pub rules: Rules,
    /// Whether the node keeps a line after the access, until another node requests the line or its
    /// frame is needed (SELCC 4.1).
    pub lazy_release: bool,
}

impl Policy {
    /// SELCC: lazy release and invalidation requests.
    pub const SELCC: Policy = Policy { rules: Rules::DISCIPLINE, lazy_release: true };

    /// SEL: the baseline, the plain shared-exclusive latch over one-sided verbs (SELCC 4.1, figure
    /// 3a).
    ///
    /// ```text
    ///   access ──► FAA or CAS on the latch word, READ ──► local access ──► WRITE, FAA: release
    ///                  │ refused
    ///                  └──► back-off, doubled each time ──► again
    /// ```
    ///
    /// - The frames are only buffers. A node releases a line as soon as no local access needs the
    ///   line.
    /// - A refused node sends no message. The node backs off and tries again.
    ///
    /// SEL and SELCC run the same code otherwise. So a measured difference comes from the protocol.
    ///
    /// The word discipline is the same. In particular, the bit of a refused reader stays in the
    /// latch word as a registered wait, which the reader polls. Taking the bit back would have two
    /// costs:
    ///
    /// 1. A writer could acquire the word before the reader.
    /// 2. Each refusal would cost a second addition to the word.
    ///
    /// SEL does not promise fairness between nodes. A writer that always meets readers fails at the
    /// deadline of its access.
    pub const SEL: Policy = Policy { rules: Rules::LATCH_ONLY, lazy_release: false };

    /// The rules of the line machine: those of the policy, changed by the settings.
    pub(crate) fn rules(&self, node: &NodeSettings, settings: &SelccSettings) -> Rules {
        let SelccSettings { forwarding, takeover, survive, aging, .. } = *settings;
        let starved_at = if settings.priority_matching { settings.starved_at } else { 0 };
        let gives_back = self.lazy_release && aging && node.release == Release::Adaptive;
        Rules { forwarding, takeover, survive, aging, starved_at, gives_back, ..self.rules }
    }
}
