//! Reads the configuration file: TOML with the names of flags as keys.

use std::path::Path;

use latchwork_files::InputKind;
use latchwork_workload::properties::near_matches;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::flags::SET;
use super::given::{Given, Origin};
use super::known::{Known, Meaning};
use super::{set, sources};
use crate::AppError;

const FILE: InputKind = InputKind { name: "a configuration file", bytes_max: 1 << 20 };

/// The values that a file, or the environment, has for a program.
#[derive(Default)]
pub(super) struct Said {
    pub(super) given: Vec<Given>,
    /// The subcommand and its source.
    pub(super) command: Option<(String, Origin)>,
    /// The settings from the key `set`.
    pub(super) settings: Vec<Given>,
}

impl Said {
    /// Adds the settings from the key `set` to the other values.
    ///
    /// # Errors
    /// When one setting is given twice.
    pub(super) fn whole(mut self) -> Result<Said, AppError> {
        let settings = std::mem::take(&mut self.settings);
        set::add(&mut self.given, settings)?;
        Ok(self)
    }

    /// Adds a value, which replaces an earlier value of the same flag.
    fn set(&mut self, given: Given) {
        self.given.retain(|other| other.flag.id != given.flag.id);
        self.given.push(given);
    }
}

/// Reads the file at `path`. `asked_by` is the flag or the variable that names the file, for
/// errors.
pub(super) fn read(path: &Path, asked_by: &str, known: &Known<'_>) -> Result<Said, AppError> {
    let text = latchwork_files::read_text(path, FILE)
        .map_err(|error| AppError::Usage(format!("{asked_by} {}: {error}", path.display())))?;
    parse(path, &text, known)
}

fn parse(path: &Path, text: &str, known: &Known<'_>) -> Result<Said, AppError> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = Origin::in_file(path, text, error.span().map_or(0, |span| span.start));
        let message = error.message().lines().next().unwrap_or_default().to_owned();
        AppError::Usage(format!("{at}: this is no TOML: {message}"))
    })?;
    let (mut common, mut of_program) = (Said::default(), Said::default());
    let mut own = None;
    for (key, value) in table.get_ref() {
        let name = key.get_ref().as_ref();
        match value.get_ref() {
            DeValue::Table(table) if name == known.program => own = Some(table),
            DeValue::Table(_) if sources::is_program(name) => {}
            DeValue::Table(_) => {
                let origin = Origin::in_file(path, text, key.span().start);
                let names: Vec<&str> = sources::PROGRAMS.iter().map(|one| one.name).collect();
                let hint = match near_matches(name, &names).first() {
                    Some(near) => format!("did you mean [{near}]?"),
                    None => format!("use one of {}", names.join(", ")),
                };
                return Err(origin.wrong(name, format!("a table is for a program; {hint}")));
            }
            _ => take(&mut common, (path, text), known, false, (key, value))?,
        }
    }
    for pair in own.into_iter().flatten() {
        take(&mut of_program, (path, text), known, true, pair)?;
    }
    let mut said = common.whole()?;
    let of_program = of_program.whole()?;
    said.command = of_program.command.or(said.command);
    of_program.given.into_iter().for_each(|given| said.set(given));
    Ok(said)
}

fn take(
    said: &mut Said,
    (path, text): (&Path, &str),
    known: &Known<'_>,
    own: bool,
    (key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>),
) -> Result<(), AppError> {
    let name = key.get_ref().as_ref();
    let origin = Origin::in_file(path, text, key.span().start);
    let flag = match known.meaning(name, own, str::to_owned) {
        Meaning::Flag(flag) => flag.clone(),
        Meaning::Elsewhere => return Ok(()),
        Meaning::Unknown(why) => return Err(origin.wrong(name, why)),
        Meaning::Command => {
            let command = one(value.get_ref()).map_err(|why| origin.wrong(name, why))?;
            known.check_command(&command).map_err(|why| origin.wrong(name, why))?;
            said.command = Some((command, origin));
            return Ok(());
        }
    };
    let values = match value.get_ref() {
        DeValue::Array(array) if flag.is_list => {
            array.iter().map(|value| one(value.get_ref())).collect::<Result<Vec<_>, _>>()
        }
        value => one(value).map(|value| vec![value]),
    };
    let values = values.map_err(|why| origin.wrong(name, why))?;
    let values: Vec<_> = values.into_iter().map(Into::into).collect();
    if flag.name == SET {
        said.settings = set::expand(known, &values, own, &origin)?;
        return Ok(());
    }
    said.set(Given { flag, values, origin });
    Ok(())
}

/// A TOML value as text, in the form of a command line.
fn one(value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::String(text) => Ok(text.clone().into_owned()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map(|number| number.to_string())
            .map_err(|_| "this number is too large"),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(value) => Ok(value.to_string()),
        DeValue::Datetime(_) => Err("use a string, a number, true or false"),
        DeValue::Array(_) => Err("it takes one value, not a list"),
        DeValue::Table(_) => Err("it takes one value, not a table"),
    }
}
