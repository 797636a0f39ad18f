//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use latchwork_cluster::{ClusterConfig, Protocol};
use latchwork_harness::parse::{UNITS, line_size, minutes, seconds, seconds_or_none, whole};
use latchwork_harness::{Named, NamesFiles, NicChoice, OutputFlags};
use latchwork_hunt::{Checks, FaultPlan, Network, SeededBug, TreeIndex};

use crate::faults;
use crate::names::{Kind, kind, plant, tree_index};

/// Simulated worlds: whole clusters in virtual time, in which one seed decides everything that a
/// network, a scheduler and bad luck leave open. The same seed is the same world, event by event.
///
/// The exit status is 1 when a world fails a check, and 2 when the command line asks for something
/// impossible.
#[derive(Debug, Parser)]
#[command(name = "sim", version, max_term_width = 100, after_help = UNITS)]
#[command(allow_negative_numbers = true, args_override_self = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Replay one world: print its hash, what happened in it, and whether its checks hold.
    Run(RunArgs),
    /// Run the worlds of one seed after the other until the time is over or one fails; shrink that
    /// one, and write down what happened in it.
    Hunt(HuntArgs),
    /// Look for a smaller world that fails the same check as this one.
    Shrink(ShrinkArgs),
    /// Compare what NIC profiles do with what was published about the NICs.
    Calibrate(CalibrateArgs),
}

/// Which world. Without a scenario file the seed decides what no flag does.
#[derive(Debug, Args, Default)]
pub(crate) struct WorldArgs {
    /// What the workers do. [default: the seed decides]
    #[arg(long, value_name = "NAME", value_parser = kind, help_heading = "World")]
    pub(crate) workload: Option<Kind>,
    /// Operations of each task.
    #[arg(long, value_name = "N", value_parser = whole(1..=1_000_000_000u64), help_heading = "World")]
    pub(crate) operations: Option<u64>,
    /// Compute nodes.
    #[arg(long = "compute-nodes", value_name = "N", value_parser = whole(1..=58usize), help_heading = "World")]
    pub(crate) nodes: Option<usize>,
    /// Memory nodes.
    #[arg(long, value_name = "N", value_parser = whole(1..=64usize), help_heading = "World")]
    pub(crate) memory_nodes: Option<usize>,
    /// Workers (simulated threads) of each compute node.
    #[arg(long = "threads", value_name = "N", value_parser = whole(1..=64usize), help_heading = "World")]
    pub(crate) workers: Option<usize>,
    /// Operations that each worker has in flight: its tasks, each of which does one operation after
    /// the other.
    #[arg(long = "inflight", value_name = "N", value_parser = whole(1..=64usize), help_heading = "World")]
    pub(crate) tasks: Option<usize>,
    /// Frames of each compute node's cache.
    #[arg(long, value_name = "N", value_parser = whole(4..=1_048_576usize), help_heading = "World")]
    pub(crate) frames: Option<usize>,
    /// Bytes of a line, a power of two from 512 to 65536.
    #[arg(long = "gcl-size", value_name = "BYTES", value_parser = line_size, help_heading = "World")]
    pub(crate) line_size: Option<u32>,
    /// Coherence protocol, by its name.
    #[arg(long, value_name = "NAME", help_heading = "World")]
    pub(crate) protocol: Option<Protocol>,
    /// Index of the workload tree: blink, or a tree without a coherent cache: sherman, published
    /// (with a check that misses torn reads), fg-plus or fg.
    #[arg(long, value_name = "NAME", value_parser = tree_index, help_heading = "World")]
    pub(crate) index: Option<TreeIndex>,
    /// Times of the network: calm, rough or harsh, where the seed draws them; or the name or the
    /// file of a NIC profile.
    #[arg(long, value_name = "NAME|FILE", value_parser = network, help_heading = "World")]
    pub(crate) nic: Option<Network>,
    /// What goes wrong: none, or a list such as delay=1/50,lose=1/500,repeat=1/200,fail=1/500,
    /// pause=3,kill=1,lapse=1,replace=1,memory=1,slow=1. Rates are of batches or messages, numbers
    /// are of nodes or times. [default: the seed decides]
    #[arg(long, value_name = "LIST", value_parser = faults::parse, help_heading = "World")]
    pub(crate) faults: Option<FaultPlan>,
    /// Worlds in which nodes die and their lines are recovered: crowded ones, and deaths in the
    /// middle of hand-overs. What other flags set stays.
    #[arg(long, help_heading = "World")]
    pub(crate) recoveries: bool,
    /// Which checks there are: all, after every event; end, when all is over; or none.
    #[arg(long, value_name = "WHICH", value_parser = checks, help_heading = "World")]
    pub(crate) checks: Option<Checks>,
    /// A setting of the protocol, such as evict-batch=1; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting, help_heading = "World")]
    pub(crate) settings: Vec<(String, String)>,
    /// Leave the protocol's settings as they are by default, but for --set, and lines small.
    /// Without this settings vary from seed to seed, each alone and each with each other, and so
    /// does the size of lines.
    #[arg(long, help_heading = "World")]
    pub(crate) default_settings: bool,
    /// READs and WRITEs copy only the first bytes of what they transfer, for measuring the
    /// simulator; needs --checks none.
    #[arg(long, help_heading = "World")]
    pub(crate) elide_payloads: bool,
    /// A bug to put in on purpose, to see that it is found.
    #[arg(long, value_name = "NAME", value_parser = plant, help_heading = "World")]
    pub(crate) plant: Option<SeededBug>,
}

#[derive(Debug, Args)]
#[command(after_help = UNITS)]
pub(crate) struct RunArgs {
    /// The seed. [default: that of the scenario file, or 1]
    #[arg(long, value_name = "N", value_parser = whole(0..=u64::MAX))]
    pub(crate) seed: Option<u64>,
    /// A scenario file, as hunts write them.
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) world: WorldArgs,
    /// Write what happened, a line for each step; - is standard output.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) log: Option<PathBuf>,
    /// Draw what happened: as Mermaid sequence diagram when the file ends in .mmd, else as text; -
    /// is text on standard output.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) diagram: Option<PathBuf>,
    /// The log and the diagram are about this line only, as the log calls it, for example "line 3".
    /// [default: everything in the log, the line that failed in the diagram]
    #[arg(long, value_name = "LINE", help_heading = "Output")]
    pub(crate) about: Option<String>,
    /// Entries of the log, and steps of the diagram, at most: the last ones.
    #[arg(long, value_name = "N", value_parser = whole(1..=10_000_000usize), help_heading = "Output")]
    pub(crate) last: Option<usize>,
    /// Print the scenario as a file and run nothing.
    #[arg(long, help_heading = "Output")]
    pub(crate) print_scenario: bool,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(after_help = UNITS)]
pub(crate) struct HuntArgs {
    /// Minutes to hunt for. [default: 1]
    #[arg(long, value_name = "M", value_parser = minutes, conflicts_with = "seconds")]
    pub(crate) minutes: Option<Duration>,
    /// Seconds to hunt for.
    #[arg(long = "time", value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Worlds that run side by side. [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024usize))]
    pub(crate) jobs: Option<usize>,
    /// The first seed. [default: one that the machine draws]
    #[arg(long, value_name = "N", value_parser = whole(0..=u64::MAX))]
    pub(crate) from_seed: Option<u64>,
    /// End after this many worlds, even when there is time left.
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX))]
    pub(crate) worlds: Option<u64>,
    /// Go on when a world fails, and report all failures at the end.
    #[arg(long)]
    pub(crate) keep_going: bool,
    #[command(flatten)]
    pub(crate) world: WorldArgs,
    #[command(flatten)]
    pub(crate) shrink: ShrinkFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
#[command(after_help = UNITS)]
pub(crate) struct ShrinkArgs {
    /// A scenario file.
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: Option<PathBuf>,
    /// The seed. [default: that of the scenario file, or 1]
    #[arg(long, value_name = "N", value_parser = whole(0..=u64::MAX))]
    pub(crate) seed: Option<u64>,
    /// Worlds that run side by side. [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024usize))]
    pub(crate) jobs: Option<usize>,
    #[command(flatten)]
    pub(crate) world: WorldArgs,
    #[command(flatten)]
    pub(crate) shrink: ShrinkFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ShrinkFlags {
    /// Seconds to look for a smaller world that fails alike; 0 leaves it as it is.
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds_or_none, help_heading = "Output")]
    pub(crate) shrink_seconds: Duration,
    /// Directory for what a failed world leaves behind: in a directory named by its seed.
    #[arg(long, value_name = "DIR", default_value = "hunt-failures", help_heading = "Output")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help("Write the figures in JSON; - is standard output")))]
pub(crate) struct CalibrateArgs {
    /// A profile, by its name or its file; several are calibrated one after the other. [default:
    /// all that come along]
    #[arg(long, value_name = "NAME|FILE", value_parser = NicChoice::find)]
    pub(crate) nic: Vec<NicChoice>,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

impl NamesFiles for Cli {
    fn files(&self) -> Vec<Named> {
        match &self.command {
            Command::Run(run) => {
                let scenario = run.scenario.iter().map(|path| Named::read("--scenario", path));
                let log = run.log.iter().map(|path| Named::written("--log", path));
                let diagram = run.diagram.iter().map(|path| Named::written("--diagram", path));
                let outputs = run.output.files().chain(log).chain(diagram);
                scenario.chain(run.world.files()).chain(outputs).collect()
            }
            Command::Hunt(hunt) => hunt.world.files().chain(hunt.output.files()).collect(),
            // The evidence of a shrink is written anew, and may replace the scenario that the
            // command reads. So the check for equal names leaves the evidence out.
            Command::Shrink(shrink) => shrink.world.files().collect(),
            Command::Calibrate(calibrate) => {
                let nic = calibrate.nic.iter().map(NicChoice::file);
                nic.chain(calibrate.output.files()).collect()
            }
        }
    }
}

impl WorldArgs {
    fn files(&self) -> impl Iterator<Item = Named> {
        self.nic.iter().map(|nic| Named::read("--nic", nic.to_string()))
    }
}

/// Parses the command line. What is wrong with it is one line.
pub(crate) fn parse<I>(arguments: I) -> Result<Cli, clap::Error>
where
    I: IntoIterator,
    I::Item: Into<std::ffi::OsString> + Clone,
{
    Cli::try_parse_from(arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => clap::Error::raw(
            ErrorKind::MissingSubcommand,
            "say what to do: run, hunt, shrink or calibrate; --help tells more",
        ),
        _ => error,
    })
}

fn checks(text: &str) -> Result<Checks, String> {
    match text {
        "all" => Ok(Checks::All),
        "end" => Ok(Checks::End),
        "none" => Ok(Checks::None),
        _ => Err("use all, end or none".to_owned()),
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err("use NAME=VALUE, such as evict-batch=1".to_owned());
    };
    ClusterConfig::default().set(name, value).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value.to_owned()))
}

fn network(text: &str) -> Result<Network, String> {
    let network = Network::from(text.to_owned());
    // The profile is read here, so that an error in it appears before any world runs.
    network.config().map_err(|error| error.to_string())?;
    Ok(network)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use latchwork_harness::parse::one_line;

    use super::*;

    fn wrong(arguments: &str) -> String {
        let arguments = std::iter::once("sim").chain(arguments.split_whitespace());
        let line = one_line(&parse(arguments).expect_err("a wrong command line"));
        assert!(!line.contains('\n'), "{line}");
        line
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_wrong_flag_is_one_line_with_what_would_do() {
        for (arguments, flag, would_do) in [
            ("run --compute-nodes 0", "--compute-nodes", "from 1 to 58"),
            ("run --compute-nodes 59", "--compute-nodes", "from 1 to 58"),
            ("run --threads none", "--threads", "from 1 to 64"),
            ("run --gcl-size 1000", "--gcl-size", "a power of two from 512 to 65536"),
            ("run --frames 3", "--frames", "from 4"),
            ("run --protocol mesi", "--protocol", "selcc, sel, gam and scalestore"),
            ("run --nic token-ring", "--nic", "calm"),
            ("run --faults gremlins=1/3", "--faults", "delay"),
            ("run --faults delay=5", "--faults", "1/5"),
            ("run --checks some", "--checks", "all, end or none"),
            ("run --plant weeds", "--plant", "no-settling"),
            ("run --workload g", "--workload", "lines"),
            ("run --set pauses=1us", "--set", "pause-max"),
            ("run --set evict-batch", "--set", "NAME=VALUE"),
            ("run --seed x", "--seed", ""),
            ("run --sead 3", "--sead", "--seed"),
            ("hunt --minutes 0", "--minutes", "above 0"),
            ("hunt --minutes 1 --time 1", "--minutes", "--time"),
            ("hunt --jobs 0", "--jobs", "from 1"),
            ("shrink --shrink-seconds x", "--shrink-seconds", "seconds"),
            ("walk", "walk", ""),
            ("", "run", "--help"),
        ] {
            let line = wrong(arguments);
            assert!(line.contains(flag) && line.contains(would_do), "{arguments}: {line}");
        }
    }
}
