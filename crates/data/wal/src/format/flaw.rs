//! [`Flaw`]: the reason why bytes are not a log record.

/// The reason why bytes are not a whole log record, as a text for error messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flaw(pub(crate) &'static str);

impl From<Flaw> for &'static str {
    fn from(flaw: Flaw) -> &'static str {
        flaw.0
    }
}
