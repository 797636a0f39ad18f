//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use latchwork_harness::driver::DriverFlags;
use latchwork_harness::parse::{positive, seconds, seconds_or_none, whole};
use latchwork_harness::{Named, NamesFiles};
use latchwork_workload::ycsb::Builtin;

use crate::index::IndexFlags;

/// The shared flag's own help does not mention the property.
const THREADS_HELP: &str = "Workers (threads) of each compute node. [default: the property \
    threadcount, which counts those of all nodes; else cores / compute nodes, at least 1, and 8 in a simulation]";

/// YCSB on a cluster in this process, of threads or simulated: compute nodes that share one index
/// over disaggregated memory, by default a cache-coherent B-link tree.
///
/// The cluster lives as long as the program, so every command loads the table first. Every command
/// ends with checks: that every record is there, that contents are what their writers left, that
/// the tree is whole. A failed check is a failed run.
///
/// Without a command and without flags: `run` of workload A with a million records on two compute
/// nodes and one memory node, for about ten seconds.
#[derive(Debug, Parser)]
#[command(name = "ycsb", version, max_term_width = 100)]
#[command(allow_negative_numbers = true, args_override_self = true)]
#[command(mut_arg("threads", |arg| arg.help(THREADS_HELP)))]
pub(crate) struct Cli {
    /// What to do; `run` if left out.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

impl NamesFiles for Cli {
    fn files(&self) -> Vec<Named> {
        let properties = self.flags.files.iter().map(|path| Named::read("-P", path));
        properties.chain(self.flags.common.files()).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Command {
    /// Load the table, report how fast that was, and check it.
    Load,
    /// Load the table, run the workload, report how fast the workload was, and check the table.
    Run,
    /// As `run`, but check everything on the way too: every record that is read, and whether what
    /// all workers saw of a sample of the records has an order that explains it (linearizability).
    Check,
}

impl Command {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Command::Load => "load",
            Command::Run => "run",
            Command::Check => "check",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadBy {
    Inserts,
    Bulk,
}

impl LoadBy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            LoadBy::Inserts => "inserts",
            LoadBy::Bulk => "bulk",
        }
    }

    /// As in "records, loaded in bulk".
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            LoadBy::Inserts => "by inserts",
            LoadBy::Bulk => "in bulk",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// One of YCSB's core workloads, a to f; or of Sherman's: write-only, write-intensive,
    /// read-intensive, range-only, range-write. [default: a, unless -P is given]
    #[arg(long, short = 'w', global = true, value_name = "NAME", help_heading = "Workload")]
    pub(crate) workload: Option<Builtin>,
    /// A property file with YCSB's keys; may be repeated, later ones win.
    #[arg(
        short = 'P',
        long = "properties",
        global = true,
        value_name = "FILE",
        help_heading = "Workload"
    )]
    pub(crate) files: Vec<PathBuf>,
    /// A single property, key=value; may be repeated, wins over files. For example
    /// -p recordcount=10000.
    #[arg(
        short = 'p',
        long = "property",
        global = true,
        value_name = "KEY=VALUE",
        help_heading = "Workload"
    )]
    pub(crate) properties: Vec<String>,
    /// How the table is loaded: by inserts of all workers, as YCSB does, or in bulk by one worker,
    /// which is faster and leaves pages fuller. [default: inserts for `load`, bulk otherwise]
    #[arg(long, global = true, value_name = "HOW", help_heading = "Workload")]
    pub(crate) load_by: Option<LoadBy>,
    /// Stop the measured run after this many operations. [default: the property operationcount]
    #[arg(long, global = true, value_name = "N", value_parser = whole(1..=u64::MAX), help_heading = "Workload")]
    pub(crate) operations: Option<u64>,
    /// Stop the measured run after this many seconds. [default: the property maxexecutiontime; 5
    /// where no number of operations is set either, and 0.05 in a simulation]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds, help_heading = "Workload")]
    pub(crate) time: Option<Duration>,
    /// Run this many seconds before measuring; auto goes on until the hit ratio is steady.
    /// [default: 1, and 0.05 in a simulation; 0 where the number of operations is limited]
    #[arg(long, global = true, value_name = "SECONDS|auto", value_parser = warmup, help_heading = "Workload")]
    pub(crate) warmup: Option<WarmupFlag>,
    /// Operations per second, all workers together; latencies then also count from the intended
    /// start. [default: the property target; as fast as possible without]
    #[arg(long, global = true, value_name = "OPS", value_parser = positive, help_heading = "Workload")]
    pub(crate) target: Option<f64>,
    /// Print a status line on standard error every ten seconds, or as often as the property
    /// status.interval says. [default: the property status]
    #[arg(short = 's', long, global = true, help_heading = "Output")]
    pub(crate) status: bool,
    #[command(flatten)]
    pub(crate) index: IndexFlags,
    #[command(flatten)]
    pub(crate) common: DriverFlags,
}

/// What comes before measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarmupFlag {
    /// As long as it takes for the hit ratio to be steady.
    Auto,
    For(Duration),
}

fn warmup(text: &str) -> Result<WarmupFlag, String> {
    match text {
        "auto" => Ok(WarmupFlag::Auto),
        text => match seconds_or_none(text) {
            Ok(time) => Ok(WarmupFlag::For(time)),
            Err(would_do) => Err(format!("use auto or {}", would_do.trim_start_matches("use "))),
        },
    }
}

#[cfg(test)]
mod tests {
    use latchwork_harness::config::{assert_consistent, assert_refused};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        let page = include_str!("../../../docs/reference/settings.md");
        assert_consistent::<Cli>(page);
    }

    #[test]
    fn flags_stand_before_or_behind_the_command() {
        for arguments in [["ycsb", "--threads", "3", "load"], ["ycsb", "load", "--threads", "3"]] {
            let cli = Cli::try_parse_from(arguments).unwrap();
            assert_eq!(
                (cli.command, cli.flags.common.cluster.threads),
                (Some(Command::Load), Some(3))
            );
        }
    }

    #[test]
    fn a_wrong_flag_is_one_line_with_what_would_do() {
        assert_refused::<Cli>(&[
            ("--compute-nodes 0", "--compute-nodes", "from 1 to 58"),
            ("--compute-nodes 59", "--compute-nodes", "from 1 to 58"),
            ("--memory-nodes 0", "--memory-nodes", "from 1 to 1024"),
            ("--threads 0", "--threads", "from 1 to 1024"),
            ("--inflight none", "--inflight", "from 1 to 1024"),
            ("--gcl-size 1000", "--gcl-size", "a power of two from 512 to 65536"),
            ("--gcl-size 131072", "--gcl-size", "a power of two from 512 to 65536"),
            ("--cache-mb -1", "--cache-mb", "above 0"),
            ("--cache-mb 0", "--cache-mb", "above 0"),
            ("--memory-mb 0", "--memory-mb", "from 1"),
            ("--target 0", "--target", "above 0"),
            ("--time 0", "--time", "above 0"),
            ("--warmup x", "--warmup", "auto or a time such as 500ms"),
            ("--operations 0", "--operations", "from 1"),
            ("--workload g", "--workload", "one of a, b, c, d, e, f"),
            ("--protocol mesi", "--protocol", "selcc, sel, gam and scalestore"),
            ("--load-by hand", "--load-by", "inserts, bulk"),
            ("--node-size 1000", "--node-size", "a power of two from 512 to 16384"),
            ("--thread 3", "--thread", "--threads"),
            ("walk", "walk", ""),
        ]);
    }
}
