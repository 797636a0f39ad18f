//! Which rules a machine follows. The defaults are the discipline; the switches turn single rules
//! off, so that the model can show that it would notice.

use crate::TRAVELLING_MAX;

/// The number of a question; wraps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Seq(pub u16);

/// The rules that a node's machines follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rules {
    /// R4: a line received by hand-over is neither released nor handed on before the giver's
    /// operation on the word is known to be complete.
    pub settle: bool,
    /// R2: a refused reader's bit stays as a registered wait. Off: the reader takes it back with
    /// another addition while it already asks the holder, and the holder sets it again when it
    /// serves the reader, as SELCC 4.3.2 and 4.4.2 have it.
    pub registered_wait: bool,
    /// Refused nodes ask the owners to give the line up (SELCC). Off: they only try again after a
    /// pause, as the plain shared-exclusive latch does (SEL).
    pub invalidate: bool,
    /// An exclusive holder that is asked forwards the line and hands the word over, or downgrades
    /// (SELCC 4.4.1 and 4.4.2). Off: it writes back and releases, and who asked tries again (figure
    /// 7a).
    pub forwarding: bool,
    /// A sharer that is asked by a writer pledges its copy, and the writer takes the line over from
    /// all sharers at once. Off: it releases its copy itself, with an operation on the word (SELCC
    /// 4.4.3).
    pub takeover: bool,
    /// R2: a pledge binds until its report. Off: its sender takes its copy into use again when
    /// local code wants it.
    pub binding: bool,
    /// Lines are given back unasked. So a node that is asked for one that it has no more, and for
    /// the first time, answers `Released`, since most likely nobody has it. Off: it has most likely
    /// handed the line to another, and answers `Dropped`. To be on only with
    /// [`aging`](Rules::aging), which tells the first time from others.
    pub gives_back: bool,
    /// Questions are numbered modulo this, at most 2^14. Small in the model, whose states are
    /// finite that way.
    pub seq_modulus: u32,
    /// Priorities grow up to this: 31 fits into a message (SELCC 5.3.2).
    pub priority_max: u8,
    /// Questions are asked with the priority that refusals have brought (SELCC 5.3.2). Off: all are
    /// equal, and who came first is served first.
    pub aging: bool,
    /// A writer that was refused so often before it got the line is starved: it keeps the line from
    /// readers whose priority is lower than its was (SELCC 5.3.2, priority matching). 0: never.
    /// Means nothing without [`aging`](Rules::aging), since readers' priorities would never rise.
    pub starved_at: u8,
    /// So many requests travel with a hand-over, at most [`TRAVELLING_MAX`]; the others
    /// are sent on behind it. Small in the model, which has few nodes.
    pub travelling_max: u8,
}

impl Rules {
    /// The whole discipline.
    pub const DISCIPLINE: Rules = Rules {
        settle: true,
        registered_wait: true,
        invalidate: true,
        forwarding: true,
        takeover: false,
        binding: true,
        gives_back: false,
        seq_modulus: 1 << 14,
        priority_max: 31,
        aging: true,
        starved_at: 2,
        travelling_max: TRAVELLING_MAX as u8,
    };

    /// The discipline without messages: the shared-exclusive latch.
    pub const LATCH_ONLY: Rules = Rules { invalidate: false, ..Self::DISCIPLINE };
}

impl Default for Rules {
    fn default() -> Self {
        Self::DISCIPLINE
    }
}

impl Seq {
    pub(crate) fn next(self, rules: &Rules) -> Seq {
        Seq(((u32::from(self.0) + 1) % rules.seq_modulus) as u16)
    }
}
