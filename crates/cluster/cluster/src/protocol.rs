//! [`Protocol`]: the coherence protocol of a cluster, chosen at run time.

use std::fmt;
use std::str::FromStr;

use latchwork_selcc::Policy;

use crate::ConfigError;

/// A coherence protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// SELCC: lines stay in the cache until another node requests them.
    #[default]
    Selcc,
    /// SEL: the baseline without a cache.
    Sel,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Protocol; 2] = [Protocol::Selcc, Protocol::Sel];

    /// The protocol's name.
    pub const fn name(self) -> &'static str {
        self.policy().name
    }

    /// The engine's policy for this protocol.
    pub const fn policy(self) -> Policy {
        match self {
            Protocol::Selcc => Policy::SELCC,
            Protocol::Sel => latchwork_sel::POLICY,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Protocol::ALL
            .into_iter()
            .find(|protocol| protocol.name() == name)
            .ok_or_else(|| ConfigError::Protocol { given: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_found_by_name() {
        for protocol in Protocol::ALL {
            assert_eq!(protocol.to_string().parse(), Ok(protocol));
        }
        let error = "mesi".parse::<Protocol>().expect_err("no such protocol").to_string();
        assert!(error.contains("mesi") && error.contains("selcc") && error.contains("sel"));
    }
}
