//! Lines for people on standard error.

use std::io::Write as _;

/// Writes a line for people. The reader may have closed standard error, which is no reason to
/// panic.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
