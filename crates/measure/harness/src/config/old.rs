//! Old spellings on a command line: flags that became settings or have another name now. Old
//! spellings work for one more version. The program prints one line that says how to write them.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use super::flags;

/// One line about all old spellings among `arguments`, if there are any.
///
/// The function looks at the words, because clap does not tell which spelling was used. A value
/// that looks like an old flag causes a needless line, and nothing else.
pub fn old_spellings(command: &Command, arguments: &[OsString]) -> Option<String> {
    let mut new: Vec<String> = Vec::new();
    let words: Vec<_> = arguments.iter().skip(1).map(|word| word.to_string_lossy()).collect();
    for (at, word) in words.iter().enumerate() {
        if word == "--" {
            break;
        }
        let Some(flag) = word.strip_prefix("--") else { continue };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        let Some(arg) = find(command, name) else { continue };
        let next = || words.get(at + 1).map(AsRef::as_ref);
        let is_switch = arg.is_require_equals_set() || !takes_value(arg);
        let value = value.or_else(|| if is_switch { None } else { next() });
        let spelling = if flags::group(arg).is_some() {
            Some(format!("--set {name}={}", value.unwrap_or("on")))
        } else if let Some(now) = flags::new_name(arg) {
            Some(format!("--{now}"))
        } else {
            let now = arg.get_long().filter(|long| *long != name);
            now.map(|now| format!("--{now}{}", value.map(|v| format!(" {v}")).unwrap_or_default()))
        };
        new.extend(spelling);
    }
    new.dedup();
    let them = new.join(" ");
    (!new.is_empty())
        .then(|| format!("old flags, which the next version does not have; now write {them}"))
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// The argument with this name or old name, in the command or in one of its subcommands.
fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let is_it = |arg: &&Arg| {
        arg.get_long() == Some(name)
            || arg.get_all_aliases().into_iter().flatten().any(|alias| alias == name)
    };
    let own = command.get_arguments().find(is_it);
    own.or_else(|| command.get_subcommands().find_map(|command| find(command, name)))
}
