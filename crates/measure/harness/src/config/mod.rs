//! Configuration: merges one file, the environment and the command line into the flags of a
//! program.
//!
//! ```text
//!   run.toml                 LATCHWORK_THREADS=4        ycsb --threads 2
//!   threads = 8                      │                          │
//!   [ycsb]                           │                          │
//!   target = 10000                   │                          │
//!      └─────── weaker ──────────────┴────────── stronger ──────┘
//!                                    │
//!             each value checked by itself; an error names its line or variable
//!                                    │
//!                     one command line ──► clap ──► the program's own checks
//! ```
//!
//! Clap's description of the command line is the only list of a program's own flags and settings.
//! One file may be for several programs, so `sources` lists the flags and settings of each program.
//! [`missing`] finds names that this list lacks.
//!
//! # Invariants
//!
//! - The command line overrides the environment, and the environment overrides the file. In the
//!   file, the program's own table overrides entries for all programs. A flag that may be repeated
//!   is not overridden: the values add up, with the file's values first.
//! - A flag also hides flags of weaker sources that it excludes.
//! - A name that no program knows is an error.
//! - A setting is a flag that `--help` does not show. `--set NAME=VALUE` and the setting's own name
//!   mean the same in a file and in the environment. The command line takes only `--set`, except
//!   for the settings of the homes.

mod check;
mod environment;
mod file;
mod flags;
mod given;
mod known;
mod merge;
mod print;
mod set;
mod settings;
mod sources;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};
use latchwork_files::Named;

use crate::AppError;
use crate::flags::is_of_homes;
use crate::log::Filter;
use crate::parse::one_line;
use given::{Given, Origin};
use known::Known;
use sources::Program;

pub use check::{assert_consistent, assert_refused};
pub use settings::settings_page;

/// What a program does after it has read its configuration.
pub(crate) enum Read<C> {
    /// Run with this configuration.
    Run(Box<Configured<C>>),
    /// Print this text and end.
    Print(String),
}

/// The merged command line of a program, and the flags that all programs share.
pub(crate) struct Configured<C> {
    pub(crate) cli: C,
    pub(crate) log: Filter,
    pub(crate) places: Places,
    /// The configuration file.
    pub(crate) file: Option<Named>,
}

/// Why a program cannot run with its configuration.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// Clap's report: an error of the command line, or a request for help.
    CommandLine(clap::Error),
    /// An error in the file, in the environment, or in a setting.
    Elsewhere(AppError),
}

impl From<clap::Error> for ReadError {
    fn from(error: clap::Error) -> ReadError {
        ReadError::CommandLine(error)
    }
}

impl From<AppError> for ReadError {
    fn from(error: AppError) -> ReadError {
        ReadError::Elsewhere(error)
    }
}

/// Reads and merges the command line, the environment and the file.
pub(crate) fn read<C: CommandFactory + FromArgMatches>(
    program: &'static str,
    arguments: impl IntoIterator<Item = OsString>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Read<C>, ReadError> {
    let command = flags::complete(C::command());
    let flags = flags::of(&command);
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let variables: Vec<(OsString, OsString)> = variables.into_iter().collect();
    let relaxed = flags::relaxed(&command);
    let alone = relaxed.clone().try_get_matches_from(&arguments);
    let alone = alone.map_err(|error| flag_of_another(error, program))?;
    if alone.get_flag(flags::HELP_SETTINGS) {
        return Ok(Read::Print(settings::help(program, &command)));
    }
    let known = Known::new(program, &command, &flags);

    let named = file_to_read(&alone, &variables);
    let file = match &named {
        Some((path, asked_by)) => file::read(path, asked_by, &known)?,
        None => file::Said::default(),
    };
    let environment = environment::read(variables, &known)?;
    let subcommand = flags::subcommand(&alone).map(|name| (name.to_owned(), Origin::CommandLine));
    let subcommand = subcommand.or(environment.command).or(file.command);
    let on_command_line = on_command_line(&known, &alone)?;
    let layers = [&on_command_line, &environment.given, &file.given];
    layers.into_iter().try_for_each(|given| merge::check(given, &relaxed))?;
    let given = merge::merge([on_command_line, environment.given, file.given])?;

    // A value of `--set` on the command line is also rewritten: for clap it is only text.
    let is_told_elsewhere = given.iter().any(|given| given.origin != Origin::CommandLine)
        || subcommand.as_ref().is_some_and(|(_, origin)| *origin != Origin::CommandLine);
    let arguments = match is_told_elsewhere {
        true => rewrite(&command, arguments, &alone, &given, subcommand.as_ref()),
        false => arguments,
    };
    let print = alone.get_flag(flags::PRINT);
    let strict = if print { relaxed } else { command.clone() };
    let parsed = strict.try_get_matches_from(arguments);
    let mut matches = parsed.map_err(|error| missing_settings(error, &flags))?;
    if print {
        let text = print::print(program, &command, &flags, &matches, &given, subcommand.as_ref());
        return Ok(Read::Print(text));
    }
    let log = matches.get_one::<Filter>(flags::LOG).cloned();
    let log = log.map_or_else(|| Filter::parse("warn"), Ok);
    let log = log.map_err(|error| AppError::Usage(format!("--log: {error}")))?;
    let cli = C::from_arg_matches_mut(&mut matches)?;
    let file = named.map(|(path, asked_by)| Named::read(asked_by, path));
    Ok(Read::Run(Box::new(Configured { cli, log, places: Places(given), file })))
}

/// Parses a command line without file and environment. Tests use this, and programs that read the
/// command line of another program. The first word is the program's name.
///
/// # Errors
/// One line about the mistake.
pub fn command_line<C: CommandFactory + FromArgMatches>(
    program: &'static str,
    words: impl IntoIterator<Item = impl Into<OsString>>,
) -> Result<C, AppError> {
    match read(program, words.into_iter().map(Into::into), []) {
        Ok(Read::Run(configured)) => Ok(configured.cli),
        Ok(Read::Print(_)) => Err(AppError::Usage("it only prints what it knows".to_owned())),
        Err(ReadError::CommandLine(error)) => Err(AppError::Usage(one_line(&error))),
        Err(ReadError::Elsewhere(error)) => Err(error),
    }
}

/// The flags and settings that a command line gives.
fn on_command_line(known: &Known<'_>, alone: &ArgMatches) -> Result<Vec<Given>, AppError> {
    let mut given = given::on_command_line(known.flags, alone);
    let is_no_flag = |given: &&Given| {
        let flag = &given.flag;
        flag.is_setting && !flag.is_of_index && !is_of_homes(&flag.name)
    };
    if let Some(given) = given.iter().find(is_no_flag) {
        let (name, values) = (&given.flag.name, given.values.join(OsStr::new(",")));
        let line = format!(
            "--{name}: {name} is a setting, not a flag; write --set {name}={}",
            values.display()
        );
        return Err(AppError::Usage(line));
    }
    let set = given.iter().position(|given| given.flag.name == flags::SET);
    if let Some(at) = set {
        let values = given.remove(at).values;
        set::add(&mut given, set::expand(known, &values, true, &Origin::Set)?)?;
    }
    Ok(given)
}

/// Rewrites an error about missing flags, so that it names a setting as `--set NAME=`.
fn missing_settings(error: clap::Error, flags: &[flags::Flag]) -> ReadError {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return ReadError::CommandLine(error);
    }
    let settings = flags.iter().filter(|flag| flag.is_setting);
    let line = settings.fold(one_line(&error), |line, flag| {
        line.replace(&format!("--{} <", flag.name), &format!("--set {}=<", flag.name))
    });
    ReadError::Elsewhere(AppError::Usage(line))
}

/// Rewrites an error about a flag of other programs, so that it names these.
fn flag_of_another(error: clap::Error, program: &str) -> ReadError {
    let unknown = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => flag,
        _ => return ReadError::CommandLine(error),
    };
    let others = sources::with_flag(unknown.trim_start_matches('-'));
    if others.is_empty() {
        return ReadError::CommandLine(error);
    }
    let others = others.join(" and ");
    let line = format!("{unknown}: {program} has no such flag; leave it out, or use {others}");
    ReadError::Elsewhere(AppError::Usage(line))
}

/// The path of the configuration file, and the flag or the variable that names it.
fn file_to_read(
    alone: &ArgMatches,
    variables: &[(OsString, OsString)],
) -> Option<(PathBuf, &'static str)> {
    if let Some(path) = alone.get_one::<PathBuf>(flags::CONFIG) {
        return Some((path.clone(), "--config"));
    }
    let (_, path) = variables.iter().find(|(name, _)| name == environment::CONFIG)?;
    (!path.is_empty()).then(|| (path.into(), environment::CONFIG))
}

/// One command line with everything that was given: the merged flags first, then the subcommand,
/// and the arguments that only a command line can have.
fn rewrite(
    command: &Command,
    arguments: Vec<OsString>,
    alone: &ArgMatches,
    given: &[Given],
    subcommand: Option<&(String, Origin)>,
) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.into_iter().take(1).collect();
    let active = given.iter().filter(|given| !given.is_idle());
    all.extend(active.flat_map(|given| given.arguments().collect::<Vec<_>>()));
    all.extend(others(command, alone, given));
    if let Some((name, _)) = subcommand {
        all.push(name.into());
        let inner = alone.subcommand().zip(command.find_subcommand(name));
        if let Some(((_, alone), command)) = inner {
            all.extend(others(command, alone, given));
        }
    }
    all
}

/// The arguments that only a command line can have: counted flags, flags of a subcommand, and
/// arguments without a flag.
fn others(command: &Command, matches: &ArgMatches, given: &[Given]) -> Vec<OsString> {
    let mut others = Vec::new();
    let mut positional = Vec::new();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let is_given = matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
        if !is_given || given.iter().any(|given| given.flag.id == id) {
            continue;
        }
        let values = || matches.get_raw(id).into_iter().flatten().map(OsString::from);
        match (arg.get_long(), arg.get_action()) {
            (Some(flags::CONFIG | flags::PRINT | flags::SET), _) => {}
            (None, _) => positional.extend(values()),
            (Some(long), ArgAction::Count) => {
                let count = usize::from(matches.get_count(id));
                others.extend(std::iter::repeat_n(format!("--{long}").into(), count));
            }
            (Some(long), ArgAction::SetTrue) => others.push(format!("--{long}").into()),
            (Some(long), _) => others.extend(values().map(|value| {
                let mut argument = OsString::from(format!("--{long}="));
                argument.push(value);
                argument
            })),
        }
    }
    if !positional.is_empty() {
        others.push("--".into());
        others.extend(positional);
    }
    others
}

/// The sources of all given flags.
pub(crate) struct Places(Vec<Given>);

impl Places {
    /// Adds to an error the sources of the flags that its text names, except the command line.
    pub(crate) fn locate(&self, error: AppError) -> AppError {
        let text = match &error {
            AppError::Usage(text) | AppError::Failed(text) => text,
            AppError::Stopped(_) | AppError::StoppedAt(..) => return error,
        };
        let names = |flag: &str| {
            let ends = |at: usize| {
                let behind = text[at + flag.len()..].chars().next();
                !behind.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-')
            };
            text.match_indices(flag).any(|(at, _)| ends(at))
        };
        let is_named = |given: &&Given| {
            let name = &given.flag.name;
            let is_named = given.flag.is_setting && names(&format!("--set {name}"))
                || names(&format!("--{name}"));
            !matches!(given.origin, Origin::CommandLine | Origin::Set) && is_named
        };
        let place = |given: &Given| {
            let dashes = if given.flag.is_setting { "" } else { "--" };
            format!("{dashes}{} is from {}", given.flag.name, given.origin)
        };
        let places: Vec<String> = self.0.iter().filter(is_named).map(place).collect();
        if places.is_empty() {
            return error;
        }
        let text = format!("{text} ({})", places.join(", "));
        match error {
            AppError::Usage(_) => AppError::Usage(text),
            _ => AppError::Failed(text),
        }
    }
}

/// The flags and settings of a program that the list in `sources` lacks. Other programs would
/// refuse them in a common file. A test of each program expects none.
pub fn missing<C: CommandFactory>(program: &str) -> Vec<String> {
    let shared: Vec<String> = flags::shared().into_iter().map(|flag| flag.name).collect();
    let flags = flags::of(&flags::complete(C::command()));
    let own = Program::named(program);
    let is_known = |flag: &flags::Flag| {
        let listed = own.map(|own| if flag.is_setting { own.settings } else { own.flags });
        listed.is_some_and(|names| names.contains(&flag.name.as_str()))
    };
    let others = flags.into_iter().filter(|flag| !shared.contains(&flag.name) && !is_known(flag));
    others.map(|flag| flag.name).collect()
}

/// Whether `name` is a setting of the program `program`, or a setting of all programs.
pub fn is_setting(program: &str, name: &str) -> bool {
    let own = Program::named(program).is_some_and(|program| program.settings.contains(&name));
    own || flags::shared().into_iter().any(|flag| flag.is_setting && flag.name == name)
}
