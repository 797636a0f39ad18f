//! Checks of a command line, for the tests of its program.

use clap::{CommandFactory, FromArgMatches};

use super::{missing, settings_page};
use crate::parse::one_line;

/// Checks that a command line is consistent, that files for several programs may have each of its
/// flags, and that `page`, the text of `docs/reference/settings.md`, has the table of its settings.
///
/// # Panics
/// When one of these is not so.
pub fn assert_consistent<C: CommandFactory>(page: &str) {
    C::command().debug_assert();
    let own = missing::<C>(C::command().get_name());
    assert_eq!(own, [""; 0], "flags that other programs take for unknown");
    let table = settings_page::<C>();
    assert!(page.contains(&table), "docs/reference/settings.md should have this table:\n\n{table}");
}

/// Checks that wrong arguments give one line, with a flag and what would do.
///
/// # Panics
/// When one of them can be parsed, or the line is different.
pub fn assert_refused<C: CommandFactory + FromArgMatches>(wrong: &[(&str, &str, &str)]) {
    for (arguments, flag, would_do) in wrong {
        let words = std::iter::once("program").chain(arguments.split_whitespace());
        let parsed = C::command().try_get_matches_from(words);
        let parsed = parsed.and_then(|matches| C::from_arg_matches(&matches));
        let line = one_line(&parsed.err().unwrap_or_else(|| panic!("{arguments}: it is accepted")));
        let is_told = line.contains(flag) && line.contains(would_do);
        assert!(is_told && !line.contains('\n'), "{arguments}: {line}");
    }
}
