//! Processes in the virtual machine of `scripts/rxe-vm.sh`. A second instance of this program runs
//! inside the virtual machine, over its RDMA devices, and prints the results as an archive.

use std::time::Duration;

use latchwork_harness::AppError;

use super::common::{mebibytes, words};
use super::files::{bin, program, usage};
use super::launch::{Launch, Plan, Role};
use crate::args::Run;

const MIB: u64 = 1 << 20;

pub(super) fn plan(run: &Run) -> Result<Plan, AppError> {
    if run.store.as_deref().is_some_and(|store| store != "file") {
        return usage(
            "--on vm: nothing outside of the virtual machine is reached from there; use --store file",
        );
    }
    if !run.vm_script.is_file() {
        return usage(format!("--vm-script {}: there is no such file", run.vm_script.display()));
    }
    let script = std::path::absolute(&run.vm_script).unwrap_or_else(|_| run.vm_script.clone());
    let bin = bin(run)?;
    program(&bin, "memnode")?;
    program(&bin, &run.program)?;
    let cluster = program(&bin, "cluster")?;
    let processes = u64::from(run.memory_nodes) + u64::from(run.compute_nodes);
    let memory = run.vm_memory.unwrap_or_else(|| {
        let nodes = run.memory().saturating_mul(2).saturating_mul(u64::from(run.memory_nodes));
        nodes.saturating_add((1024 + 256 * processes) * MIB)
    });
    let devices: Vec<_> = match run.device.is_empty() {
        true => (1..=processes).map(|number| format!("rxe{number}")).collect(),
        false => run.device.clone(),
    };
    if processes > 32 {
        return usage(format!(
            "--on vm: it has 32 devices at most, and these are {processes} processes"
        ));
    }
    // The limit includes the boot. The second instance has the rest of the time.
    let limit = run.time_limit.as_secs() + BOOT;
    let mut command = words([
        &script.display().to_string(),
        "--hosts",
        &processes.to_string(),
        "--limit",
        &limit.to_string(),
        "--memory",
        &(memory / MIB).to_string(),
        "--share",
        &bin.display().to_string(),
        &cluster,
        "run",
        "--on",
        "processes",
        "--fabric",
        run.fabric().name(),
        "--device",
        &devices.join(","),
        "--bin",
        &bin.display().to_string(),
        "--results",
        "/tmp/results",
        "--archive",
    ]);
    for (flag, value) in [
        ("--memory-nodes", run.memory_nodes.to_string()),
        ("--compute-nodes", run.compute_nodes.to_string()),
        ("--memory-mb", mebibytes(run.memory())),
        ("--time-limit", run.time_limit.as_secs_f64().to_string()),
        ("--join-wait", run.join_wait.as_secs_f64().to_string()),
        ("--member-lease", run.member_lease.unwrap_or(LEASE).as_secs_f64().to_string()),
        ("--grace", run.grace.as_secs_f64().to_string()),
        ("--kill-after", run.kill_after.as_secs_f64().to_string()),
        ("--drain", run.drain.as_secs_f64().to_string()),
    ] {
        command.extend(words([flag, &value]));
    }
    if let Some(index) = run.gid_index {
        command.extend(words(["--gid-index", &index.to_string()]));
    }
    if !run.memnode_flags.is_empty() {
        command.push(format!("--memnode-flags={}", run.memnode_flags));
    }
    command.extend(words([&run.program, "--"]));
    command.extend(run.arguments.iter().cloned());
    let launch = Launch::here("vm".to_owned(), Role::Program, command);
    Ok(Plan { launches: vec![Launch { is_run: true, ..launch }], ..Plan::default() })
}

/// The length of a node's lease. A living node in the virtual machine may be late by this much.
const LEASE: Duration = Duration::from_secs(60);

/// The seconds that the boot of the virtual machine may take.
pub(crate) const BOOT: u64 = 240;
