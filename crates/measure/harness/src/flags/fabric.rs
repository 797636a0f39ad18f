//! [`FabricFlags`]: the flags that choose the fabric. [`FabricChoice`]: the chosen fabric, checked.

use clap::Args;
use latchwork_files::Named;
use latchwork_verbs_ibv as ibv;
use latchwork_verbs_sim::{NicProfile, ProfileError};

use super::kind::FabricKind;
use super::{JoinChoice, JoinFlags, RdmaFlags};
use crate::error::FlagError;
use crate::parse::MIB;

/// The NIC profile that `--nic` names.
#[derive(Clone, Debug)]
pub struct NicChoice {
    given: String,
    /// The profile.
    pub profile: NicProfile,
}

impl NicChoice {
    /// The profile with this name, or in this file.
    ///
    /// # Errors
    /// As [`NicProfile::find`].
    pub fn find(given: &str) -> Result<NicChoice, ProfileError> {
        Ok(NicChoice { given: given.to_owned(), profile: NicProfile::find(given)? })
    }

    /// The value of `--nic`, which may be a file name.
    pub fn file(&self) -> Named {
        Named::read("--nic", &self.given)
    }
}

/// Flags of the fabric.
#[derive(Clone, Debug, Args)]
pub struct FabricFlags {
    /// What connects the nodes: shm, shared memory; tcp, sockets; ibverbs, RDMA devices; or sim, a
    /// simulated network in virtual time, where the same flags give the same figures. Without
    /// --join all nodes are of this process.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        default_value = "shm",
        hide_possible_values = true,
        help_heading = "Cluster"
    )]
    pub fabric: FabricKind,
    /// The kind of NIC of a simulated network: connectx3, connectx5, ethernet10g, connectx5-chip,
    /// connectx5-stalling, or the file of a profile. [default: connectx3]
    #[arg(long, global = true, value_name = "NAME|FILE", value_parser = NicChoice::find, help_heading = "Cluster")]
    pub nic: Option<NicChoice>,
    /// Flags of RDMA devices.
    #[command(flatten)]
    pub rdma: RdmaFlags,
    /// Flags of a process that joins others.
    #[command(flatten)]
    pub join: JoinFlags,
}

/// A fabric to start a cluster on.
#[derive(Clone, Debug)]
pub enum FabricChoice {
    /// Shared memory.
    Shm,
    /// A simulated network of NICs with this profile.
    Sim(Box<NicProfile>),
    /// Sockets on loopback. All nodes are in this process.
    Tcp,
    /// RDMA devices. All nodes are in this process, distributed over the devices.
    Ibverbs(Box<ibv::IbvConfig>),
    /// This process is one node of a cluster of processes.
    Joined(Box<JoinChoice>),
}

impl FabricFlags {
    /// The default of `--nic`: the NIC of the SELCC paper.
    pub const NIC_DEFAULT: &str = "connectx3";

    /// The files that these flags name.
    pub fn files(&self) -> impl Iterator<Item = Named> {
        self.nic.iter().map(NicChoice::file).chain(self.join.files())
    }

    /// The fabric that the flags choose.
    ///
    /// # Errors
    /// When a flag is given that has no effect on the chosen fabric. As [`JoinFlags::choice`] and
    /// [`RdmaFlags::config`].
    pub fn choice(&self) -> Result<FabricChoice, FlagError> {
        let rdma = self.rdma.config(self.fabric)?;
        if let Some(choice) = self.join.choice(self.fabric, &rdma)? {
            if let Some(NicChoice { profile: NicProfile { name, .. }, .. }) = &self.nic {
                return Err(FlagError(format!(
                    "--nic {name}: leave it out, or --join: only simulated networks have such NICs"
                )));
            }
            return Ok(FabricChoice::Joined(Box::new(choice)));
        }
        match (self.fabric, &self.nic) {
            (FabricKind::Shm, None) => Ok(FabricChoice::Shm),
            (FabricKind::Tcp, None) => Ok(FabricChoice::Tcp),
            (FabricKind::Ibverbs, None) => Ok(FabricChoice::Ibverbs(rdma.into())),
            (FabricKind::Shm | FabricKind::Tcp | FabricKind::Ibverbs, Some(nic)) => {
                let name = &nic.profile.name;
                Err(FlagError(format!("--nic {name}: there are NICs with --fabric sim only")))
            }
            (FabricKind::Sim, Some(nic)) => Ok(FabricChoice::Sim(Box::new(nic.profile.clone()))),
            (FabricKind::Sim, None) => {
                let nic = NicProfile::named(Self::NIC_DEFAULT);
                Ok(FabricChoice::Sim(Box::new(nic.map_err(|error| FlagError(error.to_string()))?)))
            }
        }
    }
}

impl FabricChoice {
    /// Whether this process takes the place of a dead one in a run.
    pub fn replaces(&self) -> bool {
        matches!(self, FabricChoice::Joined(join) if join.replaces())
    }

    /// The fabric's name, as `--fabric` takes it.
    pub fn name(&self) -> &'static str {
        match self {
            FabricChoice::Shm => "shm",
            FabricChoice::Sim(_) => "sim",
            FabricChoice::Tcp => "tcp",
            FabricChoice::Ibverbs(_) => "ibverbs",
            FabricChoice::Joined(join) => join.fabric(),
        }
    }

    /// Two texts for an error about too little memory: the given size of each memory node, and what
    /// to do for `enough` bytes. Both sizes are in bytes. In a cluster of processes, the memory
    /// nodes have the flag.
    pub fn memory_in_words(&self, given: u64, enough: u64) -> (String, String) {
        let (given, enough) = (given / MIB, enough.div_ceil(MIB));
        match self {
            FabricChoice::Joined(_) => {
                let large = format!("start memory nodes with --memory-mb {enough}");
                (format!("memory of {given} MiB on each memory node"), large)
            }
            _ => (format!("--memory-mb {given}"), format!("use --memory-mb {enough}")),
        }
    }

    /// The name of the NIC profile of a simulated network.
    pub fn nic(&self) -> Option<&str> {
        match self {
            FabricChoice::Sim(nic) => Some(&nic.name),
            FabricChoice::Shm
            | FabricChoice::Tcp
            | FabricChoice::Ibverbs(_)
            | FabricChoice::Joined(_) => None,
        }
    }
}
