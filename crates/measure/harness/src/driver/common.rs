//! What all drivers take from their command line.

use std::collections::BTreeMap;

use clap::Args;
use latchwork_cluster::ClusterConfig;
use latchwork_files::{Named, Output};
use serde_json::Value;

use super::PoolSize;
use crate::{AppError, ClusterFlags, FabricChoice, FabricFlags, FlagError, MIB, OutputFlags};

/// The flags of all drivers.
#[derive(Clone, Debug, Args)]
pub struct DriverFlags {
    /// The cluster and its protocol.
    #[command(flatten)]
    pub cluster: ClusterFlags,
    /// The fabric.
    #[command(flatten)]
    pub fabric: FabricFlags,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputFlags,
}

impl DriverFlags {
    /// The files that these flags name.
    pub fn files(&self) -> impl Iterator<Item = Named> {
        self.fabric.files().chain(self.output.files())
    }

    /// What the flags say, with a cluster that is not configured yet.
    ///
    /// # Errors
    /// The first setting that is impossible.
    pub fn common(&self) -> Result<Common, FlagError> {
        let fabric = self.fabric.choice()?;
        self.cluster.check_fabric(&fabric)?;
        let json = self.output.destination()?;
        let mut warnings = Vec::new();
        if fabric.nic().is_some() && self.cluster.prefault {
            warnings.push("--set prefault changes nothing in a simulation".to_owned());
        }
        let (cluster, pool) = (ClusterConfig::default(), PoolSize::default());
        Ok(Common { cluster, pool, fabric, json, warnings })
    }

    /// The workers of each compute node: those of `--threads`, or `simulated` in a simulation, so
    /// that the machine's cores do not change the figures there.
    pub fn threads(&self, fabric: &FabricChoice, simulated: usize) -> usize {
        self.cluster.threads.unwrap_or_else(|| match fabric {
            FabricChoice::Sim(_) => simulated,
            _ => self.cluster.threads_of_machine(),
        })
    }
}

/// What all drivers know before they start.
pub struct Common {
    /// The cluster.
    pub cluster: ClusterConfig,
    /// The origin of the memory nodes' size.
    pub pool: PoolSize,
    /// The fabric.
    pub fabric: FabricChoice,
    /// The destination of the result document.
    pub json: Option<Output>,
    /// Lines for the user about settings that have no effect.
    pub warnings: Vec<String>,
}

impl Common {
    /// Whether time is virtual.
    pub fn is_simulated(&self) -> bool {
        self.fabric.nic().is_some()
    }

    /// Workers of all compute nodes.
    pub fn workers(&self) -> usize {
        self.cluster.compute_nodes * self.cluster.workers
    }

    /// The error for a full memory pool. `when` stands behind the fact, `enough` is a size of each
    /// memory node in bytes that suffices, and `hint` has flags that lower the need.
    pub fn out_of_memory(&self, when: &str, enough: u64, hint: &str) -> AppError {
        let given = self.cluster.memory_bytes;
        let (small, large) = self.fabric.memory_in_words(given, enough);
        let (mib, estimate) = (given / MIB, "an estimate, on each memory node");
        AppError::Failed(match &self.pool {
            PoolSize::Room(room) => format!(
                "memory exhausted{when}: {mib} MiB on each memory node were all that could be had, because {room}; use {hint}"
            ),
            PoolSize::Estimated if !matches!(self.fabric, FabricChoice::Joined(_)) => {
                format!(
                    "memory exhausted{when}: {mib} MiB, {estimate}, are too few; {large}, {hint}"
                )
            }
            _ => format!("memory exhausted{when}: {small} is too small; {large}, {hint}"),
        })
    }

    /// The settings for a result document: those of the cluster, and `own`.
    pub fn describe(&self, own: Value) -> BTreeMap<String, Value> {
        let mut all = ClusterFlags::describe(&self.cluster);
        all.insert("fabric".to_owned(), self.fabric.name().into());
        all.extend(self.fabric.nic().map(|nic| ("nic".to_owned(), nic.into())));
        all.extend(described(own));
        all
    }
}

/// The entries of an object that have a value.
pub fn described(object: Value) -> impl Iterator<Item = (String, Value)> {
    let map = match object {
        Value::Object(map) => map,
        _ => serde_json::Map::new(),
    };
    map.into_iter().filter(|(_, value)| !value.is_null())
}
