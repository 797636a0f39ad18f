//! What programs can be told: the flags of a command, found in clap's own description of it.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command};

use crate::log::Filter;
use crate::parse::UNITS;
use crate::{ClusterFlags, FabricFlags, OutputFlags};

/// The flags of this module, by name.
pub(super) const CONFIG: &str = "config";
pub(super) const PRINT: &str = "print-config";
pub(super) const LOG: &str = "log";

/// The key, and the end of the variable, that stand for a subcommand.
pub(super) const COMMAND: &str = "command";

const HEADING: &str = "Configuration";

/// A flag that files and the environment may set.
#[derive(Clone, Debug)]
pub(super) struct Flag {
    /// As clap knows it.
    pub(super) id: String,
    pub(super) name: String,
    /// It may be given several times.
    pub(super) is_list: bool,
    /// It is on or off.
    pub(super) is_switch: bool,
    /// Flags that exclude it, by id.
    conflicts: Vec<String>,
}

impl Flag {
    /// Whether one of them excludes the other.
    pub(super) fn excludes(&self, other: &Flag) -> bool {
        self.conflicts.contains(&other.id) || other.conflicts.contains(&self.id)
    }
}

/// The command of a program with the flags that all programs have, and switches that can be turned
/// off again: `--prefault=false` where a file says otherwise.
pub(super) fn complete(command: Command) -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).help_heading(HEADING).global(true);
    let names: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |command| command.after_help(UNITS))
    });
    command
        .after_help(UNITS)
        .mut_args(|arg| match arg.get_action() {
            ArgAction::SetTrue => switch(arg),
            _ => arg,
        })
        .arg(flag(CONFIG).value_name("FILE").value_parser(clap::value_parser!(PathBuf)).help(
            "Read flags from a TOML file: `threads = 4`; those of one program in a table of its name. Variables as \
             LATCHWORK_THREADS win over the file, and the command line wins over both. [default: the variable LATCHWORK_CONFIG]",
        ))
        .arg(switch(flag(PRINT)).help(
            "Print what is in force after all that, as a file that --config takes, and do nothing else",
        ))
        .arg(flag(LOG).value_name("LEVEL|FILTER").default_value("warn").value_parser(
            ValueParser::new(|text: &str| Filter::parse(text)),
        ).help(
            "What is logged on standard error: off, error, warn, info, debug or trace; levels of single crates stand \
             before it, as in latchwork_wal=info,warn",
        ))
}

fn switch(arg: Arg) -> Arg {
    arg.action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .value_parser(clap::value_parser!(bool))
        .value_name("BOOL")
        .default_value("false")
        .default_missing_value("true")
        .hide_default_value(true)
        .hide_possible_values(true)
}

/// The flags of a [complete](complete) command that files and the environment may set.
pub(super) fn of(command: &Command) -> Vec<Flag> {
    let flag = |arg: &Arg| {
        let name = arg.get_long().filter(|name| ![CONFIG, PRINT].contains(name))?;
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        if !is_list && !matches!(arg.get_action(), ArgAction::Set) {
            return None;
        }
        let conflicts = command.get_arg_conflicts_with(arg).into_iter();
        Some(Flag {
            id: arg.get_id().to_string(),
            name: name.to_owned(),
            is_list,
            is_switch: arg.is_require_equals_set() && arg.get_default_values() == ["false"],
            conflicts: conflicts.map(|other| other.get_id().to_string()).collect(),
        })
    };
    command.get_arguments().filter_map(flag).collect()
}

/// The same command where nothing has to be given: for whoever looks at parts of what is.
pub(super) fn relaxed(command: &Command) -> Command {
    command
        .clone()
        .mut_args(|arg| arg.required(false))
        .subcommand_required(false)
        .arg_required_else_help(false)
}

/// The subcommand that was given.
pub(super) fn subcommand(matches: &ArgMatches) -> Option<&str> {
    matches.subcommand_name()
}

/// Names of flags that programs share: where a program lacks one, it is no error that it is set for
/// all.
pub(super) fn shared() -> Vec<String> {
    let command = OutputFlags::augment_args(FabricFlags::augment_args(ClusterFlags::augment_args(
        Command::new("shared"),
    )));
    of(&complete(command)).into_iter().map(|flag| flag.name).collect()
}
