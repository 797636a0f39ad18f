//! Processes on other machines, each at the end of its own connection.
//!
//! On the other machine `cluster attend` runs the process. It ends the process when the connection
//! ends, and sends the process's files back.

use std::path::{Path, PathBuf};
use std::process::Command;

use latchwork_harness::AppError;

use super::common::{Common, words};
use super::files::{own_directory, program, usage};
use super::hosts::{self, Host};
use super::launch::{Launch, Layout, Plan, Role, SCRATCH, Step};
use super::store::{Store, etcd_command, store};
use crate::args::{Fabric, Run};
use crate::shell;

/// The default port of etcd. This machine cannot find free ports of other machines.
const PORT: u16 = 23790;

pub(super) fn plan(run: &Run, layout: &Layout) -> Result<Plan, AppError> {
    let hosts = run.hosts.as_deref().map(hosts::load).transpose()?.unwrap_or_default();
    let ssh =
        shell::split(&run.ssh).map_err(|problem| AppError::Usage(format!("--ssh {problem}")))?;
    if ssh.is_empty() {
        return usage("--ssh: it has no command");
    }
    let here = own_directory()?;
    let bin = run.bin.clone().unwrap_or_else(|| here.clone());
    let at = |name: &str| bin.join(name).display().to_string();
    let connection = Connection { ssh, attend: at("cluster") };
    let mut plan = Plan::default();
    if run.copy {
        if !bin.is_absolute() {
            return usage(format!("--bin {}: copies go to an absolute path", bin.display()));
        }
        for name in ["cluster", "memnode", &run.program] {
            let from = PathBuf::from(program(&here, name)?);
            let sum = sum(&from)?;
            let mut names: Vec<&str> = Vec::new();
            for host in &hosts {
                if !names.contains(&host.name.as_str()) {
                    names.push(&host.name);
                    plan.steps.push(connection.copy(host, &from, &sum, &bin));
                }
            }
        }
    }
    let endpoint = match store(run, &layout.mark)? {
        Store::File => {
            return usage(
                "--store file: machines have no directory in common; use etcd, or etcd://HOST:PORT",
            );
        }
        Store::Given(endpoint) => endpoint,
        Store::Etcd => {
            let first = &hosts[0];
            let port = run.store_port.unwrap_or(PORT);
            let Some(peers) = port.checked_add(1) else {
                return usage(format!("--store-port {port}: use one up to 65534"));
            };
            let command =
                etcd_command("etcd", &format!("{SCRATCH}/etcd"), first.reach().listen, port, peers);
            let command = advertised(command, first, port);
            plan.launches.push(connection.launch("store".to_owned(), Role::Store, first, command));
            format!("etcd://{}/run", std::net::SocketAddr::new(first.address, port))
        }
    };
    let common = Common { run, endpoint, shared: None };
    let mut turn = hosts.iter().cycle();
    let mut next =
        || turn.next().ok_or_else(|| AppError::Usage("--hosts: there is none".to_owned()));
    let reach = |host: &Host| (run.fabric() == Fabric::Tcp).then(|| host.reach());
    for id in 0..run.memory_nodes {
        let host = next()?;
        let command =
            common.memory(&at("memnode"), id, reach(host).as_ref(), host.device.as_deref())?;
        plan.launches.push(connection.launch(format!("M{id}"), Role::Memory, host, command));
    }
    for id in 1..=run.compute_nodes {
        let host = next()?;
        let json = format!("{SCRATCH}/document.json");
        let command = common.compute(
            &at(&run.program),
            id,
            &json,
            reach(host).as_ref(),
            host.device.as_deref(),
        );
        plan.launches.push(connection.launch(format!("C{id}"), Role::Program, host, command));
    }
    Ok(plan)
}

/// etcd tells its clients this address of the machine, also if it listens on all addresses.
fn advertised(mut command: Vec<String>, host: &Host, port: u16) -> Vec<String> {
    let flag = command.iter().position(|word| word == "--advertise-client-urls");
    if let Some(at) = flag {
        command[at + 1] = format!("http://{}", std::net::SocketAddr::new(host.address, port));
    }
    command
}

struct Connection {
    ssh: Vec<String>,
    attend: String,
}

impl Connection {
    fn command(&self, host: &Host, remote: &str) -> Vec<String> {
        let mut command = self.ssh.clone();
        command.extend([host.name.clone(), remote.to_owned()]);
        command
    }

    fn launch(&self, name: String, role: Role, host: &Host, command: Vec<String>) -> Launch {
        let mut attended = words([&self.attend, "attend", "--"]);
        attended.extend(command);
        let command = self.command(host, &format!("exec {}", shell::quote(&attended)));
        let here = Launch::here(name, role, command);
        Launch { host: Some(host.name.clone()), is_attended: true, ..here }
    }

    /// Copies a program to the machine, unless the machine has the same file already.
    fn copy(&self, host: &Host, from: &Path, sum: &str, bin: &Path) -> Step {
        let to = bin.join(from.file_name().unwrap_or_default()).display().to_string();
        let quoted = |path: &str| shell::quote(&[path.to_owned()]);
        let (directory, file) = (quoted(&bin.display().to_string()), quoted(&to));
        let partial = quoted(&format!("{to}.{}", std::process::id()));
        let remote = format!(
            "mkdir -p {directory} && {{ [ -x {file} ] && [ \"$(cksum <{file})\" = {} ] && cat >/dev/null || \
             {{ cat >{partial} && chmod 755 {partial} && mv {partial} {file}; }}; }}",
            quoted(sum)
        );
        let what = format!("copying {} to {}", from.display(), host.name);
        Step { command: self.command(host, &remote), input: Some(from.to_owned()), what }
    }
}

/// The output of cksum for a file.
fn sum(path: &Path) -> Result<String, AppError> {
    let output = Command::new("cksum").stdin(open(path)?).output();
    let output =
        output.map_err(|error| AppError::Failed(format!("cksum cannot be started: {error}")))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn open(path: &Path) -> Result<std::fs::File, AppError> {
    std::fs::File::open(path)
        .map_err(|error| AppError::Usage(format!("{} cannot be read: {error}", path.display())))
}
