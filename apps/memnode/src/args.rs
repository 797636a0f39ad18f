//! The command line.

use std::time::Duration;

use clap::Parser;
use latchwork_harness::parse::{seconds_or_none, size};
use latchwork_harness::{FabricFlags, Named, NamesFiles};

/// A memory node of a cluster of processes: memory that compute nodes cache, and keep coherent
/// without it.
///
/// It meets the others in the store that --join names, and serves until it is told to stop
/// (SIGTERM, SIGINT, SIGHUP). Then it waits for the compute nodes to leave, since what it holds is
/// lost with it. A second signal ends it at once.
#[derive(Debug, Parser)]
#[command(name = "memnode", version, max_term_width = 100)]
#[command(allow_negative_numbers = true, args_override_self = true)]
#[command(mut_arg("nic", |arg| arg.hide(true)))]
pub(crate) struct Cli {
    /// How much memory, as 512M or 4G.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub(crate) memory: u64,
    /// Take all of it at the start instead of at the first touch.
    #[arg(long)]
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
    /// How long to wait for the compute nodes to leave.
    pub(crate) fn patience(&self) -> Duration {
        self.drain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["memnode", "--memory", "3GiB", "--drain", "0s"]);
        let cli = cli.expect("flags");
        assert_eq!((cli.memory, cli.patience()), (3 << 30, Duration::ZERO));
        let missing = latchwork_harness::config::missing::<Cli>("memnode");
        assert_eq!(missing, [""; 0], "flags that other programs take for unknown");
    }
}
