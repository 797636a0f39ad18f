//! Finds the flags and settings of a program in clap's description of its command line.

use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command};

use crate::log::Filter;
use crate::parse::{UNITS, on_or_off};
use crate::{ClusterFlags, FabricFlags, OutputFlags};

/// The names of the flags that this module adds to each program.
pub(super) const CONFIG: &str = "config";
pub(super) const PRINT: &str = "print-config";
pub(super) const LOG: &str = "log";
pub(super) const SET: &str = "set";
pub(super) const HELP_SETTINGS: &str = "help-settings";

/// The key in a file that gives the subcommand. The variable is `LATCHWORK_COMMAND`.
pub(super) const COMMAND: &str = "command";

/// The prefix of each variable.
pub(super) const PREFIX: &str = "LATCHWORK_";

const HEADING: &str = "Configuration";

/// The prefix of the help heading of a setting. The rest of the heading is the name of its group.
const SETTINGS: &str = "Settings: ";

/// A flag or a setting, which a file and the environment can set.
#[derive(Clone, Debug)]
pub(super) struct Flag {
    /// Clap's id of the flag.
    pub(super) id: String,
    pub(super) name: String,
    /// Whether the flag is a setting: `--set` sets it, and `--help` does not show it.
    pub(super) is_setting: bool,
    /// Whether the setting chooses a variant of an index. The command line also takes such a
    /// setting as a flag: `--combine on` beside `--index fg-plus`.
    pub(super) is_of_index: bool,
    /// Whether the flag may be given several times.
    pub(super) is_list: bool,
    /// Whether the flag is on or off.
    pub(super) is_switch: bool,
    /// The ids of the flags that exclude this flag.
    conflicts: Vec<String>,
}

impl Flag {
    /// Whether one of the two flags excludes the other.
    pub(super) fn excludes(&self, other: &Flag) -> bool {
        self.conflicts.contains(&other.id) || other.conflicts.contains(&self.id)
    }
}

/// The group of settings to which a flag belongs, if it is a setting.
pub(super) fn group(arg: &Arg) -> Option<&str> {
    arg.get_help_heading().and_then(|heading| heading.strip_prefix(SETTINGS))
}

/// The environment variable of a flag.
pub(super) fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase().replace('-', "_"))
}

/// The command of a program with the flags of this module. Each switch takes an optional value, so
/// that a command line can turn off a switch that a file turns on: `--set prefault=off`.
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
            "Read flags and settings from a TOML file: `fabric = \"tcp\"`; those of one program in a table of its name. \
             Variables as LATCHWORK_FABRIC win over the file, and the command line wins over both. [default: the \
             variable LATCHWORK_CONFIG]",
        ))
        .arg(switch(flag(PRINT)).help(
            "Print what is in force after all that, as a file that --config takes, and do nothing else",
        ))
        .arg(flag(SET).value_name("NAME=VALUE").action(ArgAction::Append).help(
            "Change a setting, as member-lease=20s; may be repeated. Settings are constants that few runs change",
        ))
        .arg(switch(flag(HELP_SETTINGS)).help(
            "Print all settings, each with its default and the values that it takes, and do nothing else",
        ))
        .arg(flag(LOG).value_name("LEVEL|FILTER").default_value("warn").value_parser(
            ValueParser::new(|text: &str| Filter::parse(text)),
        ).help(
            "What is logged on standard error: off, error, warn, info, debug or trace; levels of single crates stand \
             before it, as in latchwork_membership=info,warn",
        ))
}

fn switch(arg: Arg) -> Arg {
    arg.action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .value_parser(ValueParser::new(on_or_off))
        .value_name("BOOL")
        .default_value("false")
        .default_missing_value("true")
        .hide_default_value(true)
        .hide_possible_values(true)
}

/// The flags of a [complete](complete) command that a file and the environment can set.
pub(super) fn of(command: &Command) -> Vec<Flag> {
    let flag = |arg: &Arg| {
        let name = arg.get_long().filter(|name| ![CONFIG, PRINT, HELP_SETTINGS].contains(name))?;
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        if !is_list && !matches!(arg.get_action(), ArgAction::Set) {
            return None;
        }
        let conflicts = command.get_arg_conflicts_with(arg).into_iter();
        Some(Flag {
            id: arg.get_id().to_string(),
            name: name.to_owned(),
            is_setting: group(arg).is_some(),
            is_of_index: group(arg) == Some("Index"),
            is_list,
            is_switch: arg.is_require_equals_set() && arg.get_default_values() == ["false"],
            conflicts: conflicts.map(|other| other.get_id().to_string()).collect(),
        })
    };
    command.get_arguments().filter_map(flag).collect()
}

/// The same command without required flags. The relaxed command can parse a part of the
/// configuration.
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

/// The flags and settings that programs share. If a program lacks one of them, it ignores an entry
/// for all programs.
pub(super) fn shared() -> Vec<Flag> {
    of(&shared_command())
}

/// A command with only the flags and settings that programs share.
pub(super) fn shared_command() -> Command {
    let command = OutputFlags::augment_args(FabricFlags::augment_args(ClusterFlags::augment_args(
        Command::new("shared"),
    )));
    complete(command)
}
