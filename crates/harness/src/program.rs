//! A program from its command line to its exit status.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use latchwork_workload::WorkloadError;

use crate::FlagError;
use crate::parse::one_line;

/// Why a program ended without a good result. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The command line, or a file that it names, asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// It came to nothing, or what came of it cannot be written.
    #[error("{0}")]
    Failed(String),
}

impl AppError {
    /// The program's exit status: 2 for what the caller can mend in the command line, 1 for the rest.
    pub fn status(&self) -> u8 {
        match self {
            AppError::Usage(_) => 2,
            AppError::Failed(_) => 1,
        }
    }

    /// A file or a directory cannot be written.
    pub fn unwritable(path: &Path, cause: &std::io::Error) -> AppError {
        AppError::Failed(format!("{} cannot be written: {cause}", path.display()))
    }
}

impl From<FlagError> for AppError {
    fn from(error: FlagError) -> AppError {
        AppError::Usage(error.0)
    }
}

impl From<WorkloadError> for AppError {
    fn from(error: WorkloadError) -> AppError {
        match error {
            WorkloadError::Unwritable { .. } => AppError::Failed(error.to_string()),
            error => AppError::Usage(error.to_string()),
        }
    }
}

/// Runs the program of this name with its command line, and says how it ended: 0 when `run` finds all good, and 1 when
/// it does not. An error is one line on standard error, and its own [status](AppError::status). Help and the version
/// are printed.
pub fn main<C>(
    name: &str,
    command_line: Result<C, clap::Error>,
    run: impl FnOnce(C) -> Result<bool, AppError>,
) -> ExitCode {
    let ended = match command_line {
        Ok(command_line) => run(command_line),
        Err(error) if !error.use_stderr() => {
            // Help that nobody reads is not an error.
            let _ = error.print();
            Ok(true)
        }
        Err(error) => Err(AppError::Usage(one_line(&error))),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nobody may be reading any more, which is no reason to panic.
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            ExitCode::from(error.status())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[arg(long)]
        _nodes: Option<u64>,
    }

    #[test]
    fn how_it_ends_is_its_status() {
        let parse = |arguments: &[&str]| Cli::try_parse_from(arguments);
        let told = |code: ExitCode| format!("{code:?}");
        let status = |code: u8| told(ExitCode::from(code));
        assert_eq!(told(main("test", parse(&["test"]), |_| Ok(true))), status(0));
        assert_eq!(told(main("test", parse(&["test"]), |_| Ok(false))), status(1));
        let failed = |_| Err(AppError::Failed("it broke".to_owned()));
        assert_eq!(told(main("test", parse(&["test"]), failed)), status(1));
        let usage = |_| Err(FlagError("--nodes 0: use 1".to_owned()).into());
        assert_eq!(told(main("test", parse(&["test"]), usage)), status(2));
        for (arguments, code) in [(["test", "--help"], 0), (["test", "--nodes"], 2)] {
            let ended = main("test", parse(&arguments), |_| panic!("it must not run"));
            assert_eq!(told(ended), status(code), "{arguments:?}");
        }
    }

    #[test]
    fn a_workload_that_cannot_be_is_the_callers_and_a_full_disk_is_not() {
        let conflict = WorkloadError::Conflict("both".to_owned());
        assert_eq!(AppError::from(conflict).status(), 2);
        let cause = std::io::Error::other("full");
        let full = WorkloadError::Unwritable { path: "out.json".into(), cause };
        assert_eq!(AppError::from(full).status(), 1);
    }
}
