//! [`SettingFlags`]: the settings of the protocol, as flags.

use std::collections::BTreeMap;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use latchwork_cluster::ClusterConfig;
use serde_json::Value;

use super::FabricChoice;
use crate::error::FlagError;

const HEADING: &str = "Settings: Protocol";

/// The settings of the protocol that a user gave. Each entry of [`ClusterConfig::settings`] is a
/// setting with the same name. To [`clap`] a setting is a hidden flag. [`config`](crate::config)
/// turns `--set NAME=VALUE` into this flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingFlags {
    given: Vec<(&'static str, String)>,
}

impl SettingFlags {
    /// Sets the given values in `config`.
    ///
    /// # Errors
    /// A value that is not valid. [`clap`] has refused such values before. Also a setting of the
    /// homes that the protocol does not have.
    pub fn apply(&self, config: &mut ClusterConfig) -> Result<(), FlagError> {
        self.given.iter().try_for_each(|(name, text)| {
            config.set(name, text).map_err(|error| FlagError(format!("--set {error}")))?;
            let checked = config.check_setting(name);
            checked.map_err(|error| FlagError(format!("--{name} {text}: {error}")))
        })
    }

    /// Refuses settings of the homes that this fabric cannot have.
    ///
    /// # Errors
    /// A share of a core, which only a simulation has; homes at compute nodes in a cluster of
    /// processes.
    pub fn check_fabric(&self, fabric: &FabricChoice) -> Result<(), FlagError> {
        for (name, text) in self.given() {
            let why = match fabric {
                FabricChoice::Joined(_) if name == "home" && text == "compute" => {
                    "processes have a memory node or a compute node, not both; leave it out"
                }
                FabricChoice::Sim(_) => continue,
                _ if name == "home-share" && text != "100" => {
                    "threads have whole cores; leave it out, or use --fabric sim"
                }
                _ => continue,
            };
            return Err(FlagError(format!("--{name} {text}: {why}")));
        }
        Ok(())
    }

    /// The names and the values that a user gave.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.given.iter().map(|(name, text)| (*name, text.as_str()))
    }

    /// All settings by name, for a result document.
    pub fn describe(config: &ClusterConfig) -> BTreeMap<String, Value> {
        let names = ClusterConfig::settings().into_iter().map(|setting| setting.name);
        names.map(|name| (name.to_owned(), Value::from(config.setting(name)))).collect()
    }
}

/// Whether the setting is one of the homes. These settings choose a variant of a protocol, so a
/// command line also takes them as flags: `--chaining fifo` beside `--protocol scalestore`.
pub(crate) fn is_of_homes(name: &str) -> bool {
    ClusterConfig::home_settings().iter().any(|setting| setting.name == name)
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let default = ClusterConfig::default();
        ClusterConfig::settings().into_iter().fold(command, |command, setting| {
            let parse = move |text: &str| match ClusterConfig::default().set(setting.name, text) {
                Ok(()) => Ok(text.to_owned()),
                Err(_) => Err(format!("use {}", (setting.expected)())),
            };
            let value = default.setting(setting.name).unwrap_or_default();
            let value = match setting.name {
                // `ClusterFlags::config` has this default.
                "survive" => "off; with --join on, under selcc and sel".to_owned(),
                _ => value,
            };
            let help = format!("{} [default: {value}]", setting.help);
            let arg = Arg::new(setting.name)
                .long(setting.name)
                .value_name("VALUE")
                .value_parser(parse)
                .help(help)
                .help_heading(HEADING)
                .hide(true)
                .global(true);
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = SettingFlags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in ClusterConfig::settings() {
            let given = matches
                .try_get_one::<String>(setting.name)
                .map_err(|error| clap::Error::raw(ErrorKind::UnknownArgument, error))?;
            if let Some(text) = given {
                self.given.retain(|(name, _)| *name != setting.name);
                self.given.push((setting.name, text.clone()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        settings: SettingFlags,
    }

    fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once(&"test").chain(arguments))
    }

    #[test]
    fn every_setting_is_a_flag_that_takes_effect() {
        for setting in ClusterConfig::settings() {
            let default = ClusterConfig::default();
            for text in setting.tries {
                let flag = format!("--{}", setting.name);
                let cli = parse(&[&flag, text]).expect("a value to try");
                assert_eq!(cli.settings.given().collect::<Vec<_>>(), [(setting.name, *text)]);
                let mut settings = default.clone();
                cli.settings.apply(&mut settings).expect("checked before");
                assert_ne!(settings.setting(setting.name), default.setting(setting.name), "{flag}");
                let described = SettingFlags::describe(&settings);
                assert_eq!(
                    described[setting.name],
                    settings.setting(setting.name).expect("in the list")
                );
            }
        }
        assert!(parse(&[]).expect("no flags").settings.given.is_empty());
    }

    #[test]
    fn a_wrong_value_is_one_line_with_what_would_do() {
        let error = parse(&["--evict-batch", "0"]).expect_err("a wrong value");
        let line = crate::parse::one_line(&error);
        assert!(line.contains("--evict-batch") && line.contains("use "), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
}
