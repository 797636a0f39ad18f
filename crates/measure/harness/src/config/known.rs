//! [`Known`]: the names that a program knows, and suggestions for unknown names.

use clap::Command;
use latchwork_workload::properties::near_matches;

use super::flags::{self, COMMAND, CONFIG, Flag, HELP_SETTINGS, PRINT};
use super::sources;

/// The names that a program knows.
pub(super) struct Known<'a> {
    pub(super) program: &'a str,
    pub(super) command: &'a Command,
    pub(super) flags: &'a [Flag],
    shared: Vec<String>,
}

/// The meaning of a name.
pub(super) enum Meaning<'a> {
    Flag(&'a Flag),
    /// The subcommand.
    Command,
    /// A flag or setting of another program.
    Elsewhere,
    /// Unknown. The text is the reason, with a suggestion.
    Unknown(String),
}

impl<'a> Known<'a> {
    pub(super) fn new(program: &'a str, command: &'a Command, flags: &'a [Flag]) -> Known<'a> {
        Known {
            program,
            command,
            flags,
            shared: flags::shared().into_iter().map(|flag| flag.name).collect(),
        }
    }

    fn has_commands(&self) -> bool {
        self.command.get_subcommands().next().is_some()
    }

    /// The meaning of `name`. With `own`, only this program's names count. `spell` spells the names
    /// in suggestions.
    pub(super) fn meaning(
        &self,
        name: &str,
        own: bool,
        spell: impl Fn(&str) -> String,
    ) -> Meaning<'a> {
        if let Some(flag) = self.flags.iter().find(|flag| flag.name == name) {
            return Meaning::Flag(flag);
        }
        if name == COMMAND && self.has_commands() {
            return Meaning::Command;
        }
        if [CONFIG, PRINT, HELP_SETTINGS].contains(&name) {
            return Meaning::Unknown(format!("--{name} belongs on the command line"));
        }
        if let Some(told) = sources::renamed(name) {
            return Meaning::Unknown(told);
        }
        let of_others = sources::is_known(name) || name == COMMAND;
        if !own && (of_others || self.shared.iter().any(|shared| shared == name)) {
            return Meaning::Elsewhere;
        }
        let mut names: Vec<&str> = self.flags.iter().map(|flag| flag.name.as_str()).collect();
        names.extend(self.has_commands().then_some(COMMAND));
        if !own {
            let others = sources::PROGRAMS.iter();
            names.extend(others.flat_map(|other| other.flags.iter().chain(other.settings)));
            names.extend(self.shared.iter().map(String::as_str));
        }
        names.sort_unstable();
        names.dedup();
        let program = self.program;
        let who = if own { program } else { "no program" };
        let none = if own { "has no such flag" } else { "has such a flag" };
        Meaning::Unknown(match near_matches(name, &names).first() {
            Some(near) => format!("{who} {none}; did you mean {}?", spell(near)),
            None => format!("{who} {none}; {program} --help tells which there are"),
        })
    }

    /// The setting of this name. `None` for a setting of another program, unless `own` is set: then
    /// it is an error.
    ///
    /// # Errors
    /// The reason why there is no such setting, with a suggestion.
    pub(super) fn setting(&self, name: &str, own: bool) -> Result<Option<&'a Flag>, String> {
        let program = self.program;
        match self.flags.iter().find(|flag| flag.name == name) {
            Some(flag) if flag.is_setting => return Ok(Some(flag)),
            Some(flag) => {
                return Err(format!("{name} is a flag, not a setting; write --{}", flag.name));
            }
            None => {}
        }
        if let Some(told) = sources::renamed(name) {
            return Err(told);
        }
        let is_elsewhere = sources::is_known(name) || self.shared.iter().any(|one| one == name);
        if is_elsewhere && !own {
            return Ok(None);
        }
        let names: Vec<&str> =
            self.flags.iter().filter(|flag| flag.is_setting).map(|flag| &*flag.name).collect();
        let other = sources::PROGRAMS.iter().find(|other| other.has(name));
        Err(match (near_matches(name, &names).first(), other) {
            (Some(near), _) => format!("{program} has no such setting; did you mean {near}?"),
            (None, Some(other)) => {
                format!("{program} has no such setting, but {} has; leave it out", other.name)
            }
            (None, None) => {
                format!("{program} has no such setting; {program} --help-settings tells which")
            }
        })
    }

    /// Checks that a subcommand of this name exists. The error lists the subcommands.
    pub(super) fn check_command(&self, name: &str) -> Result<(), String> {
        let names: Vec<&str> = self.command.get_subcommands().map(Command::get_name).collect();
        match names.contains(&name) {
            true => Ok(()),
            false => Err(format!("use one of {}", names.join(", "))),
        }
    }
}
