//! [`Flaw`]: why bytes are no log record.

/// Why bytes are not a log record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flaw(pub(crate) &'static str);

impl From<Flaw> for &'static str {
    fn from(flaw: Flaw) -> &'static str {
        flaw.0
    }
}
