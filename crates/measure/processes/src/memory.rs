//! [`Memory`]: memory nodes of a cluster, in the process of the test.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use latchwork_cluster::MemoryHost;
use latchwork_harness::{FabricChoice, FabricFlags, JoinChoice};
use latchwork_membership::{NodeName, Role};
use latchwork_verbs_ibv::{IbvConfig, IbvFabric};
use tempfile::TempDir;

use crate::Program;

/// How long nodes wait for each other on a busy machine, in seconds.
const WAIT: &str = "60";

/// The lease of members, in seconds. With this length, a busy machine rarely loses the lease of a
/// live node. Tests of deaths set their own lease.
const LEASE: &str = "60";

/// The log filter of the programs. On a busy machine the renewal of a lease or a batch may be late,
/// so that a connection is made anew. The filter hides these warnings, because tests compare the
/// error output.
const LOG: &str = "latchwork_membership=error,latchwork_verbs_tcp=error,warn";

/// Settings of runs that outlive their processes: a short interval, and a deadline that is longer
/// than a lease. Leases are long, so that a load takes none: a process that is killed is known to
/// be dead without the end of its lease.
pub const OUTLIVING: &str = "--set clean-interval=100ms --set member-lease=60 --set deadline=2m";

/// How long a memory node waits for compute nodes to leave at the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Memory nodes that serve until this value is dropped, and the membership store of the cluster,
/// which is a temporary directory.
pub struct Memory {
    hosts: Vec<MemoryHost>,
    directory: TempDir,
    /// The flags of the fabric: for memory nodes, then for compute nodes.
    fabric: [String; 2],
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    fabric: FabricFlags,
}

impl Memory {
    /// Starts `nodes` memory nodes of `bytes` bytes each.
    ///
    /// # Panics
    /// When a memory node cannot be started.
    pub fn start(nodes: usize, bytes: u64) -> Memory {
        let compute = format!("--fabric tcp --log {LOG}");
        Memory::start_on(["--fabric tcp".to_owned(), compute], nodes, bytes)
    }

    /// As [`start`](Memory::start), on RDMA devices. If there are more devices than memory nodes,
    /// memory nodes and compute nodes use different devices. Otherwise all nodes use all devices.
    ///
    /// Without devices the result is `None`, and a line on standard error prints the reason.
    /// `scripts/test-ibv.sh` runs the tests in a virtual machine with emulated devices. These
    /// devices are slow, so nodes use a longer RDMA timeout.
    ///
    /// # Panics
    /// As [`start`](Memory::start). Also when that virtual machine has no devices (`RXE_HOSTS` is
    /// set there).
    pub fn start_on_devices(nodes: usize, bytes: u64) -> Option<Memory> {
        let devices = match IbvFabric::open(IbvConfig::default()) {
            Ok(fabric) => fabric.devices(),
            Err(error) => {
                assert!(std::env::var_os("RXE_HOSTS").is_none(), "in the virtual machine: {error}");
                // The test harness does not capture this output, as it would with `eprintln`.
                let skipped = "skipped (scripts/test-ibv.sh has devices)";
                let _ = writeln!(std::io::stderr(), "{skipped}: {error}");
                return None;
            }
        };
        let (memory, compute) = match devices.split_at_checked(nodes) {
            Some((memory, compute)) if !compute.is_empty() => (memory, compute),
            _ => (&devices[..], &devices[..]),
        };
        let flags = |devices: &[String]| {
            let patient = "--fabric ibverbs --set rdma-timeout=7".to_owned();
            devices.iter().fold(patient, |flags, device| format!("{flags} --set device={device}"))
        };
        // On slow devices late renewals are normal.
        let compute = format!("{} --log error", flags(compute));
        Some(Memory::start_on([flags(memory), compute], nodes, bytes))
    }

    fn start_on(fabric: [String; 2], nodes: usize, bytes: u64) -> Memory {
        let directory = TempDir::new().expect("a directory for the store");
        let mut memory = Memory { hosts: Vec::new(), directory, fabric };
        let join = memory.join();
        for _ in 0..nodes {
            let joined = join.join(Role::Memory { bytes, chip_bytes: 0 });
            let (membership, transport) = joined.expect("the memory node joins");
            let host = MemoryHost::start(&transport, membership, false);
            memory.hosts.push(host.expect("the memory node starts"));
        }
        memory
    }

    /// The endpoint of the membership store, as the flag `--join` takes it.
    pub fn endpoint(&self) -> String {
        format!("file:{}/test", self.directory.path().display())
    }

    /// The temporary directory of this cluster, which tests may use for files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The flags with which a node joins, with these flags of the fabric.
    fn flags_on(&self, fabric: &str) -> Vec<String> {
        let endpoint = self.endpoint();
        let (wait, lease) = (format!("join-wait={WAIT}"), format!("member-lease={LEASE}"));
        let flags = ["--join", &endpoint, "--set", &wait, "--set", &lease];
        fabric.split_whitespace().chain(flags).map(str::to_owned).collect()
    }

    /// The flags with which compute nodes join.
    fn flags(&self) -> Vec<String> {
        self.flags_on(&self.fabric[1])
    }

    fn join(&self) -> JoinChoice {
        let own = self.flags_on(&self.fabric[0]);
        let arguments = std::iter::once("test".to_owned()).chain(own);
        let flags: Flags =
            latchwork_harness::config::command_line("test", arguments).expect("flags");
        match flags.fabric.choice().expect("a choice") {
            FabricChoice::Joined(join) => *join,
            _ => unreachable!("--join was given"),
        }
    }

    /// Starts `nodes` processes of a program, each as one compute node. Each process gets `flags`,
    /// and `--json` with a file of its own.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn start_program(&self, path: &str, nodes: usize, flags: &str) -> Program {
        self.start_unlike(path, &vec![flags; nodes])
    }

    /// As [`start_program`](Memory::start_program), with flags for each process. The flags of a
    /// process come after the common flags.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn start_unlike(&self, path: &str, flags: &[&str]) -> Program {
        let nodes = flags.len().to_string();
        let with = |own: &&str| {
            let mut all = self.flags();
            all.extend(["--compute-nodes".to_owned(), nodes.clone()]);
            all.extend(["--memory-nodes".to_owned(), self.hosts.len().to_string()]);
            all.extend(own.split_whitespace().map(str::to_owned));
            all
        };
        let all: Vec<_> = flags.iter().map(with).collect();
        Program::start(path, &all, self.directory.path())
    }

    /// As [`start_program`](Memory::start_program), for a run that outlives its processes. Process
    /// `i` has the id `i + 1`, so the first one shows the results while it lives. When this method
    /// returns, the data are loaded, and processes may be killed.
    ///
    /// # Panics
    /// Also when the run does not begin within `limit`.
    pub fn start_outliving(
        &self,
        path: &str,
        nodes: usize,
        flags: &str,
        limit: Duration,
    ) -> Program {
        let flags = (1..=nodes).map(|id| {
            format!("{OUTLIVING} --log latchwork_harness=info,{LOG} --set node-id={id} {flags}")
        });
        let flags: Vec<String> = flags.collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut program = self.start_unlike(path, &flags);
        // Each process says so once.
        for _ in 0..nodes {
            let is_it = |line: &str| line.contains("the run outlives its processes");
            program.wait_for_line_that("", is_it, limit);
        }
        program
    }

    /// The dead nodes in the view of the first memory node: the nodes that ended without a graceful
    /// leave.
    pub fn dead(&self) -> Vec<NodeName> {
        let view = self.hosts.first().map(|host| host.membership().view());
        view.iter().flat_map(|view| view.dead()).map(|member| member.node).collect()
    }

    /// Ends the memory nodes in order.
    ///
    /// # Panics
    /// When compute nodes have not left after 60 s, or when the membership store fails.
    pub fn end(self) {
        for host in self.hosts {
            assert!(host.leave(PATIENCE).expect("the store answers"), "compute nodes are left");
        }
    }
}
