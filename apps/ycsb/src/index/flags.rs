//! The flags of the index, and the settings that follow from them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Args, ValueEnum};
use latchwork_cluster::{ClusterConfig, Protocol};
use latchwork_harness::parse::{line_size, whole};
use latchwork_harness::{AppError, FabricChoice};
use latchwork_sherman::{Check, Config, LockMemory, Shared};
use latchwork_workload::ycsb::CoreWorkload;
use serde_json::{Value, json};

/// The sizes of nodes that `--node-size` takes, in bytes.
const NODE_SIZES: std::ops::RangeInclusive<u32> = 512..=16_384;
const NODE_SIZE: u32 = 1024;

/// The digits of the largest key number, so that all keys have one length.
const DIGITS: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IndexName {
    Blink,
    Sherman,
    FgPlus,
    Fg,
}

impl IndexName {
    fn name(self) -> &'static str {
        match self {
            IndexName::Blink => "blink",
            IndexName::Sherman => "sherman",
            IndexName::FgPlus => "fg-plus",
            IndexName::Fg => "fg",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LockPlace {
    Node,
    Host,
    Chip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LeafWrite {
    Node,
    Entry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LeafCheck {
    Published,
    Sound,
}

/// Flags of the table's index.
#[derive(Debug, Args)]
pub(crate) struct IndexFlags {
    /// Index of the table: blink, a B-link tree over coherent memory; sherman, a tree that caches
    /// inner nodes only, without coherence; fg-plus and fg, what sherman is measured against.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        default_value = "blink",
        help_heading = "Cluster"
    )]
    pub(crate) index: IndexName,
    /// Bytes of a node of sherman, fg-plus and fg. [default:
    /// 1024, or as many as four records need]
    #[arg(long, global = true, value_name = "BYTES", value_parser = node_size, hide = true, help_heading = "Settings: Index")]
    node_size: Option<u32>,
    /// Where the locks of sherman, fg-plus and fg are: in each node, in a table in host memory, or
    /// in a table on chip (see the setting chip-memory). [default: chip where it is set, else host;
    /// node for fg-plus and fg]
    #[arg(
        long,
        global = true,
        value_name = "WHERE",
        hide = true,
        help_heading = "Settings: Index"
    )]
    lock_memory: Option<LockPlace>,
    /// Words of a table of locks, at most. [default: 32768]
    #[arg(long, global = true, value_name = "N", value_parser = whole(1..=1u64 << 32), hide = true, help_heading = "Settings: Index")]
    locks: Option<u64>,
    /// Whether tasks of a compute node queue for a lock and hand it over. [default: on, and off for
    /// fg-plus and fg]
    #[arg(
        long,
        global = true,
        value_name = "SWITCH",
        hide = true,
        help_heading = "Settings: Index"
    )]
    local_locks: Option<Switch>,
    /// Whether a write and the release of its lock are one batch. [default: on, and off for fg-plus
    /// and fg]
    #[arg(
        long,
        global = true,
        value_name = "SWITCH",
        hide = true,
        help_heading = "Settings: Index"
    )]
    combine: Option<Switch>,
    /// What a change of a leaf writes: one entry, or the whole sorted node. [default: entry, and
    /// node for fg-plus and fg]
    #[arg(long, global = true, value_name = "WHAT", hide = true, help_heading = "Settings: Index")]
    leaf_write: Option<LeafWrite>,
    /// What shows a torn read of a leaf with entries: the versions that Sherman's paper publishes,
    /// which miss some, or a tag in each word. [default: sound]
    #[arg(long, global = true, value_name = "HOW", hide = true, help_heading = "Settings: Index")]
    leaf_check: Option<LeafCheck>,
}

/// The index of a run.
pub(crate) enum TableSettings {
    Blink,
    Sherman(Box<ShermanSettings>),
}

/// The settings of Sherman's tree, FG+ or FG.
pub(crate) struct ShermanSettings {
    name: IndexName,
    pub(crate) config: Config,
    node_size: u32,
    /// What the workers of each compute node share.
    shared: Mutex<BTreeMap<usize, Arc<Shared>>>,
}

impl ShermanSettings {
    /// What the workers of compute node `node` share.
    pub(crate) fn shared(&self, node: usize) -> Arc<Shared> {
        let mut all = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(node).or_insert_with(|| Shared::new(&self.config)))
    }
}

/// The bytes of a node, from a flag.
fn node_size(text: &str) -> Result<u32, String> {
    line_size(text)
        .ok()
        .filter(|size| NODE_SIZES.contains(size))
        .ok_or_else(|| "use a power of two from 512 to 16384".to_owned())
}

fn usage(text: String) -> AppError {
    AppError::Usage(text)
}

fn given<T: ValueEnum>(flag: &'static str, value: Option<T>) -> Option<String> {
    let value = value?.to_possible_value()?;
    Some(format!("{flag} {}", value.get_name()))
}

fn number(flag: &'static str, value: Option<impl Display>) -> Option<String> {
    value.map(|value| format!("{flag} {value}"))
}

impl IndexFlags {
    /// The first flag that the B-link tree does not have.
    fn first_given(&self) -> Option<String> {
        number("--node-size", self.node_size)
            .or(given("--lock-memory", self.lock_memory))
            .or(number("--locks", self.locks))
            .or(given("--local-locks", self.local_locks))
            .or(given("--combine", self.combine))
            .or(given("--leaf-write", self.leaf_write))
            .or(given("--leaf-check", self.leaf_check))
    }

    /// Raises the padding of keys, so that all have one length, for an index that needs it.
    ///
    /// # Errors
    /// A padding that the user gave and that is too short; records of several lengths.
    pub(crate) fn pad(
        &self,
        workload: &mut CoreWorkload,
        is_padding_given: bool,
    ) -> Result<(), AppError> {
        let name = self.index.name();
        if self.index == IndexName::Blink {
            return Ok(());
        }
        let padding = workload.keys.zero_padding;
        if is_padding_given && padding < DIGITS {
            return Err(usage(format!(
                "zeropadding={padding}: all keys of index {name} have one length; use zeropadding={DIGITS} or more"
            )));
        }
        workload.keys.zero_padding = padding.max(DIGITS);
        if workload.layout.constant_field_len().is_none() {
            return Err(usage(format!(
                "fieldlengthdistribution: all records of index {name} have one length; use fieldlengthdistribution=constant"
            )));
        }
        Ok(())
    }

    /// The settings of the index for this workload. Without a coherent cache, a node is a line:
    /// `line_size` becomes the size of a node.
    ///
    /// # Errors
    /// Flags that the index does not have, and lengths that do not fit.
    pub(crate) fn settings(
        &self,
        workload: &CoreWorkload,
        protocol: Protocol,
        fabric: &FabricChoice,
        line_size: &mut u32,
    ) -> Result<TableSettings, AppError> {
        let name = self.index.name();
        let base = match self.index {
            IndexName::Blink => {
                return match self.first_given() {
                    None => Ok(TableSettings::Blink),
                    Some(flag) => Err(usage(format!(
                        "{flag}: index blink has no such setting; use --index sherman, fg-plus or fg"
                    ))),
                };
            }
            IndexName::Sherman => Config::SHERMAN,
            IndexName::FgPlus => Config::FG_PLUS,
            IndexName::Fg => Config::FG,
        };
        if protocol != Protocol::default() {
            return Err(usage(format!(
                "--protocol {}: index {name} has no coherent cache; leave it out, or use --index blink",
                protocol.name()
            )));
        }
        let mut config = self.config(base, fabric)?;
        (config.key_len, config.value_len) = (workload.keys.len_max(), workload.layout.len_max());
        let fits = |size: u32| config.check_lengths(size as usize);
        let sizes = || (9..=14).map(|bits| 1_u32 << bits);
        let least = sizes().find(|&size| fits(size).is_ok());
        let size = match self.node_size {
            Some(size) => size,
            None => least.map_or(*NODE_SIZES.end(), |least| least.max(NODE_SIZE)),
        };
        if let Err(error) = fits(size) {
            let would_do = least.map_or_else(
                || "lower fieldcount, fieldlength or zeropadding".to_owned(),
                |least| format!("use --node-size {least} or more"),
            );
            return Err(usage(format!("--node-size {size}: {error}; {would_do}")));
        }
        *line_size = size;
        let shared = Mutex::default();
        let settings = ShermanSettings { name: self.index, config, node_size: size, shared };
        Ok(TableSettings::Sherman(Box::new(settings)))
    }

    fn config(&self, base: Config, fabric: &FabricChoice) -> Result<Config, AppError> {
        let mut config = base;
        if let Some(place) = self.lock_memory {
            config.lock_memory = match place {
                LockPlace::Node => LockMemory::Node,
                LockPlace::Host => LockMemory::Host,
                LockPlace::Chip => LockMemory::Chip,
            };
        }
        config.locks = self.locks.unwrap_or(config.locks);
        let is_on = |switch: Option<Switch>, base| switch.map_or(base, |s| s == Switch::On);
        config.local_locks = is_on(self.local_locks, config.local_locks);
        config.combine = is_on(self.combine, config.combine);
        let is_sorted = config.check == Check::Checksum;
        let writes_node = self.leaf_write.map_or(is_sorted, |write| write == LeafWrite::Node);
        config.check = match (writes_node, self.leaf_check) {
            (true, None) => Check::Checksum,
            (true, Some(_)) => {
                return Err(usage(
                    "--leaf-check: a leaf that is written whole has a checksum; use --leaf-write entry".to_owned(),
                ));
            }
            (false, Some(LeafCheck::Published)) => Check::Published,
            (false, _) => Check::Words,
        };
        config.longest_read = match fabric.name() {
            // The paper's limit (Sherman 4.4).
            _ if config.check == Check::Published => Duration::from_micros(8),
            // Shorter than the time in which a fabric can do 512 changes of one entry.
            "shm" => Duration::from_micros(100),
            "tcp" => Duration::from_millis(10),
            _ => Duration::from_millis(1),
        };
        Ok(config)
    }
}

impl TableSettings {
    /// The name that `--index` has for it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            TableSettings::Blink => IndexName::Blink.name(),
            TableSettings::Sherman(settings) => settings.name.name(),
        }
    }

    /// Takes over what the cluster's flags decide.
    ///
    /// # Errors
    /// Locks on chip, and memory nodes of this process without on-chip memory.
    pub(crate) fn configure(
        &mut self,
        flags: &IndexFlags,
        fabric: &FabricChoice,
        cluster: &ClusterConfig,
    ) -> Result<(), AppError> {
        let TableSettings::Sherman(settings) = self else { return Ok(()) };
        let config = &mut settings.config;
        if config.cache_bytes > 0 {
            config.cache_bytes = cluster.cache_bytes;
        }
        if cluster.chip_bytes > 0
            && flags.index == IndexName::Sherman
            && flags.lock_memory.is_none()
        {
            config.lock_memory = LockMemory::Chip;
        }
        let is_joined = matches!(fabric, FabricChoice::Joined(_));
        if config.lock_memory == LockMemory::Chip && cluster.chip_bytes == 0 && !is_joined {
            return Err(usage(
                "--lock-memory chip: the memory nodes have no on-chip memory; use --set chip-memory=256K, or --lock-memory host".to_owned(),
            ));
        }
        Ok(())
    }

    /// The settings for a result document.
    pub(crate) fn describe(&self) -> Value {
        let TableSettings::Sherman(settings) = self else { return json!({ "index": self.name() }) };
        let ShermanSettings { config, node_size, .. } = &**settings;
        let is_sorted = config.check == Check::Checksum;
        json!({
            "index": self.name(),
            "node_size": node_size,
            "lock_memory": match config.lock_memory {
                LockMemory::Node => "node",
                LockMemory::Host => "host",
                LockMemory::Chip => "chip",
            },
            "locks": config.locks,
            "local_locks": config.local_locks,
            "combine": config.combine,
            "leaf_write": if is_sorted { "node" } else { "entry" },
            "leaf_check": match config.check {
                Check::Words => "sound",
                Check::Published => "published",
                Check::Checksum => "checksum",
            },
        })
    }
}
