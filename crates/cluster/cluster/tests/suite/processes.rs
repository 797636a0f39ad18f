//! Clusters in which compute nodes are processes that fail. A child process runs this test program,
//! and is killed at the latest when its test ends. The memory nodes, and one compute node that
//! survives, are threads of the test.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_cluster::{
    ClusterConfig, JoinError, Joined, Member, MemoryHost, Protocol, Transport, is_free,
};
use latchwork_coherence::{CoherentMemory as _, MemoryError};
use latchwork_membership::{
    Joining, MemberState, Membership, MembershipError, NodeName, Role, View,
};
use latchwork_runtime::sync::Mutex;
use latchwork_runtime::{Clock, Time};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_shm::HugePages;
use latchwork_verbs_tcp::{Secret, Security, TcpConfig};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::common::small;

const LIMIT: Duration = Duration::from_secs(60);
/// The lease of the nodes that survive, and the lease of the nodes that fail. The test waits for
/// the end of the second.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(3);

/// The variable for a child process: the directory, the transport and the role.
const PLACE: &str = "LATCHWORK_TEST_CLUSTER";

/// A cluster in its own directory.
struct Place {
    directory: TempDir,
    transport: &'static str,
}

impl Place {
    fn new(transport: &'static str) -> Place {
        Place { directory: TempDir::new().expect("a directory"), transport }
    }

    fn directory(&self) -> &str {
        self.directory.path().to_str().expect("a name")
    }

    fn memory(&self) -> Vec<MemoryHost> {
        let nodes = config().memory_nodes;
        (0..nodes).map(|_| host(self.directory(), self.transport)).collect()
    }

    fn join(&self) -> Joined {
        self.join_as(Protocol::default())
    }

    fn join_as(&self, protocol: Protocol) -> Joined {
        let config = ClusterConfig { protocol, ..config() };
        join(config, self.directory(), self.transport, LONG).expect("it joins")
    }

    fn child(&self) -> Process {
        self.child_as(Protocol::default().name())
    }

    /// A compute node of a cluster that recovers the lines of dead nodes.
    fn join_surviving(&self) -> Joined {
        join(surviving(), self.directory(), self.transport, LONG).expect("it joins")
    }

    /// A compute node with this id of such a cluster.
    fn child_with(&self, id: u16) -> Process {
        self.child_as(&format!("{SURVIVES} {id}"))
    }

    /// A compute node of this protocol, one of such a cluster ([`SURVIVES`], with its id behind it
    /// if the node waits for a certain one), or a memory node.
    fn child_as(&self, role: &str) -> Process {
        Process::start(&format!("{}\n{}\n{role}", self.directory(), self.transport))
    }
}

fn host(directory: &str, name: &str) -> MemoryHost {
    let role = Role::Memory { bytes: config().memory_bytes, chip_bytes: 0 };
    let membership = membership(directory, role, LONG);
    MemoryHost::start(&transport(name, directory), membership, false).expect("memory")
}

/// A pool with 30 chunks, which have about 120 lines each.
fn config() -> ClusterConfig {
    let mut config = small(1, 1, 32, 1);
    config.node.deadline = Duration::from_secs(5);
    config
}

/// The role of a child in a cluster that recovers the lines of dead nodes.
const SURVIVES: &str = "survives";

/// Accesses wait for longer than the lease of a node that fails.
fn surviving() -> ClusterConfig {
    let mut config = config();
    config.selcc.survive = true;
    config.node.deadline = LIMIT;
    config
}

fn membership(directory: &str, role: Role, ttl: Duration) -> Membership {
    member(directory, Joining { ttl, ..Joining::new(role) }).expect("an id")
}

fn member(directory: &str, joining: Joining) -> Result<Membership, MembershipError> {
    let store = format!("file:{directory}/store");
    let (store, cluster) = latchwork_membership::open(&store).expect("a store");
    Membership::join(store, &cluster, joining)
}

/// Takes the id when its last holder has died, and its recovery is over.
fn successor(directory: &str, id: u16) -> Membership {
    let joining = Joining { id: Some(id), ttl: SHORT, ..Joining::new(Role::Compute) };
    let clock = Clock::start();
    loop {
        match member(directory, Joining { reuse: Some(is_free), ..joining.clone() }) {
            Ok(membership) => return membership,
            Err(MembershipError::Taken { .. } | MembershipError::Dead { .. })
                if clock.now() < Time::ZERO + LIMIT => {}
            Err(error) => panic!("the id {id} is not given again: {error}"),
        }
        thread::park_timeout(Duration::from_millis(20));
    }
}

fn transport(name: &str, directory: &str) -> Transport {
    match name {
        "tcp" => {
            let security = Security::Secret(Secret::new(&[7; 32]).expect("a secret"));
            Transport::Tcp {
                config: Box::new(TcpConfig { threads: 1, ..TcpConfig::new(security) }),
                listen: "127.0.0.1:0".parse().expect("an address"),
                advertise: None,
            }
        }
        _ => Transport::Shm {
            directory: Some(format!("{directory}/shm").into()),
            huge_pages: HugePages::Never,
        },
    }
}

fn join(
    config: ClusterConfig,
    directory: &str,
    name: &str,
    ttl: Duration,
) -> Result<Joined, JoinError> {
    start(config, directory, name, membership(directory, Role::Compute, ttl))
}

fn start(
    config: ClusterConfig,
    directory: &str,
    name: &str,
    membership: Membership,
) -> Result<Joined, JoinError> {
    Joined::start(config, &transport(name, directory), membership, LIMIT)
}

// ---- the child ----------------------------------------------------------------------------------

/// One memory node, which answers each line by its name; or one compute node. The compute node
/// answers each command by one line. The commands are: `node`; `write ADDRESS VALUE`, which posts a
/// verb; `change ADDRESS VALUE`, which writes the first word of a line; `read ADDRESS`, which reads
/// that word; `enter`, which begins an operation that never ends; `allocate N`, which keeps all
/// lines; `leave`.
#[test]
#[ignore = "what the other tests start as processes of their own"]
fn what_a_child_process_does() {
    let Ok(place) = std::env::var(PLACE) else { return };
    let [directory, transport, role] = place.split('\n').collect::<Vec<_>>()[..] else { return };
    if role == "memory" {
        let host = host(directory, transport);
        for _ in std::io::stdin().lines().map_while(Result::ok) {
            say(&host.membership().me().node.to_string());
        }
        return;
    }
    let config = match role.starts_with(SURVIVES) {
        true => surviving(),
        false => ClusterConfig { protocol: role.parse().expect("a protocol"), ..config() },
    };
    let membership = match role.split_once(' ') {
        Some((_, id)) => successor(directory, id.parse().expect("an id")),
        None => membership(directory, Role::Compute, SHORT),
    };
    let joined = start(config, directory, transport, membership).expect("it joins");
    let (line, lines) = channel();
    thread::spawn(move || {
        for text in std::io::stdin().lines().map_while(Result::ok) {
            let _ = line.send(text);
        }
    });
    let (lines, membership) = (Mutex::new(lines), joined.membership().clone());
    let ended = joined.run(|member| obey(member, &lines, &membership));
    match ended {
        Ok(_) => {
            say(&joined.leave().map_or_else(|error| error.to_string(), |()| "left".to_owned()))
        }
        Err(error) => say(&error.to_string()),
    }
}

fn say(answer: &str) {
    println!("\n@{answer}");
}

async fn obey(member: Member, lines: &Mutex<Receiver<String>>, membership: &Membership) {
    let mut operations = Vec::new();
    loop {
        // Each command is in a sweep of its own.
        member.handle.sleep(Duration::from_millis(1)).await;
        let line = lines.lock().try_recv();
        let line = match line {
            Ok(line) => line,
            Err(TryRecvError::Empty) => continue,
            Err(TryRecvError::Disconnected) => return,
        };
        let words: Vec<_> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let answer = match words[0] {
            "node" => membership.me().node.to_string(),
            "write" => {
                let port = member.memory.port();
                let end = port.write_word(GlobalAddr::from_bits(number(1)), number(2)).await;
                end.map_or_else(|error| error.to_string(), |()| "done".to_owned())
            }
            "change" => {
                let end = change(&member, GlobalAddr::from_bits(number(1)), number(2)).await;
                end.map_or_else(|error| error.to_string(), |()| "done".to_owned())
            }
            "read" => {
                let line = GlobalAddr::from_bits(number(1));
                let end = member.memory.read(line, |words| words.u64(0)).await;
                end.map_or_else(|error| error.to_string(), |value| value.to_string())
            }
            "enter" => {
                operations.push(member.memory.enter().await.expect("an operation"));
                "done".to_owned()
            }
            "allocate" => {
                for _ in 0..number(1) {
                    member.memory.allocate().await.expect("room");
                }
                "done".to_owned()
            }
            _ => return,
        };
        say(&answer);
    }
}

struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(place: &str) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([
            "processes::what_a_child_process_does",
            "--exact",
            "--ignored",
            "--nocapture",
        ]);
        command.env(PLACE, place).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a child");
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix('@') {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Process { child, lines }
    }

    fn ask(&mut self, command: &str) -> String {
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{command}").expect("it reads");
        self.lines.recv_timeout(LIMIT).expect("an answer")
    }

    fn node(&mut self) -> NodeName {
        self.ask("node").parse().expect("a name")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("a child of this process");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(membership: &Membership, node: NodeName, state: MemberState) {
    let is_so = |view: &View| view.state(node) == Some(state);
    membership.wait(LIMIT, is_so).expect("it comes to that");
}

// ---- the effects on other nodes
// ------------------------------------------------------------------------

/// The address of the first word of a line's payload.
fn behind_header(line: GlobalAddr) -> GlobalAddr {
    GlobalAddr::new(line.node(), line.offset() + 64)
}

/// The value of that word in memory. The read goes past all caches, as verbs do.
async fn word(member: &Member, line: GlobalAddr) -> u64 {
    member.memory.port().read_word(behind_header(line)).await.expect("the memory is there")
}

#[test]
fn a_process_that_was_stopped_for_longer_than_its_lease_writes_nothing_when_it_goes_on() {
    let place = Place::new("tcp");
    let _memory = place.memory();
    let reader = place.join();
    let line = reader.run(|member| async move { member.memory.allocate().await.expect("room") });
    let line = line.expect("no worker fails")[0];
    let read = || {
        let read = reader.run(move |member| async move { word(&member, line).await });
        read.expect("no worker fails")[0]
    };
    let mut child = place.child();
    let node = child.node();
    let write = |value| format!("write {} {value}", behind_header(line).bits());
    assert_eq!(child.ask(&write(1)), "done");
    child.signal(Signal::STOP);
    wait_for(reader.membership(), node, MemberState::Dead);
    child.signal(Signal::CONT);
    let error = child.ask(&write(2));
    assert!(error.contains("this node's lease has ended"), "{error}");
    assert_eq!(read(), 1);
    // The run of the child ends as well, and names the reason.
    let end = child.ask("leave");
    assert!(end.contains("this node's lease has ended"), "{end}");
    reader.leave().expect("nothing is in the way");
}

/// Each fabric with each protocol that keeps lines.
fn everywhere() -> impl Iterator<Item = (&'static str, Protocol)> {
    let protocols = [Protocol::Selcc, Protocol::Gam, Protocol::ScaleStore];
    protocols.into_iter().flat_map(|protocol| ["tcp", "shm"].map(|fabric| (fabric, protocol)))
}

/// A node dies in the middle of an operation. If no node reclaimed it, its epoch slot would stay,
/// lines freed later would never be reused, and the pool would become full.
#[test]
fn lines_that_are_freed_after_a_node_was_killed_are_used_again() {
    for (transport, protocol) in everywhere() {
        let place = Place::new(transport);
        let _memory = place.memory();
        let stays = place.join_as(protocol);
        let mut child = place.child_as(protocol.name());
        let node = child.node();
        assert_eq!(child.ask("enter"), "done");
        assert_eq!(child.ask("allocate 10"), "done");
        child.signal(Signal::KILL);
        wait_for(stays.membership(), node, MemberState::Dead);
        let turned = stays.run(|member| async move {
            let deadline = member.handle.now() + LIMIT;
            let mut turned = 0;
            // This turns over more lines than the pool has.
            while turned < 2 * 4096 {
                match turn_over(&member, 128).await {
                    Ok(()) => turned += 128,
                    // Allocation may fail until the dead node is fenced and reclaimed.
                    Err(error) => assert!(member.handle.now() < deadline, "{error}"),
                }
            }
        });
        turned.expect("no worker fails");
        // The graceful leave does not wait for the dead node.
        stays.leave().expect("nothing is in the way");
    }
}

/// A miss ends when the death of the memory node is known, and at the latest at the deadline of the
/// access. The lines of the other memory node stay usable.
#[test]
fn a_miss_to_a_killed_memory_node_ends_at_its_deadline() {
    let with_agents = |at: &(_, Protocol)| at.1.has_homes();
    for (transport, protocol) in everywhere().filter(with_agents) {
        let place = Place::new(transport);
        let _first = host(place.directory(), transport);
        let mut second = place.child_as("memory");
        assert_eq!(second.node().to_string(), "M1");
        let joined = place.join_as(protocol);
        let begin = |member: Member| async move {
            let mut lines = Vec::new();
            for node in 0..2 {
                let line = loop {
                    let line = member.memory.allocate().await.expect("room");
                    if line.node().0 == node {
                        break line;
                    }
                };
                member.memory.write(line, |_| ()).await.expect("it is there");
                lines.push(line);
            }
            lines
        };
        let lines = joined.run(begin).expect("no worker fails").remove(0);
        second.signal(Signal::KILL);
        let misses = |member: Member| {
            let lines = &lines;
            async move {
                let [there, lost] = lines[..] else { unreachable!() };
                member.memory.evict(there);
                member.memory.evict(lost);
                let begun = member.handle.now();
                let end = member.memory.read(lost, |_| ()).await;
                let took = member.handle.now() - begun;
                member.memory.read(there, |_| ()).await.expect("its agent lives");
                (end.expect_err("the agent is dead").to_string(), took)
            }
        };
        // The worker leaves after its body, and the leave may fail.
        let told = Mutex::new(None);
        let _ = joined.run(async |member| *told.lock() = Some(misses(member).await));
        let (error, took) = told.into_inner().expect("the body ends");
        assert!(took < 2 * config().node.deadline, "{transport} {protocol}: {took:?}: {error}");
    }
}

async fn change(member: &Member, line: GlobalAddr, value: u64) -> Result<(), MemoryError> {
    let write = |guard: &mut WriteGuard<'_>| {
        guard.words().set_u64(0, value);
        guard.mark_dirty(0..8);
    };
    member.memory.write(line, write).await
}

/// A killed node held lines: some that another node has seen, and some with changes that no other
/// node has seen. Both survivors get all of them, with what a living node has seen or later. Two
/// nodes die, one after the other.
#[test]
fn the_lines_of_a_killed_node_come_back() {
    for transport in ["tcp", "shm"] {
        let place = Place::new(transport);
        let _memory = place.memory();
        let survivors = [place.join_surviving(), place.join_surviving()];
        let lines = survivors[0].run(|member| lines_with(member, 12, 1));
        let lines = lines.expect("no worker fails").remove(0);
        let look = |at: usize, lines: &[GlobalAddr]| -> Vec<u64> {
            let values = survivors[at].run(async |member| {
                let mut values = Vec::new();
                for line in lines {
                    let read = member.memory.read(*line, |words| words.u64(0));
                    values.push(read.await.expect("no access of a survivor fails"));
                }
                values
            });
            values.expect("no worker fails").remove(0)
        };
        let mut least = 1;
        for _ in 0..2 {
            let mut child = place.child_as(SURVIVES);
            let node = child.node();
            let mut tell = |line: GlobalAddr, value: u64| {
                assert_eq!(child.ask(&format!("change {} {value}", line.bits())), "done");
            };
            lines.iter().for_each(|line| tell(*line, least + 1));
            let (seen, unseen) = lines.split_at(6);
            assert_eq!(look(1, &seen[..3]), vec![least + 1; 3]);
            seen[..3].iter().for_each(|line| tell(*line, least + 2));
            child.signal(Signal::KILL);
            // The accesses begin before the survivors know of the death.
            let values = look(0, &lines);
            assert!(
                values[..3].iter().all(|value| (least + 1..=least + 2).contains(value)),
                "{values:?}"
            );
            assert!(
                values[3..].iter().all(|value| (least..=least + 1).contains(value)),
                "{values:?}"
            );
            assert_eq!(look(1, unseen), values[6..]);
            wait_for(survivors[0].membership(), node, MemberState::Dead);
            least += 10;
            let changed = survivors[1].run(async |member| {
                for line in &lines {
                    change(&member, *line, least).await.expect("no access of a survivor fails");
                }
            });
            changed.expect("no worker fails");
        }
        for survivor in survivors {
            survivor.leave().expect("nothing is in the way");
        }
    }
}

/// A process takes the id of a killed node, again and again, while the cluster lives. Each one gets
/// the lines of the last one.
#[test]
fn the_id_of_a_killed_node_is_taken_again() {
    const ID: u16 = 7;
    for transport in ["tcp", "shm"] {
        let place = Place::new(transport);
        let _memory = place.memory();
        let survivor = place.join_surviving();
        let lines = survivor.run(async |member| {
            let mut lines = Vec::new();
            for _ in 0..12 {
                lines.push(member.memory.allocate().await.expect("room"));
            }
            lines
        });
        let lines = lines.expect("no worker fails").remove(0);
        let mut child = place.child_with(ID);
        let mut epoch = 0;
        for round in 1..=3 {
            let node = child.node();
            let now = survivor.membership().view().get(node).expect("it is there").epoch;
            assert!(now > epoch, "{transport}: a later holder of the id");
            epoch = now;
            for line in &lines {
                let told = child.ask(&format!("change {} {round}", line.bits()));
                assert_eq!(told, "done", "{transport}, round {round}");
            }
            let seen = survivor.run(async |member| {
                for line in &lines[..6] {
                    let value = member.memory.read(*line, |words| words.u64(0)).await;
                    assert_eq!(value.expect("its holder lives"), round);
                    change(&member, *line, round + 10).await.expect("its holder lives");
                }
            });
            seen.expect("no worker fails");
            // The node dies as the holder of the first lines, too.
            for line in &lines[..6] {
                assert_eq!(child.ask(&format!("change {} {}", line.bits(), round + 20)), "done");
            }
            child.signal(Signal::KILL);
            child = place.child_with(ID);
        }
        drop(child);
        survivor.leave().expect("nothing is in the way");
    }
}

/// Lines of `member`, with a value.
async fn lines_with(member: Member, count: usize, value: u64) -> Vec<GlobalAddr> {
    let mut lines = Vec::new();
    for _ in 0..count {
        let line = member.memory.allocate().await.expect("room");
        change(&member, line, value).await.expect("it is there");
        lines.push(line);
    }
    lines
}

/// Bug: a node went on to read lines of its cache until its next verb, which other nodes had taken
/// from it and changed.
#[test]
fn a_process_that_was_stopped_for_longer_than_its_lease_reads_nothing_from_its_cache() {
    let place = Place::new("tcp");
    let _memory = place.memory();
    let survivor = place.join_surviving();
    let lines = survivor.run(|member| lines_with(member, 2, 1));
    let lines = lines.expect("no worker fails").remove(0);
    let [shared, owned] = [lines[0].bits(), lines[1].bits()];
    let mut child = place.child_as(SURVIVES);
    let node = child.node();
    assert_eq!(child.ask(&format!("read {shared}")), "1");
    assert_eq!(child.ask(&format!("change {owned} 2")), "done");
    assert_eq!(child.ask(&format!("read {owned}")), "2");
    child.signal(Signal::STOP);
    wait_for(survivor.membership(), node, MemberState::Dead);
    let changed = survivor.run(async |member| {
        for line in &lines {
            change(&member, *line, 3).await.expect("no access of a survivor fails");
        }
    });
    changed.expect("no worker fails");
    child.signal(Signal::CONT);
    // In the sweep in which the process was stopped, a hit is not refused yet.
    assert_eq!(child.ask("node"), node.to_string());
    for command in [format!("read {shared}"), format!("read {owned}"), format!("change {owned} 4")]
    {
        let error = child.ask(&command);
        assert!(error.contains("this node's lease has ended"), "{command}: {error}");
    }
    let read = survivor.run(async |member| {
        member.memory.read(lines[1], |words| words.u64(0)).await.expect("it is there")
    });
    assert_eq!(read.expect("no worker fails"), [3]);
    survivor.leave().expect("nothing is in the way");
}

/// The node with the lowest id sweeps the words of the dead. It dies at some moment of a recovery
/// from the deaths of two others, and another one goes on. The deaths are known long before the
/// leases end.
#[test]
fn a_recovery_goes_on_when_the_node_that_sweeps_dies() {
    for (transport, delay) in ["tcp", "shm"]
        .into_iter()
        .flat_map(|fabric| [0, 5, 10, 20, 40].map(|delay| (fabric, Duration::from_millis(delay))))
    {
        let place = Place::new(transport);
        let _memory = place.memory();
        let mut children: Vec<_> = (0..3).map(|_| place.child_as(SURVIVES)).collect();
        let mut nodes: Vec<_> = children.iter_mut().map(|child| (child.node(), child)).collect();
        nodes.sort_by_key(|(node, _)| *node);
        let survivors = [place.join_surviving(), place.join_surviving()];
        let lines = survivors[0].run(|member| lines_with(member, 12, 1));
        let lines = lines.expect("no worker fails").remove(0);
        for ((_, child), lines) in nodes.iter_mut().zip(lines.chunks(4)) {
            for line in lines {
                assert_eq!(child.ask(&format!("change {} 2", line.bits())), "done");
            }
        }
        let clock = Clock::start();
        let begun = clock.now();
        nodes[1].1.signal(Signal::KILL);
        nodes[2].1.signal(Signal::KILL);
        thread::park_timeout(delay);
        nodes[0].1.signal(Signal::KILL);
        for survivor in &survivors {
            let values = survivor.run(async |member| {
                let mut values = Vec::new();
                for line in &lines {
                    let read = member.memory.read(*line, |words| words.u64(0));
                    values.push(read.await.expect("no access of a survivor fails"));
                }
                values
            });
            let values = values.expect("no worker fails").remove(0);
            assert!(values.iter().all(|value| (1..=2).contains(value)), "{values:?}");
        }
        let took = clock.now() - begun;
        println!("{transport}, {delay:?} later: the lines are back after {took:?}");
        assert!(took < SHORT, "{transport}, {delay:?}: {took:?}");
        for (node, _) in &nodes {
            wait_for(survivors[0].membership(), *node, MemberState::Dead);
        }
        for survivor in survivors {
            survivor.leave().expect("nothing is in the way");
        }
    }
}

/// Allocates `count` lines and frees them again, also after an error.
async fn turn_over(member: &Member, count: usize) -> Result<(), MemoryError> {
    let mut lines = Vec::new();
    let mut end = Ok(());
    while end.is_ok() && lines.len() < count {
        let _operation = member.memory.enter().await.expect("an operation");
        end = member.memory.allocate().await.map(|line| lines.push(line));
    }
    for line in lines {
        let _operation = member.memory.enter().await.expect("an operation");
        member.memory.free(line).await.expect("it was allocated");
    }
    end
}
