//! Opens and checks the files and directories that a program will write. This happens before the
//! run, so that a wrong path does not cost a long run.

use std::fs::{self, OpenOptions};
use std::path::Path;

use latchwork_files::Output;

use crate::error::{AppError, FlagError};

/// Prepares the output at `path`, which `flag` names. A FIFO, a device or a descriptor is opened
/// now and stays open.
///
/// # Errors
/// When the path cannot be written.
pub fn output(flag: &str, path: &Path) -> Result<Output, FlagError> {
    Output::open(path).map_err(|error| FlagError(format!("{flag} {}: {error}", path.display())))
}

/// Writes `bytes` to an output.
///
/// # Errors
/// When the system refuses.
pub fn write(output: &Output, bytes: impl AsRef<[u8]>) -> Result<(), AppError> {
    output.write(bytes.as_ref()).map_err(|error| AppError::output(output.path(), &error))
}

/// Writes `bytes` to a file of a directory that a flag names.
///
/// # Errors
/// When the system refuses.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), AppError> {
    let output = Output::open(path).map_err(|error| AppError::output(path, &error))?;
    write(&output, bytes)
}

/// `part`, or `.` if it is empty. The last ancestor of a relative path is empty, and means the
/// working directory.
fn or_here(part: &Path) -> &Path {
    if part == Path::new("") { Path::new(".") } else { part }
}

/// Checks that files can be written in the directory `path`, which `flag` names, or that the
/// directory can be made.
///
/// # Errors
/// When the path, or an ancestor of it, is not a directory. When the lowest existing directory of
/// the path cannot be written.
pub fn directory_to_write(flag: &str, path: &Path) -> Result<(), FlagError> {
    let there = path.ancestors().map(or_here).find(|part| part.exists());
    match there {
        Some(part) if !part.is_dir() => Err(FlagError(format!(
            "{flag} {}: {} is no directory; name another",
            path.display(),
            part.display()
        ))),
        Some(part) => {
            let probe = part.join(format!(".latchwork-{}", std::process::id()));
            let tried = OpenOptions::new().write(true).create_new(true).open(&probe);
            tried.and_then(|_| fs::remove_file(&probe)).map_err(|error| {
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
    fn what_cannot_be_written_is_refused_with_what_would_do() {
        let directory =
            std::env::temp_dir().join(format!("latchwork-files-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("file");
        std::fs::write(&file, "").expect("room");
        let told = |result: Result<(), FlagError>| result.err().map(|error| error.to_string());
        for good in [&file, &directory.join("new"), Path::new("-")] {
            assert_eq!(told(output("--log", good).map(drop)), None);
        }
        // A name without a directory is in the working directory, which may be read-only.
        let probe = format!(".latchwork-test-{}", std::process::id());
        let can_write = std::fs::write(&probe, "").and_then(|()| fs::remove_file(&probe)).is_ok();
        let line = told(output("--log", Path::new("here")).map(drop));
        assert_eq!(line.is_none(), can_write, "{line:?}");
        assert!(!directory.join("new").exists() && !Path::new("here").exists(), "all is as it was");
        // No user can make a file in `/proc`.
        if cfg!(target_os = "linux") {
            let nowhere = Path::new("/proc/latchwork");
            let line = told(output("--log", nowhere).map(drop)).expect("no place for a file");
            assert!(line.contains("it cannot be written: "), "{line}");
            let line = told(directory_to_write("--out", nowhere)).expect("no place");
            assert!(line.contains("/proc cannot be written: "), "{line}");
        }
        let lost = directory.join("lost");
        let line =
            told(output("--log", &lost.join("file")).map(drop)).expect("there is no directory");
        assert!(
            line.starts_with("--log ") && line.contains("its directory does not exist"),
            "{line}"
        );
        assert!(line.contains(&format!("make {} first", lost.display())), "{line}");
        let line = told(output("--log", &directory).map(drop)).expect("a directory");
        assert!(line.contains("it is a directory; name a file"), "{line}");
        for good in [&directory, &lost.join("deep")] {
            assert_eq!(told(directory_to_write("--out", good)), None);
        }
        let line = told(directory_to_write("--out", Path::new("here")));
        assert_eq!(line.is_none(), can_write, "{line:?}");
        for bad in [&file, &file.join("deep")] {
            let line = told(directory_to_write("--out", bad)).expect("a file");
            assert!(line.contains(&format!("{} is no directory", file.display())), "{line}");
        }
        std::fs::remove_dir_all(&directory).expect("it is there");
    }
}
