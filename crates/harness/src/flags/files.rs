//! Files and directories that a program is to write: looked at before it begins, so that a long run does not end in a
//! typing error.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use super::FlagError;

/// Makes sure that a file could be written at `path`, which `flag` asks for.
///
/// # Errors
/// When its directory is not there, or it is one itself; when it may not be written.
pub fn file_to_write(flag: &str, path: &Path) -> Result<(), FlagError> {
    let told = path.display();
    if path.file_name().is_none() || path.is_dir() {
        return Err(FlagError(format!("{flag} {told}: it is a directory; name a file")));
    }
    let directory = path.parent().filter(|directory| *directory != Path::new(""));
    match directory {
        Some(directory) if !directory.is_dir() => Err(FlagError(format!(
            "{flag} {told}: its directory does not exist; make {} first, or name another file",
            directory.display()
        ))),
        _ => try_file(path).map_err(|error| {
            FlagError(format!("{flag} {told}: it cannot be written: {error}; name another file"))
        }),
    }
}

/// Opens the file as who writes it later, and leaves all as it was. What is no file (a terminal, a pipe) is left alone: who
/// reads there would take this for the end.
fn try_file(path: &Path) -> io::Result<()> {
    if path == Path::new("-") || path.exists() && !path.is_file() {
        return Ok(());
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().append(true).open(path).map(drop)
        }
        Err(error) => Err(error),
    }
}

/// Makes sure that the directory `path`, which `flag` asks for, is there or could be made.
///
/// # Errors
/// When it, or a part of it, is something else; when nothing may be written there.
pub fn directory_to_write(flag: &str, path: &Path) -> Result<(), FlagError> {
    let there = path.ancestors().find(|part| part.exists());
    match there {
        Some(part) if !part.is_dir() => Err(FlagError(format!(
            "{flag} {}: {} is no directory; name another",
            path.display(),
            part.display()
        ))),
        Some(part) => {
            let probe = part.join(format!(".latchwork-{}", std::process::id()));
            try_file(&probe).map_err(|error| {
                let (told, part) = (path.display(), part.display());
                FlagError(format!("{flag} {told}: {part} cannot be written: {error}; name another"))
            })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_told_with_what_would_do() {
        let directory =
            std::env::temp_dir().join(format!("latchwork-files-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("file");
        std::fs::write(&file, "").expect("room");
        let told = |result: Result<(), FlagError>| result.err().map(|error| error.to_string());
        for good in [&file, &directory.join("new"), Path::new("here"), Path::new("-")] {
            assert_eq!(told(file_to_write("--log", good)), None);
        }
        assert!(!directory.join("new").exists() && !Path::new("here").exists(), "all is as it was");
        // Where nobody makes a file, whoever it is.
        if cfg!(target_os = "linux") {
            let nowhere = Path::new("/proc/latchwork");
            let line = told(file_to_write("--log", nowhere)).expect("no place for a file");
            assert!(line.contains("it cannot be written: "), "{line}");
            let line = told(directory_to_write("--out", nowhere)).expect("no place");
            assert!(line.contains("/proc cannot be written: "), "{line}");
        }
        let lost = directory.join("lost");
        let line = told(file_to_write("--log", &lost.join("file"))).expect("there is no directory");
        assert!(
            line.starts_with("--log ") && line.contains("its directory does not exist"),
            "{line}"
        );
        assert!(line.contains(&format!("make {} first", lost.display())), "{line}");
        let line = told(file_to_write("--log", &directory)).expect("a directory");
        assert!(line.contains("it is a directory; name a file"), "{line}");
        for good in [&directory, &lost.join("deep"), Path::new("here")] {
            assert_eq!(told(directory_to_write("--out", good)), None);
        }
        for bad in [&file, &file.join("deep")] {
            let line = told(directory_to_write("--out", bad)).expect("a file");
            assert!(line.contains(&format!("{} is no directory", file.display())), "{line}");
        }
        std::fs::remove_dir_all(&directory).expect("it is there");
    }
}
