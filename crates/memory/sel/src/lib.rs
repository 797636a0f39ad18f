//! SEL: the plain shared-exclusive latch over one-sided verbs, which SELCC is measured against
//! (SELCC 4.1, figure 3a).
//!
//! ```text
//!   access ──► FAA or CAS on the latch word, READ ──► local access ──► WRITE, FAA: given back
//!                  │ refused
//!                  └──► pause, doubled each time ──► again
//! ```
//!
//! It runs on SELCC's engine with another [`Policy`]: frames are only buffers, a line is given back
//! as soon as no local access needs it, and a refused node sends no message but tries again. So
//! whatever the two differ by in a measurement is the protocol, not the code around it.
//!
//! The discipline of the word is the same. In particular a refused reader's bit stays in the word
//! as a registered wait, which the reader polls, instead of being taken back: a writer cannot then
//! slip in front of it, and readers do not fail each other's undone bits.
//!
//! What SEL does not promise: fairness between nodes. A writer that always meets readers fails at
//! the deadline of its access.
//!
//! ```
//! assert_eq!(latchwork_sel::POLICY.name, "sel");
//! assert!(!latchwork_sel::POLICY.lazy_release);
//! ```

#![forbid(unsafe_code)]

use latchwork_latch::Rules;
use latchwork_selcc::Policy;

/// The policy that makes SELCC's engine SEL.
pub const POLICY: Policy = Policy { name: "sel", rules: Rules::LATCH_ONLY, lazy_release: false };
