//! The settings from the command line and the properties, checked before any process or thread
//! starts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use latchwork_blink::TreeLimits;
use latchwork_harness::driver::{
    Common, MemoryNeed, bytes_of_memory_node, described, operations_at_most,
};
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_index::{ErrorKind, IndexError};
use latchwork_verbs::LINE_HEADER;
use latchwork_workload::properties::Properties;
use latchwork_workload::ycsb::{Builtin, CoreWorkload};
use serde_json::{Value, json};

use crate::args::{Cli, Command, Flags, LoadBy, WarmupFlag};
use crate::index::TableSettings;

/// The measured time of a run without any limit.
const TIME_DEFAULT: Duration = Duration::from_secs(5);

/// The time of the warm-up of a run without any limit.
const WARMUP_DEFAULT: Duration = Duration::from_secs(1);

/// The times in a simulation. They are shorter, because the simulation of virtual time takes much
/// longer than that time.
const TIME_DEFAULT_VIRTUAL: Duration = Duration::from_millis(50);
const WARMUP_DEFAULT_VIRTUAL: Duration = Duration::from_millis(50);

/// The assumed rate of inserts, in operations per second, if only a time limits the run.
const INSERTING_OPS_S: f64 = 1e6;
const INSERTING_OPS_S_VIRTUAL: f64 = 5e7;

/// Default number of workers of a simulated compute node. It is fixed, so that the machine's cores
/// do not change the figures.
const THREADS_DEFAULT_VIRTUAL: usize = 8;

/// The fill of pages after bulk loading. A tenth stays free for inserts and for growing fields.
pub(crate) const BULK_FILL: f64 = 0.9;
/// Bytes of an entry in a page in addition to key and value.
const ENTRY: usize = 32;
/// The header of an allocation. Allocations have sizes in units of two headers.
const HEADER: usize = 8;

/// Flags for less memory.
const LESS: &str = "a lower recordcount, fewer --operations or a shorter --time";

/// All settings of a run.
pub(crate) struct Settings {
    pub(crate) command: Command,
    pub(crate) workload: Arc<CoreWorkload>,
    /// The table's name in the catalogue, once the cluster has started.
    pub(crate) table: String,
    /// The sources of the workload's properties, for the result.
    pub(crate) sources: Vec<String>,
    pub(crate) common: Common,
    /// The table's index.
    pub(crate) index: TableSettings,
    pub(crate) load_by: LoadBy,
    pub(crate) warmup: Duration,
    /// Whether the warm-up goes on until the hit ratio is steady, instead of a fixed time.
    pub(crate) warmup_auto: bool,
    pub(crate) time: Option<Duration>,
    pub(crate) operations: Option<u64>,
    pub(crate) target_ops_s: Option<f64>,
    /// The time between status lines, if there are any.
    pub(crate) status: Option<Duration>,
    /// The effective value of each property.
    properties: BTreeMap<String, Value>,
}

impl Settings {
    /// Combines the flags and the properties.
    ///
    /// # Errors
    /// One line about the first impossible setting, with valid values.
    pub(crate) fn new(cli: Cli) -> Result<Settings, AppError> {
        let Cli { command, mut flags } = cli;
        let command = command.unwrap_or(Command::Run);
        let (properties, sources) = properties(&flags)?;
        let mut common = flags.common.common()?;
        let simulated = common.is_simulated();
        let (mut workload, warnings) = CoreWorkload::from_properties(&properties)?;
        common.warnings.splice(0..0, warnings);
        let is_padding_given = properties.iter().any(|p| p.key == "zeropadding");
        flags.index.pad(&mut workload, is_padding_given)?;
        let cluster = &mut flags.common.cluster;
        let protocol = cluster.protocol;
        let line_size = &mut cluster.gcl_size;
        let index = flags.index.settings(&workload, protocol, &common.fabric, line_size)?;
        workload.data_integrity |= command == Command::Check;
        let load_by = flags.load_by.unwrap_or(match command {
            Command::Load => LoadBy::Inserts,
            Command::Run | Command::Check => LoadBy::Bulk,
        });
        let (time_default, warmup_default) = match simulated {
            false => (TIME_DEFAULT, WARMUP_DEFAULT),
            true => (TIME_DEFAULT_VIRTUAL, WARMUP_DEFAULT_VIRTUAL),
        };
        let operations = flags.operations.or(workload.operations);
        let time = flags.time.or(workload.client.time_max);
        let time = time.or(operations.is_none().then_some(time_default));
        let warmup_auto = flags.warmup == Some(WarmupFlag::Auto);
        let warmup = match (flags.warmup, operations) {
            (Some(WarmupFlag::For(time)), _) => time,
            (None, None) => warmup_default,
            (None, Some(_)) | (Some(WarmupFlag::Auto), _) => Duration::ZERO,
        };
        let mut settings = Settings {
            command,
            common,
            index,
            table: String::new(),
            load_by,
            warmup,
            warmup_auto,
            time,
            operations,
            target_ops_s: flags.target.or(workload.client.target_ops_s),
            status: (flags.status || workload.client.has_status)
                .then_some(workload.client.status_interval),
            sources,
            workload: Arc::new(workload),
            properties: properties.iter().map(|p| (p.key.clone(), json!(p.value))).collect(),
        };
        let inserts = settings.workload.inserting_share() > 0.0;
        if settings.common.fabric.replaces() && (command == Command::Load || inserts) {
            return Err(AppError::Usage(
                "--set replaces=on: it is for run and check, with a workload that inserts nothing"
                    .to_owned(),
            ));
        }
        if matches!(settings.index, TableSettings::Blink) {
            check_records(&settings.workload, flags.common.cluster.gcl_size)?;
        }
        settings.configure(&flags)?;
        Ok(settings)
    }

    fn configure(&mut self, flags: &Flags) -> Result<(), AppError> {
        let threads = match self.workload.client.threads {
            Some(threads) if flags.common.cluster.threads.is_none() => {
                let nodes = flags.common.cluster.compute_nodes;
                workers_of(threads as usize, nodes)?
            }
            _ => flags.common.threads(&self.common.fabric, THREADS_DEFAULT_VIRTUAL),
        };
        let need = self.memory_need();
        flags.common.configure(&mut self.common, threads, &need)?;
        self.index.configure(&flags.index, &self.common.fabric, &self.common.cluster)
    }

    /// What the records need of memory. The data take the least, and pages are half full at worst.
    fn memory_need(&self) -> MemoryNeed {
        let records = self.workload.record_count();
        let rate = match (self.common.is_simulated(), self.command) {
            // The size of the pool decides the events of a simulation, so its estimate stays.
            (true, _) => INSERTING_OPS_S_VIRTUAL,
            (false, Command::Load) => 0.0,
            (false, _) => INSERTING_OPS_S.min(self.target_ops_s.unwrap_or(f64::INFINITY)),
        };
        let time = self.time.map(|time| time + self.warmup);
        let operations = operations_at_most(self.operations, time, rate);
        let inserts = operations * self.workload.inserting_share();
        let (content, key) = (self.workload.layout.len_max(), self.workload.keys.len_max());
        // Records of several lengths may all be short.
        let is_constant = self.workload.layout.constant_field_len().is_some();
        let least = if is_constant { content } else { 0 } + key + ENTRY;
        let enough = (records as f64 + inserts) * (content + key + ENTRY) as f64 * 2.0;
        // A bulk load sorts all keys, each of which is an allocation.
        let sorted = size_of::<Box<[u8]>>() + (key + HEADER).next_multiple_of(2 * HEADER);
        MemoryNeed {
            what: format!("{records} records"),
            least: (records as f64 * least as f64 / BULK_FILL) as u64,
            enough: enough as u64,
            beside: match self.load_by {
                LoadBy::Bulk => records.saturating_mul(sorted as u64),
                LoadBy::Inserts => 0,
            },
            hint: "a lower recordcount",
        }
    }

    /// The error for a full memory pool.
    fn out_of_memory(&self, when: &str) -> AppError {
        let cluster = &self.common.cluster;
        let enough = bytes_of_memory_node(self.memory_need().enough, cluster);
        self.common.out_of_memory(when, enough.max(2 * cluster.memory_bytes), LESS)
    }

    /// The error that ends a run when the table fails.
    pub(crate) fn index_error(&self, error: &impl IndexError) -> AppError {
        match is_out_of_memory(error) {
            true => self.out_of_memory(" during the run"),
            false => AppError::Failed(format!("the table failed: {error}")),
        }
    }

    /// As [`index_error`](Settings::index_error), in the measured run.
    pub(crate) fn run_error(&self, error: &impl IndexError, phase: &PhaseProgress) -> AppError {
        match is_out_of_memory(error) {
            true => self.out_of_memory(&format!(" after {} operations", phase.done())),
            false => self.index_error(error),
        }
    }

    /// As [`index_error`](Settings::index_error), while the table is loaded.
    pub(crate) fn load_error(&self, error: &impl IndexError, phase: &PhaseProgress) -> AppError {
        match is_out_of_memory(error) {
            true => self.out_of_memory(&format!(" after loading {} records", phase.done())),
            false => self.index_error(error),
        }
    }

    /// The settings for a result document.
    pub(crate) fn describe(&self) -> BTreeMap<String, Value> {
        let workload = &self.workload;
        let seconds = |time: Duration| json!(time.as_secs_f64());
        let mut all = self.common.describe(json!({
            "command": self.command.name(),
            "workload": self.sources,
            "load_by": self.load_by.name(),
            "warmup_s": if self.warmup_auto { json!("auto") } else { seconds(self.warmup) },
            "recordcount": workload.record_count(),
            "fieldcount": workload.layout.fields(),
            "record_bytes_max": workload.layout.len_max(),
            "readproportion": workload.mix.read,
            "updateproportion": workload.mix.update,
            "insertproportion": workload.mix.insert,
            "scanproportion": workload.mix.scan,
            "readmodifywriteproportion": workload.mix.read_modify_write,
            "upsertproportion": workload.mix.upsert,
            "requestdistribution": workload.requests.name(),
            "readallfields": workload.read_all_fields,
            "writeallfields": workload.write_all_fields,
            "dataintegrity": workload.data_integrity,
            "time_s": self.time.map(seconds),
            "operations": self.operations,
            "target_ops_s": self.target_ops_s,
        }));
        all.extend(described(self.index.describe()));
        all
    }

    /// The settings that all processes of a run must share.
    pub(crate) fn to_agree_on(&self) -> BTreeMap<String, Value> {
        // The description below has the values of these properties, as the flags set them.
        // Status lines are those of one process.
        const OF_CLIENT: [&str; 6] = [
            "threadcount",
            "target",
            "operationcount",
            "maxexecutiontime",
            "status",
            "status.interval",
        ];
        let mut all = self.properties.clone();
        all.retain(|key, _| !OF_CLIENT.contains(&key.as_str()));
        all.extend(self.describe());
        // Processes on several machines may name the files of the workload differently.
        all.remove("workload");
        if let Some(lengths) = self.workload.layout.histogram() {
            let weights: Vec<(u16, u64)> = lengths.weights().collect();
            all.insert("fieldlengthhistogram".to_owned(), json!(weights));
        }
        all
    }
}

/// The workers of each compute node for YCSB's `threadcount`, which counts those of all nodes.
fn workers_of(threads: usize, nodes: usize) -> Result<usize, AppError> {
    let problem = match (threads % nodes, threads / nodes) {
        (0, 1..=1024) => return Ok(threads / nodes),
        (0, _) => format!("at most {}", 1024 * nodes),
        _ => format!("a multiple of {nodes}"),
    };
    Err(usage(format!(
        "threadcount={threads}: it counts the workers of all compute nodes, of which there are \
         {nodes}; use {problem}, another --compute-nodes, or --threads"
    )))
}

/// Whether the memory pool is full.
pub(crate) fn is_out_of_memory(error: &impl IndexError) -> bool {
    error.kind() == ErrorKind::OutOfMemory
}

fn usage(text: impl Into<String>) -> AppError {
    AppError::Usage(text.into())
}

fn properties(flags: &Flags) -> Result<(Properties, Vec<String>), AppError> {
    let mut properties = Properties::default();
    let mut sources = Vec::new();
    let builtin = flags.workload.or(flags.files.is_empty().then_some(Builtin::A));
    if let Some(builtin) = builtin {
        builtin.add_to(&mut properties)?;
        sources.push(builtin.to_string());
    }
    for file in &flags.files {
        properties.read_file(file)?;
        sources.push(file.display().to_string());
    }
    for assignment in &flags.properties {
        properties.assign(assignment)?;
        sources.push(assignment.clone());
    }
    Ok((properties, sources))
}

/// Checks that records and keys fit into pages of this size.
fn check_records(workload: &CoreWorkload, line_size: u32) -> Result<(), AppError> {
    let limits = |line_size: u32| TreeLimits::for_payload(line_size as usize - LINE_HEADER).ok();
    let (record, key) = (workload.layout.len_max(), workload.keys.len_max());
    let fits = |limits: TreeLimits| record <= limits.value_max && key <= limits.key_max;
    if limits(line_size).is_some_and(fits) {
        return Ok(());
    }
    let larger = (9..=16).map(|bits| 1 << bits).find(|size| limits(*size).is_some_and(fits));
    let would_do = match larger {
        Some(size) => format!("use --gcl-size {size} or more, or lower fieldcount or fieldlength"),
        None => "no line is large enough; lower fieldcount, fieldlength or zeropadding".to_owned(),
    };
    Err(usage(format!(
        "--gcl-size {line_size}: too small for records of up to {record} bytes, of which four must \
         fit, with keys of up to {key} bytes; {would_do}"
    )))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn settings(arguments: &str) -> Result<Settings, AppError> {
        let arguments = std::iter::once("ycsb").chain(arguments.split_whitespace());
        Settings::new(Cli::try_parse_from(arguments).expect("a command line that can be parsed"))
    }

    fn wrong(arguments: &str) -> String {
        let error = settings(arguments).err().expect("an impossible command line");
        assert_eq!(error.status(), 2);
        let line = error.to_string();
        assert!(!line.contains('\n'), "{line}");
        line
    }

    #[test]
    fn without_flags_it_is_workload_a_on_two_nodes() {
        let settings = settings("").unwrap();
        assert_eq!(settings.command, Command::Run);
        assert_eq!(settings.workload.record_count(), 1_000_000);
        assert_eq!(settings.workload.mix.update, 0.5);
        assert_eq!(
            (settings.common.cluster.compute_nodes, settings.common.cluster.memory_nodes),
            (2, 1)
        );
        assert_eq!((settings.time, settings.operations), (Some(TIME_DEFAULT), None));
        assert!(settings.common.cluster.memory_bytes > 2_000_000_000);
    }

    #[test]
    fn files_replace_the_default_workload_and_properties_win_over_files() {
        let file = std::env::temp_dir().join(format!("latchwork-ycsb-{}.p", std::process::id()));
        std::fs::write(&file, "recordcount=1000\noperationcount=500\nreadproportion=1\n").unwrap();
        let arguments = format!("-P {} -p recordcount=2000 -p updateproportion=0", file.display());
        let settings = settings(&arguments).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(settings.workload.record_count(), 2000);
        assert_eq!((settings.time, settings.operations), (None, Some(500)));
        assert_eq!(settings.workload.mix.update, 0.0);
        assert_eq!(settings.sources.len(), 3);
    }

    #[test]
    fn flags_win_over_settings_of_ycsbs_client() {
        let properties = "-p threadcount=6 -p target=100 -p maxexecutiontime=7";
        let given = settings(properties).unwrap();
        assert_eq!((given.common.cluster.compute_nodes, given.common.cluster.workers), (2, 3));
        assert_eq!(given.target_ops_s, Some(100.0));
        assert_eq!(given.time, Some(Duration::from_secs(7)));
        let flags = settings(&format!("{properties} --threads 2 --target 50 --time 1")).unwrap();
        assert_eq!((flags.common.cluster.workers, flags.target_ops_s), (2, Some(50.0)));
        assert_eq!(flags.time, Some(Duration::from_secs(1)));
    }

    #[test]
    fn the_first_line_says_what_is_run() {
        let headline =
            |arguments| latchwork_harness::driver::Driver::headline(&settings(arguments).unwrap());
        let line = headline("load -w b --threads 3 --inflight 1 --index sherman");
        assert!(line.contains("loaded by inserts, index sherman; "), "{line}");
        assert!(line.contains("3 workers each, 1 operation in flight per worker, "), "{line}");
        assert!(!line.contains("warm-up"), "{line}");
        let line = headline("run --warmup 250ms");
        assert!(line.contains("loaded in bulk, index blink; "), "{line}");
        assert!(line.ends_with("; warm-up of 250ms"), "{line}");
        assert!(headline("run --warmup auto").ends_with("until the hit ratio is steady"));
    }

    /// Bug: runs that could have inserted more than the machine's memory were refused.
    #[test]
    fn the_memory_is_what_the_run_can_fill_and_the_machine_has() {
        let bytes = |flags: &str| settings(flags).unwrap().common.cluster.memory_bytes;
        let inserts = "-p recordcount=1000 -p insertproportion=1 --warmup 0";
        let few = bytes(&format!("{inserts} --operations 1000 --time 100h"));
        assert_eq!(bytes(&format!("{inserts} --target 10 --time 10s")), few);
        let room = latchwork_harness::driver::MemoryRoom::now().unwrap();
        assert!((few..room.total).contains(&bytes(&format!("{inserts} --time 100h"))));
    }

    #[test]
    fn what_is_impossible_names_the_flag_and_what_would_do() {
        for (arguments, flag, would_do) in [
            ("--gcl-size 2048", "--gcl-size 2048", "--gcl-size 4096"),
            ("-p fieldlength=10000 -p fieldcount=2", "--gcl-size 8192", "no line is large enough"),
            (
                "-p zeropadding=300 --gcl-size 2048 -p fieldlength=10",
                "--gcl-size",
                "--gcl-size 4096",
            ),
            ("--cache-mb 0.001", "--cache-mb 0.001", "use --cache-mb 0."),
            ("--memory-mb 1", "--memory-mb 1", "at least --memory-mb 16"),
            ("--json /nowhere/result.json", "--json", "its directory does not exist"),
            ("-p recordcont=5", "recordcont", "recordcount"),
            ("-p recordcount", "recordcount", "key=value"),
            ("-P /nowhere/workload", "/nowhere/workload", "it cannot be read"),
            ("-p readproportion=0 -p updateproportion=0", "proportions", "readproportion=1"),
            ("-p threadcount=5000", "threadcount=5000", "use at most 2048, "),
            ("-p threadcount=3", "threadcount=3", "use a multiple of 2, "),
            ("--node-size 1024", "--node-size 1024", "--index sherman, fg-plus or fg"),
            ("--index sherman --protocol gam", "--protocol gam", "--index blink"),
            ("--index sherman --node-size 512", "--node-size 512", "--node-size 8192"),
            ("--index sherman -p zeropadding=3", "zeropadding=3", "zeropadding=20"),
            ("--index fg-plus --leaf-check sound", "--leaf-check", "--leaf-write entry"),
            ("--index sherman --lock-memory chip", "--lock-memory chip", "chip-memory=256K"),
            (
                "--index sherman -p fieldlengthdistribution=uniform",
                "fieldlengthdistribution",
                "constant",
            ),
        ] {
            let line = wrong(arguments);
            assert!(line.contains(flag) && line.contains(would_do), "{arguments}: {line}");
        }
    }

    #[test]
    fn processes_agree_on_what_is_run_and_not_on_how_it_was_said() {
        let agreed = |arguments| settings(arguments).unwrap().to_agree_on();
        assert_eq!(agreed("-p threadcount=6 -p target=7"), agreed("--threads 3 --target 7"));
        for other in ["-p recordcount=5", "-p zipfianskew=0.5", "-w b", "check", "--cache-mb 7"] {
            let Ok(other) = settings(other) else { continue };
            assert_ne!(agreed(""), other.to_agree_on());
        }
        assert_ne!(agreed("-p fieldlengthdistribution=zipfian"), agreed(""));
    }

    #[test]
    fn processes_agree_on_the_lengths_of_fields_and_not_on_the_name_of_their_file() {
        let agreed = |name: &str, lengths: &str| {
            let name = format!("latchwork-ycsb-{}-{name}", std::process::id());
            let file = std::env::temp_dir().join(name);
            std::fs::write(&file, format!("BlockSize\t10\n{lengths}\n")).unwrap();
            let flags = "-p fieldlengthdistribution=histogram -p fieldlengthhistogram=";
            let settings = settings(&format!("{flags}{}", file.display()));
            std::fs::remove_file(&file).unwrap();
            settings.unwrap().to_agree_on()
        };
        assert_eq!(agreed("one", "0\t5"), agreed("other", "0\t5"));
        assert_ne!(agreed("one", "0\t5"), agreed("one", "0\t5\n1\t1"));
    }

    #[test]
    fn nodes_without_a_coherent_cache_are_lines_and_their_keys_have_one_length() {
        let settings = settings("--index sherman -p fieldcount=1 --cache-mb 3").unwrap();
        assert_eq!(settings.common.cluster.line_size, 1024);
        assert_eq!(settings.workload.keys.zero_padding, 20);
        let described = settings.describe();
        let shown = |key| described[key].to_string();
        assert_eq!(
            (shown("index"), shown("leaf_check")),
            ("\"sherman\"".into(), "\"sound\"".into())
        );
        let on_chip = self::settings("--index sherman --chip-memory 256K").unwrap();
        assert_eq!(on_chip.describe()["lock_memory"], "chip");
        let TableSettings::Sherman(sherman) = &settings.index else { panic!("another index") };
        assert_eq!(sherman.config.cache_bytes, 3 << 20);
        assert_eq!(self::settings("").unwrap().describe()["index"], "blink");
    }

    #[test]
    fn a_check_verifies_every_record_that_is_read() {
        assert!(settings("check").unwrap().workload.data_integrity);
        assert!(!settings("run").unwrap().workload.data_integrity);
    }

    #[test]
    fn the_description_has_every_setting() {
        let config = settings("--target 10").unwrap().describe();
        for key in ["protocol", "compute_nodes", "gcl_size", "seed", "time_s", "target_ops_s"] {
            assert!(config.contains_key(key), "{key}");
        }
        assert!(!config.contains_key("operations"));
    }
}
