//! The commands of a run, computed before any process starts.

mod common;
mod files;
mod hosts;
mod launch;
mod namespaces;
mod processes;
mod ssh;
mod store;
mod vm;

use latchwork_harness::AppError;

use crate::args::{Fabric, Place, Run};
use files::usage;

pub(crate) use files::document;
pub(crate) use launch::{HOLDER, Launch, Layout, Plan, Role, SCRATCH, Step};
pub(crate) use namespaces::NAMESPACES;
pub(crate) use vm::BOOT;

impl Plan {
    /// The plan of this run.
    ///
    /// # Errors
    /// The first impossible setting, in one line that states valid settings.
    pub(crate) fn of(run: &Run, layout: &Layout) -> Result<Plan, AppError> {
        check(run)?;
        match run.on() {
            Place::Processes => processes::plan(run, layout),
            Place::Namespaces => namespaces::plan(run, layout),
            Place::Vm => vm::plan(run),
            Place::Ssh => ssh::plan(run, layout),
        }
    }
}

/// Flags that this command gives to the programs, so the user may not give them.
const OWN: [&str; 6] = ["join", "json", "fabric", "compute-nodes", "memory-nodes", "listen"];

/// Settings that this command gives to the programs, so the user may not give them.
const OWN_SETTINGS: [&str; 5] = ["member-lease", "node-id", "advertise", "shm-dir", "device"];

/// The first of a program's arguments that only this command may give.
fn is_own(arguments: &[String]) -> Option<&String> {
    let mut is_set = false;
    arguments.iter().find(|word| {
        let value = std::mem::replace(&mut is_set, *word == "--set");
        let flag = word.strip_prefix("--").map(|flag| flag.strip_prefix("set=").unwrap_or(flag));
        let name = flag.or(value.then_some(word.as_str())).unwrap_or_default();
        let name = name.split('=').next().unwrap_or_default();
        OWN_SETTINGS.contains(&name) || flag.is_some() && OWN.contains(&name)
    })
}

fn check(run: &Run) -> Result<(), AppError> {
    let fabric = run.fabric();
    let (on, name) = (run.on().name(), fabric.name());
    match (run.on(), fabric) {
        (Place::Namespaces, Fabric::Shm | Fabric::Ibverbs) => {
            return usage(format!(
                "--on {on} --fabric {name}: namespaces have sockets; use --fabric tcp"
            ));
        }
        (Place::Vm, Fabric::Shm | Fabric::Tcp) => {
            return usage(format!(
                "--on {on} --fabric {name}: use --on processes, or --fabric ibverbs"
            ));
        }
        (Place::Ssh, Fabric::Shm) => {
            return usage(format!(
                "--on {on} --fabric {name}: machines share no memory; use tcp or ibverbs"
            ));
        }
        (Place::Processes, Fabric::Ibverbs) if run.device.is_empty() => {
            return usage(format!(
                "--fabric {name}: say which RDMA devices, with --device NAME; or use --on vm, which has some"
            ));
        }
        _ => {}
    }
    if run.hosts.is_some() != (run.on() == Place::Ssh) {
        return usage("--hosts FILE and --on ssh belong together".to_owned());
    }
    if run.copy && run.on() != Place::Ssh {
        return usage("--copy is for --on ssh".to_owned());
    }
    if let Some(own) = is_own(&run.arguments) {
        return usage(format!(
            "{own} belongs before `--`, where it is a flag of cluster, or is not yours to give"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
