//! [`Network`]: how long messages and verbs take.

use std::fmt;
use std::time::Duration;

use latchwork_verbs_sim::{Drawn, SimConfig};
use serde::{Deserialize, Serialize};

use super::ScenarioError;

/// The network and its NICs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Network {
    /// As one would like it.
    Calm,
    /// Everything overtakes everything.
    Rough,
    /// And much of it is late by a multiple of what else takes long.
    Harsh,
}

impl Network {
    /// The names that need no file.
    pub const NAMES: [&'static str; 3] = ["calm", "rough", "harsh"];

    /// The simulated fabric.
    ///
    /// # Errors
    /// When there is no such profile.
    pub fn config(&self) -> Result<SimConfig, ScenarioError> {
        Ok(match self {
            Network::Calm => SimConfig::default(),
            Network::Rough => SimConfig::rough(),
            Network::Harsh => {
                let tail = Duration::from_micros(200);
                SimConfig::drawn(Drawn { tail_one_in: 4, tail, ..Drawn::rough() })
            }
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Network::Calm => "calm",
            Network::Rough => "rough",
            Network::Harsh => "harsh",
        })
    }
}

impl From<Network> for String {
    fn from(network: Network) -> String {
        network.to_string()
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(name: String) -> Result<Network, String> {
        match name.as_str() {
            "calm" => Ok(Network::Calm),
            "rough" => Ok(Network::Rough),
            "harsh" => Ok(Network::Harsh),
            _ => Err(format!("there is no network {name:?}: calm, rough and harsh would do")),
        }
    }
}
