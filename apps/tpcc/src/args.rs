//! The command line.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use latchwork_harness::driver::DriverFlags;
use latchwork_harness::parse::{on_or_off, seconds, seconds_or_none, whole, whole_micros};
use latchwork_harness::{Named, NamesFiles};
use latchwork_txn::Scheme;
use latchwork_workload::tpcc::{Scale, TransactionKind, Weights};

use crate::terminals::HomeRule;

/// The shared flags' own help does not mention transactions.
const INFLIGHT_HELP: &str = "Transactions that each worker has in flight: more than one is for commits that wait \
    for the log.";
const THREADS_HELP: &str = "Workers (threads) of each compute node. [default: cores / compute nodes, at least 1, \
    and 4 in a simulation]";

/// TPC-C on a cluster in this process, of threads or simulated: compute nodes that run transactions
/// on the same tables in disaggregated memory.
///
/// Without a command: loads the database, runs the standard mix, and checks the consistency
/// conditions of the standard. A condition that does not hold is a failed run. These are no TPC
/// results: nothing is audited.
///
/// Memory lives as long as the program. The commands keep the database in a log from one to the
/// next.
#[derive(Debug, Parser)]
#[command(name = "tpcc", version, max_term_width = 100)]
#[command(allow_negative_numbers = true, args_override_self = true)]
#[command(mut_arg("inflight", |arg| arg.default_value("1").help(INFLIGHT_HELP)))]
#[command(mut_arg("threads", |arg| arg.help(THREADS_HELP)))]
pub(crate) struct Cli {
    /// What to do; load, run and check in memory if left out.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Command {
    /// Load the database, check it, and leave it in the log at --wal-dir.
    Prepare,
    /// Recover the database from the log at --wal-dir, run the mix, and check.
    Run,
    /// Recover the database from the log at --wal-dir, and check it.
    Check,
}

impl Command {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Command::Prepare => "prepare",
            Command::Run => "run",
            Command::Check => "check",
        }
    }
}

impl NamesFiles for Cli {
    fn files(&self) -> Vec<Named> {
        let Flags { record, common, .. } = &self.flags;
        let record = record.iter().map(|path| Named::written("--record", path));
        record.chain(common.files()).collect()
    }
}

/// The form of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Plain,
    Json,
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wal {
    Off,
    Async,
    Sync,
}

impl Wal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Wal::Off => "off",
            Wal::Async => "async",
            Wal::Sync => "sync",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Warehouses. One of the standard's size takes about 130 MB of memory. [default: 2; of a
    /// database that is recovered, those that it has]
    #[arg(long, short = 'w', global = true, value_name = "N", value_parser = whole(1..=1_000_000u32), help_heading = "Workload")]
    pub(crate) warehouses: Option<u32>,
    /// Items; fewer than the standard has are for tests. [default: 100000]
    #[arg(long, global = true, value_name = "N", value_parser = whole(1..=Scale::ITEMS), hide = true, help_heading = "Settings: Workload")]
    pub(crate) items: Option<u32>,
    /// Customers of each district, and orders that it begins with; fewer than the standard has are
    /// for tests. [default: 3000]
    #[arg(long, global = true, value_name = "N", value_parser = whole(1..=Scale::CUSTOMERS), hide = true, help_heading = "Settings: Workload")]
    pub(crate) customers: Option<u32>,
    /// Rows of WAREHOUSE and of DISTRICT in a line at most, 0: as many as fit. Locks are of lines.
    /// [default: 1; in a database that is recovered, as it was made]
    #[arg(long, global = true, value_name = "N", value_parser = whole(0..=1000u16), hide = true, help_heading = "Settings: Workload")]
    pub(crate) rows_per_line: Option<u16>,
    /// Concurrency control: 2pl (two-phase locking), to (timestamp ordering) or occ (optimistic).
    #[arg(long, global = true, value_name = "NAME", default_value = "2pl", value_parser = text::<Scheme>, help_heading = "Workload")]
    pub(crate) cc: Scheme,
    /// Percent of new orders, payments, order status, deliveries and stock levels; or the name of
    /// the only transaction: neworder, payment, orderstatus, delivery or stocklevel.
    #[arg(long, global = true, value_name = "N,N,N,N,N|NAME", default_value = "45,43,4,4,4", value_parser = weights, help_heading = "Workload")]
    pub(crate) weight: Weights,
    /// Keep the standard's keying and think times, with ten terminals in each warehouse.
    #[arg(long, global = true, hide = true, help_heading = "Settings: Workload")]
    pub(crate) wait: bool,
    /// Stop the measured run after this many seconds. [default: 10, 0.05 in a simulation, and 300
    /// with --set wait=on; none where --operations is given]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds, help_heading = "Workload")]
    pub(crate) time: Option<Duration>,
    /// Stop the measured run after this many transactions of all workers together.
    #[arg(long, global = true, value_name = "N", value_parser = whole(1..=u64::MAX), help_heading = "Workload")]
    pub(crate) operations: Option<u64>,
    /// Run this many seconds before measuring. [default: 1, 0.01 in a simulation, and 60 with
    /// --set wait=on; 0 where --operations is given]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds_or_none, help_heading = "Workload")]
    pub(crate) warmup: Option<Duration>,
    /// Percentage of the new orders that have a line from a warehouse of another compute node. Each
    /// node works in its own share of the warehouses then, and no other transaction leaves that
    /// share. [default: all nodes work in all warehouses, with 1 % of the lines and 15 % of the
    /// payments of another warehouse, as the standard has it]
    #[arg(long, global = true, value_name = "PERCENT", value_parser = whole(0..=100u8), help_heading = "Workload")]
    pub(crate) distribution_ratio: Option<u8>,
    /// Where the transactions of a compute node are at home: node, in warehouses of its own, as far
    /// as there are enough; any, each in any warehouse; standard, each terminal in a district, with
    /// the terminals of a warehouse at all nodes.
    #[arg(
        long,
        global = true,
        value_name = "RULE",
        default_value = "node",
        hide = true,
        help_heading = "Settings: Workload"
    )]
    pub(crate) terminals: HomeRule,
    /// Each compute node has its share of the warehouses and alone touches their rows. A
    /// transaction with rows of several nodes sends messages and commits by two-phase commit.
    /// Terminals work in the warehouses of their node.
    #[arg(long, global = true, help_heading = "Workload")]
    pub(crate) partitioned: bool,
    /// Check the twelve consistency conditions at the end.
    #[arg(long, global = true, value_name = "BOOL", default_value = "on", value_parser = on_or_off, action = ArgAction::Set, hide = true, help_heading = "Settings: Workload")]
    pub(crate) check: bool,
    /// Timestamp ordering: timestamps that a worker draws at once. More than one spares the global
    /// counter, and workers that are behind abort more.
    #[arg(long, global = true, value_name = "N", default_value = "1", value_parser = whole(1..=1_000_000u64), hide = true, help_heading = "Settings: Transactions")]
    pub(crate) ts_block: u64,
    /// Timestamp ordering: how far ahead of its reader a read timestamp may be, in timestamps; 0:
    /// not at all.
    #[arg(long, global = true, value_name = "N", default_value_t = latchwork_txn::TransactionSettings::default().read_lease, value_parser = whole(0..=1_000_000u64), hide = true, help_heading = "Settings: Transactions")]
    pub(crate) read_lease: u64,
    /// Timestamp ordering: a transaction that comes too late takes a later timestamp, if everything
    /// that it has read is unchanged.
    #[arg(long, global = true, value_name = "BOOL", default_value = "on", value_parser = on_or_off, action = ArgAction::Set, hide = true, help_heading = "Settings: Transactions")]
    pub(crate) ts_extension: bool,
    /// After so many aborts of one transaction others make way for it; 0: never.
    #[arg(long, global = true, value_name = "N", default_value_t = latchwork_txn::TransactionSettings::default().elder_after, value_parser = whole(0..=1_000_000u32), hide = true, help_heading = "Settings: Transactions")]
    pub(crate) elder_after: u32,
    /// How long a transaction is repeated after conflicts before the run gives it up.
    #[arg(long, global = true, value_name = "SECONDS", default_value = "10s", value_parser = seconds, hide = true, help_heading = "Settings: Transactions")]
    pub(crate) retry_for: Duration,
    /// Rows in the location cache of each worker, which spares index lookups; 16 bytes each; 0: no
    /// cache. [default: one for each 256 bytes of the node's cache, from 65536 to 1048576]
    #[arg(long, global = true, value_name = "N", value_parser = whole(0..=1_usize << 28), hide = true, help_heading = "Settings: Transactions")]
    pub(crate) places: Option<usize>,
    /// When a commit is acknowledged: off, without a log; async, when it is in memory; sync, when
    /// it is on disk. [default: off, and sync with --wal-dir]
    #[arg(
        long,
        global = true,
        value_name = "MODE",
        hide_possible_values = true,
        help_heading = "Log"
    )]
    pub(crate) wal: Option<Wal>,
    /// Whether commits that wait for a log with --wal sync let other transactions of their node use
    /// what they have written. No caller gets a result earlier.
    #[arg(long, global = true, value_name = "ON", default_value = "off", value_parser = on_or_off, action = ArgAction::Set, hide = true, help_heading = "Settings: Log")]
    pub(crate) early_release: bool,
    /// How long a sync of the simulated disk takes. [default: 50us, a flash drive with power-loss
    /// protection]
    #[arg(long, global = true, value_name = "US", value_parser = whole_micros(1..=1_000_000), hide = true, help_heading = "Settings: Log")]
    pub(crate) sync_us: Option<u64>,
    /// The directory of the log.
    #[arg(long, global = true, value_name = "DIR", help_heading = "Log")]
    pub(crate) wal_dir: Option<PathBuf>,
    /// Go on where the log has lost what was durable: without the lost commits, and without those
    /// that may have seen them. The program tells what is lost. `run` cuts the log for good,
    /// `check` leaves it as it is.
    #[arg(long, global = true, hide = true, help_heading = "Settings: Log")]
    pub(crate) accept_loss: bool,
    /// How often a run writes a checkpoint, so that the log does not grow for ever; 0: never.
    /// [default: 30s]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds_or_none, hide = true, help_heading = "Settings: Log")]
    pub(crate) checkpoint: Option<Duration>,
    /// Record what each transaction of the run sees and does, and check that all of them were
    /// serializable; the program `histories` reads the file. It is written when the run is over,
    /// and until then beside it, as FILE.node-1.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Output")]
    pub(crate) record: Option<PathBuf>,
    /// How often the program tells how the run goes; 0: never. [default: 10s, and 0 in a
    /// simulation]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds_or_none, hide = true, help_heading = "Settings: Output")]
    pub(crate) interval: Option<Duration>,
    /// What is printed on standard output: plain, lines as those of go-tpc; or json, the result
    /// document.
    #[arg(
        long,
        global = true,
        value_name = "FORM",
        default_value = "plain",
        hide_possible_values = true,
        hide = true,
        help_heading = "Settings: Output"
    )]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) common: DriverFlags,
}

/// A mix, or the only transaction.
fn weights(given: &str) -> Result<Weights, String> {
    if !given.contains(',') {
        return text::<TransactionKind>(given).map(Weights::only);
    }
    text(given)
}

/// A value of a type with its own parser and its own error text.
fn text<T>(given: &str) -> Result<T, String>
where
    T: FromStr,
    T::Err: Display,
{
    given.parse().map_err(|error: T::Err| error.to_string())
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
        for arguments in [["tpcc", "--warehouses", "3", "run"], ["tpcc", "run", "-w", "3"]] {
            let cli = Cli::try_parse_from(arguments).expect("a command line");
            assert_eq!((cli.command, cli.flags.warehouses), (Some(Command::Run), Some(3)));
        }
    }

    #[test]
    fn a_wrong_flag_is_one_line_with_what_would_do() {
        assert_refused::<Cli>(&[
            ("--warehouses 0", "--warehouses", "from 1 to 1000000"),
            ("--weight 50,50,4,4,4", "--weight", "sum to 112"),
            ("--weight 50,50", "--weight", "as 45,43,4,4,4"),
            ("--weight sell", "--weight", "stocklevel"),
            ("--cc mvcc", "--cc", "2pl, to and occ"),
            ("--wal always", "--wal", "off, async, sync"),
            ("--early-release soon", "--early-release", "on or off"),
            ("--distribution-ratio 101", "--distribution-ratio", "from 0 to 100"),
            ("--terminals all", "--terminals", "node, any, standard"),
            ("--ts-block 0", "--ts-block", "from 1"),
            ("--read-lease 1000001", "--read-lease", "to 1000000"),
            ("--elder-after -1", "--elder-after", "from 0"),
            ("--items 0", "--items", "from 1 to 100000"),
            ("--customers 3001", "--customers", "from 1 to 3000"),
            ("--time 0", "--time", "above 0"),
            ("--operations 0", "--operations", "from 1"),
            ("--interval x", "--interval", "seconds"),
            ("--output xml", "--output", "plain, json"),
            ("--check maybe", "--check", "on or off"),
            ("--threads 0", "--threads", "from 1 to 1024"),
            ("--compute-nodes 59", "--compute-nodes", "from 1 to 58"),
            ("--protocol mesi", "--protocol", "selcc, sel, gam and scalestore"),
            ("--warehouse 3", "--warehouse", "--warehouses"),
            ("load", "load", ""),
        ]);
    }
}
