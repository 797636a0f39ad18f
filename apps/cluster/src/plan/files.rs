//! Programs and documents of a run on this machine.

use std::path::{Path, PathBuf};

use latchwork_harness::AppError;

use crate::args::Run;

pub(super) fn usage<T>(text: impl Into<String>) -> Result<T, AppError> {
    Err(AppError::Usage(text.into()))
}

/// The file of a program on this machine.
pub(super) fn program(bin: &Path, name: &str) -> Result<String, AppError> {
    let path = bin.join(name);
    match path.is_file() {
        true => Ok(path.display().to_string()),
        false => usage(format!(
            "there is no {}: build it, with `cargo build --release --bins`, or give --bin DIRECTORY",
            path.display()
        )),
    }
}

/// The directory of the programs on this machine.
pub(crate) fn bin(run: &Run) -> Result<PathBuf, AppError> {
    match &run.bin {
        Some(bin) => std::path::absolute(bin).or_else(|_| Ok(bin.clone())),
        None => own_directory(),
    }
}

pub(super) fn own_directory() -> Result<PathBuf, AppError> {
    let own = std::env::current_exe()
        .map_err(|error| AppError::Failed(format!("this program's file is unknown: {error}")))?;
    Ok(own.parent().unwrap_or(Path::new(".")).to_owned())
}

/// The result document of a compute node on this machine.
pub(crate) fn document(results: &Path, name: &str) -> PathBuf {
    results.join(format!("{name}.json"))
}
