//! Runs a program from its command line to its exit status.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use latchwork_files::Named;

use crate::config::{self, Configured, Read, ReadError};
use crate::error::AppError;
use crate::parse::one_line;
use crate::stop;
use crate::{console, log};

/// A command line that lists the files that its flags name. Before the program begins, [`start`]
/// and [`main`] refuse a file that two flags name, if the program writes the file.
pub trait NamesFiles {
    /// All files that the program reads or writes because a flag names them.
    fn files(&self) -> Vec<Named>;
}

/// Runs the program `name`: reads the command line, the environment and a [file](crate::config),
/// installs logs and [signal handlers](crate::stop), calls `run`, and returns the exit status.
///
/// The status is 0 when `run` returns true, and 1 when it returns false. An error is one line on
/// standard error, with its own [status](AppError::status).
pub fn start<C>(name: &'static str, run: impl FnOnce(C) -> Result<bool, AppError>) -> ExitCode
where
    C: CommandFactory + FromArgMatches + NamesFiles,
{
    let read = config::read::<C>(name, std::env::args_os(), std::env::vars_os());
    let ended = match read {
        Ok(Read::Run(configured)) => {
            log::install(&configured.log);
            if let Err(error) = stop::install(name) {
                tracing::warn!(%error, "signals end the program at once");
            }
            let Configured { cli, places, file, .. } = *configured;
            let mut files = Vec::from_iter(file);
            files.extend(cli.files());
            let distinct = latchwork_files::distinct(&files).map_err(AppError::from);
            let ended = distinct.and_then(|()| run(cli)).map_err(|error| places.locate(error));
            // An error after a signal may be a consequence of the signal.
            ended.map_err(|error| stop::check().err().unwrap_or(error))
        }
        Ok(Read::Print(text)) => printed(&text),
        Err(ReadError::CommandLine(error)) => told(&error),
        Err(ReadError::Elsewhere(error)) => Err(error),
    };
    stop::over();
    status(name, ended)
}

/// As [`start`], without file, environment, logs and signal handlers.
pub fn main<C: NamesFiles>(
    name: &str,
    command_line: Result<C, clap::Error>,
    run: impl FnOnce(C) -> Result<bool, AppError>,
) -> ExitCode {
    let ended = match command_line {
        Ok(command_line) => latchwork_files::distinct(&command_line.files())
            .map_err(AppError::from)
            .and_then(|()| run(command_line)),
        Err(error) => told(&error),
    };
    status(name, ended)
}

/// Prints the help or the version if clap reports one. All other cases are errors.
fn told(error: &clap::Error) -> Result<bool, AppError> {
    if error.use_stderr() {
        return Err(AppError::Usage(one_line(error)));
    }
    help(error)?;
    Ok(true)
}

/// Prints the help or the version, which clap reports as an error.
///
/// # Errors
/// When standard output cannot be written. A closed pipe is no error.
pub fn help(help: &clap::Error) -> Result<(), AppError> {
    console::written("standard output", help.print().and_then(|()| std::io::stdout().flush()))
}

fn printed(text: &str) -> Result<bool, AppError> {
    console::tell(None, |out| out.write_all(text.as_bytes()))?;
    Ok(true)
}

fn status(name: &str, ended: Result<bool, AppError>) -> ExitCode {
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // A failed write is ignored: standard error may be closed.
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            ExitCode::from(error.status())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use latchwork_files::OutputError;
    use latchwork_workload::WorkloadError;

    use super::*;
    use crate::error::FlagError;

    #[derive(Debug, Parser)]
    struct Cli {
        #[arg(long)]
        _nodes: Option<u64>,
    }

    impl NamesFiles for Cli {
        fn files(&self) -> Vec<Named> {
            Vec::new()
        }
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
        let full = OutputError::Io(std::io::Error::other("full"));
        assert_eq!(AppError::output("out.json".as_ref(), &full).status(), 1);
    }
}
