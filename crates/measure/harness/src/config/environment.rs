//! Reads the environment: a variable is `LATCHWORK_` and the name of a flag in capitals, with `_`
//! for `-`.

use std::ffi::OsString;

use toml::de::DeTable;

use super::file::Said;
use super::flags::{Flag, PREFIX, SET, variable};
use super::given::{Given, Origin};
use super::known::{Known, Meaning};
use super::set;
use crate::AppError;

/// The variable that names the configuration file.
pub(super) const CONFIG: &str = "LATCHWORK_CONFIG";

/// Variables that tests of this project read. Programs ignore them.
const OF_TESTS: &[&str] = &["LATCHWORK_MODEL_GIB", "LATCHWORK_SEEDS", "LATCHWORK_WORLDS"];
const OF_TESTS_PREFIX: &[&str] = &["LATCHWORK_TEST_", "LATCHWORK_TXN_KILL_", "LATCHWORK_WAL_KILL_"];

/// Whether Kubernetes has set the variable, for a service whose name begins like the product.
fn is_of_a_service(name: &str, value: &str) -> bool {
    let words: Vec<&str> = name.split('_').collect();
    let is_port = |three: &[&str]| {
        let [word, number, protocol] = three else { return false };
        *word == "PORT"
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && matches!(*protocol, "TCP" | "UDP" | "SCTP")
    };
    match words[..] {
        [.., "SERVICE", "HOST"] => true,
        [.., "PORT"] if ["tcp://", "udp://", "sctp://"].iter().any(|at| value.starts_with(at)) => {
            true
        }
        _ => {
            words.windows(2).any(|two| two == ["SERVICE", "PORT"]) || words.windows(3).any(is_port)
        }
    }
}

/// The values of the environment for a program. An empty variable is ignored.
pub(super) fn read(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    known: &Known<'_>,
) -> Result<Said, AppError> {
    let mut said = Said::default();
    let mut variables: Vec<_> = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty())
        .filter(|(name, _)| name != CONFIG && !OF_TESTS.contains(&name.as_str()))
        .filter(|(name, _)| !OF_TESTS_PREFIX.iter().any(|prefix| name.starts_with(prefix)))
        .filter(|(name, value)| !is_of_a_service(name, &value.to_string_lossy()))
        .collect();
    // Sorted, so that of several errors the same error is always reported.
    variables.sort();
    for (variable_name, value) in variables {
        let origin = Origin::Variable(variable_name.clone());
        let name = variable_name[PREFIX.len()..].to_ascii_lowercase().replace('_', "-");
        let meaning = match variable(&name) == variable_name {
            true => known.meaning(&name, false, variable),
            // A variable with lower-case letters is refused with the right spelling.
            false => Meaning::Unknown(format!("write it in capitals, {}", variable(&name))),
        };
        let value = value.into_string().map_err(|_| origin.wrong(&name, "its value is no text"));
        match meaning {
            Meaning::Flag(flag) => {
                let values = values(flag, value?).map_err(|why| origin.wrong(&name, why))?;
                if flag.name == SET {
                    said.settings = set::expand(known, &values, false, &origin)?;
                    continue;
                }
                said.given.push(Given { flag: flag.clone(), values, origin });
            }
            Meaning::Command => {
                let command = value?;
                known.check_command(&command).map_err(|why| origin.wrong(&name, why))?;
                said.command = Some((command, origin));
            }
            Meaning::Elsewhere => {}
            Meaning::Unknown(why) => return Err(origin.wrong(&name, why)),
        }
    }
    said.whole()
}

/// The value of a variable. For a flag that may be repeated, the value may be a TOML list.
fn values(flag: &Flag, value: String) -> Result<Vec<OsString>, String> {
    if !flag.is_list || !value.trim_start().starts_with('[') {
        return Ok(vec![value.into()]);
    }
    let expected = || r#"use a value, or a list as ["one", "two"]"#.to_owned();
    let document = format!("list = {value}");
    let table = DeTable::parse(&document).map_err(|_| expected())?;
    let list = table.get_ref().get("list").and_then(|list| list.get_ref().as_array());
    let texts = list.into_iter().flatten().map(|value| value.get_ref().as_str());
    texts.map(|text| text.map(OsString::from).ok_or_else(expected)).collect()
}
