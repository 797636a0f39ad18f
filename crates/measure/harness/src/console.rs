//! Output of a program on its two streams: lines for scripts, tables for people.

use std::io::{self, IsTerminal as _, Write};

use latchwork_files::Output;

use crate::error::AppError;
use crate::fold;

/// Writes text for people on standard error, in lines that fit a terminal. The text accompanies a
/// result with its own output, so a failed write is ignored.
pub fn print_for_people(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let _ = fold::write(&mut io::stderr().lock(), write);
}

/// Writes a line on standard error while the program continues, whether a reader exists or not.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// As [`say`], in lines that fit a terminal.
pub fn say_folded(line: &str) {
    print_for_people(|out| writeln!(out, "{line}"));
}

/// Prints lines of a running program, as [`tell`]; on a terminal in lines that fit.
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
        // A progress bar may be on the line.
        out.write_all(b"\r\x1b[K")?;
        fold::write(out, write)
    })
}

/// Whether both streams are a terminal. Then a terminal would show the result twice, as the table
/// for people and as the lines for scripts, and the table suffices.
pub fn is_for_people_only() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Prints a result: as a table for people, and in lines for scripts. On a terminal alone the lines
/// are left out ([`is_for_people_only`]). A document on standard output replaces the lines.
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

/// Prints text on standard output. If standard output carries the document, the text goes to
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
        // A reader that closes the pipe has read what it needs.
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
