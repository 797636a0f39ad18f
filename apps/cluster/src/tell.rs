//! Lines for people on standard error.

use std::io::Write as _;

/// Writes a line for people. An error is ignored, because the reader may have closed standard
/// error.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
