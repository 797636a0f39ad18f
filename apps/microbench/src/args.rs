//! The command line.

use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser, ValueEnum};
use latchwork_harness::driver::DriverFlags;
use latchwork_harness::parse::{bytes, percent, positive, seconds, whole, whole_micros};
use latchwork_harness::{Named, NamesFiles};
use latchwork_relaxed::{Consistency, WriteBufferSettings as RelaxedSettings};
use latchwork_workload::micro::WriteKind;

/// The micro-benchmark of GAM and SELCC: compute nodes that access lines by their global address,
/// in this process.
///
/// On shared memory nodes are threads in real time; in a simulated network (--fabric sim) time is
/// virtual, NICs take the time that theirs take, and the same flags give the same figures.
///
/// Every run ends with checks: that each item that was read is one that some writer left, and that
/// no write was lost. A failed check is a failed run.
///
/// Without flags: 95 % reads of 24 thousand lines, drawn uniformly, by two compute nodes that can
/// cache a sixth of them each.
#[derive(Debug, Parser)]
#[command(name = "microbench", version, max_term_width = 100)]
#[command(allow_negative_numbers = true, args_override_self = true)]
#[command(mut_arg("gcl_size", |arg| arg.default_value("2048")))]
#[command(mut_arg("cache_mb", |arg| arg.hide_default_value(true)))]
#[command(mut_arg("stripes", |arg| arg.help("Memory nodes over which each compute node spreads the lines. [default: all]")))]
#[command(mut_arg("inflight", |arg| arg.default_value("1")))]
#[command(mut_arg("memory_nodes", |arg| arg.help("Memory nodes. [default: 2; with --fabric sim as many as compute nodes]")))]
#[command(mut_arg("threads", |arg| arg.help("Workers (threads) of each compute node. [default: cores / compute nodes, at least 1, and 8 in a simulation]")))]
pub(crate) struct Flags {
    /// Lines that each node accesses.
    #[arg(long, value_name = "N", default_value = "24000", value_parser = whole(1..=100_000_000u64), help_heading = "Workload")]
    pub(crate) lines: u64,
    /// The lines stand for so many times as many: hot lines stay as hot, and a part of the lines
    /// gets the same part of the accesses, as with all of them. Changes zipfian accesses only.
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = whole(1..=1_000_000u64), hide = true, help_heading = "Settings: Workload")]
    pub(crate) scale: u64,
    /// Bytes of an item, a multiple of 8.
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = bytes(8..=65_536), help_heading = "Workload")]
    pub(crate) item_size: usize,
    /// Percentage of the accesses that are reads.
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = percent, help_heading = "Workload")]
    pub(crate) reads: f64,
    /// Nodes that only write, while all others only read, instead of --reads.
    #[arg(long, value_name = "N", default_value = "0", value_parser = whole(0..=58u64), hide = true, help_heading = "Settings: Workload")]
    pub(crate) writer_nodes: u64,
    /// Percentage of these lines that are the same for all nodes, and of the accesses that go
    /// there; the others are the node's own.
    #[arg(long, value_name = "PERCENT", default_value = "100", value_parser = percent, help_heading = "Workload")]
    pub(crate) sharing: f64,
    /// Temporal locality: percentage of the accesses that are to the line of the access before.
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent, hide = true, help_heading = "Settings: Workload")]
    pub(crate) locality: f64,
    /// Spatial locality: percentage of the other accesses that are to the item behind the one
    /// before.
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent, hide = true, help_heading = "Settings: Workload")]
    pub(crate) spatial: f64,
    /// Skew of zipfian accesses, 0 to 100. [default: accesses are uniform]
    #[arg(long, value_name = "THETA", value_parser = skew, help_heading = "Workload")]
    pub(crate) theta: Option<f64>,
    /// What a write does: locked adds one to what it finds; blind replaces it without looking.
    #[arg(
        long,
        value_name = "KIND",
        value_enum,
        default_value = "locked",
        help_heading = "Workload"
    )]
    pub(crate) writes: Writes,
    /// In what order writes become visible: sequential, each before it returns; tso, as issued,
    /// later; pso, later, those to one line as issued. The last two buffer blind writes.
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "sequential",
        help_heading = "Relaxed consistency"
    )]
    pub(crate) consistency: Consistency,
    /// A buffered write is visible this long after it was issued, or the run fails.
    #[arg(long, value_name = "SECONDS", default_value = "10ms", value_parser = seconds, hide = true, help_heading = "Settings: Relaxed consistency")]
    pub(crate) write_deadline: Duration,
    /// Buffered writes whose lines are obtained at the same time.
    #[arg(long, value_name = "N", default_value = "8", value_parser = whole(1..=RelaxedSettings::BATCH_MAX), hide = true, help_heading = "Settings: Relaxed consistency")]
    pub(crate) write_batch: usize,
    /// Cache of each compute node, as a part of its lines, instead of --cache-mb. [default: 0.1667]
    #[arg(long, value_name = "PART", value_parser = positive, conflicts_with = "cache_mb", hide = true, help_heading = "Settings: Memory")]
    pub(crate) cache_share: Option<f64>,
    /// Stop after this many measured operations. [default: 200000, unless --time is given]
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX / 2), help_heading = "Run")]
    pub(crate) operations: Option<u64>,
    /// Stop after this many seconds of measuring, virtual ones in a simulated network.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Run")]
    pub(crate) time: Option<Duration>,
    /// Operations before measuring; auto goes on until the hit ratio is steady.
    #[arg(long, value_name = "OPS|auto", default_value = "auto", value_parser = warmup, help_heading = "Run")]
    pub(crate) warmup: WarmupFlag,
    /// Interval at which the result document tells the operations of each node so far. [default:
    /// none]
    #[arg(long, value_name = "US", value_parser = whole_micros(1..=1_000_000_000), hide = true, help_heading = "Settings: Output")]
    pub(crate) series_us: Option<u64>,
    #[command(flatten)]
    pub(crate) common: DriverFlags,
    /// Whether a cache size in MiB was given.
    #[arg(skip)]
    pub(crate) cache_in_mib: bool,
}

/// [`WriteKind`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Writes {
    Locked,
    Blind,
}

impl From<Writes> for WriteKind {
    fn from(writes: Writes) -> WriteKind {
        match writes {
            Writes::Locked => WriteKind::Locked,
            Writes::Blind => WriteKind::Blind,
        }
    }
}

/// How long to warm up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarmupFlag {
    Auto,
    Operations(u64),
}

fn warmup(text: &str) -> Result<WarmupFlag, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(WarmupFlag::Auto),
        (_, Ok(operations)) if operations < u64::MAX / 2 => Ok(WarmupFlag::Operations(operations)),
        _ => Err("use auto or a number of operations".to_owned()),
    }
}

fn skew(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(theta) if (0.0..=100.0).contains(&theta) => Ok(theta),
        _ => Err("use a number from 0 to 100".to_owned()),
    }
}

/// The flags, with the information that only clap's matches have.
pub(crate) struct Cli(pub(crate) Flags);

impl NamesFiles for Cli {
    fn files(&self) -> Vec<Named> {
        self.0.common.files().collect()
    }
}

impl CommandFactory for Cli {
    fn command() -> Command {
        Flags::command()
    }

    fn command_for_update() -> Command {
        Flags::command_for_update()
    }
}

impl FromArgMatches for Cli {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Cli, clap::Error> {
        let cache_in_mib = matches.value_source("cache_mb") == Some(ValueSource::CommandLine);
        Ok(Cli(Flags { cache_in_mib, ..Flags::from_arg_matches(matches)? }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Cli::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use latchwork_harness::config::{assert_consistent, assert_refused, command_line};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        let page = include_str!("../../../docs/reference/settings.md");
        assert_consistent::<Cli>(page);
        let parse = |words: &[&str]| command_line("microbench", words).map(|Cli(flags)| flags);
        let flags = parse(&["microbench"]).expect("defaults");
        assert_eq!((flags.common.cluster.gcl_size, flags.common.cluster.inflight), (2048, 1));
        assert!(!flags.cache_in_mib);
        assert!(parse(&["microbench", "--cache-mb", "3"]).expect("a size").cache_in_mib);
    }

    #[test]
    fn a_wrong_flag_is_one_line_with_what_would_do() {
        assert_refused::<Cli>(&[
            ("--lines 0", "--lines", "from 1"),
            ("--scale 0", "--scale", "from 1"),
            ("--reads 101", "--reads", "0 to 100"),
            ("--sharing -1", "--sharing", "0 to 100"),
            ("--locality x", "--locality", "0 to 100"),
            ("--theta -1", "--theta", "0 to 100"),
            ("--writes some", "--writes", "locked, blind"),
            ("--item-size 4", "--item-size", "from 8"),
            ("--item-size 1MB", "--item-size", "from 8"),
            ("--consistency weak", "--consistency", "sequential, tso and pso"),
            ("--write-deadline 5d", "--write-deadline", "500ms"),
            ("--write-deadline 0us", "--write-deadline", "above 0"),
            ("--write-batch 0", "--write-batch", "from 1"),
            ("--warmup some", "--warmup", "auto or a number"),
            ("--operations 0", "--operations", "from 1"),
            ("--time 0", "--time", "above 0"),
            ("--cache-share 0", "--cache-share", "above 0"),
            ("--cache-share 0.5 --cache-mb 3", "--cache-share", "--cache-mb"),
            ("--series-us 0", "--series-us", "from 1"),
            ("--fabric token-ring", "--fabric", "shm, sim, tcp"),
            ("--nic token-ring", "--nic", "connectx3"),
            ("--read 5", "--read", "--reads"),
            ("run", "run", ""),
        ]);
    }
}
