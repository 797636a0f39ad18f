//! SEL: the baseline, the plain shared-exclusive latch over one-sided verbs (SELCC 4.1, figure 3a).
//!
//! ```text
//!   access ──► FAA or CAS on the latch word, READ ──► local access ──► WRITE, FAA: release
//!                  │ refused
//!                  └──► back-off, doubled each time ──► again
//! ```
//!
//! SEL runs on the engine of SELCC with another [`Policy`]:
//!
//! - The frames are only buffers. A node releases a line as soon as no local access needs the line.
//! - A refused node sends no message. The node backs off and tries again.
//!
//! So a measured difference between SEL and SELCC comes from the protocol and not from the code
//! around the protocol.
//!
//! The word discipline is the same. In particular, the bit of a refused reader stays in the latch
//! word as a registered wait, which the reader polls. Taking the bit back would have two costs:
//!
//! 1. A writer could acquire the word before the reader.
//! 2. Each refusal would cost a second addition to the word.
//!
//! SEL does not promise fairness between nodes. A writer that always meets readers fails at the
//! deadline of its access.
//!
//! ```
//! assert_eq!(latchwork_sel::POLICY.name, "sel");
//! assert!(!latchwork_sel::POLICY.lazy_release);
//! ```

#![forbid(unsafe_code)]

use latchwork_latch::Rules;
use latchwork_selcc::Policy;

/// The policy with which the engine of SELCC runs SEL.
pub const POLICY: Policy = Policy { name: "sel", rules: Rules::LATCH_ONLY, lazy_release: false };
