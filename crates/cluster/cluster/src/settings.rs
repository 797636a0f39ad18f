//! The settings of the compute nodes by name: one list from which programs make flags, scenarios
//! make keys, and experiments make loops. The engine and each protocol have a table in it.

use latchwork_engine::{NamedSettings, NodeSettings, Setting};
use latchwork_selcc::SelccSettings;
use thiserror::Error;

use crate::ClusterConfig;

/// Why a setting cannot be set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SettingError {
    /// No setting has this name.
    #[error("there is no setting {name}: {known} are possible")]
    Unknown {
        /// The name.
        name: String,
        /// The names of all settings.
        known: String,
    },
    /// The setting cannot have this value.
    #[error("{name} cannot be {given:?}: use {expected}")]
    Value {
        /// The setting.
        name: &'static str,
        /// The given value.
        given: String,
        /// The possible values.
        expected: String,
    },
}

/// The tables of the protocols.
const PROTOCOLS: [&[Setting]; 1] = [SelccSettings::TABLE];

impl ClusterConfig {
    /// All settings of compute nodes that a user may change, whatever the protocol.
    pub fn settings() -> Vec<&'static Setting> {
        let mut all: Vec<_> = NodeSettings::TABLE.iter().collect();
        for table in PROTOCOLS {
            let mut at = all.len();
            for setting in table {
                let place = |behind| all.iter().position(|other| Some(other.name) == behind);
                at = place(setting.behind).map_or(at, |place| place + 1);
                all.insert(at, setting);
                at += 1;
            }
        }
        all
    }

    fn parts(&self) -> [&dyn NamedSettings; 2] {
        [&self.node, &self.selcc]
    }

    /// The value of the setting of this name, as text that [`set`](ClusterConfig::set) takes.
    /// `None`: there is no such setting.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.parts().into_iter().find_map(|part| part.value(name))
    }

    /// Sets the setting of this name to the value of `text`.
    ///
    /// # Errors
    /// One line, when no such setting exists or the setting cannot have this value.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        let parts: [&mut dyn NamedSettings; 2] = [&mut self.node, &mut self.selcc];
        let all = Self::settings();
        match parts.into_iter().find_map(|part| part.set(name, text)) {
            Some(true) => Ok(()),
            end => Err(match all.iter().find(|setting| end.is_some() && setting.name == name) {
                Some(Setting { name, expected, .. }) => {
                    SettingError::Value { name, given: text.to_owned(), expected: expected() }
                }
                None => {
                    let known: Vec<_> = all.iter().map(|setting| setting.name).collect();
                    SettingError::Unknown { name: name.to_owned(), known: known.join(", ") }
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_change_one_field_each() {
        let default = ClusterConfig::default();
        let mut names = std::collections::BTreeSet::new();
        for Setting { name, tries, .. } in ClusterConfig::settings() {
            assert!(names.insert(name), "{name} has two meanings");
            let own = default.setting(name).expect("every table has its values");
            let mut same = default.clone();
            same.set(name, &own).expect("its own default");
            assert_eq!(format!("{same:?}"), format!("{default:?}"), "{name}");
            for text in *tries {
                let mut other = default.clone();
                other.set(name, text).expect("a value to try");
                assert_ne!(other.setting(name), default.setting(name), "{name}");
                other.set(name, &own).expect("its default");
                assert_eq!(format!("{other:?}"), format!("{default:?}"), "{name}");
            }
        }
    }

    /// The tables name each other's settings, and a name that is gone would change the order of the
    /// list: hunts draw variants by it.
    #[test]
    fn the_tables_of_the_protocols_interleave() {
        for setting in PROTOCOLS.iter().copied().flatten() {
            let known = |behind| NodeSettings::TABLE.iter().any(|setting| setting.name == behind);
            assert!(setting.behind.is_none_or(known), "{setting:?}");
        }
        let names: Vec<_> = ClusterConfig::settings().iter().map(|setting| setting.name).collect();
        assert!(names.join(" ").contains("lapse lease resend resend-factor"), "{names:?}");
        assert!(names.join(" ").contains("dirty-bounds forwarding release linger takeover"));
    }

    #[test]
    fn what_cannot_be_is_one_line_with_what_would_do() {
        let mut config = ClusterConfig::default();
        let line = config.set("pauses", "2us").unwrap_err().to_string();
        assert!(line.contains("pauses") && line.contains("pause-max"), "{line}");
        for (name, text, would_do) in
            [("pause", "2d", "20us"), ("evict-batch", "0", "from 1"), ("deadline", "0", "from 1ns")]
        {
            let line = config.set(name, text).unwrap_err().to_string();
            assert!(line.contains(name) && !line.contains('\n'), "{line}");
            assert!(line.contains(would_do), "{line}");
        }
        assert_eq!(format!("{config:?}"), format!("{:?}", ClusterConfig::default()));
    }
}
