//! The table of all settings, collected from clap's description: for `--help-settings`, for a page
//! of the book, and for tests.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::flags;
use super::print::in_words;

/// The group of the protocol's settings. The book has them in a table of their own.
const PROTOCOL: &str = "Protocol";

/// A setting as help and the book show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SettingRow {
    /// The group of the setting.
    group: String,
    /// The name, as in `--set NAME=VALUE`.
    name: String,
    /// The default, as a value or in words.
    default: String,
    /// The valid values, with their unit.
    takes: String,
    /// The effect of the setting.
    help: String,
}

/// The table of the book with the settings of one program that other programs do not have.
pub fn settings_page<C: CommandFactory>() -> String {
    let shared = of_all();
    let own = |row: &SettingRow| row.group != PROTOCOL && !shared.contains(row);
    let rows: Vec<SettingRow> =
        table(&flags::complete(C::command())).into_iter().filter(own).collect();
    page(&rows)
}

/// The settings that programs share, without the settings of the protocol.
pub(super) fn of_all() -> Vec<SettingRow> {
    let rows = table(&flags::shared_command());
    rows.into_iter().filter(|row| row.group != PROTOCOL).collect()
}

/// The settings as a table in Markdown.
pub(super) fn page(rows: &[SettingRow]) -> String {
    let mut table =
        String::from("| group | setting | default | takes | |\n| --- | --- | --- | --- | --- |\n");
    for SettingRow { group, name, default, takes, help } in rows {
        let takes = takes.replace('|', "\\|");
        let _ = writeln!(table, "| {group} | `{name}` | {default} | {takes} | {help} |");
    }
    table
}

/// The settings of a [complete](flags::complete) command.
pub(super) fn table(command: &Command) -> Vec<SettingRow> {
    let relaxed = flags::relaxed(command);
    let mut rows: Vec<SettingRow> = Vec::new();
    for arg in command.get_arguments() {
        let (Some(group), Some(name)) = (flags::group(arg), arg.get_long()) else { continue };
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
        let help = words(&help.unwrap_or_default());
        let text = help.split(" [default: ").next().unwrap_or_default();
        let row = SettingRow {
            group: group.to_owned(),
            name: name.to_owned(),
            default: default(arg, &help),
            takes: takes(arg, name, &relaxed),
            help: text.trim_end_matches('.').to_owned(),
        };
        let behind = rows.iter().rposition(|other| other.group == row.group);
        rows.insert(behind.map_or(rows.len(), |last| last + 1), row);
    }
    rows
}

fn default(arg: &Arg, help: &str) -> String {
    let values: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    match values.as_slice() {
        [] => {}
        [value] if value == "false" => return "off".to_owned(),
        values => return values.join(","),
    }
    let told = in_words(help);
    told.strip_prefix("not set, default: ").map_or(told.clone(), str::to_owned)
}

/// The valid values of a setting, from the error text of its parser.
fn takes(arg: &Arg, name: &str, relaxed: &Command) -> String {
    // Only a parser of free text accepts this value.
    let wrong = format!("--{name}=\u{1}");
    let refused = relaxed.clone().try_get_matches_from(["program", &wrong]).err();
    let source = refused.as_ref().and_then(std::error::Error::source).map(ToString::to_string);
    let possible: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let takes = match source {
        Some(text) => words(text.strip_prefix("use ").unwrap_or(&text)),
        None if !possible.is_empty() => possible.join(" or "),
        None => arg.get_value_names().unwrap_or_default().join(" "),
    };
    let repeated = matches!(arg.get_action(), ArgAction::Append);
    if repeated { format!("{takes}; may be repeated") } else { takes }
}

/// The text with one space between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of `--help-settings`.
pub(super) fn help(program: &str, command: &Command) -> String {
    let mut out = format!(
        "Settings of {program}: --set NAME=VALUE, or NAME = VALUE in a file for --config. Each is\n\
         shown with its default.\n"
    );
    let mut group = String::new();
    for row in table(command) {
        if row.group != group {
            group.clone_from(&row.group);
            let _ = writeln!(out, "\n{group}:");
        }
        let is_value = !row.default.contains(' ');
        let shown = if is_value { format!("{}={}", row.name, row.default) } else { row.name };
        let _ = writeln!(out, "  {shown}");
        wrap(&mut out, &format!("{}.", row.help));
        if !is_value {
            wrap(&mut out, &format!("Default: {}.", row.default));
        }
        wrap(&mut out, &format!("Takes {}.", row.takes));
    }
    out
}

/// Writes text in indented lines of up to 100 columns.
fn wrap(out: &mut String, text: &str) {
    const INDENT: &str = "          ";
    let mut line = INDENT.to_owned();
    for word in text.split(' ') {
        if line.len() > INDENT.len() && line.chars().count() + 1 + word.chars().count() > 100 {
            let _ = writeln!(out, "{line}");
            line = INDENT.to_owned();
        }
        if line.len() > INDENT.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "{line}");
}
