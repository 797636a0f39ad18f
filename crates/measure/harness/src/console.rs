//! Output of a program: lines for scripts on standard output, and tables for people on standard
//! error.

use std::io::{self, IsTerminal as _, Write};

use latchwork_files::Output;

use crate::error::AppError;
use crate::fold;

/// Clears the terminal's current line.
const CLEAR: &str = "\r\x1b[K";

/// Writes text for people on standard error, folded to fit a terminal. A failed write is ignored,
/// because the result itself goes to another output.
pub fn print_for_people(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let _ = fold::write(&mut io::stderr().lock(), write);
}

/// Writes a line on standard error. A failed write is ignored.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// As [`say`], during a phase. On a terminal a progress bar may be on the current line, so the line
/// is cleared first.
pub fn say_during_phase(line: &str) {
    let clear = if io::stderr().is_terminal() { CLEAR } else { "" };
    say(&format!("{clear}{line}"));
}

/// As [`say`], folded to fit a terminal.
pub fn say_folded(line: &str) {
    print_for_people(|out| writeln!(out, "{line}"));
}

/// Prints lines of a running program, as [`tell`]. On a terminal the lines are folded to fit.
///
/// # Errors
/// As [`tell`].
pub fn print_progress(
    document: Option<&Output>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), AppError> {
    if document.is_some_and(Output::is_stdout) || !io::stdout().is_terminal() {
        return tell(document, write);
    }
    tell(document, |out| {
        // A progress bar may be on the terminal's current line, so the line is cleared first.
        out.write_all(CLEAR.as_bytes())?;
        fold::write(out, write)
    })
}

/// Whether standard output and standard error are both a terminal. Such a terminal would show a
/// result twice, as a table and as lines for scripts, so the lines are left out.
pub fn is_for_people_only() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Prints a result twice: as a table for people on standard error, and as lines for scripts on
/// standard output. If both streams are a terminal, the lines are left out
/// ([`is_for_people_only`]). If the document goes to standard output, the lines go to standard
/// error.
///
/// # Errors
/// When the result cannot be written.
pub fn print_result(
    table: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    lines: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    document: Option<&Output>,
) -> Result<(), AppError> {
    if is_for_people_only() {
        return written("standard error", fold::write(&mut io::stderr().lock(), table));
    }
    print_for_people(table);
    tell(document, lines)
}

/// Prints text on standard output. If the document goes to standard output, the text goes to
/// standard error instead.
///
/// # Errors
/// When standard output cannot be written.
pub fn tell(
    document: Option<&Output>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), AppError> {
    if document.is_some_and(Output::is_stdout) {
        let _ = write(&mut io::stderr().lock());
        return Ok(());
    }
    let mut out = io::stdout().lock();
    written("standard output", write(&mut out).and_then(|()| out.flush()))
}

pub(crate) fn written(place: &str, result: io::Result<()>) -> Result<(), AppError> {
    match result {
        // A closed pipe is no error: its reader, such as `head`, wants no more text.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            Err(AppError::Failed(format!("the result cannot be written to {place}: {error}")))
        }
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_was_closed_is_no_error_and_a_full_disk_is() {
        let ended = |kind: io::ErrorKind| written("standard output", Err(kind.into()));
        assert!(ended(io::ErrorKind::BrokenPipe).is_ok());
        let error = ended(io::ErrorKind::StorageFull).expect_err("full").to_string();
        assert!(error.starts_with("the result cannot be written to standard output: "), "{error}");
    }
}
