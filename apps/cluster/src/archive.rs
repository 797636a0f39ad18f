//! The archive format: files as one stream of bytes on the standard output of a virtual machine or
//! of another host.
//! ```text
//!   latchwork-archive NAME BYTES ⏎ content ⏎        for each
//!   latchwork-archive-end ⏎
//! ```

use std::io::{self, Write};
use std::path::Path;

const FILE: &str = "latchwork-archive ";
const END: &str = "latchwork-archive-end";

/// A file's name, and its content.
pub(crate) type Entry = (String, Vec<u8>);

/// Writes the files of a directory, without its subdirectories.
///
/// # Errors
/// When a file cannot be read, or `out` fails.
pub(crate) fn write(out: &mut dyn Write, directory: &Path) -> io::Result<()> {
    let mut entries = std::fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_type()?.is_file()
            && let Ok(name) = entry.file_name().into_string()
        {
            let content = std::fs::read(entry.path())?;
            writeln!(out, "{FILE}{name} {}", content.len())?;
            out.write_all(&content)?;
            writeln!(out)?;
        }
    }
    writeln!(out, "{END}")?;
    out.flush()
}

/// The files of an archive. Bytes before the archive are ignored.
///
/// # Errors
/// When the archive is incomplete.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    let mut rest = bytes;
    loop {
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            return Err(format!("it breaks off after {} files", entries.len()));
        };
        let (line, after) = (String::from_utf8_lossy(&rest[..end]), &rest[end + 1..]);
        rest = after;
        if line == END {
            return Ok(entries);
        }
        let Some((name, length)) = line.strip_prefix(FILE).and_then(|line| line.rsplit_once(' '))
        else {
            continue;
        };
        let length = length.parse::<usize>().ok().filter(|length| *length < rest.len());
        let Some(length) = length else { return Err(format!("it breaks off in {name}")) };
        // A name with a slash or a leading dot comes from another program, and could lead to
        // another directory.
        if name.contains('/') || name.starts_with('.') {
            return Err(format!("{name} is no name of a file"));
        }
        entries.push((name.to_owned(), rest[..length].to_vec()));
        rest = &rest[length + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_arrive_as_they_are_or_not_at_all() {
        let directory = tempfile::TempDir::new().expect("a directory");
        std::fs::create_dir(directory.path().join("inner")).expect("a directory");
        let files =
            [("a", &b"one\nlatchwork-archive-end\n"[..]), ("b", b""), ("c.json", b"\xff\n\n")];
        for (name, content) in files {
            std::fs::write(directory.path().join(name), content).expect("a file");
        }
        let mut bytes = b"said before\n".to_vec();
        write(&mut bytes, directory.path()).expect("written");
        let found = read(&bytes).expect("an archive");
        let expected: Vec<Entry> =
            files.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect();
        assert_eq!(found, expected);
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "{end} of {} bytes are no archive", bytes.len());
        }
        assert!(read(b"latchwork-archive ../x 1\ny\nlatchwork-archive-end\n").is_err());
    }
}
