//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::numbers::{count, line_size, whole};
use crate::spatial::args::SpatialArgs;

/// Latchwork's B-link tree beside the in-memory structures of other crates.
///
/// All of them hold the same keys and values and do the same operations, by turns, in one process.
/// Our tree is coherent: two compute nodes are alive, and all its lines are cached. Every answer is
/// checked; a wrong one ends the run.
#[derive(Debug, Parser)]
#[command(name = "compare", version, max_term_width = 100, args_override_self = true)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) part: Option<Part>,
    /// Keys in each structure, 1000 and more; 10M is ten million.
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    pub(crate) keys: u64,
    /// Bytes of a value.
    #[arg(long, value_name = "BYTES", default_value = "8,100", value_delimiter = ',')]
    pub(crate) value_size: Vec<ValueSize>,
    /// Numbers of threads.
    #[arg(long, value_name = "N", default_value = "1,2", value_delimiter = ',', value_parser = whole::<1, 64>)]
    pub(crate) threads: Vec<u64>,
    /// How keys are drawn: all alike, or by a zipfian with skew 0.99.
    #[arg(long, value_name = "NAME", default_value = "uniform,zipf", value_delimiter = ',')]
    pub(crate) distribution: Vec<Distribution>,
    /// What is measured. [default: all but tasks]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) workload: Vec<Workload>,
    /// What is compared; our tree on one node is always there. [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) structure: Vec<Structure>,
    /// Repetitions of each measurement; medians are shown.
    #[arg(long, value_name = "N", default_value = "7", value_parser = whole::<1, 1000>)]
    pub(crate) repeats: u64,
    /// Repetitions of each load. [default: the smaller of --repeats and 3]
    #[arg(long, value_name = "N", value_parser = whole::<1, 1000>)]
    pub(crate) load_repeats: Option<u64>,
    /// Milliseconds of each repetition; a quarter of that, not counted, goes before it.
    #[arg(long, value_name = "MS", default_value = "100", value_parser = whole::<1, 600_000>)]
    pub(crate) time_ms: u64,
    /// Bytes of a line of our memory, a power of two from 512 to 65536.
    #[arg(long = "gcl-size", value_name = "BYTES", default_value = "2048", value_parser = line_size)]
    pub(crate) line_size: u32,
    /// MiB that may be in use at once; structures that do not fit together are measured in groups,
    /// each with our tree in it. [default: 60 % of what is available]
    #[arg(long, value_name = "MIB", value_parser = whole::<64, { 1 << 32 }>)]
    pub(crate) memory_mb: Option<u64>,
    /// Seed of all that is random.
    #[arg(long, value_name = "N", default_value = "42")]
    pub(crate) seed: u64,
    /// Print the project's targets, a line each: target, wanted, got, met or missed.
    #[arg(long)]
    pub(crate) check_targets: bool,
    /// Write everything that was measured as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables into a file that has a place for them, or into a new one.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Draw the measurements: FILE.svg becomes FILE-8.svg for values of 8 bytes, and so on.
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
}

/// Comparisons with flags of their own.
#[derive(Debug, Subcommand)]
pub(crate) enum Part {
    Spatial(SpatialArgs),
}

/// Sizes of values for which the structures are compiled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum ValueSize {
    #[value(name = "8")]
    Word,
    #[value(name = "100")]
    Wide,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Distribution {
    Uniform,
    Zipf,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    /// Insertions of all keys, one by one, in random order.
    Load,
    /// Point reads.
    Read,
    /// Point reads and updates of whole values, half of each.
    Update,
    /// Ascending scans of 100 entries.
    Scan,
    /// Point reads, 16 at a time, where a structure can do that.
    Interleaved,
    /// The same as 16 tasks of an executor, each with one read under way: ours only, and only by
    /// name.
    Tasks,
    /// Bytes per key.
    Memory,
}

/// What can be compared. Ours come first: the others are shown as ratios to them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Structure {
    /// Our tree, all threads on one compute node.
    Latchwork,
    /// Our tree, threads shared out to two compute nodes.
    #[value(name = "latchwork-2")]
    #[serde(rename = "latchwork-2")]
    LatchworkTwo,
    Ferntree,
    #[value(name = "scc-tree")]
    SccTree,
    Congee,
    Bplustree,
    Skiplist,
    Btreemap,
    #[value(name = "scc-hash")]
    SccHash,
    Dashmap,
    Papaya,
}

impl Distribution {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipf => "zipf",
        }
    }
}

impl Workload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Load => "load",
            Workload::Read => "read",
            Workload::Update => "50/50",
            Workload::Scan => "scan 100",
            Workload::Interleaved => "16 reads",
            Workload::Tasks => "16 tasks",
            Workload::Memory => "memory",
        }
    }
}

impl Args {
    /// The requested workloads, each once.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let mut workloads = chosen(&self.workload);
        if self.workload.is_empty() {
            workloads.retain(|workload| *workload != Workload::Tasks);
        }
        workloads
    }

    /// The requested structures, each once, our tree first.
    pub(crate) fn structures(&self) -> Vec<Structure> {
        let mut structures = chosen(&self.structure);
        if structures.first() != Some(&Structure::Latchwork) {
            structures.insert(0, Structure::Latchwork);
        }
        structures
    }

    pub(crate) fn load_repeats(&self) -> u64 {
        self.load_repeats.unwrap_or(self.repeats.min(3))
    }
}

/// The named values, each once, in the order of the tables; all values if none was named.
fn chosen<T: ValueEnum + Ord>(named: &[T]) -> Vec<T> {
    let mut chosen = if named.is_empty() { T::value_variants().to_vec() } else { named.to_vec() };
    chosen.sort();
    chosen.dedup();
    chosen
}

/// Parses a command line.
pub(crate) fn parse<I>(arguments: I) -> Result<Args, clap::Error>
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    let mut args = Args::try_parse_from(arguments)?;
    args.value_size.sort();
    args.value_size.dedup();
    args.threads.sort();
    args.threads.dedup();
    args.distribution.sort();
    args.distribution.dedup();
    Ok(args)
}

/// The error of a command line, in one line: clap's first line and its hints.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("the command line cannot be understood");
    let hints: Vec<&str> = lines
        .filter_map(|line| {
            let hint = line.starts_with("[possible values");
            line.strip_prefix("tip: ").or(hint.then_some(line))
        })
        .collect();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let separator = if hints.is_empty() { "" } else { "; " };
    format!("{first}{separator}{}", hints.join("; "))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn words(arguments: &str) -> impl Iterator<Item = &str> + Clone {
        std::iter::once("compare").chain(arguments.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn lists_are_sorted_and_our_tree_is_always_there() {
        let args = parse(words("--threads 2,1,2 --structure papaya,ferntree --keys 10M")).unwrap();
        assert_eq!((args.threads.as_slice(), args.keys), ([1, 2].as_slice(), 10_000_000));
        let structures = [Structure::Latchwork, Structure::Ferntree, Structure::Papaya];
        assert_eq!(args.structures(), structures);
        assert_eq!(args.workloads().len(), Workload::value_variants().len() - 1);
        let args = parse(words("--workload tasks,read")).unwrap();
        assert_eq!(args.workloads(), [Workload::Read, Workload::Tasks]);
    }

    #[test]
    fn a_wrong_flag_is_one_line_with_what_would_do() {
        for (arguments, flag, would_do) in [
            ("--keys 999", "--keys", "from 1000"),
            ("--keys 9G", "--keys", "10M"),
            ("--value-size 16", "--value-size", "8, 100"),
            ("--threads 0", "--threads", "from 1 to 64"),
            ("--distribution normal", "--distribution", "uniform, zipf"),
            ("--workload write", "--workload", "load, read, update"),
            ("--structure btree", "--structure", "btreemap"),
            ("--repeats 0", "--repeats", "from 1"),
            ("--time-ms x", "--time-ms", "from 1"),
            ("--gcl-size 1000", "--gcl-size", "a power of two from 512 to 65536"),
            ("--memory-mb 1", "--memory-mb", "from 64"),
            ("--key 3", "--key", "--keys"),
        ] {
            let line = one_line(&parse(words(arguments)).expect_err("a wrong command line"));
            assert!(!line.contains('\n'), "{line}");
            assert!(line.contains(flag) && line.contains(would_do), "{arguments}: {line}");
        }
    }
}
