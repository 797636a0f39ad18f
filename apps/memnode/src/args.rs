//! The command line.

use std::time::Duration;

use clap::Parser;
use latchwork_harness::parse::{chip_memory, mebibytes_exact, seconds_or_none};
use latchwork_harness::{FabricFlags, Named, NamesFiles};

/// What a memory node says of flags that it shares with the programs of compute nodes, which may
/// also run alone, or simulate a network.
const FABRIC: &str = "What connects the nodes of the cluster: shm, shared memory; tcp, sockets; or \
                      ibverbs, RDMA devices";
const JOIN: &str = "The store in which the nodes of the cluster meet: file:/DIRECTORY/NAME on one \
                    machine, or etcd://HOST:PORT/NAME. There is no memory node without one";

/// A memory node of a cluster of processes: memory that compute nodes cache, and keep coherent
/// without it, or with the agent that gam and scalestore start here.
///
/// It meets the others in the store that --join names, and serves until a signal to stop
/// (SIGTERM, SIGINT, SIGHUP). Then it waits for the compute nodes to leave, since what it holds is
/// lost with it. A second signal ends it at once.
#[derive(Debug, Parser)]
#[command(name = "memnode", version, max_term_width = 100)]
#[command(allow_negative_numbers = true, args_override_self = true)]
#[command(mut_arg("nic", |arg| arg.hide(true)))]
#[command(mut_arg("fabric", |arg| arg.help(FABRIC)))]
#[command(mut_arg("join", |arg| arg.help(JOIN)))]
pub(crate) struct Cli {
    /// Memory of this node in MiB, or a size such as 4G.
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = mebibytes_exact)]
    pub(crate) memory_mb: u64,
    /// On-chip memory of this node's NIC, as far as the fabric has such memory. [default: none]
    #[arg(long, value_name = "SIZE", value_parser = chip_memory, hide = true, help_heading = "Settings: Memory")]
    chip_memory: Option<u64>,
    /// Touch all memory at the start, so that no program waits for page faults of it later.
    #[arg(long, hide = true, help_heading = "Settings: Memory")]
    pub(crate) prefault: bool,
    /// Seconds to wait for the compute nodes to leave, when told to stop.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds_or_none)]
    drain: Duration,
    #[command(flatten)]
    pub(crate) fabric: FabricFlags,
}

impl NamesFiles for Cli {
    fn files(&self) -> Vec<Named> {
        self.fabric.files().collect()
    }
}

impl Cli {
    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_mb
    }

    /// Bytes of on-chip memory.
    pub(crate) fn chip_bytes(&self) -> u64 {
        self.chip_memory.unwrap_or(0)
    }

    /// How long to wait for the compute nodes to leave.
    pub(crate) fn patience(&self) -> Duration {
        self.drain
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["memnode", "--memory-mb", "3GiB", "--drain", "0s"]);
        let cli = cli.expect("flags");
        assert_eq!((cli.memory_bytes(), cli.patience()), (3 << 30, Duration::ZERO));
        let bytes = |arguments: [&str; 3]| Cli::try_parse_from(arguments).map(|c| c.memory_bytes());
        assert_eq!(bytes(["memnode", "--memory-mb", "64"]).expect("a size"), 64 << 20);
        let missing = latchwork_harness::config::missing::<Cli>("memnode");
        assert_eq!(missing, [""; 0], "flags that other programs take for unknown");
    }
}
