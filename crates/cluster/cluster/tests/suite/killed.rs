//! Compute nodes that are real processes, and are killed at any moment of their work.
//!
//! ```text
//!   the test: memory nodes, kills processes      children: a compute node each, a run of its own
//!   kill ──────────────────────────────────────► adds to common lines and to a line of its own
//!   reads the reports ◄───────────────────────── number of additions, errors, longest time
//! ```
//!
//! Lines of a dead node are errors for the other nodes, in bounded time. All other lines work, and
//! no write of a living node is lost.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use latchwork_cluster::{
    ClusterConfig, JoinError, Joined, Member, MemoryHost, Protocol, Transport,
};
use latchwork_coherence::CoherentMemory as _;
use latchwork_membership::{
    Joining, LeaseId, MemberState, Membership, MembershipError, NodeName, Role,
};
use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicBool, Ordering};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_shm::HugePages;
use latchwork_verbs_tcp::{Secret, Security, TcpConfig};
use latchwork_workload::random::WorkloadRandom;
use tempfile::TempDir;

use crate::common;
use crate::common::{LONG, named_line, small};

/// The variable that names the cluster for a child process.
const CLUSTER: &str = "LATCHWORK_TEST_CLUSTER";
/// The prefix of every line of a child process, which distinguishes it from lines of the test
/// harness.
const MARK: &str = "node: ";
/// The lease of a node. It is so long that no living node dies on a busy machine. When the test
/// kills a node, the test also ends the node's lease in the store.
const LEASE: Duration = Duration::from_secs(120);
/// The deadline of an access to a line of a dead node that is not known to be dead yet.
const DEADLINE: Duration = Duration::from_secs(1);
/// The number of common lines. It is much larger than a cache, so that a dead node owns only some
/// of the lines.
const LINES: usize = 150;
/// The number of additions between two lines of a child's output.
const TURN: usize = 50;
const SECRET: &[u8] = b"a secret of this test";

fn transport(fabric: &str, directory: &std::path::Path) -> Transport {
    if fabric == "shm" {
        let (place, huge_pages) = (directory.join("shm"), HugePages::Never);
        return Transport::Shm { directory: Some(place), huge_pages };
    }
    let security = Security::Secret(Secret::new(SECRET).expect("long enough"));
    Transport::Tcp {
        config: Box::new(TcpConfig { threads: 1, ..TcpConfig::new(security) }),
        listen: "127.0.0.1:0".parse().expect("an address"),
        advertise: None,
    }
}

fn config(protocol: Protocol) -> ClusterConfig {
    let mut config = small(1, 1, 16, 1);
    config.protocol = protocol;
    config.node.deadline = DEADLINE;
    config
}

fn join(endpoint: &str, joining: Joining) -> Result<Membership, MembershipError> {
    let (store, cluster) = latchwork_membership::open(endpoint)?;
    Membership::join(store, &cluster, Joining { ttl: LEASE, ..joining })
}

/// Ends a node's lease before its time.
fn end_lease(endpoint: &str, node: NodeName) {
    let (store, cluster) = latchwork_membership::open(endpoint).expect("a store");
    let record = store.get(&format!("/latchwork/{cluster}/view/node/{node}"), LONG);
    let record = record.expect("it answers").expect("a record").value;
    let text = String::from_utf8(record).expect("text");
    let (_, lease) = text.split_once("\"lease\":").expect("a lease");
    let digits = lease.find(|c: char| !c.is_ascii_digit()).expect("more");
    let lease = LeaseId(lease[..digits].parse().expect("a number"));
    store.revoke(lease, LONG).expect("it answers");
}

async fn add(member: &Member, line: GlobalAddr) -> Result<(), String> {
    let _operation = member.memory.enter().await.map_err(|error| error.to_string())?;
    let add = |guard: &mut latchwork_cache::WriteGuard<'_>| {
        common::bump(guard);
    };
    member.memory.write(line, add).await.map_err(|error| error.to_string())
}

/// The work of a child until the test ends it. Returns the number of additions to each line.
async fn work(member: Member, over: &AtomicBool, seed: u64, first: bool) -> Vec<u64> {
    let mut random = WorkloadRandom::new(seed);
    let mut lines = Vec::new();
    for number in 0..LINES {
        lines.push(named_line(&member, &format!("line {number}"), first).await);
    }
    let own = named_line(&member, &format!("own {seed}"), true).await;
    println!("{MARK}begins");
    let mut added = vec![0; LINES];
    let (mut errors, mut longest) = (0, Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        for _ in 0..TURN {
            let number = random.below(LINES as u64) as usize;
            let begin = member.handle.now();
            match add(&member, lines[number]).await {
                Ok(()) => added[number] += 1,
                Err(_) => errors += 1,
            }
            longest = longest.max(member.handle.now() - begin);
            // No other node requests this line.
            add(&member, own).await.expect("its own line can be had whoever dies");
        }
        let sum: u64 = added.iter().sum();
        println!("{MARK}{sum} {errors} {}", longest.as_millis());
    }
    added
}

/// The content of a line, or `None` if the line is an error.
async fn counted(member: &Member, line: GlobalAddr) -> Option<u64> {
    let _operation = member.memory.enter().await.ok()?;
    member.memory.read(line, |words| words.u64(0)).await.ok()
}

#[test]
#[ignore = "what the other tests start as processes of their own"]
fn what_a_child_process_does() {
    let Ok(cluster) = std::env::var(CLUSTER) else { return };
    let [fabric, protocol, endpoint, directory, seed] = cluster.split(' ').collect::<Vec<_>>()[..]
    else {
        panic!("{cluster:?}")
    };
    let seed: u64 = seed.parse().expect("a number");
    let membership = join(endpoint, Joining::new(Role::Compute)).expect("a free id");
    println!("{MARK}{}", membership.me().node);
    let config = config(protocol.parse().expect("a protocol"));
    let joined = Joined::start(config, &transport(fabric, directory.as_ref()), membership, LONG);
    let joined = joined.expect("it joins");
    let over = Arc::new(AtomicBool::new(false));
    let ending = over.clone();
    let (tell, told) = channel();
    thread::spawn(move || {
        for _line in std::io::stdin().lines().map_while(Result::ok) {
            ending.store(true, Ordering::Relaxed);
            let _ = tell.send(());
        }
    });
    let added = joined.run(|member| work(member, &over, seed, seed == 0));
    let added = RefCell::new(added.expect("no worker fails").swap_remove(0));
    let words = |numbers: Vec<String>| numbers.join(" ");
    println!("{MARK}added {}", words(added.take().iter().map(u64::to_string).collect()));
    // The child waits until no node adds any more.
    (0..2).for_each(|_| told.recv_timeout(LONG).expect("it is told"));
    let read = joined.run(|member| async move {
        let mut found = Vec::new();
        for number in 0..LINES {
            let line = named_line(&member, &format!("line {number}"), false).await;
            found.push(counted(&member, line).await);
        }
        found
    });
    let read = read.expect("no worker fails").swap_remove(0);
    let text = |found: &Option<u64>| found.map_or("-".to_owned(), |found| found.to_string());
    println!("{MARK}read {}", words(read.iter().map(text).collect()));
    // The child waits until all nodes have read, because its own end may lose lines.
    thread::park_timeout(LONG);
}

/// A child.
struct Node {
    child: Child,
    commands: ChildStdin,
    says: Receiver<String>,
    name: NodeName,
}

impl Node {
    fn start(on: (&str, Protocol), endpoint: &str, directory: &TempDir, seed: u64) -> Node {
        let (place, (fabric, protocol)) = (directory.path().display(), on);
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["killed::what_a_child_process_does", "--exact", "--ignored", "--nocapture"])
            .env(CLUSTER, format!("{fabric} {protocol} {endpoint} {place} {seed}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (tell, says) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The test harness writes its own text before the first line.
                if let Some((_, said)) = line.split_once(MARK) {
                    let _ = tell.send(said.to_owned());
                }
            }
        });
        let commands = child.stdin.take().expect("piped");
        let name = says.recv_timeout(LONG).expect("a name").parse().expect("a name");
        let node = Node { child, commands, says, name };
        assert_eq!(node.says.recv_timeout(LONG).expect("it joins"), "begins");
        node
    }

    /// The next report of the child: additions, failed additions, and the milliseconds of the
    /// longest addition.
    fn turn(&mut self) -> [u64; 3] {
        let said = self.says.recv_timeout(LONG);
        let said = said.unwrap_or_else(|why| {
            panic!("{} goes on: {why}: {:?}", self.name, self.child.try_wait())
        });
        let numbers: Vec<u64> =
            said.split(' ').map(|word| word.parse().expect("a number")).collect();
        numbers.try_into().expect("three numbers")
    }

    /// The numbers that the child reports at its end after this word.
    fn last(&self, word: &str) -> Vec<Option<u64>> {
        loop {
            let said = self.says.recv_timeout(LONG).expect("it comes to its end");
            if let Some(numbers) = said.strip_prefix(word) {
                return numbers.split_whitespace().map(|number| number.parse().ok()).collect();
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rounds(fabric: &str, protocol: Protocol, seed: u64) {
    let directory = TempDir::new().expect("a directory");
    let endpoint = format!("file:{}/test", directory.path().display());
    let config = config(protocol);
    let host = |_| {
        let role = Role::Memory { bytes: config.memory_bytes, chip_bytes: 0 };
        let membership = join(&endpoint, Joining::new(role)).expect("a free id");
        MemoryHost::start(&transport(fabric, directory.path()), membership, false).expect("memory")
    };
    let memory: Vec<_> = (0..config.memory_nodes).map(host).collect();
    let observer = memory[0].membership();
    let mut random = WorkloadRandom::new(seed);
    let start = |seed| Node::start((fabric, protocol), &endpoint, &directory, seed);
    let mut nodes: Vec<_> = (0..3).map(start).collect();
    for round in 0..3 {
        nodes.iter_mut().for_each(|node| _ = node.turn());
        thread::park_timeout(Duration::from_micros(random.below(200_000)));
        let mut mortal = nodes.swap_remove(random.below(3) as usize);
        mortal.child.kill().expect("a child");
        mortal.child.wait().expect("a child");
        let died =
            |view: &latchwork_membership::View| view.state(mortal.name) == Some(MemberState::Dead);
        // For some time no node knows of the death. Accesses to the dead node's lines end at their
        // deadline.
        thread::park_timeout(Duration::from_micros(random.below(1_500_000)));
        end_lease(&endpoint, mortal.name);
        observer.wait(LONG, died).expect("it dies");
        for node in &mut nodes {
            // Skips the reports so far, and reads three more.
            let said = node.says.try_iter().count();
            let turns: Vec<_> = (0..3).map(|_| node.turn()).collect();
            let longest = turns.iter().map(|turn| turn[2]).max().expect("turns");
            assert!(
                Duration::from_millis(longest) < LONG / 2,
                "{fabric}, round {round}: an access of {} took {longest} ms ({said})",
                node.name
            );
            assert!(turns[2][0] > 0, "{} adds: {turns:?}", node.name);
        }
        // Any process that asks for the id of a dead node is refused.
        let id = mortal.name.compute().map(|id| u16::from(id.get()));
        let again = join(&endpoint, Joining { id, ..Joining::new(Role::Compute) });
        let error = again.expect_err("the id is not given again");
        assert!(matches!(error, MembershipError::Dead { .. }), "{error}");
        let next = start(3 + round);
        assert!(nodes.iter().all(|node| node.name != next.name) && next.name != mortal.name);
        nodes.push(next);
    }
    let tell = |nodes: &mut [Node], word: &str| {
        nodes.iter_mut().for_each(|node| writeln!(node.commands, "{word}").expect("it listens"));
    };
    tell(&mut nodes, "end");
    let added: Vec<_> = nodes.iter().map(|node| node.last("added")).collect();
    tell(&mut nodes, "read");
    let read: Vec<_> = nodes.iter().map(|node| node.last("read")).collect();
    let mut could = 0;
    for line in 0..LINES {
        let sum: u64 = added.iter().filter_map(|added| added[line]).sum();
        let values: Vec<_> = read.iter().filter_map(|read| read[line]).collect();
        could += values.len();
        // Dead nodes have added too, so a value may be larger than the sum of the living nodes.
        assert!(
            values.iter().all(|value| *value >= sum),
            "{fabric}, line {line}: {values:?}, {sum}"
        );
        assert!(values.windows(2).all(|two| two[0] == two[1]), "{fabric}, line {line}: {values:?}");
    }
    // Three dead nodes lose about three caches of 16 frames, so most lines can be read.
    assert!(could > 3 * LINES / 3, "{fabric}: {could} reads of {LINES} lines, by three");
}

#[test]
fn live_nodes_go_on_over_sockets() {
    rounds("tcp", Protocol::default(), 7);
}

#[test]
fn live_nodes_go_on_under_a_directory_over_sockets() {
    rounds("tcp", Protocol::ScaleStore, 9);
}

#[test]
fn live_nodes_go_on_in_shared_memory() {
    rounds("shm", Protocol::default(), 8);
}

#[test]
fn live_nodes_go_on_under_a_directory_in_shared_memory() {
    rounds("shm", Protocol::Gam, 10);
}

#[test]
fn a_memory_node_that_died_is_not_replaced() {
    let directory = TempDir::new().expect("a directory");
    let endpoint = format!("file:{}/test", directory.path().display());
    let config = config(Protocol::default());
    let transport = transport("tcp", directory.path());
    let role = Role::Memory { bytes: config.memory_bytes, chip_bytes: 0 };
    let start = || {
        let membership = join(&endpoint, Joining::new(role)).expect("a free id");
        MemoryHost::start(&transport, membership, false)
    };
    let mut memory = vec![start().expect("memory"), start().expect("memory")];
    let lost = memory.remove(0);
    let gone = lost.membership().me().node;
    drop(lost);
    let told = format!("memory node {gone} died, and what it held is lost: ");
    let error = start().map(drop).expect_err("it has not what was lost").to_string();
    assert!(error.starts_with(&told) && error.contains("begin a new one"), "{error}");
    let id = gone.memory().map(|id| id.0);
    let error = join(&endpoint, Joining { id, ..Joining::new(role) }).expect_err("it is dead");
    assert!(matches!(error, MembershipError::Dead { .. }), "{error}");
    // Compute nodes stop waiting for a missing memory node, and leave.
    let membership = join(&endpoint, Joining::new(Role::Compute)).expect("a free id");
    let me = membership.me().node;
    let begin = latchwork_runtime::Clock::start();
    let error = Joined::start(config, &transport, membership, 10 * LONG).map(drop);
    let error = error.expect_err("memory is lost");
    assert!(matches!(error, JoinError::MemoryLost { .. }), "{error}");
    assert!(begin.now() < Time::ZERO + 5 * LONG, "it does not wait");
    let left = |view: &latchwork_membership::View| view.state(me) == Some(MemberState::Left);
    memory[0].membership().wait(LONG, left).expect("it leaves");
}
