//! Errors of this program, in one line each.

use std::fmt::Display;
use std::path::Path;

use latchwork_files::{InputKind, Output};
use latchwork_harness::AppError;

/// An error in the input, or of the output: one line that names the place.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct FigureError(pub(crate) String);

impl From<FigureError> for AppError {
    fn from(error: FigureError) -> AppError {
        AppError::Usage(error.0)
    }
}

pub(crate) type Result<T> = std::result::Result<T, FigureError>;

/// `place: problem`, in one line even if the problem's text has several.
pub(crate) fn wrong<T>(place: impl Display, problem: impl Display) -> Result<T> {
    let text = format!("{place}: {problem}");
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Err(FigureError(lines.join("; ")))
}

/// The kind of input files: a figure, points, claims, a result document, a page.
const FILE: InputKind = InputKind { name: "a file of figures or results", bytes_max: 256 << 20 };

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String> {
    latchwork_files::read_text(path, FILE).or_else(|error| wrong(path.display(), error))
}

/// Replaces a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let written = Output::open(path).and_then(|output| output.write(text.as_bytes()));
    written.or_else(|error| wrong(path.display(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_replaced_as_what_they_are() {
        let directory = tempfile::TempDir::new().unwrap();
        let (page, link) = (directory.path().join("page"), directory.path().join("link"));
        std::fs::write(&page, "\u{feff}old").unwrap();
        std::os::unix::fs::symlink("page", &link).unwrap();
        assert_eq!(read(&link), Ok("old".to_owned()));
        write(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&page).unwrap(), "new");
        let fifo = directory.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let told = read(&fifo).unwrap_err().to_string();
        assert!(told.contains("no process has it open for writing"), "{told}");
        let told = write(&fifo, "text").unwrap_err().to_string();
        assert!(told.contains("no process has it open for reading"), "{told}");
        let told = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(told.contains("it is larger than 256 MiB"), "{told}");
    }
}
