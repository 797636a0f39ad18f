//! The commands of a run, computed before any process starts.
//!
//! Words of commands may contain placeholders for values that are known only later: [`SCRATCH`],
//! [`HOLDER`].

mod hosts;
mod namespaces;
mod processes;
mod ssh;
mod vm;

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use latchwork_harness::{AppError, MIB};

use crate::args::{Fabric, Place, Run};
use crate::shell;

pub(crate) use hosts::Host;
pub(crate) use namespaces::NAMESPACES;
pub(crate) use vm::BOOT;

/// The directory of an attended process' files.
pub(crate) const SCRATCH: &str = "{scratch}";
/// The process that holds the network namespaces.
pub(crate) const HOLDER: &str = "{holder}";

/// The lease of a node.
const LEASE: Duration = Duration::from_secs(10);

/// etcd's line when it is ready.
const ETCD_READY: &str = "serving client traffic";
/// A memory node's text when it is ready.
const MEMNODE_READY: &str = " serves ";

/// The purpose of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// etcd.
    Store,
    Memory,
    /// A process that ends by itself; the run is for its result.
    Program,
}

/// A process to start.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Its name: `M0`, `C1`, `store`.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The machine on which it runs, if not this one.
    pub(crate) host: Option<String>,
    /// The command words that enter the environment of the command.
    pub(crate) enter: Vec<String>,
    pub(crate) command: Vec<String>,
    /// The text on its standard error after which the next process may start.
    pub(crate) ready: Option<&'static str>,
    /// It runs elsewhere: its standard input carries signals, and its standard output is an
    /// archive.
    pub(crate) is_attended: bool,
    /// Its standard output is an archive of a run's results.
    pub(crate) is_run: bool,
}

/// A command that runs to its end before any process starts.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) command: Vec<String>,
    /// The file of its standard input.
    pub(crate) input: Option<PathBuf>,
    /// Its subject, for errors.
    pub(crate) what: String,
}

/// All commands of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// The process that holds the network namespaces until its standard input ends.
    pub(crate) holder: Option<Vec<String>>,
    /// In the order of their start.
    pub(crate) launches: Vec<Launch>,
}

/// The directories of the run.
pub(crate) struct Layout {
    pub(crate) scratch: PathBuf,
    pub(crate) shared: PathBuf,
    pub(crate) results: PathBuf,
    pub(crate) mark: String,
}

/// The address of a node, if it has its own.
#[derive(Clone, Debug)]
struct Reach {
    listen: IpAddr,
    advertise: Option<String>,
}

impl Reach {
    fn at(address: IpAddr) -> Reach {
        Reach { listen: address, advertise: None }
    }
}

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

    /// All commands, quoted for a shell.
    pub(crate) fn lines(&self) -> Vec<String> {
        let input = |step: &Step| match &step.input {
            Some(file) => format!(" <{}", shell::quote(&[file.display().to_string()])),
            None => String::new(),
        };
        let steps = self.steps.iter().map(|step| shell::quote(&step.command) + &input(step));
        let holder = self.holder.iter().map(|holder| shell::quote(holder));
        let launches = self.launches.iter().map(Launch::line);
        steps.chain(holder).chain(launches).collect()
    }
}

fn usage<T>(text: impl Into<String>) -> Result<T, AppError> {
    Err(AppError::Usage(text.into()))
}

/// Flags that the command gives to every process.
const OWN: [&str; 6] = ["join", "json", "fabric", "compute-nodes", "memory-nodes", "listen"];

/// Settings that the command gives to every process.
const OWN_SETTINGS: [&str; 5] = ["member-lease", "node-id", "advertise", "shm-dir", "device"];

/// The first of a program's arguments that gives what only this command may give.
fn is_own<'a>(arguments: &'a [String]) -> Option<&'a String> {
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

/// The file of a program on this machine.
fn program(bin: &Path, name: &str) -> Result<String, AppError> {
    let path = bin.join(name);
    match path.is_file() {
        true => Ok(path.display().to_string()),
        false => usage(format!(
            "there is no {}: build it, with `cargo build --release --bins`, or give --bin DIRECTORY",
            path.display()
        )),
    }
}

/// The directory of the programs on this machine.
pub(crate) fn bin(run: &Run) -> Result<PathBuf, AppError> {
    match &run.bin {
        Some(bin) => std::path::absolute(bin).or_else(|_| Ok(bin.clone())),
        None => own_directory(),
    }
}

fn own_directory() -> Result<PathBuf, AppError> {
    let own = std::env::current_exe()
        .map_err(|error| AppError::Failed(format!("this program's file is unknown: {error}")))?;
    Ok(own.parent().unwrap_or(Path::new(".")).to_owned())
}

/// The common settings of all nodes.
struct Common<'a> {
    run: &'a Run,
    /// The endpoint of the membership store.
    endpoint: String,
    shared: Option<&'a Path>,
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
    fn memory(
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
    fn compute(
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

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

/// A setting of a program, as its command line has it.
fn set(name: &str, value: impl Display) -> Vec<String> {
    vec!["--set".to_owned(), format!("{name}={value}")]
}

/// A size as `--memory-mb` takes it.
fn mebibytes(bytes: u64) -> String {
    if bytes.is_multiple_of(MIB) { (bytes / MIB).to_string() } else { format!("{bytes}B") }
}

impl Launch {
    fn here(name: String, role: Role, command: Vec<String>) -> Launch {
        let ready = match role {
            Role::Store => Some(ETCD_READY),
            Role::Memory => Some(MEMNODE_READY),
            Role::Program => None,
        };
        let (host, enter) = (None, Vec::new());
        Launch { name, role, host, enter, command, ready, is_attended: false, is_run: false }
    }

    /// The whole command, quoted for a shell.
    pub(crate) fn line(&self) -> String {
        let all: Vec<_> = self.enter.iter().chain(&self.command).cloned().collect();
        shell::quote(&all)
    }
}

/// The result document of a compute node on this machine.
pub(crate) fn document(results: &Path, name: &str) -> PathBuf {
    results.join(format!("{name}.json"))
}

/// The values of `--store`.
enum Store {
    File,
    /// An etcd that this command starts.
    Etcd,
    Given(String),
}

fn store(run: &Run, mark: &str) -> Result<Store, AppError> {
    let other = match run.on() {
        Place::Ssh => "etcd",
        _ => "file",
    };
    match run.store.as_deref().unwrap_or(other) {
        "file" => Ok(Store::File),
        "etcd" => Ok(Store::Etcd),
        given => match given.strip_prefix("etcd://") {
            Some(rest) if rest.contains('/') => Ok(Store::Given(given.to_owned())),
            Some(_) => Ok(Store::Given(format!("{given}/{mark}"))),
            None => usage(format!("--store {given}: use file, etcd, or etcd://HOST:PORT")),
        },
    }
}

/// The file of etcd on this machine.
fn etcd() -> Result<String, AppError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|place| place.join("etcd")).find(|file| file.is_file());
    match found {
        Some(file) => Ok(file.display().to_string()),
        None => usage(
            "--store etcd: etcd is not installed here; install it, or use --store file, or etcd://HOST:PORT",
        ),
    }
}

/// An etcd of one node, with its data in a directory.
fn etcd_command(program: &str, data: &str, address: IpAddr, port: u16, peers: u16) -> Vec<String> {
    let clients = format!("http://{}", std::net::SocketAddr::new(address, port));
    let peers = format!("http://127.0.0.1:{peers}");
    let mut command = words([
        program,
        "--name",
        "store",
        "--data-dir",
        data,
        "--logger",
        "zap",
        "--log-level",
        "info",
    ]);
    command.extend(words(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]));
    command.extend(words(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]));
    command.extend(words(["--initial-cluster", &format!("store={peers}")]));
    command
}

/// Two ports that are free at the moment.
fn free_ports() -> Result<[u16; 2], AppError> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let port = |listener: &TcpListener| Ok::<u16, io::Error>(listener.local_addr()?.port());
    let both = || {
        let (one, other) = (listen()?, listen()?);
        Ok::<_, io::Error>([port(&one)?, port(&other)?])
    };
    both().map_err(|error| AppError::Failed(format!("there is no free port for etcd: {error}")))
}

#[cfg(test)]
mod tests;
