//! The settings of the compute nodes by name: one list from which programs make flags, scenarios
//! make keys, and experiments make loops. The engine and each protocol have a table in it.

use latchwork_engine::{NamedSettings, NodeSettings, Setting};
use latchwork_homes::HomeSettings;
use latchwork_selcc::SelccSettings;
use thiserror::Error;

use crate::{ClusterConfig, ConfigError, Protocol};

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
const PROTOCOLS: [&[Setting]; 2] = [SelccSettings::TABLE, HomeSettings::TABLE];

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

    /// The settings of the protocols with homes, which the other protocols refuse.
    pub fn home_settings() -> &'static [Setting] {
        HomeSettings::TABLE
    }

    fn parts(&self) -> [&dyn NamedSettings; 3] {
        [&self.node, &self.selcc, &self.homes]
    }

    /// Checks that the protocol has the setting of this name, which is one of
    /// [`home_settings`](ClusterConfig::home_settings). Protocols ignore the other settings that
    /// they do not have.
    ///
    /// # Errors
    /// One line with the protocols that have the setting.
    pub fn check_setting(&self, name: &str) -> Result<(), ConfigError> {
        let Some(setting) = HomeSettings::TABLE.iter().find(|setting| setting.name == name) else {
            return Ok(());
        };
        let has = match HomeSettings::OF_HOMES.contains(&name) {
            true => Protocol::has_homes,
            false => Protocol::has_ways_of_conflict,
        };
        if has(self.protocol) {
            return Ok(());
        }
        let having: Vec<_> = Protocol::ALL.into_iter().filter(|protocol| has(*protocol)).collect();
        let having: Vec<_> = having.into_iter().map(Protocol::name).collect();
        let (setting, protocol) = (setting.name, self.protocol);
        Err(ConfigError::Setting { setting, protocol, having: having.join(" or ") })
    }

    /// Checks that the protocol has all settings that differ from their defaults.
    pub(crate) fn check_settings(&self) -> Result<(), ConfigError> {
        let of_agents = |name: &&str| HomeSettings::OF_AGENTS.contains(name);
        match self.changed_home_settings().find(of_agents).filter(|_| self.has_compute_homes()) {
            Some(setting) => Err(ConfigError::NoAgents { setting }),
            None => self.changed_home_settings().try_for_each(|name| self.check_setting(name)),
        }
    }

    /// The settings of the homes that differ from their defaults.
    pub(crate) fn changed_home_settings(&self) -> impl Iterator<Item = &'static str> {
        let default = HomeSettings::default();
        let names = HomeSettings::TABLE.iter().map(|setting| setting.name);
        names.filter(move |name| self.homes.value(name) != default.value(name))
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
        let parts: [&mut dyn NamedSettings; 3] = [&mut self.node, &mut self.selcc, &mut self.homes];
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

    /// Hunts draw variants from all settings for all protocols.
    #[test]
    fn a_setting_that_a_protocol_refuses_is_not_drawn() {
        assert!(ClusterConfig::home_settings().iter().all(|setting| setting.tries.is_empty()));
    }

    #[test]
    fn a_protocol_without_the_setting_refuses_it_and_names_those_that_have_it() {
        for (name, text, having) in [
            ("home-cores", "2", &["gam", "scalestore"][..]),
            ("home-share", "50", &["gam", "scalestore"]),
            ("chaining", "fifo", &["scalestore"]),
            ("chaining", "polling", &["scalestore"]),
            ("reader-takes", "move", &["scalestore"]),
        ] {
            for protocol in Protocol::ALL {
                let mut config = ClusterConfig { protocol, ..ClusterConfig::default() };
                config.set(name, text).expect("a value");
                let has = having.contains(&protocol.name());
                assert_eq!(config.check().is_ok(), has, "{name} {protocol}");
                assert_eq!(config.check_setting(name).is_ok(), has, "{name} {protocol}");
                let Err(error) = config.check() else { continue };
                let line = error.to_string();
                let would_do = format!("use {}", having.join(" or "));
                assert!(line.contains(name) && line.contains(&would_do), "{line}");
                assert!(!line.contains('\n'), "{line}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_one_line_with_what_would_do() {
        let mut config = ClusterConfig::default();
        let line = config.set("pauses", "2us").unwrap_err().to_string();
        assert!(line.contains("pauses") && line.contains("pause-max"), "{line}");
        for (name, text, would_do) in [
            ("pause", "2d", "20us"),
            ("evict-batch", "0", "from 1"),
            ("deadline", "0", "from 1ns"),
            ("home-cores", "0", "from 1 to 255"),
            ("home-share", "0", "from 1 to 100"),
            ("home-share", "101", "from 1 to 100"),
            ("chaining", "off", "on or fifo or polling"),
            ("reader-takes", "", "copy or move"),
        ] {
            let line = config.set(name, text).unwrap_err().to_string();
            assert!(line.contains(name) && !line.contains('\n'), "{line}");
            assert!(line.contains(would_do), "{line}");
        }
        assert_eq!(format!("{config:?}"), format!("{:?}", ClusterConfig::default()));
    }
}
