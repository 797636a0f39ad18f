//! [`Network`]: the delays of messages and verbs.

use std::fmt;
use std::time::Duration;

use latchwork_verbs_sim::{Drawn, NicProfile, SimConfig};
use serde::{Deserialize, Serialize};

use super::ScenarioError;

/// The network and its NICs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Network {
    /// A network with short, equal delays.
    Calm,
    /// A network in which every message may overtake others.
    Rough,
    /// As `Rough`, but a quarter of the delays is longer, by up to 200 µs.
    Harsh,
    /// A network of NICs with a profile: the name of the profile, or the path of its file.
    Nic(String),
}

impl Network {
    /// The names of the networks without a NIC profile.
    pub const NAMES: [&'static str; 3] = ["calm", "rough", "harsh"];

    /// The settings of the simulated fabric.
    ///
    /// # Errors
    /// When the profile does not exist or contains a mistake.
    pub fn config(&self) -> Result<SimConfig, ScenarioError> {
        Ok(match self {
            Network::Calm => SimConfig::default(),
            Network::Rough => SimConfig::rough(),
            Network::Harsh => {
                let tail = Duration::from_micros(200);
                SimConfig::drawn(Drawn { tail_one_in: 4, tail, ..Drawn::rough() })
            }
            Network::Nic(name) => match NicProfile::find(name) {
                Ok(profile) => SimConfig::nic(profile),
                Err(error) => {
                    let names = Network::NAMES.join(", ");
                    let text = format!("{error}; besides profiles of NICs, {names} would do");
                    return Err(ScenarioError::of_key("network", text));
                }
            },
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Network::Calm => "calm",
            Network::Rough => "rough",
            Network::Harsh => "harsh",
            Network::Nic(name) => name,
        })
    }
}

impl From<Network> for String {
    fn from(network: Network) -> String {
        network.to_string()
    }
}

impl From<String> for Network {
    fn from(name: String) -> Network {
        match name.as_str() {
            "calm" => Network::Calm,
            "rough" => Network::Rough,
            "harsh" => Network::Harsh,
            _ => Network::Nic(name),
        }
    }
}
