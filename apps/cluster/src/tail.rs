//! The growing output file of a process, line by line.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Reads from the last position on.
pub(crate) struct Tail {
    file: File,
    /// The start of an incomplete line.
    begun: Vec<u8>,
}

impl Tail {
    pub(crate) fn of(path: &Path) -> io::Result<Tail> {
        Ok(Tail { file: File::open(path)?, begun: Vec::new() })
    }

    /// The lines that the process has completed since the last call.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        // After a read error the next call tries again.
        let _ = self.file.read_to_end(&mut self.begun);
        let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.begun.split_off(end + 1);
        let whole = std::mem::replace(&mut self.begun, rest);
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }

    /// As [`lines`](Tail::lines), with the last line even if it is incomplete.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        let mut lines = self.lines();
        if !self.begun.is_empty() {
            lines.push(String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn lines_come_whole_and_once() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let mut tail = Tail::of(file.path()).expect("a file");
        file.write_all(b"one\ntw").expect("write");
        assert_eq!(tail.lines(), ["one"]);
        file.write_all(b"o\n\nthree").expect("write");
        assert_eq!(tail.lines(), ["two", ""]);
        assert_eq!(
            (tail.lines().len(), tail.rest(), tail.rest().len()),
            (0, vec!["three".to_owned()], 0)
        );
    }
}
