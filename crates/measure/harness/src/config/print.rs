//! Prints the merged configuration as a file that `--config` takes.

use std::fmt::Write as _;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::flags::{COMMAND, Flag, SET, group};
use super::given::{Given, Origin};

/// The configuration of the program as a file. `given` are the merged flags, and `matches` is
/// clap's result for them.
pub(super) fn print(
    program: &str,
    command: &Command,
    flags: &[Flag],
    matches: &ArgMatches,
    given: &[Given],
    subcommand: Option<&(String, Origin)>,
) -> String {
    let mut out = format!("# What {program} runs with. --config takes this file.\n\n[{program}]\n");
    match subcommand {
        Some((name, origin)) => line(&mut out, COMMAND, &text(name), origin),
        None if command.get_subcommands().next().is_some() => comment(&mut out, COMMAND, "not set"),
        None => {}
    }
    // `set` itself is left out, because its settings are printed. An old name is printed only if it
    // was given.
    let of = |arg: &&Arg| {
        let id = arg.get_id().as_str();
        let is_given = given.iter().any(|given| given.flag.id == id);
        let is_shown = is_given || !arg.is_hide_set() || group(arg).is_some();
        is_shown && id != SET && flags.iter().any(|flag| flag.id == id)
    };
    let args: Vec<&Arg> = command.get_arguments().filter(of).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &args {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        let _ = writeln!(out, "\n# {}", heading.unwrap_or("Other"));
        for arg in args.iter().filter(|arg| arg.get_help_heading() == heading) {
            let flag = flags.iter().find(|flag| flag.id == arg.get_id().as_str());
            flag.into_iter().for_each(|flag| one(&mut out, arg, flag, matches, given));
        }
    }
    out
}

fn one(out: &mut String, arg: &Arg, flag: &Flag, matches: &ArgMatches, all: &[Given]) {
    let given: Vec<&Given> = all.iter().filter(|given| given.flag.id == flag.id).collect();
    if let Some(last) = given.last() {
        let values = given.iter().flat_map(|given| &given.values);
        let values: Vec<String> = values.map(|value| text(&value.to_string_lossy())).collect();
        let mut origins: Vec<String> = given.iter().map(|given| given.origin.to_string()).collect();
        origins.dedup();
        return match flag.is_list {
            true => line(out, &flag.name, &format!("[{}]", values.join(", ")), &origins.join(", ")),
            false => line(out, &flag.name, &values.concat(), &last.origin),
        };
    }
    // A default becomes a comment if another given flag excludes this flag, or if giving the flag
    // has an effect. The printed file must not give such a flag.
    let excludes = |other: &&Given| !other.is_idle() && other.flag.excludes(flag);
    let excluded = !flag.is_switch && all.iter().any(|other| excludes(&other));
    let hidden = arg.is_hide_default_value_set() && !flag.is_switch;
    let is_default = matches.value_source(&flag.id) == Some(ValueSource::DefaultValue);
    let values = matches.get_raw(&flag.id).filter(|_| is_default && !excluded && !hidden);
    match values {
        Some(values) => {
            let values: Vec<String> = values.map(|value| text(&value.to_string_lossy())).collect();
            line(out, &flag.name, &values.concat(), &"default");
        }
        None => {
            let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
            comment(out, &flag.name, &in_words(&help.unwrap_or_default()));
        }
    }
}

/// The default that a help text describes in words: `[default: cores / compute nodes, at least 1]`.
pub(super) fn in_words(help: &str) -> String {
    let words = help.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']'));
    let words = words.map(|(words, _)| words.split_whitespace().collect::<Vec<_>>().join(" "));
    words.map_or_else(|| "not set".to_owned(), |words| format!("not set, default: {words}"))
}

fn line(out: &mut String, name: &str, value: &str, origin: &dyn std::fmt::Display) {
    let _ = writeln!(out, "{name} = {value} # {origin}");
}

fn comment(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "# {name}: {text}");
}

/// A value in TOML. A number or a truth value has no quotes, if TOML reads it back as the same
/// text.
fn text(value: &str) -> String {
    let whole = value.parse::<i64>().is_ok_and(|number| number.to_string() == value);
    let float = value.contains('.')
        && value.parse::<f64>().is_ok_and(|number| format!("{number:?}") == value);
    if whole || float || value == "true" || value == "false" {
        return value.to_owned();
    }
    toml::Value::String(value.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_the_text_that_they_were() {
        for (value, printed) in [
            ("4", "4"),
            ("-4", "-4"),
            ("007", "\"007\""),
            ("18446744073709551615", "\"18446744073709551615\""),
            ("0.5", "0.5"),
            ("1e9", "\"1e9\""),
            ("true", "true"),
            ("45,43,4,4,4", "\"45,43,4,4,4\""),
            ("", "\"\""),
            ("a \"b\"", "'a \"b\"'"),
        ] {
            assert_eq!(text(value), printed);
            let table: toml::Table = format!("key = {printed}").parse().expect("TOML");
            let read = match &table["key"] {
                toml::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(read, value);
        }
    }

    #[test]
    fn a_default_in_words_is_printed() {
        assert_eq!(
            in_words("Threads. [default: one\n for each core]"),
            "not set, default: one for each core"
        );
        assert_eq!(in_words("A file."), "not set");
    }
}
