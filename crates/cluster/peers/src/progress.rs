//! [`Progress`]: how far an effect is that may fail.

/// The progress of one effect that may fail, and that the machine may repeat.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Progress {
    /// The machine has not asked for the effect.
    Open,
    /// The machine has asked for the effect, and the effect has not ended.
    Running,
    /// The effect ended without success. A retry asks for it again.
    Failed,
    /// The effect ended with success.
    Done,
}

impl Progress {
    pub(crate) fn ended(done: bool) -> Progress {
        if done { Progress::Done } else { Progress::Failed }
    }

    pub(crate) fn reopen(&mut self) {
        if *self == Progress::Failed {
            *self = Progress::Open;
        }
    }
}
