//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use latchwork_harness::parse::{UNITS, mebibytes_exact, seconds, seconds_or_none, size, whole};

/// Starts the processes of a cluster, runs a program on it, gathers what came of it, and leaves
/// nothing behind.
#[derive(Debug, Parser)]
#[command(name = "cluster", version, max_term_width = 100, after_help = UNITS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a program once: `cluster run --memory-nodes 2 --compute-nodes 3 ycsb -- run -w a`.
    Run(Box<Run>),
    /// Runs the experiments of a TOML file, and ends in one table.
    Matrix(Matrix),
    /// Removes what processes that were killed have left: directories of runs, and files in shared
    /// memory. What a living process has stays.
    Clean(Clean),
    #[command(hide = true)]
    Guard(Guard),
    #[command(hide = true)]
    Attend(Attend),
    #[command(hide = true)]
    Node(Node),
}

/// What connects the nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Fabric {
    Shm,
    Tcp,
    Ibverbs,
}

impl Fabric {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fabric::Shm => "shm",
            Fabric::Tcp => "tcp",
            Fabric::Ibverbs => "ibverbs",
        }
    }
}

/// Where the nodes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Place {
    /// Processes on this machine.
    Processes,
    /// The same, each in a network namespace of its own, with an address of its own.
    Namespaces,
    /// Processes in the virtual machine of scripts/rxe-vm.sh, each with an RDMA device of its own.
    Vm,
    /// Processes on the machines of --hosts.
    Ssh,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Place::Processes => "processes",
            Place::Namespaces => "namespaces",
            Place::Vm => "vm",
            Place::Ssh => "ssh",
        }
    }
}

#[derive(Clone, Debug, Args)]
#[command(args_override_self = true, after_help = UNITS)]
pub(crate) struct Run {
    /// Memory nodes, a process each.
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole(1..=64u16))]
    pub(crate) memory_nodes: u16,
    /// Compute nodes, a process each.
    #[arg(long, value_name = "N", default_value = "2", value_parser = whole(1..=58u16))]
    pub(crate) compute_nodes: u16,
    /// Memory of each memory node in MiB, or a size such as 4G. [default: 512M in the virtual
    /// machine, else 3G of all together]
    #[arg(long, value_name = "SIZE", value_parser = mebibytes_exact)]
    pub(crate) memory_mb: Option<u64>,
    /// Further flags of the memory nodes, as "--set huge-pages=advise".
    #[arg(long, value_name = "FLAGS", default_value = "", allow_hyphen_values = true)]
    pub(crate) memnode_flags: String,
    /// Where the nodes are. [default: vm for ibverbs without --device, else processes]
    #[arg(long, value_name = "PLACE")]
    pub(crate) on: Option<Place>,
    /// What connects them. [default: shm for processes, tcp for namespaces and ssh, ibverbs for vm]
    #[arg(long, value_name = "NAME")]
    pub(crate) fabric: Option<Fabric>,
    /// RDMA devices, given to the processes in turn; may be repeated. [default: rxe1, rxe2, .. in
    /// the virtual machine]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// The index in the RDMA devices' tables of addresses.
    #[arg(long, value_name = "N")]
    pub(crate) gid_index: Option<u8>,

    /// Where the nodes meet: file, a directory of this run's own; etcd, one that is started for
    /// this run; or that of etcd://HOST:PORT[/NAME]. [default: file, and etcd for ssh]
    #[arg(long, value_name = "STORE", help_heading = "Store")]
    pub(crate) store: Option<String>,
    /// The port of the etcd that is started. [default: a free one here, 23790 for ssh]
    #[arg(long, value_name = "PORT", help_heading = "Store")]
    pub(crate) store_port: Option<u16>,

    /// The machines, a line for each: HOST, which is what ssh takes; then, if need be, the ADDRESS
    /// that the others reach it under, and its RDMA DEVICE. Memory nodes go to them in turn, then
    /// compute nodes.
    #[arg(long, value_name = "FILE", help_heading = "Machines")]
    pub(crate) hosts: Option<PathBuf>,
    /// How to run a command on a host, which follows.
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "ssh -o BatchMode=yes -o ConnectTimeout=10",
        help_heading = "Machines"
    )]
    pub(crate) ssh: String,
    /// The directory of the programs; with ssh, on the hosts. [default: where this program is]
    #[arg(long, value_name = "DIRECTORY", help_heading = "Machines")]
    pub(crate) bin: Option<PathBuf>,
    /// Copies the programs from here to the directory --bin of each host first, where they differ.
    /// They stay there.
    #[arg(long, help_heading = "Machines")]
    pub(crate) copy: bool,
    /// The script that boots the virtual machine.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "scripts/rxe-vm.sh",
        help_heading = "Machines"
    )]
    pub(crate) vm_script: PathBuf,
    /// Memory of the virtual machine. [default: 1G, the memory nodes' twice, and 256M for each
    /// process]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Machines")]
    pub(crate) vm_memory: Option<u64>,

    /// Seconds until all of it is ended.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds, help_heading = "Limits")]
    pub(crate) time_limit: Duration,
    /// Seconds that processes wait for one another at the start.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, help_heading = "Limits")]
    pub(crate) join_wait: Duration,
    /// Seconds after which a process that has died is known to be dead. [default: 60 in the virtual
    /// machine, else 10]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Limits")]
    pub(crate) member_lease: Option<Duration>,
    /// Seconds that the others may go on when one has failed.
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = seconds_or_none, help_heading = "Limits")]
    pub(crate) grace: Duration,
    /// Seconds that a process has to end after its signal, before it is killed.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds_or_none, help_heading = "Limits")]
    pub(crate) kill_after: Duration,
    /// Seconds that memory nodes wait for compute nodes to leave, at the end.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds_or_none, help_heading = "Limits")]
    pub(crate) drain: Duration,

    /// The directory for results: run.json, document.json, and what each process wrote. Those of an
    /// earlier run are replaced.
    #[arg(
        long,
        value_name = "DIRECTORY",
        default_value = "cluster-results",
        help_heading = "Results"
    )]
    pub(crate) results: PathBuf,
    /// Prints every command, and starts none.
    #[arg(long, help_heading = "Results")]
    pub(crate) dry_run: bool,
    /// Prints all results as an archive, for the process that started this elsewhere.
    #[arg(long, hide = true)]
    pub(crate) archive: bool,

    /// What the compute nodes run: ycsb, tpcc, microbench, spatial, or another program that takes
    /// --join.
    pub(crate) program: String,
    /// The program's own arguments.
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<String>,
}

impl Run {
    pub(crate) fn on(&self) -> Place {
        let has_none = self.fabric == Some(Fabric::Ibverbs) && self.device.is_empty();
        self.on.unwrap_or(if has_none { Place::Vm } else { Place::Processes })
    }

    /// Bytes of each memory node: all have room for a million records of YCSB. What a device pins,
    /// the virtual machine has little of.
    pub(crate) fn memory(&self) -> u64 {
        let all = (3_u64 << 10).div_ceil(u64::from(self.memory_nodes)) << 20;
        self.memory_mb.unwrap_or(if self.on() == Place::Vm { 512 << 20 } else { all })
    }

    pub(crate) fn fabric(&self) -> Fabric {
        self.fabric.unwrap_or(match self.on() {
            Place::Processes => Fabric::Shm,
            Place::Namespaces | Place::Ssh => Fabric::Tcp,
            Place::Vm => Fabric::Ibverbs,
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct Matrix {
    /// The experiments.
    pub(crate) file: PathBuf,
    /// The directory for results: one for each run, and table.md, table.csv, table.json. [default:
    /// that of the file's name, in cluster-results]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) results: Option<PathBuf>,
    /// Runs all, also those whose results are there.
    #[arg(long)]
    pub(crate) again: bool,
    /// Makes the table of what is there, and runs nothing.
    #[arg(long, conflicts_with = "again")]
    pub(crate) table: bool,
    /// Only cases whose name contains this.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Prints every command, and starts none.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The directory of the programs, where the file does not say so.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) bin: Option<PathBuf>,
    /// The script that boots the virtual machine, where the file does not say so.
    #[arg(long, value_name = "FILE")]
    pub(crate) vm_script: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Clean {
    /// A directory that programs were given as their setting shm-dir; may be repeated.
    /// /dev/shm/latchwork is looked at in any case.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) shm_dir: Vec<PathBuf>,
}

/// Waits until the process that started it has ended, and cleans up.
#[derive(Debug, Args)]
pub(crate) struct Guard {
    #[arg(long)]
    pub(crate) mark: String,
    /// The process that is waited for.
    #[arg(long)]
    pub(crate) owner: u32,
    /// Seconds that processes have to end by themselves.
    #[arg(long, value_parser = seconds_or_none)]
    pub(crate) patience: Duration,
    #[arg(required = true)]
    pub(crate) directories: Vec<PathBuf>,
}

/// Runs a process for another machine, as long as its standard input is open.
#[derive(Debug, Args)]
pub(crate) struct Attend {
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<String>,
}

/// Becomes a command that dies with the process that started it.
#[derive(Debug, Args)]
pub(crate) struct Node {
    #[arg(long)]
    pub(crate) parent: u32,
    /// The signal that it gets then.
    #[arg(long, default_value = "9")]
    pub(crate) signal: i32,
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<String>,
}
