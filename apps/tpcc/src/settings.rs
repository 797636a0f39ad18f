//! The settings of a run, checked before any process or thread starts.

mod checks;
mod describe;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use latchwork_files as files;
use latchwork_harness::driver::{Common, MemoryNeed, operations_at_most};
use latchwork_harness::outcome::many;
use latchwork_harness::{AppError, FabricChoice, RunCluster};
use latchwork_wal::Device;
use latchwork_workload::tpcc::{
    InputSettings, Population, RemoteLines, Scale, TerminalWaiting, Weights,
};

use self::checks::usage;
use crate::about::About;
use crate::args::{Cli, Command, Flags, Output, Wal};
use crate::log::{Logs, Stored};
use crate::memory;
use crate::shares::{Shares, WORKERS_MAX};
use crate::terminals::{CYCLE, Terminals};

/// The measured time of a run without a limit, and the time of its warm-up.
const TIME_DEFAULT: Duration = Duration::from_secs(10);
const WARMUP_DEFAULT: Duration = Duration::from_secs(1);
const CHECKPOINT_DEFAULT: Duration = Duration::from_secs(30);
const INTERVAL_DEFAULT: Duration = Duration::from_secs(10);

/// The times in a simulation. They are shorter, because the simulation of virtual time takes much
/// longer than that time.
const TIME_DEFAULT_VIRTUAL: Duration = Duration::from_millis(50);
const WARMUP_DEFAULT_VIRTUAL: Duration = Duration::from_millis(10);

/// The times of terminals that wait, on any fabric.
const TIME_DEFAULT_WAITING: Duration = Duration::from_secs(300);
const WARMUP_DEFAULT_WAITING: Duration = Duration::from_secs(60);

/// The shortest times of terminals that wait after which new orders per minute mean something.
const TIME_LEAST_WAITING: Duration = Duration::from_secs(120);
const WARMUP_LEAST_WAITING: Duration = Duration::from_secs(30);

/// Default number of workers of a simulated compute node. It is fixed, so that the machine's cores
/// do not change the figures.
const THREADS_DEFAULT_VIRTUAL: usize = 4;

/// The assumed rate of transactions per second, if only a time limits the run.
const RATE: f64 = 1e5;
const RATE_VIRTUAL: f64 = 2e6;
/// The same rate per warehouse, for terminals that wait as the standard requires.
const RATE_WAITING: f64 = 1.0;

/// Default number of warehouses.
const WAREHOUSES_DEFAULT: u32 = 2;

/// Payments by customers of other warehouses, in percent (clause 2.5.1.2).
const REMOTE_PAYMENTS: u8 = 15;

/// Flags for less memory.
pub(crate) const LESS: &str = "fewer --warehouses or a shorter --time";

/// All settings of a run.
pub(crate) struct Settings {
    pub(crate) command: Option<Command>,
    pub(crate) population: Population,
    /// Estimated bytes of the population in lines.
    pub(crate) population_bytes: u64,
    /// The most rows of WAREHOUSE and of DISTRICT in a line, if there is a limit.
    pub(crate) hot_rows: Option<u16>,
    pub(crate) inputs: InputSettings,
    /// Whether only the row owner touches a row, so that nodes commit together by two-phase commit.
    pub(crate) partitioned: bool,
    pub(crate) terminals: Terminals,
    pub(crate) txn: latchwork_txn::TransactionSettings,
    pub(crate) wal: Wal,
    /// The log that the run writes, or from which a database was recovered.
    pub(crate) logs: Option<Logs>,
    /// The directory in which each process of a cluster makes the log of its node.
    pub(crate) logs_beside: Option<PathBuf>,
    /// The database to recover.
    pub(crate) stored: Option<Stored>,
    /// The interval between checkpoints.
    pub(crate) checkpoint: Option<Duration>,
    pub(crate) common: Common,
    pub(crate) warmup: Duration,
    pub(crate) time: Option<Duration>,
    pub(crate) count: Option<u64>,
    pub(crate) interval: Option<Duration>,
    pub(crate) check: bool,
    /// The file of the history.
    pub(crate) record: Option<files::Output>,
    /// Whether the document goes to standard output, too.
    pub(crate) print_json: bool,
}

impl Settings {
    /// Combines the flags.
    ///
    /// # Errors
    /// One line about the first impossible setting, with valid values.
    pub(crate) fn new(cli: Cli) -> Result<Settings, AppError> {
        let Cli { command, flags } = cli;
        let mut common = flags.common.common()?;
        let simulated = common.is_simulated();
        let record = flags.record.as_deref().map(checks::record).transpose()?;
        let joined = matches!(common.fabric, FabricChoice::Joined(_));
        let wal = checks::log(command, &flags, simulated)?;
        if joined {
            checks::joined(command, &flags)?;
        }
        let (mut logs, stored) = match (command, &flags.wal_dir) {
            (Some(Command::Run | Command::Check), Some(path)) => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                let (logs, stored) = Logs::recover(wal, path, cores, flags.accept_loss)?;
                (Some(logs), Some(stored))
            }
            _ => (None, None),
        };
        let population = match &stored {
            Some(stored) => stored_population(&flags, &stored.about)?,
            None => new_population(&flags)?,
        };
        let warehouses = population.warehouses();
        let shares = shares(&flags, warehouses)?;
        checks::terminals(&flags, shares)?;
        let inputs = inputs(&flags, &population, shares)?;
        common.warnings.extend(checks::warnings(&flags));
        let interval_default = if simulated { Duration::ZERO } else { INTERVAL_DEFAULT };
        let (time_default, warmup_default) = match (flags.wait, simulated) {
            (true, _) => (TIME_DEFAULT_WAITING, WARMUP_DEFAULT_WAITING),
            (false, false) => (TIME_DEFAULT, WARMUP_DEFAULT),
            (false, true) => (TIME_DEFAULT_VIRTUAL, WARMUP_DEFAULT_VIRTUAL),
        };
        let time = flags.time.or(flags.operations.is_none().then_some(time_default));
        let warmup = flags.warmup.unwrap_or(match flags.operations {
            None => warmup_default,
            Some(_) => Duration::ZERO,
        });
        if flags.wait && is_short(warmup, time) {
            common.warnings.push(format!(
                "with --set wait=on a terminal makes one transaction in {} s: new orders per minute mean nothing after \
                 such a short run; use --warmup {} and --time {}, or more",
                CYCLE.as_secs(),
                WARMUP_LEAST_WAITING.as_secs(),
                TIME_LEAST_WAITING.as_secs()
            ));
        }
        let interval = flags.interval.unwrap_or(interval_default);
        let longest = time.map(|time| time + warmup);
        let growth = growth(command, &flags, warehouses, longest, simulated);
        checks::lines(flags.common.cluster.gcl_size)?;
        let loaded = memory::population(&population, flags.common.cluster.gcl_size);
        let population_bytes = stored.as_ref().map_or(loaded, |stored| {
            memory::stored(stored.rows.iter().sum(), stored.bytes).max(loaded)
        });
        configure(&flags, &mut common, warehouses, population_bytes, growth)?;
        let cluster = &mut common.cluster;
        let terminals = Terminals {
            rule: flags.terminals,
            warehouses,
            shares,
            nodes: cluster.compute_nodes as u32,
            workers: cluster.workers as u32,
            each: (!flags.wait).then_some(cluster.inflight as u32),
        };
        if flags.wait {
            // A worker runs all its terminals at the same time, each in its own task, so the number
            // in flight is the number of terminals.
            cluster.inflight = terminals.most() as usize;
        }
        if !joined {
            memory::check_nodes(&common.fabric, warehouses, population_bytes, &common.cluster)?;
        }
        let txn = engine(&flags, common.cluster.cache_bytes);
        let mut logs_beside = None;
        if wal != Wal::Off && joined {
            // The process does not know the number of its node yet, so it makes the log later.
            logs_beside = flags.wal_dir.clone();
            common.warnings.push(
                "--wal-dir: each node logs its commits, but nobody writes checkpoints where nodes are processes, so nothing \
                 is recovered from these logs"
                    .to_owned(),
            );
        } else if wal != Wal::Off && logs.is_none() {
            let device = flags.sync_us.map_or(Device::default(), |us| Device {
                sync: Duration::from_micros(us),
                ..Device::default()
            });
            logs = Some(Logs::create(
                wal,
                flags.wal_dir.as_deref(),
                flags.common.cluster.seed,
                device,
            )?);
        }
        let protocol = common.cluster.protocol;
        let lazy = protocol.keeps_lines();
        if flags.early_release && (wal != Wal::Sync || !lazy) {
            let with = match lazy {
                true => format!("--wal {}", wal.name()),
                false => format!("--protocol {}", protocol.name()),
            };
            common.warnings.push(format!("--set early-release changes nothing with {with}"));
        }
        let checkpoint = flags.checkpoint.unwrap_or(CHECKPOINT_DEFAULT);
        let files = logs.as_ref().is_some_and(Logs::are_files);
        Ok(Settings {
            command,
            population,
            population_bytes,
            hot_rows: Some(flags.rows_per_line.unwrap_or(1)).filter(|rows| *rows != 0),
            inputs,
            partitioned: flags.partitioned,
            terminals,
            txn,
            wal,
            logs,
            logs_beside,
            stored,
            checkpoint: Some(checkpoint).filter(|every| files && !every.is_zero()),
            common,
            warmup,
            time,
            count: flags.operations,
            // An interval as long as the run would only repeat the summary.
            interval: Some(interval)
                .filter(|every| !every.is_zero() && time.is_none_or(|time| *every < time)),
            check: flags.check,
            record,
            print_json: flags.output == Output::Json,
        })
    }

    /// Whether this process is one node of a cluster of processes.
    pub(crate) fn is_joined(&self) -> bool {
        matches!(self.common.fabric, FabricChoice::Joined(_))
    }

    /// Enters the settings that are known only after this process has joined: the size of the
    /// memory nodes, and the log that it writes.
    pub(crate) fn join(&mut self, cluster: &RunCluster) -> Result<(), AppError> {
        if !self.is_joined() {
            return Ok(());
        }
        let warehouses = self.population.warehouses();
        let Common { cluster: config, fabric, .. } = &self.common;
        memory::check_nodes(fabric, warehouses, self.population_bytes, config)?;
        let Some(beside) = &self.logs_beside else { return Ok(()) };
        // All logs of one database have the same id.
        let id = cluster.share(Logs::draw_id(self.common.cluster.seed))?.swap_remove(0);
        let own = beside.join(format!("node-{}", cluster.process().0 + 1));
        let logs = Logs::of_node(self.wal, &own, id);
        cluster.all(logs.as_ref().map(|_| ()).map_err(AppError::clone))?;
        self.logs = Some(logs?);
        Ok(())
    }

    /// Whether standard output carries only the document.
    pub(crate) fn document_only(&self) -> bool {
        self.print_json || self.common.json.as_ref().is_some_and(files::Output::is_stdout)
    }

    /// Whether new orders per minute are the standard's measure, but for the audit.
    pub(crate) fn has_tpmc(&self) -> bool {
        let waits = self.terminals.wait() && !is_short(self.warmup, self.time);
        waits && self.wal == Wal::Sync && self.inputs.weights == Weights::default()
    }

    /// What a reader of the figures has to know of the run.
    pub(crate) fn in_words(&self) -> String {
        format!(
            "{}, {}; {}; log {}; {}",
            many(self.terminals.warehouses as usize, "warehouse"),
            self.terminals.rule.in_words(),
            if self.terminals.wait() { "terminals wait" } else { "no waits" },
            self.wal.name(),
            self.txn.scheme,
        )
    }

    /// The terminals with waits, which are the base of the efficiency.
    pub(crate) fn waiting(&self) -> Option<TerminalWaiting> {
        self.terminals.wait().then(|| TerminalWaiting { warehouses: self.population.warehouses() })
    }
}

/// Whether a run of terminals that wait is too short for a rate.
fn is_short(warmup: Duration, time: Option<Duration>) -> bool {
    warmup < WARMUP_LEAST_WAITING || time.is_none_or(|time| time < TIME_LEAST_WAITING)
}

/// The population to load.
fn new_population(flags: &Flags) -> Result<Population, AppError> {
    let items = flags.items.unwrap_or(Scale::ITEMS);
    let customers = flags.customers.unwrap_or(Scale::CUSTOMERS);
    let warehouses = flags.warehouses.unwrap_or(WAREHOUSES_DEFAULT);
    let scale = Scale::new(items, customers)?;
    Ok(Population::new(scale, warehouses, flags.common.cluster.seed, 1)?)
}

/// The population of a stored database, unless the flags contradict it.
fn stored_population(flags: &Flags, about: &About) -> Result<Population, AppError> {
    let asked = [
        ("--warehouses ", flags.warehouses, about.warehouses),
        ("--set items=", flags.items, about.items),
        ("--set customers=", flags.customers, about.customers),
    ];
    if let Some(rows) = flags.rows_per_line {
        return Err(usage(format!(
            "--set rows-per-line={rows}: the database in the log has its rows in lines already; leave it out"
        )));
    }
    for (flag, asked, there) in asked {
        if let Some(asked) = asked.filter(|asked| *asked != there) {
            return Err(usage(format!(
                "{flag}{asked}: the database in the log has {there}; leave it out"
            )));
        }
    }
    Ok(about.population()?)
}

/// The warehouses of each compute node, if they are divided.
fn shares(flags: &Flags, warehouses: u32) -> Result<Option<Shares>, AppError> {
    let flag = match (flags.distribution_ratio, flags.partitioned) {
        (None, false) => return Ok(None),
        (Some(ratio), _) => format!("--distribution-ratio {ratio}"),
        (None, true) => "--partitioned".to_owned(),
    };
    let nodes = flags.common.cluster.compute_nodes as u32;
    let shard = warehouses.div_ceil(nodes);
    // The last node gets the remaining warehouses, and must have at least one.
    if shard * (nodes - 1) >= warehouses {
        return Err(usage(format!(
            "{flag}: {nodes} compute nodes cannot share {warehouses} warehouses; use --warehouses {} or another multiple \
             of them, or fewer --compute-nodes",
            warehouses.next_multiple_of(nodes)
        )));
    }
    if flags.distribution_ratio > Some(0) && nodes == 1 {
        return Err(usage(format!(
            "{flag}: one compute node has all warehouses; use 0, or more --compute-nodes"
        )));
    }
    Ok(Some(Shares { warehouses: shard, nodes }))
}

fn inputs(
    flags: &Flags,
    population: &Population,
    shares: Option<Shares>,
) -> Result<InputSettings, AppError> {
    let (scale, seed) = (population.scale(), flags.common.cluster.seed);
    let standard =
        InputSettings::standard(scale, population.warehouses(), population.constants(), seed);
    let divided = flags.distribution_ratio.zip(shares);
    let inputs = InputSettings {
        weights: flags.weight,
        remote_lines: match divided {
            Some((percent, shares)) => RemoteLines::PerOrder { percent, shard: shares.warehouses },
            None => standard.remote_lines,
        },
        remote_payments_percent: match divided {
            Some(_) => 0,
            None => REMOTE_PAYMENTS,
        },
        ..standard
    };
    inputs.check()?;
    Ok(inputs)
}

/// The bytes in lines that transactions of the run may add.
fn growth(
    command: Option<Command>,
    flags: &Flags,
    warehouses: u32,
    longest: Option<Duration>,
    simulated: bool,
) -> u64 {
    if matches!(command, Some(Command::Prepare | Command::Check)) {
        return 0;
    }
    let rate = match (flags.wait, simulated) {
        (true, _) => RATE_WAITING * f64::from(warehouses),
        (false, true) => RATE_VIRTUAL,
        (false, false) => RATE,
    };
    // The size of the pool decides the events of a simulation, so its estimate stays.
    let longest = longest.filter(|_| !simulated || flags.operations.is_none());
    memory::growth(operations_at_most(flags.operations, longest, rate) as u64)
}

/// The settings of the transaction engine.
fn engine(flags: &Flags, cache_bytes: usize) -> latchwork_txn::TransactionSettings {
    latchwork_txn::TransactionSettings {
        scheme: flags.cc,
        timestamp_block: flags.ts_block,
        read_lease: flags.read_lease,
        extend_timestamps: flags.ts_extension,
        elder_after: flags.elder_after,
        retry_for: flags.retry_for,
        early_release: flags.early_release,
        places: flags.places.unwrap_or_else(|| places_for(cache_bytes)),
        ..latchwork_txn::TransactionSettings::default()
    }
}

/// Configures the cluster, with memory for the population and for so many more bytes.
fn configure(
    flags: &Flags,
    common: &mut Common,
    warehouses: u32,
    population: u64,
    growth: u64,
) -> Result<(), AppError> {
    let threads = flags.common.threads(&common.fabric, THREADS_DEFAULT_VIRTUAL);
    if flags.partitioned && threads > WORKERS_MAX {
        return Err(usage(format!(
            "--threads {threads}: with --partitioned a compute node has {WORKERS_MAX} at most; use fewer"
        )));
    }
    let need = MemoryNeed {
        what: format!("--warehouses {warehouses}"),
        least: population,
        enough: population.saturating_add(growth).saturating_mul(2),
        beside: 0,
        hint: "fewer --warehouses",
    };
    flags.common.configure(common, threads, &need)
}

/// The size of a worker's location cache, in rows: about as many rows as fit into the node's cache,
/// within bounds.
fn places_for(cache_bytes: usize) -> usize {
    (cache_bytes / 256).clamp(1 << 16, 1 << 20)
}
