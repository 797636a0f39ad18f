//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use latchwork_harness::parse::{percent, positive, seconds, seconds_or_none, whole};
use latchwork_harness::{Named, NamesFiles, driver};

use crate::geometry::Distance;

const THREADS_HELP: &str = "Workers (threads) of each compute node. [default: cores / compute nodes, at least 1, and 2 \
                            in a simulation]";

/// Places and boxes in an R-tree that all compute nodes share: files, queries, a benchmark, and
/// pictures of the tree.
///
/// The cluster lives as long as the program, so each command loads its data first. Each command
/// ends with checks of the tree and of what was seen in it. A failed check is a failed run.
#[derive(Debug, Parser)]
#[command(name = "spatial", version, max_term_width = 100)]
#[command(allow_negative_numbers = true, args_override_self = true)]
#[command(mut_arg("gcl_size", |arg| arg.default_value("4096")))]
#[command(mut_arg("cache_mb", |arg| arg.default_value("64")))]
#[command(mut_arg("threads", |arg| arg.help(THREADS_HELP)))]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) flags: CommonFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load a CSV file, and report what is in it and what the tree looks like.
    Load(LoadFlags),
    /// Load a CSV file, and answer a question about it.
    Query(QueryFlags),
    /// Measure inserts, queries and moves of objects in a unit square.
    Bench(BenchFlags),
}

impl NamesFiles for Cli {
    fn files(&self) -> Vec<Named> {
        let written =
            |svg: &Option<PathBuf>| svg.iter().map(|path| Named::written("--svg", path)).collect();
        let mut files: Vec<Named> = match &self.command {
            Command::Load(load) => {
                let mut files: Vec<Named> = written(&load.svg);
                files.push(Named::read("FILE", &load.file));
                files
            }
            Command::Query(query) => {
                let mut files: Vec<Named> = written(&query.svg);
                files.push(Named::read("--data", &query.data));
                files.extend(query.csv.iter().map(|path| Named::written("--csv", path)));
                let other = query.what.as_ref().filter(|_| query.kind.may_name_file());
                files.extend(other.map(|path| Named::read("WHAT", path)));
                files
            }
            Command::Bench(bench) => written(&bench.svg),
        };
        files.extend(self.flags.common.files());
        files
    }
}

/// Flags of all commands.
#[derive(Debug, Args)]
pub(crate) struct CommonFlags {
    /// How data get into the tree: by inserts of all workers; in bulk by one worker; or as bulk, in
    /// the order of a Hilbert curve. [default: inserts for `load`, bulk otherwise]
    #[arg(long, global = true, value_name = "HOW", help_heading = "Data")]
    pub(crate) load_by: Option<LoadBy>,
    /// Columns of longitudes in the second file of a query. [default: guessed]
    #[arg(long, global = true, value_name = "NAME[,NAME]", value_parser = columns, hide = true, help_heading = "Settings: Data")]
    pub(crate) other_longitude: Option<Columns>,
    /// Columns of latitudes in the second file of a query. [default: guessed]
    #[arg(long, global = true, value_name = "NAME[,NAME]", value_parser = columns, hide = true, help_heading = "Settings: Data")]
    pub(crate) other_latitude: Option<Columns>,
    /// Columns with the name of a row in the second file of a query. [default: guessed]
    #[arg(long, global = true, value_name = "NAMES", value_parser = columns, hide = true, help_heading = "Settings: Data")]
    pub(crate) other_label: Option<Columns>,
    /// Clusters of objects, or hot spots, of a benchmark.
    #[arg(long, global = true, value_name = "N", default_value = "100", value_parser = whole(1..=1_000_000u64), hide = true, help_heading = "Settings: Benchmark")]
    pub(crate) spots: u64,
    /// Standard deviation of the distance from the middle of a cluster or hot spot, as a part of
    /// the side of the square.
    #[arg(long, global = true, value_name = "PART", default_value = "0.01", value_parser = positive, hide = true, help_heading = "Settings: Benchmark")]
    pub(crate) spread: f64,
    /// Skew of the popularity of hot spots, above 0 and below 1.
    #[arg(long, global = true, value_name = "SKEW", default_value = "0.9", value_parser = positive, hide = true, help_heading = "Settings: Benchmark")]
    pub(crate) spot_skew: f64,
    /// Operations of one client in which hot spots wander once around.
    #[arg(long, global = true, value_name = "N", default_value = "100000", value_parser = whole(1..=u64::MAX), hide = true, help_heading = "Settings: Benchmark")]
    pub(crate) wander: u64,
    /// Largest side of an object, as a part of the side of the square; 0 for points.
    #[arg(long, global = true, value_name = "PART", default_value = "0.0005", value_parser = part, hide = true, help_heading = "Settings: Benchmark")]
    pub(crate) side: f64,
    /// Largest step of a move along each axis, as a part of the side of the square.
    #[arg(long, global = true, value_name = "PART", default_value = "0.001", value_parser = part, hide = true, help_heading = "Settings: Benchmark")]
    pub(crate) step: f64,
    /// Entries that a query for the nearest returns.
    #[arg(long, global = true, value_name = "N", default_value = "10", value_parser = whole(1..=100_000usize), hide = true, help_heading = "Settings: Benchmark")]
    pub(crate) neighbours: usize,
    #[command(flatten)]
    pub(crate) common: driver::DriverFlags,
}

/// Which columns of a file are what.
#[derive(Debug, Args)]
pub(crate) struct DataFlags {
    /// Column of longitudes; for boxes two columns, one of each corner. [default: guessed]
    #[arg(long, value_name = "NAME[,NAME]", value_parser = columns, help_heading = "Data")]
    pub(crate) longitude: Option<Columns>,
    /// Column of latitudes; for boxes two columns, one of each corner. [default: guessed]
    #[arg(long, value_name = "NAME[,NAME]", value_parser = columns, help_heading = "Data")]
    pub(crate) latitude: Option<Columns>,
    /// Columns whose fields are the name of a row. [default: guessed]
    #[arg(long, value_name = "NAMES", value_parser = columns, help_heading = "Data")]
    pub(crate) label: Option<Columns>,
    /// The columns are degrees on the Earth: distances are along great circles, and boxes and
    /// windows may cross the antimeridian. Without this they are numbers on a plane.
    #[arg(long, help_heading = "Data")]
    pub(crate) great_circle: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadFlags {
    /// The CSV file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) data: DataFlags,
    /// Draw the levels of the tree over the data.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct QueryFlags {
    /// What to ask: window, all in a window; point, all at a point; nearest, the nearest to a point
    /// or to each row of a file; join, all pairs with rows of a file that are near each other.
    #[arg(value_name = "KIND", hide_possible_values = true)]
    pub(crate) kind: QueryKind,
    /// The window as WEST,SOUTH,EAST,NORTH; the point as LONGITUDE,LATITUDE; or the file.
    #[arg(value_name = "WHAT", allow_hyphen_values = true)]
    pub(crate) what: Option<PathBuf>,
    /// The CSV file that is indexed and asked.
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    pub(crate) data: PathBuf,
    #[command(flatten)]
    pub(crate) columns: DataFlags,
    /// Pairs of a join are at most this far apart, as 20km, 500m, 10nm or 0.5deg; on a plane a
    /// plain number. [default: they touch]
    #[arg(long, value_name = "DISTANCE", value_parser = Distance::parse, help_heading = "Query")]
    pub(crate) within: Option<Distance>,
    /// How many of the nearest.
    #[arg(long, short = 'k', value_name = "N", default_value = "5", value_parser = whole(1..=100_000usize), help_heading = "Query")]
    pub(crate) count: usize,
    /// Compare the answers with those of a scan of the file.
    #[arg(long, help_heading = "Query")]
    pub(crate) check: bool,
    /// Write all answers as CSV; - is standard output.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) csv: Option<PathBuf>,
    /// Draw the levels of the tree over the data.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) svg: Option<PathBuf>,
}

/// The kinds of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueryKind {
    Window,
    Point,
    Nearest,
    Join,
}

impl QueryKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            QueryKind::Window => "window",
            QueryKind::Point => "point",
            QueryKind::Nearest => "nearest",
            QueryKind::Join => "join",
        }
    }

    fn may_name_file(self) -> bool {
        matches!(self, QueryKind::Nearest | QueryKind::Join)
    }
}

#[derive(Debug, Args)]
pub(crate) struct BenchFlags {
    /// Objects before the run.
    #[arg(long, value_name = "N", default_value = "100000", value_parser = whole(0..=1_000_000_000u64), help_heading = "Workload")]
    pub(crate) entries: u64,
    /// Operations: insert, query, move or mixed; or a list of weights such as
    /// insert=1,window=4,nearest=1,move=4.
    #[arg(long, short = 'w', value_name = "NAME|LIST", default_value = "mixed", value_parser = latchwork_workload::spatial::SpatialMix::parse, help_heading = "Workload")]
    pub(crate) workload: latchwork_workload::spatial::SpatialMix,
    /// Where objects and queries are: uniform; clustered, around fixed places; or hotspots, around
    /// places of zipfian popularity that wander.
    #[arg(long, value_name = "NAME", default_value = "uniform", help_heading = "Workload")]
    pub(crate) distribution: Distribution,
    /// Area of a window, as a percentage of the square.
    #[arg(long, value_name = "PERCENT", default_value = "0.01", value_parser = percent, help_heading = "Workload")]
    pub(crate) selectivity: f64,
    /// Stop after this many measured operations. [default: 200000, unless --time is given]
    #[arg(long, value_name = "N", value_parser = whole(1..=u64::MAX / 2), help_heading = "Workload")]
    pub(crate) operations: Option<u64>,
    /// Stop after this many seconds of measuring, virtual ones in a simulated network.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Workload")]
    pub(crate) time: Option<Duration>,
    /// Run this many seconds before measuring.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds_or_none, help_heading = "Workload")]
    pub(crate) warmup: Duration,
    /// Draw the levels of the tree at the end of the run.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) svg: Option<PathBuf>,
}

/// Where objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Distribution {
    Uniform,
    Clustered,
    Hotspots,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadBy {
    Inserts,
    Bulk,
    Hilbert,
}

impl LoadBy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            LoadBy::Inserts => "inserts",
            LoadBy::Bulk => "bulk",
            LoadBy::Hilbert => "hilbert",
        }
    }

    pub(crate) fn in_words(self) -> &'static str {
        match self {
            LoadBy::Inserts => "inserts",
            LoadBy::Bulk => "sort-tile-recursive packing",
            LoadBy::Hilbert => "packing along a Hilbert curve",
        }
    }
}

/// Names of columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Columns(pub(crate) Vec<String>);

fn columns(text: &str) -> Result<Columns, String> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    match names.iter().any(String::is_empty) {
        true => Err("use the name of a column, or names with commas between them".to_owned()),
        false => Ok(Columns(names)),
    }
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err("use a number from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use latchwork_harness::config::{assert_consistent, assert_refused};

    use super::*;

    fn parse(arguments: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("spatial").chain(arguments.split_whitespace()))
    }

    #[test]
    fn the_command_line_is_consistent() {
        let page = include_str!("../../../docs/reference/settings.md");
        assert_consistent::<Cli>(page);
    }

    #[test]
    fn a_window_may_begin_with_a_minus() {
        let cli = parse("query window -10,40,5,60 --data f.csv --great-circle").expect("a command");
        let Command::Query(query) = cli.command else { panic!("a query") };
        assert_eq!(query.what, Some(PathBuf::from("-10,40,5,60")));
        assert!(query.columns.great_circle);
    }

    #[test]
    fn a_wrong_flag_is_one_line_with_what_would_do() {
        assert_refused::<Cli>(&[
            ("", "say what to do", "--help"),
            ("load", "<FILE>", ""),
            ("query window 1,2,3,4", "--data", ""),
            ("query circle --data f", "circle", "window, point, nearest, join"),
            ("query join f --data g --within far", "--within", "20km"),
            ("query nearest f --data g -k 0", "--count", "from 1"),
            ("load f --longitude a,,b", "--longitude", "name of a column"),
            ("bench --distribution flat", "--distribution", "uniform, clustered, hotspots"),
            ("bench --workload swim", "--workload", "insert, query, move or mixed"),
            ("bench --selectivity 200", "--selectivity", "0 to 100"),
            ("bench --side 2", "--side", "0 to 1"),
            ("bench --entries x", "--entries", "whole number"),
            ("walk", "walk", ""),
        ]);
    }
}
