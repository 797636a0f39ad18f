//! [`Common`]: the flags that all nodes of a run have.

use std::fmt::Display;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use latchwork_harness::{AppError, MIB};

use crate::args::{Fabric, Run};
use crate::shell;

/// The length of a node's lease.
const LEASE: Duration = Duration::from_secs(10);

/// The addresses of a node that has its own address.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    pub(super) listen: IpAddr,
    pub(super) advertise: Option<String>,
}

impl Reach {
    pub(super) fn at(address: IpAddr) -> Reach {
        Reach { listen: address, advertise: None }
    }
}

/// The common settings of all nodes.
pub(super) struct Common<'a> {
    pub(super) run: &'a Run,
    /// The endpoint of the membership store.
    pub(super) endpoint: String,
    pub(super) shared: Option<&'a Path>,
}

impl Common<'_> {
    fn flags(
        &self,
        id: u16,
        index: usize,
        reach: Option<&Reach>,
        device: Option<&str>,
    ) -> Vec<String> {
        let run = self.run;
        let mut flags = words(["--join", &self.endpoint, "--fabric", run.fabric().name()]);
        let lease = run.member_lease.unwrap_or(LEASE);
        flags.extend(set("node-id", id));
        flags.extend(set("join-wait", run.join_wait.as_secs_f64()));
        flags.extend(set("member-lease", lease.as_secs_f64()));
        if run.fabric() == Fabric::Shm
            && let Some(shared) = self.shared
        {
            flags.extend(set("shm-dir", shared.display()));
        }
        if let Some(reach) = reach {
            flags.extend(words([
                "--listen",
                &std::net::SocketAddr::new(reach.listen, 0).to_string(),
            ]));
            if let Some(advertise) = &reach.advertise {
                flags.extend(set("advertise", advertise));
            }
        }
        if run.fabric() == Fabric::Ibverbs {
            let in_turn =
                (!run.device.is_empty()).then(|| run.device[index % run.device.len()].as_str());
            if let Some(device) = device.or(in_turn) {
                flags.extend(set("device", device));
            }
            if let Some(index) = run.gid_index {
                flags.extend(set("gid-index", index));
            }
        }
        flags
    }

    /// The command of a memory node.
    pub(super) fn memory(
        &self,
        program: &str,
        id: u16,
        reach: Option<&Reach>,
        device: Option<&str>,
    ) -> Result<Vec<String>, AppError> {
        let run = self.run;
        let mut command = words([
            program,
            "--memory-mb",
            &mebibytes(run.memory()),
            "--drain",
            &run.drain.as_secs_f64().to_string(),
        ]);
        let more = shell::split(&run.memnode_flags);
        command
            .extend(more.map_err(|problem| AppError::Usage(format!("--memnode-flags {problem}")))?);
        command.extend(self.flags(id, usize::from(id), reach, device));
        Ok(command)
    }

    /// The command of a compute node.
    pub(super) fn compute(
        &self,
        program: &str,
        id: u16,
        json: &str,
        reach: Option<&Reach>,
        device: Option<&str>,
    ) -> Vec<String> {
        let run = self.run;
        let mut command = vec![program.to_owned()];
        command.extend(run.arguments.iter().cloned());
        let index = usize::from(run.memory_nodes + id) - 1;
        command.extend(self.flags(id, index, reach, device));
        command.extend(words(["--compute-nodes", &run.compute_nodes.to_string()]));
        command.extend(words(["--memory-nodes", &run.memory_nodes.to_string()]));
        command.extend(words(["--json", json]));
        command
    }
}

pub(super) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

/// A setting of a program, as its command line has it.
fn set(name: &str, value: impl Display) -> Vec<String> {
    vec!["--set".to_owned(), format!("{name}={value}")]
}

/// A size as `--memory-mb` takes it.
pub(super) fn mebibytes(bytes: u64) -> String {
    if bytes.is_multiple_of(MIB) { (bytes / MIB).to_string() } else { format!("{bytes}B") }
}
