//! Turns `--set NAME=VALUE` into a setting with this name and value.

use std::ffi::OsString;

use super::flags::SET;
use super::given::{Given, Origin};
use super::known::Known;
use crate::AppError;

/// The settings in the values of one `set`.
///
/// With `own`, the values are for this program only, so a setting of another program is an error.
/// Without `own`, settings of other programs are left out: the file or the environment may be for
/// several programs.
///
/// # Errors
/// A value that is not NAME=VALUE, or a name that is not a setting.
pub(super) fn expand(
    known: &Known<'_>,
    values: &[OsString],
    own: bool,
    origin: &Origin,
) -> Result<Vec<Given>, AppError> {
    let mut settings: Vec<Given> = Vec::new();
    for value in values {
        let text = value.to_string_lossy();
        let Some((name, value)) = text.split_once('=') else {
            let what = format!(
                "{text}: use NAME=VALUE, as member-lease=20s; {} --help-settings tells which",
                known.program
            );
            return Err(match origin {
                Origin::Set => AppError::Usage(format!("--set {what}")),
                origin => origin.wrong(SET, what),
            });
        };
        let flag = match known.setting(name.trim(), own) {
            Ok(Some(flag)) => flag.clone(),
            Ok(None) => continue,
            Err(why) => return Err(origin.wrong(name, why)),
        };
        let value: OsString = value.trim().into();
        match settings.iter_mut().find(|given| given.flag.id == flag.id) {
            Some(before) if flag.is_list => before.values.push(value),
            // Of two values the later counts, as for flags.
            Some(before) => before.values = vec![value],
            None => settings.push(Given { flag, values: vec![value], origin: origin.clone() }),
        }
    }
    Ok(settings)
}

/// Adds the settings of `set` to the flags that the same source gives by name.
///
/// # Errors
/// When `set` and a name give the same setting, and it may not be repeated.
pub(super) fn add(given: &mut Vec<Given>, settings: Vec<Given>) -> Result<(), AppError> {
    for setting in settings {
        let name = &setting.flag.name;
        let other = given.iter_mut().find(|other| other.flag.id == setting.flag.id);
        match other {
            Some(other) if setting.flag.is_list => other.values.extend(setting.values),
            Some(other) => {
                let place = &other.origin;
                let what = format!("it is given twice, also by {place}; leave one of them out");
                return Err(setting.origin.wrong(name, what));
            }
            None => given.push(setting),
        }
    }
    Ok(())
}
