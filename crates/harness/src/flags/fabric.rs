//! [`FabricFlags`]: threads on shared memory, or a simulated world.

use clap::{Args, ValueEnum};
use latchwork_verbs_sim::NicProfile;

use super::FlagError;

/// The kinds of fabrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FabricKind {
    /// Shared memory: threads, in real time.
    #[default]
    Shm,
    /// A simulated network: virtual time, and every figure follows from the flags.
    Sim,
}

/// Flags of the fabric.
#[derive(Clone, Debug, Default, Args)]
pub struct FabricFlags {
    /// What connects the nodes: shm, threads on shared memory in real time; or sim, a simulated network
    /// in virtual time, where the same flags give the same figures.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        default_value = "shm",
        hide_possible_values = true,
        help_heading = "Cluster"
    )]
    pub fabric: FabricKind,
    /// The kind of NIC of a simulated network: connectx3, connectx5, ethernet10g, or the file of a
    /// profile. [default: connectx3]
    #[arg(long, global = true, value_name = "NAME|FILE", value_parser = NicProfile::find, help_heading = "Cluster")]
    pub nic: Option<NicProfile>,
}

/// A fabric to start a cluster on.
#[derive(Clone, Debug)]
pub enum FabricChoice {
    /// Shared memory.
    Shm,
    /// A simulated network of such NICs.
    Sim(Box<NicProfile>),
}

impl FabricFlags {
    /// The kind of NIC of a simulated network unless another is asked for: that of the SELCC paper.
    pub const NIC_DEFAULT: &str = "connectx3";

    /// What was asked for.
    ///
    /// # Errors
    /// When a kind of NIC was given where there is none.
    pub fn choice(&self) -> Result<FabricChoice, FlagError> {
        match (self.fabric, &self.nic) {
            (FabricKind::Shm, None) => Ok(FabricChoice::Shm),
            (FabricKind::Shm, Some(nic)) => {
                let name = &nic.name;
                Err(FlagError(format!("--nic {name}: there are NICs with --fabric sim only")))
            }
            (FabricKind::Sim, Some(nic)) => Ok(FabricChoice::Sim(Box::new(nic.clone()))),
            (FabricKind::Sim, None) => {
                let nic = NicProfile::named(Self::NIC_DEFAULT);
                Ok(FabricChoice::Sim(Box::new(nic.map_err(|error| FlagError(error.to_string()))?)))
            }
        }
    }
}

impl FabricChoice {
    /// The fabric's name, as `--fabric` takes it.
    pub fn name(&self) -> &'static str {
        match self {
            FabricChoice::Shm => "shm",
            FabricChoice::Sim(_) => "sim",
        }
    }

    /// The name of the NIC's profile, if there is one.
    pub fn nic(&self) -> Option<&str> {
        match self {
            FabricChoice::Shm => None,
            FabricChoice::Sim(nic) => Some(&nic.name),
        }
    }
}
