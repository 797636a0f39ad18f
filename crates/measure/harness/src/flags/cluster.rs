//! [`ClusterFlags`]: the flags for the size of the cluster and for the protocol.

use std::collections::BTreeMap;

use clap::Args;
use latchwork_cluster::{ClusterConfig, ClusterError, ConfigError, Protocol};
use latchwork_verbs::SetupError;
use serde_json::{Value, json};

use super::{FabricChoice, SettingFlags};
use crate::error::{AppError, FlagError};
use crate::numbers::many;
use crate::parse::{MIB, chip_memory, line_size, mebibytes, whole, whole_mebibytes};

/// Flags of the cluster and of the protocol.
///
/// Programs change defaults with `#[command(mut_arg("gcl_size", |arg|
/// arg.default_value("2048")))]`.
#[derive(Clone, Debug, Args)]
pub struct ClusterFlags {
    /// Coherence protocol: selcc keeps lines in the cache until another node needs them; sel, the
    /// baseline, releases each line after every access; gam and scalestore have a directory at an
    /// agent of each memory node.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        default_value = "selcc",
        help_heading = "Cluster"
    )]
    pub protocol: Protocol,
    /// Compute nodes, 1 to 58.
    #[arg(long, global = true, value_name = "N", default_value = "2", value_parser = whole(1..=58usize), help_heading = "Cluster")]
    pub compute_nodes: usize,
    /// Memory nodes. [default: 1; with --fabric sim as many as compute nodes]
    #[arg(long, global = true, value_name = "N", value_parser = whole(1..=1024usize), help_heading = "Cluster")]
    pub memory_nodes: Option<usize>,
    /// Workers (threads) of each compute node. [default: cores / compute nodes, at least 1]
    #[arg(long, global = true, value_name = "N", value_parser = whole(1..=1024usize), help_heading = "Cluster")]
    pub threads: Option<usize>,
    /// Operations that each worker has in flight.
    #[arg(long, global = true, value_name = "N", default_value = "8", value_parser = whole(1..=1024usize), help_heading = "Cluster")]
    pub inflight: usize,
    /// Operations that a worker continues before it looks for messages of other nodes. A simulated
    /// worker continues all that are ready.
    #[arg(long, global = true, value_name = "N", default_value = "2", value_parser = whole(1..=1024usize), hide = true, help_heading = "Settings: Execution")]
    pub sweep_tasks: usize,
    /// Memory for the cache of each compute node in MiB, its metadata included.
    #[arg(long, global = true, value_name = "SIZE", default_value = "256", value_parser = mebibytes, help_heading = "Cluster")]
    pub cache_mb: f64,
    /// Memory of each memory node in MiB. [default: twice an estimate of what the
    /// workload needs, as far as this machine has that much]
    #[arg(long, global = true, value_name = "SIZE", value_parser = whole_mebibytes(1..=1 << 28), help_heading = "Cluster")]
    pub memory_mb: Option<u64>,
    /// Memory nodes over which each compute node spreads its new lines, with a chunk of each at a
    /// time. [default: all, if each memory node has a chunk for every compute node; else 1]
    #[arg(long, global = true, value_name = "N", value_parser = whole(1..=1024usize), hide = true, help_heading = "Settings: Memory")]
    pub stripes: Option<usize>,
    /// On-chip memory of the NIC of each memory node. Where processes join, each memory node has a
    /// setting of its own. [default: none]
    #[arg(long, global = true, value_name = "SIZE", value_parser = chip_memory, hide = true, help_heading = "Settings: Memory")]
    pub chip_memory: Option<u64>,
    /// Each compute node shares the NIC of a memory node, as on servers that have both. For
    /// --fabric sim.
    #[arg(long, global = true, hide = true, help_heading = "Settings: Memory")]
    pub colocate: bool,
    /// Touch all memory at the start, so that the measured time has no page faults of the operating
    /// system.
    #[arg(long, global = true, hide = true, help_heading = "Settings: Memory")]
    pub prefault: bool,
    /// Size of a global cache line in bytes: a power of two from 512 to 65536.
    #[arg(long, global = true, value_name = "BYTES", default_value = "8192", value_parser = line_size, help_heading = "Cluster")]
    pub gcl_size: u32,
    /// Seed of all that is random.
    #[arg(long, global = true, value_name = "N", default_value = "42", value_parser = whole(0..=u64::MAX), help_heading = "Workload")]
    pub seed: u64,
    /// The protocol's settings.
    #[command(flatten)]
    pub settings: SettingFlags,
}

impl ClusterFlags {
    /// The default of `--threads`: the cores of the machine divided by the compute nodes, and at
    /// least one worker.
    pub fn threads_of_machine(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (cores / self.compute_nodes).max(1)
    }

    /// The default of `--memory-nodes`. A simulation has as many memory nodes as compute nodes,
    /// because the NIC of a single memory node would limit larger clusters.
    fn memory_nodes_default(&self, fabric: &FabricChoice) -> usize {
        match fabric {
            FabricChoice::Sim(_) => self.compute_nodes,
            _ => 1,
        }
    }

    /// The configuration of the cluster on this fabric, with `workers` workers on each compute
    /// node. Without `--memory-mb`, `memory_bytes` computes the bytes of each memory node.
    ///
    /// # Errors
    /// The first setting that is impossible, with the values that are possible.
    pub fn config(
        &self,
        workers: usize,
        fabric: &FabricChoice,
        memory_bytes: impl FnOnce(&ClusterConfig) -> u64,
    ) -> Result<ClusterConfig, FlagError> {
        let mut config = ClusterConfig {
            compute_nodes: self.compute_nodes,
            memory_nodes: self.memory_nodes.unwrap_or_else(|| self.memory_nodes_default(fabric)),
            workers,
            inflight: self.inflight,
            sweep_tasks: self.sweep_tasks,
            cache_bytes: (self.cache_mb * MIB as f64) as usize,
            chip_bytes: self.chip_memory.unwrap_or(0),
            colocate: self.colocate,
            prefault: self.prefault,
            line_size: self.gcl_size,
            seed: self.seed,
            ..ClusterConfig::default()
        };
        config.protocol = self.protocol;
        // Threads of one process die together, and the homes of a directory recover its lines.
        config.selcc.survive =
            matches!(fabric, FabricChoice::Joined(_)) && !self.protocol.has_homes();
        self.settings.apply(&mut config)?;
        if let (FabricChoice::Joined(join), true) = (fabric, config.selcc.survive) {
            // An access may have to wait until the lease of a dead node has ended.
            config.node.deadline += join.lease();
            self.settings.apply(&mut config)?;
        }
        config.memory_bytes = match self.memory_mb {
            Some(mib) => mib * MIB,
            None => memory_bytes(&config),
        };
        // The pool uses one chunk of a memory node itself.
        let enough = config.memory_bytes / config.chunk_size > config.compute_nodes as u64;
        let all = if enough { config.memory_nodes } else { 1 };
        config.pool.stripes = self.stripes.unwrap_or(all);
        config.check().map_err(|error| self.config_error(&error))?;
        let least = 2 * config.chunk_size;
        if config.memory_bytes < least {
            return Err(FlagError(format!(
                "--memory-mb {}: the memory pool needs at least --memory-mb {}",
                config.memory_bytes / MIB,
                least / MIB
            )));
        }
        Ok(config)
    }

    /// Refuses flags that have no effect on this fabric.
    ///
    /// # Errors
    /// `--colocate` outside a simulation; more on-chip memory than a simulated NIC has;
    /// `--memory-mb` and `--chip-memory` in a cluster of processes, whose memory nodes have their
    /// own flags; settings of the homes that the fabric cannot have.
    pub fn check_fabric(&self, fabric: &FabricChoice) -> Result<(), FlagError> {
        self.settings.check_fabric(fabric)?;
        if let FabricChoice::Sim(profile) = fabric {
            return match self.chip_memory {
                Some(given) if given > profile.chip_bytes.into() => Err(FlagError(format!(
                    "--chip-memory {given}: the NIC {} has {} bytes of on-chip memory; use --nic connectx5-chip, or less",
                    profile.name, profile.chip_bytes
                ))),
                _ => Ok(()),
            };
        }
        if self.colocate {
            return Err(FlagError(
                "--colocate: nodes share NICs only in a simulation; use --fabric sim, or leave it out"
                    .to_owned(),
            ));
        }
        let FabricChoice::Joined(_) = fabric else { return Ok(()) };
        let given = [("--memory-mb", self.memory_mb), ("--chip-memory", self.chip_memory)];
        match given.into_iter().find_map(|(flag, given)| Some((flag, given?))) {
            Some((flag, given)) => Err(FlagError(format!(
                "{flag} {given}: memory nodes are processes of their own, with their own {flag}; leave it out"
            ))),
            None => Ok(()),
        }
    }

    fn config_error(&self, error: &ConfigError) -> FlagError {
        FlagError(match error {
            ConfigError::ComputeNodes { .. } => format!("--compute-nodes: {error}"),
            ConfigError::MemoryNodes { .. } => format!("--memory-nodes: {error}"),
            ConfigError::Workers => format!("--threads: {error}"),
            ConfigError::Inflight => format!("--inflight: {error}"),
            ConfigError::Cache { least, .. } => {
                let would_do = (*least as f64 / MIB as f64 * 100.0).ceil() / 100.0;
                format!("--cache-mb {}: {error}; use --cache-mb {would_do} or more", self.cache_mb)
            }
            ConfigError::Frames { .. } => format!("--cache-mb {}: {error}", self.cache_mb),
            ConfigError::CacheTooLarge { most, .. } => {
                format!("--cache-mb {}: {error}; use {} or less", self.cache_mb, most / MIB)
            }
            ConfigError::Agents { .. } => {
                format!("--compute-nodes, --memory-nodes: {error}")
            }
            ConfigError::Setting { setting, .. } => format!("--{setting}: {error}"),
            ConfigError::HomeShare { .. } => format!("--home-share: {error}"),
            ConfigError::NoAgents { setting } => format!("--{setting}: {error}"),
            ConfigError::ComputeHomes { .. } => format!("--memory-nodes: {error}"),
            ConfigError::Colocate { .. } => format!("--memory-nodes: {error}"),
            ConfigError::ColocateElsewhere => format!("--colocate: {error}"),
            ConfigError::ComputeHomesElsewhere => format!("--home: {error}"),
            ConfigError::Protocol { .. } => format!("--protocol: {error}"),
            ConfigError::Geometry(_) => format!("--gcl-size {}: {error}", self.gcl_size),
        })
    }

    /// The error of a cluster that failed, with the flag that may help.
    pub fn cluster_error(config: &ClusterConfig, error: &ClusterError) -> AppError {
        let memory_mb = config.memory_bytes / MIB;
        AppError::Failed(match error {
            ClusterError::Cache(_) => {
                let cache_mb = config.cache_bytes as u64 / MIB;
                format!("{error}; use a smaller --cache-mb than {cache_mb}")
            }
            ClusterError::Setup(SetupError::Region(_) | SetupError::NoRoom { .. }) => {
                let cache_mb = config.cache_bytes as u64 / MIB;
                format!("{error}; use less than --memory-mb {memory_mb} and --cache-mb {cache_mb}")
            }
            ClusterError::Thread(_) => format!("{error}; use fewer --threads or --compute-nodes"),
            error => error.to_string(),
        })
    }

    /// The cluster in a line for people.
    pub fn in_words(config: &ClusterConfig) -> String {
        format!(
            "{} with {} each, {} in flight per worker, {}, {}; cache of {:.0} MiB per compute node, lines of {} bytes",
            many(config.compute_nodes, "compute node"),
            many(config.workers, "worker"),
            many(config.inflight, "operation"),
            many(config.memory_nodes, "memory node"),
            config.protocol.name(),
            config.cache_bytes as f64 / MIB as f64,
            config.line_size,
        )
    }

    /// The configuration for a result document, with the settings of the protocol.
    pub fn describe(config: &ClusterConfig) -> BTreeMap<String, Value> {
        let cluster = json!({
            "protocol": config.protocol.name(),
            "compute_nodes": config.compute_nodes,
            "memory_nodes": config.memory_nodes,
            "threads": config.workers,
            "inflight": config.inflight,
            "sweep_tasks": config.sweep_tasks,
            "cache_mb": config.cache_bytes as f64 / MIB as f64,
            "memory_mb": config.memory_bytes / MIB,
            "stripes": config.pool.stripes,
            "prefault": config.prefault,
            "gcl_size": config.line_size,
            "seed": config.seed,
            "settings": SettingFlags::describe(config),
        });
        let mut all: BTreeMap<_, _> = match cluster {
            Value::Object(map) => map.into_iter().collect(),
            _ => BTreeMap::new(),
        };
        if config.chip_bytes > 0 {
            all.insert("chip_memory".to_owned(), config.chip_bytes.into());
        }
        if config.colocate {
            all.insert("colocate".to_owned(), true.into());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::{FabricChoice, FabricFlags};

    #[derive(Debug, Parser)]
    #[command(args_override_self = true, allow_negative_numbers = true)]
    #[command(mut_arg("inflight", |arg| arg.default_value("1")))]
    struct Cli {
        #[command(flatten)]
        cluster: ClusterFlags,
        #[command(flatten)]
        fabric: FabricFlags,
    }

    fn parse(arguments: &str) -> Result<Cli, AppError> {
        let words = std::iter::once("test").chain(arguments.split_whitespace());
        crate::config::command_line("test", words)
    }

    fn config(arguments: &str) -> Result<ClusterConfig, FlagError> {
        let Cli { cluster, fabric } = parse(arguments).expect("flags");
        cluster.config(1, &fabric.choice().expect("a choice"), |_| 64 * MIB)
    }

    #[test]
    fn the_flags_are_consistent_and_defaults_can_be_changed() {
        Cli::command().debug_assert();
        let config = config("").expect("defaults");
        assert_eq!((config.inflight, config.line_size), (1, 8192));
        assert_eq!(config.memory_bytes, 64 * MIB);
    }

    /// Bug: in simulations, throughput fell with more compute nodes, because all compute nodes
    /// shared one memory node.
    #[test]
    fn a_simulation_has_as_many_memory_nodes_as_compute_nodes_unless_a_flag_says_other() {
        let nodes = |arguments: &str| config(arguments).expect("a configuration").memory_nodes;
        assert_eq!(nodes("--compute-nodes 7"), 1);
        assert_eq!(nodes("--compute-nodes 7 --fabric sim"), 7);
        assert_eq!(nodes("--compute-nodes 7 --fabric sim --memory-nodes 1"), 1);
    }

    #[test]
    fn lines_of_dead_processes_are_recovered_unless_a_setting_says_other() {
        let survives = |arguments: &str| config(arguments).expect("a configuration").selcc.survive;
        for (arguments, expected) in [
            ("", false),
            ("--fabric tcp", false),
            ("--fabric sim --protocol sel", false),
            ("--set survive=on", true),
            ("--join file:/tmp/x", true),
            ("--join file:/tmp/x --fabric tcp --protocol sel", true),
            ("--join file:/tmp/x --set survive=off", false),
            ("--join file:/tmp/x --protocol gam", false),
            ("--join file:/tmp/x --protocol scalestore", false),
        ] {
            assert_eq!(survives(arguments), expected, "{arguments}");
        }
    }

    #[test]
    fn an_access_waits_for_the_end_of_a_lease_where_lines_are_recovered() {
        let deadline = |arguments: &str| {
            config(arguments).expect("a configuration").node.deadline.as_secs_f64()
        };
        for (arguments, expected) in [
            ("", 10.0),
            ("--set survive=on", 10.0),
            ("--join file:/tmp/x", 20.0),
            ("--join file:/tmp/x --set member-lease=60", 70.0),
            ("--join file:/tmp/x --set member-lease=60 --set deadline=5s", 5.0),
            ("--join file:/tmp/x --set survive=off", 10.0),
            ("--join file:/tmp/x --protocol gam", 10.0),
        ] {
            assert_eq!(deadline(arguments), expected, "{arguments}");
        }
    }

    #[test]
    fn lines_are_spread_where_every_memory_node_has_a_chunk_for_every_node() {
        let stripes = |arguments: &str| config(arguments).expect("a configuration").pool.stripes;
        assert_eq!(stripes("--memory-nodes 4 --compute-nodes 7"), 4);
        assert_eq!(stripes("--memory-nodes 4 --compute-nodes 8"), 1);
        assert_eq!(stripes("--memory-nodes 4 --compute-nodes 8 --set stripes=2"), 2);
    }

    #[test]
    fn a_wrong_flag_is_one_line_with_what_would_do() {
        for (arguments, flag, would_do) in [
            ("--compute-nodes 0", "--compute-nodes", "from 1 to 58"),
            ("--compute-nodes 59", "--compute-nodes", "from 1 to 58"),
            ("--memory-nodes 0", "--memory-nodes", "from 1 to 1024"),
            ("--threads 0", "--threads", "from 1 to 1024"),
            ("--inflight none", "--inflight", "from 1 to 1024"),
            ("--gcl-size 1000", "--gcl-size", "a power of two from 512 to 65536"),
            ("--cache-mb -1", "--cache-mb", "above 0"),
            ("--memory-mb 0", "--memory-mb", "from 1"),
            ("--set chip-memory=12", "--set chip-memory=12", "a multiple of 8 bytes"),
            ("--protocol mesi", "--protocol", "selcc, sel, gam and scalestore"),
            ("--fabric token-ring", "--fabric", "shm, sim, tcp, ibverbs"),
            ("--nic token-ring", "--nic", "connectx3"),
            ("--thread 3", "--thread", "--threads"),
            ("--seed x", "--seed", "a whole number from 0"),
            ("--listen node1:7470", "--listen", "as 10.0.0.1:0"),
            ("--set pause=2d", "--set pause=2d: use a time", "from 1ns"),
            ("--set pauses=2us", "--set pauses: test has no such setting", "pause?"),
            ("--set threads=2", "--set threads: threads is a flag", "write --threads"),
            ("--join file:/x --set tls-cert=c", "provided: --set tls-key=<FILE>", "tls-ca=<FILE>"),
            ("--set pause", "--set pause: use NAME=VALUE", "test --help-settings"),
            ("--cache-mb 256MB", "--cache-mb", "256M"),
            ("--home-cores 0", "--home-cores", "from 1 to 255"),
            ("--home-share 0", "--home-share", "from 1 to 100"),
            ("--chaining off", "--chaining", "on or fifo or polling"),
            ("--reader-takes all", "--reader-takes", "copy or move"),
            ("--set chaining=fifo --chaining on", "--set chaining: it is given twice", "leave one"),
        ] {
            let line = parse(arguments).expect_err("a wrong command line").to_string();
            assert!(!line.contains('\n'), "{line}");
            assert!(line.contains(flag) && line.contains(would_do), "{arguments}: {line}");
        }
    }

    #[test]
    fn what_is_impossible_together_names_the_flag_and_what_would_do() {
        for (arguments, flag, would_do) in [
            ("--cache-mb 0.001", "--cache-mb 0.001", "use --cache-mb 0."),
            ("--cache-mb 1e9", "--cache-mb 1000000000", "use 262144 or less"),
            ("--memory-mb 1", "--memory-mb 1", "at least --memory-mb"),
            ("--chaining on", "--chaining on", "use scalestore,"),
            ("--reader-takes move --protocol gam", "--reader-takes move", "use scalestore,"),
            ("--home-cores 1 --protocol sel", "--home-cores 1", "use gam or scalestore,"),
            ("--home compute", "--home compute", "use gam or scalestore,"),
            (
                "--home compute --protocol gam --compute-nodes 3",
                "--memory-nodes",
                "use 3 memory nodes",
            ),
            (
                "--home compute --protocol gam --memory-nodes 2 --compute-nodes 2 --home-cores 2",
                "--home-cores",
                "use home memory",
            ),
        ] {
            let line = config(arguments).expect_err("impossible").to_string();
            assert!(!line.contains('\n'), "{line}");
            assert!(line.contains(flag) && line.contains(would_do), "{arguments}: {line}");
        }
        let joined =
            ["--join file:/tmp/x --nic connectx5", "--set node-id=3", "--set shm-dir=/tmp"];
        for (arguments, flag) in joined.into_iter().zip(["--nic", joined[1], joined[2]]) {
            let choice = parse(arguments).expect("flags").fabric.choice();
            let line = choice.expect_err("in vain").to_string();
            assert!(line.starts_with(flag) && line.contains("--join"), "{line}");
        }
        for (arguments, flag, fabric) in [
            ("--set secret-file=/tmp/s", "--set secret-file=/tmp/s: ", "tcp"),
            ("--fabric tcp --set shm-dir=/tmp", "--set shm-dir=/tmp: ", "shm"),
        ] {
            let flags = parse(&format!("--join file:/tmp/x {arguments}")).expect("flags");
            let line = flags.fabric.choice().expect_err("it would change nothing").to_string();
            let its = format!("it is for --fabric {fabric}, ");
            assert!(line.starts_with(flag) && line.contains(&its), "{line}");
        }
        let flags = parse("--join file:/tmp/x --listen 127.0.0.1:7470").expect("flags");
        flags.fabric.choice().expect("one command line for any fabric");
        let flags = parse("--join etcd://u:geheim@h:1/x --fabric sim").expect("flags");
        let line = flags.fabric.choice().expect_err("simulated").to_string();
        assert!(line.starts_with("--join etcd://u:...@h:1/x: "), "{line}");
        for (arguments, start, own) in [
            ("--memory-mb 64", "--memory-mb 64: ", "own --memory-mb;"),
            ("--set chip-memory=2K", "--chip-memory 2048: ", "own --chip-memory;"),
        ] {
            let flags = parse(&format!("--join file:/tmp/x {arguments}")).expect("flags");
            let fabric = flags.fabric.choice().expect("a choice");
            let line = flags.cluster.check_fabric(&fabric).expect_err("in vain").to_string();
            assert!(line.starts_with(start) && line.contains(own), "{line}");
        }
        assert_eq!(config("--set chip-memory=256K").expect("a size").chip_bytes, 256 << 10);
        for (arguments, start, would_do) in [
            ("--set colocate=on", "--colocate: ", "use --fabric sim"),
            ("--fabric sim --set chip-memory=2K", "--chip-memory 2048: ", "--nic connectx5-chip"),
        ] {
            let flags = parse(arguments).expect("flags");
            let fabric = flags.fabric.choice().expect("a choice");
            let line = flags.cluster.check_fabric(&fabric).expect_err("in vain").to_string();
            assert!(line.starts_with(start) && line.contains(would_do), "{line}");
        }
        for (arguments, would_do) in [
            ("--home-share 50", "--fabric sim"),
            ("--join file:/tmp/x --home-share 50", "leave it out"),
            ("--join file:/tmp/x --home compute", "leave it out"),
        ] {
            let flags = parse(&format!("{arguments} --protocol scalestore")).expect("flags");
            let fabric = flags.fabric.choice().expect("a choice");
            let line = flags.cluster.check_fabric(&fabric).expect_err("in vain").to_string();
            let flag = arguments.trim_start_matches("--join file:/tmp/x ");
            assert!(line.starts_with(flag) && line.contains(would_do), "{line}");
        }
        for arguments in [
            "--home-share 50 --fabric sim",
            "--home-cores 2 --chaining fifo",
            "--join file:/tmp/x --home-cores 2 --chaining fifo",
            "--home compute --compute-nodes 2 --memory-nodes 2",
        ] {
            let flags = parse(&format!("{arguments} --protocol scalestore")).expect("flags");
            let fabric = flags.fabric.choice().expect("a choice");
            flags.cluster.check_fabric(&fabric).expect("the fabric has it");
            flags.cluster.config(1, &fabric, |_| 64 * MIB).expect("the protocol has it");
        }
        let line = parse("--nic connectx5").expect("flags").fabric.choice().expect_err("no NICs");
        assert!(line.to_string().contains("--fabric sim"), "{line}");
    }

    #[test]
    fn a_simulated_network_has_the_papers_nic_unless_another_is_asked_for() {
        let choice = |arguments: &str| parse(arguments).expect("flags").fabric.choice();
        assert!(matches!(choice(""), Ok(FabricChoice::Shm)));
        assert_eq!(choice("--fabric sim").expect("a choice").nic(), Some("connectx3"));
        let other = choice("--fabric sim --nic ethernet10g").expect("a choice");
        assert_eq!((other.name(), other.nic()), ("sim", Some("ethernet10g")));
    }

    #[test]
    fn the_description_has_every_setting() {
        let described =
            ClusterFlags::describe(&config("--set evict-batch=7 --protocol sel").unwrap());
        assert_eq!(described["protocol"], "sel");
        assert_eq!(described["settings"]["evict-batch"], "7");
        for key in ["compute_nodes", "gcl_size", "seed", "cache_mb", "memory_mb"] {
            assert!(described.contains_key(key), "{key}");
        }
    }
}
