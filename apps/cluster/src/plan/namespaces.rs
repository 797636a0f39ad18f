//! Processes on this machine, each in its own network namespace.
//!
//! ```text
//!        bridge           a namespace of the holder, without a link to the outside
//!     ┌────┴─────┬────────────┐
//!   port1      port2        port3       veth pairs
//!     │          │            │
//!    eth0       eth0         eth0       10.78.0.1, 10.78.0.2, 10.78.0.3
//!    M0         C1           C2         a namespace each
//! ```
//!
//! The namespaces are files of a file system in memory, which is mounted only in the mount
//! namespace of the holder. So no other process sees them, and they disappear with the last process
//! in that mount namespace. Without root rights, a user namespace surrounds them, if the system
//! allows it.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use latchwork_harness::AppError;
use rustix::process::geteuid;

use super::common::{Common, Reach, words};
use super::files::{bin, document, program, usage};
use super::launch::{HOLDER, Launch, Layout, Plan, Role};
use super::store::{Store, etcd, etcd_command, store};
use crate::args::Run;

/// The line with which the holder says that the namespaces exist.
pub(crate) const NAMESPACES: &str = "namespaces are ready";

const PORT: u16 = 2379;
const PEERS: u16 = 2380;

/// The holder's script: it creates the namespaces of the nodes in the given directory, and waits
/// for the end of its input.
const SCRIPT: &str = r#"set -eu
directory=$1
shift
mkdir -p "$directory"
mount -t tmpfs none "$directory"
ip link set lo up
ip link add bridge type bridge
ip link set bridge up
number=0
for node; do
    number=$((number + 1))
    : >"$directory/$node"
    unshare --net="$directory/$node" true
    inside() { nsenter --net="$directory/$node" "$@"; }
    inside ip link set lo up
    inside ip link add eth0 type veth peer name "port$number" netns $$
    inside ip addr add "10.78.0.$number/24" dev eth0
    inside ip link set eth0 up
    ip link set "port$number" master bridge
    ip link set "port$number" up
done
echo "namespaces are ready"
exec cat
"#;

pub(super) fn plan(run: &Run, layout: &Layout) -> Result<Plan, AppError> {
    let is_root = geteuid().is_root();
    permitted(is_root)?;
    let bin = bin(run)?;
    let (memnode, own) = (program(&bin, "memnode")?, program(&bin, &run.program)?);
    let directory = layout.scratch.join("net");
    let mut nodes: Vec<String> = Vec::new();
    let launch = |name: String, role: Role, command: Vec<String>| {
        let mut whole = words(["nsenter", "--target", HOLDER, "--mount"]);
        if !is_root {
            whole.extend(words(["--user", "--preserve-credentials"]));
        }
        let file = directory.join(&name);
        whole.extend(words(["--", "nsenter", &format!("--net={}", file.display()), "--"]));
        Launch { enter: whole, ..Launch::here(name, role, command) }
    };
    let mut plan = Plan::default();
    let mut address = |name: &str| {
        nodes.push(name.to_owned());
        IpAddr::V4(Ipv4Addr::new(10, 78, 0, nodes.len() as u8))
    };
    let endpoint = match store(run, &layout.mark)? {
        Store::File => format!("file:{}", layout.scratch.join("store").display()),
        Store::Given(given) => {
            return usage(format!(
                "--store {given}: namespaces reach nothing outside; use file or etcd"
            ));
        }
        Store::Etcd => {
            let at = address("store");
            let data = layout.scratch.join("etcd").display().to_string();
            let command = etcd_command(&etcd()?, &data, at, run.store_port.unwrap_or(PORT), PEERS);
            plan.launches.push(launch("store".to_owned(), Role::Store, command));
            format!("etcd://{at}:{}/run", run.store_port.unwrap_or(PORT))
        }
    };
    let common = Common { run, endpoint, shared: None };
    for id in 0..run.memory_nodes {
        let name = format!("M{id}");
        let reach = Reach::at(address(&name));
        let command = common.memory(&memnode, id, Some(&reach), None)?;
        plan.launches.push(launch(name, Role::Memory, command));
    }
    for id in 1..=run.compute_nodes {
        let name = format!("C{id}");
        let reach = Reach::at(address(&name));
        let json = document(&layout.results, &name).display().to_string();
        let command = common.compute(&own, id, &json, Some(&reach), None);
        plan.launches.push(launch(name, Role::Program, command));
    }
    let mut holder = unshare(is_root);
    holder.extend(words(["sh", "-c", SCRIPT, "namespaces", &directory.display().to_string()]));
    holder.extend(nodes);
    plan.holder = Some(holder);
    Ok(plan)
}

fn unshare(is_root: bool) -> Vec<String> {
    let mut command = words(["unshare", "--net", "--mount"]);
    if !is_root {
        command.extend(words(["--user", "--map-root-user"]));
    }
    command.push("--".to_owned());
    command
}

/// Whether namespaces are available; the error says what to do if not.
fn permitted(is_root: bool) -> Result<(), AppError> {
    let mut command = unshare(is_root);
    command.extend(words(["ip", "link", "add", "bridge", "type", "bridge"]));
    let tried = Command::new(&command[0]).args(&command[1..]).stdin(Stdio::null()).output();
    let problem = match tried {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => {
            String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned()
        }
        Err(error) => format!("unshare cannot be started: {error}"),
    };
    usage(format!(
        "--on namespaces is not permitted here ({problem}): be root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
         kernel.apparmor_restrict_unprivileged_userns=0); it needs util-linux and iproute2"
    ))
}
