//! [`Memory`]: memory nodes of a cluster, in the process of the test.

use std::path::Path;
use std::time::Duration;

use clap::Parser;
use latchwork_cluster::MemoryHost;
use latchwork_harness::{FabricChoice, FabricFlags, JoinChoice};
use latchwork_membership::Role;
use tempfile::TempDir;

use crate::Program;

/// How long nodes wait for one another, on a machine that is busy.
const WAIT: &str = "60";

/// How long compute nodes may take to be gone at the end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Memory nodes that serve until this is dropped, and the store in which all nodes meet.
pub struct Memory {
    hosts: Vec<MemoryHost>,
    directory: TempDir,
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    fabric: FabricFlags,
}

impl Memory {
    /// Starts so many memory nodes of so many bytes each.
    ///
    /// # Panics
    /// When one cannot be started: the test has failed.
    pub fn start(nodes: usize, bytes: u64) -> Memory {
        let directory = TempDir::new().expect("a directory for the store");
        let mut memory = Memory { hosts: Vec::new(), directory };
        let join = memory.join();
        for _ in 0..nodes {
            let joined = join.join(Role::Memory { bytes });
            let (membership, transport) = joined.expect("the memory node joins");
            let host = MemoryHost::start(&transport, membership, false);
            memory.hosts.push(host.expect("the memory node starts"));
        }
        memory
    }

    /// Where compute nodes join.
    pub fn endpoint(&self) -> String {
        format!("file:{}/test", self.directory.path().display())
    }

    /// A directory of the test's own.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The flags with which all nodes join.
    fn flags(&self) -> Vec<String> {
        let endpoint = self.endpoint();
        let flags = ["--fabric", "tcp", "--join", &endpoint, "--join-wait", WAIT];
        flags.map(str::to_owned).into()
    }

    fn join(&self) -> JoinChoice {
        let arguments = std::iter::once("test".to_owned()).chain(self.flags());
        let flags = Flags::try_parse_from(arguments).expect("flags");
        match flags.fabric.choice().expect("a choice") {
            FabricChoice::Joined(join) => *join,
            _ => unreachable!("--join was given"),
        }
    }

    /// Starts a program as so many compute nodes, each with these flags and with `--json` to a file of its own.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start_program(&self, path: &str, nodes: usize, flags: &str) -> Program {
        let mut all = self.flags();
        all.extend(["--compute-nodes".to_owned(), nodes.to_string()]);
        all.extend(["--memory-nodes".to_owned(), self.hosts.len().to_string()]);
        all.extend(flags.split_whitespace().map(str::to_owned));
        Program::start(path, nodes, &all, self.directory.path())
    }

    /// Ends in order.
    ///
    /// # Panics
    /// When compute nodes are left, or the store fails.
    pub fn end(self) {
        for host in self.hosts {
            assert!(host.leave(PATIENCE).expect("the store answers"), "compute nodes are left");
        }
    }
}
