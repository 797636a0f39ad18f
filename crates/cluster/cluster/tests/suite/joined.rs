//! Clusters of nodes that each have their own fabric and membership, as processes do. All nodes are
//! threads of the test.

use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_cluster::{
    ClusterConfig, ClusterError, JoinError, Joined, Member, MemoryHost, NodeGroup, Protocol,
    Transport, is_free,
};
use latchwork_coherence::{AccessMode, CoherentMemory as _, LineLocks as _, LockOutcome, Need};
use latchwork_membership::{
    Joining, MemberState, Membership, MembershipError, MemoryStore, NodeName, Role,
};
use latchwork_memnode::ObjectKind;
use latchwork_runtime::sync::{AtomicBool, Mutex, Ordering};
use latchwork_runtime::{Clock, Time};
use latchwork_verbs::{CHIP_BASE, GlobalAddr, MemoryNodeId};
use latchwork_verbs_ibv as ibv;
use latchwork_verbs_shm::HugePages;
use latchwork_verbs_tcp::{Secret, Security, TcpConfig};
use tempfile::TempDir;

use crate::common::{LONG, Load, hammer, named_line, read_counters, small, totals};

const CLUSTER: &str = "test";

/// The interval between two checks of a wait.
const LOOK: Duration = Duration::from_millis(10);

/// What all nodes of a cluster share.
struct Common {
    protocol: Protocol,
    store: Arc<MemoryStore>,
    transport: Transport,
    ttl: Duration,
    /// The directory is removed at the end of the test.
    _directory: Option<TempDir>,
}

impl Common {
    /// Clusters over sockets, on shared memory, and on RDMA devices if the machine has any. In the
    /// virtual machine, which has RDMA devices and is slow, only RDMA is tested. The clusters run
    /// SELCC and, where memory nodes have agents, the protocols with homes.
    fn all() -> Vec<Common> {
        let (rdma, in_vm) = (Common::rdma(), std::env::var_os("RXE_HOSTS").is_some());
        assert!(rdma.is_some() || !in_vm, "no RDMA devices in the virtual machine");
        if in_vm {
            rdma.into_iter().collect()
        } else {
            let protocols = [Protocol::Selcc, Protocol::Gam, Protocol::ScaleStore];
            let of = |protocol| Common::both().map(|common| Common { protocol, ..common });
            protocols.into_iter().flat_map(of).chain(rdma).collect()
        }
    }

    /// Like `small`, with the protocol of this cluster.
    fn small(&self, nodes: usize, workers: usize, frames: usize, seed: u64) -> ClusterConfig {
        ClusterConfig { protocol: self.protocol, ..small(nodes, workers, frames, seed) }
    }

    /// A cluster on RDMA devices, or `None` on a machine without devices, after printing why.
    fn rdma() -> Option<Common> {
        // The timeout is long, because the virtual machine is emulated on a busy host.
        let config = ibv::IbvConfig { timeout: 18, ..ibv::IbvConfig::default() };
        if let Err(error) = ibv::IbvFabric::open(config.clone()) {
            let _ = writeln!(
                std::io::stderr(),
                "without RDMA (scripts/test-ibv.sh has devices): {error}"
            );
            return None;
        }
        let transport = Transport::Ibverbs { config: Box::new(config) };
        let ttl = Duration::from_secs(8);
        let protocol = Protocol::default();
        Some(Common { protocol, store: Arc::default(), transport, ttl, _directory: None })
    }

    /// Clusters over sockets and on shared memory.
    fn both() -> [Common; 2] {
        let security = Security::Secret(Secret::random().expect("random bytes"));
        // The limits are longer than any stop of the machine.
        let (patience, connect_time) = (LONG, LONG);
        let config = TcpConfig { threads: 1, patience, connect_time, ..TcpConfig::new(security) };
        let tcp = Transport::Tcp {
            config: Box::new(config),
            listen: "127.0.0.1:0".parse().expect("an address"),
            advertise: None,
        };
        let directory = TempDir::new().expect("a directory");
        let (place, huge_pages) = (directory.path().join("shm"), HugePages::Never);
        let shm = Transport::Shm { directory: Some(place), huge_pages };
        // The lease is long, because no test waits for its end. No node should lose it on a busy
        // machine.
        let ttl = LONG;
        let protocol = Protocol::default();
        let of = |transport, _directory| Common {
            protocol,
            store: Arc::default(),
            transport,
            ttl,
            _directory,
        };
        [of(tcp, None), of(shm, Some(directory))]
    }

    fn membership(&self, role: Role) -> Result<Membership, MembershipError> {
        let joining = Joining { ttl: self.ttl, ..Joining::new(role) };
        Membership::join(self.store.clone(), CLUSTER, joining)
    }

    fn memory(&self, config: &ClusterConfig) -> Vec<MemoryHost> {
        let host = |_| {
            let (bytes, chip_bytes) = (config.memory_bytes, config.chip_bytes);
            let role = Role::Memory { bytes, chip_bytes };
            let membership = self.membership(role).expect("a free id");
            MemoryHost::start(&self.transport, membership, false).expect("memory")
        };
        (0..config.memory_nodes).map(host).collect()
    }

    fn compute(&self, config: &ClusterConfig) -> Result<Joined, JoinError> {
        let membership = self.membership(Role::Compute)?;
        Joined::start(config.clone(), &self.transport, membership, LONG)
    }

    /// Starts the configured number of compute nodes, runs `body` on each in its own thread, and
    /// returns the results by rank.
    fn on_all<T: Send>(&self, config: &ClusterConfig, body: impl Fn(Joined) -> T + Sync) -> Vec<T> {
        let body = &body;
        thread::scope(|scope| {
            let one = || {
                let joined = self.compute(config).expect("it joins");
                (joined.group().rank(), body(joined))
            };
            let threads: Vec<_> = (0..config.compute_nodes).map(|_| scope.spawn(one)).collect();
            let ends = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            let mut ends: Vec<_> = ends.collect();
            ends.sort_by_key(|(rank, _)| *rank);
            ends.into_iter().map(|(_, end)| end).collect()
        })
    }
}

fn barrier(group: &NodeGroup, name: &str) {
    group.exchange(name, b"", LONG).expect("all come");
}

/// Starts the compute nodes, which add to the counters of some lines, look at all of them, and
/// leave. Each node calls `look` before it leaves.
fn lose_no_write(common: &Common, config: &ClusterConfig, look: impl Fn() + Sync) {
    let load = Load { lines: 12, operations: 200, tasks: 4, writes: 40, dropped: 10 };
    let ends = common.on_all(config, |joined| {
        let counts = joined.run(|member| hammer(member, load)).expect("no worker fails");
        barrier(joined.group(), "hammered");
        let reads = joined.run(|member| async move { read_counters(&member, load.lines).await });
        barrier(joined.group(), "read");
        look();
        joined.leave().expect("nothing is in the way");
        (counts, reads.expect("no worker fails"))
    });
    let counts: Vec<_> = ends.iter().flat_map(|(counts, _)| counts.clone()).collect();
    for read in ends.into_iter().flat_map(|(_, reads)| reads) {
        assert_eq!(read, totals(&counts), "a write was lost");
    }
}

#[test]
fn nodes_that_meet_through_membership_lose_no_write_and_leave() {
    for common in Common::all() {
        let config = common.small(3, 2, 16, 1);
        let memory = common.memory(&config);
        lose_no_write(&common, &config, || ());
        for host in memory {
            assert!(host.leave(LONG).expect("membership answers"), "compute nodes are left");
        }
    }
}

/// On shared memory of several processes, write-backs go through journal slots.
#[test]
fn nodes_with_hand_overs_that_write_back_lose_no_write_and_leave() {
    for common in Common::both() {
        let mut config = common.small(3, 2, 16, 1);
        config.set("survive", "on").expect("a value");
        let memory = common.memory(&config);
        lose_no_write(&common, &config, || ());
        // More nodes than the pool has chunks: each takes the slots of those that left.
        let is_shm = matches!(common.transport, Transport::Shm { .. });
        let one = ClusterConfig { compute_nodes: 1, ..config.clone() };
        for _ in 0..config.memory_bytes / config.chunk_size {
            let joined = common.compute(&one).expect("room for its slots");
            assert_eq!(joined.node().journal().is_some(), is_shm, "only memory is torn");
            joined.leave().expect("nothing is in the way");
        }
        for host in memory {
            assert!(host.leave(LONG).expect("membership answers"), "compute nodes are left");
        }
    }
}

/// A node dies without a leave, and the next one takes its id. The pool has 30 chunks of 126 lines,
/// and each death costs 64 lines. Without the marks in the chunks it would cost one of the chunks.
#[test]
fn a_pool_outlives_more_deaths_than_it_has_chunks() {
    const DEATHS: u64 = 45;
    let [common, _] = Common::both();
    let mut config = common.small(1, 1, 16, 1);
    config.set("survive", "on").expect("a value");
    let _memory = common.memory(&config);
    assert!(DEATHS > 2 * config.memory_bytes / config.chunk_size, "more than chunks");
    let survivor = common.compute(&config).expect("it joins");
    let line = survivor.run(async |member| member.memory.allocate().await.expect("room"));
    let line = line.expect("no worker fails").remove(0);
    let clock = Clock::start();
    for round in 1..=DEATHS {
        let joining = Joining { id: Some(7), ttl: common.ttl, ..Joining::new(Role::Compute) };
        let joining = Joining { reuse: Some(is_free), ..joining };
        let membership = loop {
            match Membership::join(common.store.clone(), CLUSTER, joining.clone()) {
                Ok(membership) => break membership,
                Err(error) => {
                    assert!(matches!(error, MembershipError::Dead { .. }), "{error}");
                    assert!(clock.now() < Time::ZERO + LONG, "{error}");
                    thread::park_timeout(Duration::from_millis(1));
                }
            }
        };
        let mortal = Joined::start(config.clone(), &common.transport, membership, LONG);
        let mortal = mortal.expect("it joins");
        let was = mortal.run(async |member| {
            member.memory.allocate().await.expect("room");
            let was = member.memory.read(line, |words| words.u64(0)).await.expect("its holder");
            let write = |guard: &mut WriteGuard<'_>| {
                guard.words().set_u64(0, round);
                guard.mark_dirty(0..8);
            };
            member.memory.write(line, write).await.expect("its holder");
            was
        });
        assert!(was.expect("no worker fails")[0] < round, "a write of an earlier one, or none");
    }
    let ended = survivor.run(async |member| {
        member.memory.read(line, |words| words.u64(0)).await.expect("no access fails");
        for _ in 0..100 {
            member.memory.allocate().await.expect("room");
        }
    });
    ended.expect("no worker fails");
    survivor.leave().expect("nothing is in the way");
}

/// The agents take the settings of the first compute node, and a node with others is refused.
#[test]
fn agents_in_processes_of_their_own_have_the_settings_of_the_homes() {
    for common in Common::both() {
        let common = Common { protocol: Protocol::ScaleStore, ..common };
        let mut config = common.small(2, 1, 16, 1);
        for (name, text) in [("chaining", "polling"), ("reader-takes", "move"), ("home-cores", "5")]
        {
            config.set(name, text).expect("a value");
        }
        let _memory = common.memory(&config);
        lose_no_write(&common, &config, || {
            #[cfg(target_os = "linux")]
            assert!(has_thread("agent0-4"), "the agent of the first memory node has fewer cores");
        });
        config.set("home-cores", "4").expect("a value");
        config.compute_nodes = 1;
        let error = common.compute(&config).map(drop).expect_err("others").to_string();
        assert!(error.starts_with("M") && error.contains("home-cores=5"), "{error}");
        assert!(error.contains("same settings of homes") && !error.contains('\n'), "{error}");
    }
}

/// Whether this process has a thread of this name.
#[cfg(target_os = "linux")]
fn has_thread(name: &str) -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.into_iter().any(|comm| comm.trim() == name)
}

async fn add(member: &Member, line: GlobalAddr, times: u64) -> u64 {
    let mut last = 0;
    for _ in 0..times {
        // A leaving node waits for operations that have entered, and for no other access.
        let _operation = member.memory.enter().await.expect("no error");
        let add = |guard: &mut latchwork_cache::WriteGuard<'_>| {
            let sum = guard.words().u64(0) + 1;
            guard.words().set_u64(0, sum);
            guard.mark_dirty(0..8);
            sum
        };
        last = member.memory.write(line, add).await.expect("no error");
    }
    last
}

/// Reports its end when it is dropped, also after a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One node stays, while others join, write and leave, under reused ids.
#[test]
fn nodes_come_and_go_while_others_work() {
    const VISITS: u64 = 6;
    const TIMES: u64 = 300;
    for common in Common::all() {
        let alone = common.small(1, 1, 16, 1);
        let _memory = common.memory(&alone);
        let stays = common.compute(&alone).expect("it joins");
        let (common, alone, over) = (&common, &alone, &AtomicBool::new(false));
        let total = thread::scope(|scope| {
            let visits = scope.spawn(move || {
                let _over = Over(over);
                let mut ids = Vec::new();
                for _ in 0..VISITS {
                    let visitor = common.compute(alone).expect("it joins");
                    let sums = visitor.run(|member| async move {
                        let line = named_line(&member, "sum", false).await;
                        add(&member, line, TIMES).await
                    });
                    sums.expect("no worker fails");
                    ids.push(visitor.membership().me().node);
                    visitor.leave().expect("nothing is in the way");
                }
                ids
            });
            let work = |member: Member| async move {
                let line = named_line(&member, "sum", true).await;
                let mut done = 0;
                while !over.load(Ordering::Relaxed) {
                    add(&member, line, 10).await;
                    done += 10;
                    member.handle.yield_now().await;
                }
                done
            };
            let done: u64 = stays.run(work).expect("no worker fails")[0];
            let ids = visits.join().expect("no panic");
            assert!(ids.windows(2).all(|two| two[0] == two[1]), "the id is given again: {ids:?}");
            let read = |member: Member| async move {
                let line = named_line(&member, "sum", false).await;
                member.memory.read(line, |words| words.u64(0)).await.expect("no error")
            };
            (stays.run(read).expect("no worker fails")[0], done)
        });
        assert_eq!(total.0, VISITS * TIMES + total.1, "a write was lost");
        stays.leave().expect("nothing is in the way");
    }
}

/// A node that has read in a latch word that another node is the holder sends that node a request.
/// The request may be late. So the leaving node stays until every operation has ended that was in
/// progress when the node released its lines.
#[test]
fn a_node_leaves_only_when_no_operation_needs_it_any_more() {
    for common in Common::both() {
        let alone = small(1, 1, 16, 1);
        let _memory = common.memory(&alone);
        let (leaves, asks) = (common.compute(&alone), common.compute(&alone));
        let (leaves, asks) = (leaves.expect("it joins"), asks.expect("it joins"));
        let made = leaves.run(|member| async move {
            let line = named_line(&member, "asked", true).await;
            add(&member, line, 1).await;
            line
        });
        let line = made.expect("no worker fails")[0];
        let node = leaves.membership().me().node;
        let (entered, may_go) = (&AtomicBool::new(false), &AtomicBool::new(false));
        thread::scope(|scope| {
            let work = |member: Member| async move {
                let operation = member.memory.enter().await.expect("no error");
                entered.store(true, Ordering::Relaxed);
                while !may_go.load(Ordering::Relaxed) {
                    member.handle.sleep(Duration::from_millis(1)).await;
                }
                let sum = add(&member, line, 1).await;
                drop(operation);
                sum
            };
            let by = &asks;
            let asking = scope.spawn(move || {
                let _over = Over(entered);
                by.run(work).expect("no worker fails")[0]
            });
            while !entered.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_millis(1));
            }
            let leaving = scope.spawn(|| leaves.leave());
            let is_left =
                |view: &latchwork_membership::View| view.state(node) != Some(MemberState::Joined);
            let left = asks.membership().wait(Duration::from_millis(500), is_left);
            may_go.store(true, Ordering::Relaxed);
            assert!(left.is_err(), "it has left, and an operation may still ask it");
            assert_eq!(asking.join().expect("no panic"), 2);
            leaving.join().expect("no panic").expect("nothing is in the way");
            asks.membership().wait(LONG, is_left).expect("now it goes");
        });
        asks.leave().expect("nothing is in the way");
    }
}

/// Over sockets the other nodes fence a node some time after its lease has ended. Until then only
/// self-fencing prevents the node's writes.
#[test]
fn a_node_with_an_ended_lease_writes_nothing_from_then_on() {
    let [common, _] = Common::both();
    let alone = small(1, 1, 16, 1);
    let _memory = common.memory(&alone);
    let (mortal, reader) = (common.compute(&alone), common.compute(&alone));
    let (mortal, reader) = (mortal.expect("it joins"), reader.expect("it joins"));
    let made = reader.run(|member| async move { named_line(&member, "target", true).await });
    let line = made.expect("no worker fails")[0];
    let at = GlobalAddr::new(line.node(), line.offset() + 64);
    let errors = Mutex::new(Vec::new());
    let (membership, told) = (mortal.membership(), &errors);
    let end = mortal.run(|member| async move {
        let port = member.memory.port();
        port.write_word(at, 1).await.expect("it may");
        membership.die();
        let verb = port.write_word(at, 2).await.expect_err("it may not").to_string();
        let access = member.memory.write(line, |_| ()).await;
        let access = access.expect_err("nor in this way").to_string();
        told.lock().extend([verb, access]);
    });
    assert!(matches!(end, Err(JoinError::LeaseLost)), "{end:?}");
    for error in errors.into_inner() {
        assert!(error.contains("this node's lease has ended") && !error.contains('\n'), "{error}");
    }
    let read = reader.run(move |member| async move {
        member.memory.port().read_word(at).await.expect("the memory is there")
    });
    assert_eq!(read.expect("no worker fails"), [1]);
    assert!(matches!(mortal.leave(), Err(JoinError::LeaseLost)));
    reader.leave().expect("nothing is in the way");
}

/// Bug: a process whose lease has ended went on for up to its deadline. Mechanism: an access waited
/// for the answer of another node, so it had no verb in flight that could fail. Fix: an access that
/// waits looks at the lease now and then.
#[test]
fn an_access_that_waits_for_another_node_ends_soon_after_the_lease() {
    for common in Common::both() {
        let alone = small(1, 1, 16, 1);
        let _memory = common.memory(&alone);
        let (mortal, holder) = (common.compute(&alone), common.compute(&alone));
        let (mortal, holder) = (mortal.expect("it joins"), holder.expect("it joins"));
        let made = holder.run(|member| async move { named_line(&member, "target", true).await });
        let need = Need { addr: made.expect("no worker fails")[0], mode: AccessMode::Exclusive };
        let (is_held, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let (is_held, is_over, node) = (&is_held, &is_over, &holder);
            scope.spawn(move || {
                let held = node.run(|member| async move {
                    let lock = member.memory.lock(need).await.expect("no fault");
                    assert!(matches!(lock, LockOutcome::Got(_)), "no other lock is there");
                    is_held.store(true, Ordering::Release);
                    while !is_over.load(Ordering::Acquire) {
                        member.handle.sleep(LOOK).await;
                    }
                    drop(lock);
                });
                held.expect("no worker fails");
            });
            let membership = mortal.membership().clone();
            let end = mortal.run(|member| {
                let membership = membership.clone();
                async move {
                    while !is_held.load(Ordering::Acquire) {
                        member.handle.sleep(LOOK).await;
                    }
                    let handle = member.handle.clone();
                    member.handle.spawn(async move {
                        handle.sleep(10 * LOOK).await;
                        membership.die();
                    });
                    let begin = member.handle.now();
                    let error = member.memory.write(need.addr, |_| ()).await;
                    let error = error.expect_err("the line is locked").to_string();
                    is_over.store(true, Ordering::Release);
                    let waited = member.handle.now() - begin;
                    assert!(error.contains("this node's lease has ended"), "{error}");
                    assert!(waited >= 10 * LOOK, "{waited:?}");
                }
            });
            assert!(matches!(end, Err(JoinError::LeaseLost)), "{end:?}");
        });
        holder.leave().expect("nothing is in the way");
    }
}

/// A pool of six chunks, with about 750 lines in total.
fn tiny(compute_nodes: usize) -> ClusterConfig {
    ClusterConfig { memory_bytes: 256 << 10, ..small(compute_nodes, 1, 64, 1) }
}

async fn allocate(member: &Member, count: usize) -> Vec<GlobalAddr> {
    let mut lines = Vec::new();
    for _ in 0..count {
        lines.push(member.memory.allocate().await.expect("room"));
    }
    lines
}

#[test]
fn a_leaving_node_takes_along_no_more_than_it_used() {
    for common in Common::both() {
        let alone = tiny(1);
        let _memory = common.memory(&alone);
        let mut all = Vec::new();
        // Ten groups are more groups than the pool has chunks.
        for _ in 0..10 {
            let visitor = common.compute(&alone).expect("it joins");
            let lines = visitor.run(|member| async move { allocate(&member, 3).await });
            all.extend(lines.expect("no worker fails").concat());
            visitor.leave().expect("nothing is in the way");
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 30, "each line is somebody's own");
    }
}

/// Each group fills more than half of the pool, and its lines are in the caches of both nodes.
/// Without the release, the second group would find no room, and the last groups no free names.
#[test]
fn groups_that_release_what_they_made_leave_nothing_behind() {
    for common in Common::both() {
        let (two, alone) = (tiny(2), tiny(1));
        let _memory = common.memory(&two);
        let stays = common.compute(&alone).expect("it joins");
        for round in 0..3_u64 {
            common.on_all(&two, |joined| {
                let first = joined.group().rank() == 0;
                let used = joined.run(move |member| async move {
                    let (port, name) = (member.memory.port(), "table");
                    let own = allocate(&member, 200).await;
                    for line in &own {
                        add(&member, *line, 1).await;
                    }
                    if first {
                        let bits = own[0].bits();
                        let named = member.catalogue.register(port, name, ObjectKind(7), bits);
                        named.await.expect("the name is free");
                    }
                    let deadline = member.handle.now() + LONG;
                    let found = member.catalogue.wait_for(port, &member.handle, name, deadline);
                    let table = GlobalAddr::from_bits(found.await.expect("it is made").value);
                    add(&member, table, 3).await
                });
                assert!(used.expect("no worker fails")[0] >= 3, "round {round}");
                barrier(joined.group(), "used");
                if first {
                    let removed = joined.run(|member| async move {
                        member.catalogue.remove(member.memory.port(), "table").await
                    });
                    assert_eq!(removed.expect("no worker fails"), [Ok(true)]);
                }
                joined.release(LONG, LONG).expect("nothing is in the way");
            });
        }
        // A node that was a member all the time also finds room.
        let found = stays.run(|member| async move {
            let lines = allocate(&member, 700).await;
            for line in &lines {
                add(&member, *line, 1).await;
            }
            lines.len()
        });
        assert_eq!(found.expect("no worker fails"), [700]);
        stays.leave().expect("nothing is in the way");
    }
}

/// A node that ends without leaving is dead at once, and stays the owner of its lines. An access to
/// such a line gets an error in time. All other accesses work.
#[test]
fn what_a_dead_node_held_is_an_error_in_time_and_the_rest_goes_on() {
    for common in Common::all() {
        let mut config = common.small(2, 1, 16, 1);
        config.node.deadline = Duration::from_secs(6);
        let _memory = common.memory(&config);
        let config = &config;
        let ends = common.on_all(config, |joined| {
            let first = joined.group().rank() == 0;
            let made = joined.run(move |member| async move {
                let (mine, other) = if first { ("a", "b") } else { ("b", "a") };
                let mine = named_line(&member, mine, true).await;
                add(&member, mine, 1).await;
                (mine, named_line(&member, other, false).await)
            });
            let (mine, other) = made.expect("no worker fails")[0];
            barrier(joined.group(), "made");
            if !first {
                return Vec::new();
            }
            let dead = joined.group().nodes()[1];
            let died =
                |view: &latchwork_membership::View| view.state(dead) == Some(MemberState::Dead);
            joined.membership().wait(LONG, died).expect("it dies");
            let errors = joined.run(move |member| async move {
                add(&member, mine, 5).await;
                let taken = member.memory.write(other, |_| ()).await;
                add(&member, mine, 5).await;
                taken.expect_err("a dead node holds it").to_string()
            });
            let errors = errors.expect("no worker fails");
            // The leave succeeds, unless a request of this node was in flight when the other node
            // died. In that case the line of the request has failed and stays owned.
            let left = joined.leave();
            assert!(
                matches!(left, Ok(()) | Err(JoinError::Cluster(ClusterError::Leave(_)))),
                "{left:?}"
            );
            errors
        });
        assert!(!ends[0][0].is_empty());
    }
}

#[test]
fn a_lost_memory_node_is_an_error_and_no_hang() {
    for common in Common::all() {
        let mut config = common.small(1, 1, 16, 1);
        config.node.deadline = Duration::from_secs(6);
        let mut memory = common.memory(&config);
        let joined = common.compute(&config).expect("it joins");
        let made = joined.run(|member| async move { named_line(&member, "a", true).await });
        let line = made.expect("no worker fails")[0];
        let lost = memory.remove(usize::from(line.node().0));
        let gone = lost.membership().me().node;
        drop(lost);
        let died = |view: &latchwork_membership::View| view.state(gone) == Some(MemberState::Dead);
        joined.membership().wait(LONG, died).expect("it dies");
        // On shared memory a compute node learns of the death when a verb is refused. Cached lines
        // stay usable until then.
        let ends = joined.run(move |member| async move {
            let deadline = member.handle.now() + LONG;
            loop {
                member.memory.evict(line);
                match member.memory.read(line, |_| ()).await {
                    Err(error) => return error.to_string(),
                    Ok(()) if member.handle.now() >= deadline => return String::new(),
                    Ok(()) => member.handle.sleep(Duration::from_millis(1)).await,
                }
            }
        });
        // A worker may have to leave while verbs to the dead node are in flight. Then the run
        // fails.
        if let Ok(ends) = ends {
            assert!(!ends[0].is_empty(), "the memory is gone");
        }
        joined.leave().expect_err("nothing can be given back");
    }
}

#[test]
fn a_group_of_another_size_is_refused_and_one_that_does_not_fill_up_gives_up() {
    let [common, _] = Common::both();
    let config = small(2, 1, 16, 1);
    let _memory = common.memory(&config);
    // The wait is long enough for the refusal of the other nodes, even on a busy machine.
    let wait = Duration::from_secs(6);
    let membership = common.membership(Role::Compute).expect("a free id");
    let (common, two) = (&common, &config);
    thread::scope(|scope| {
        let alone = scope.spawn(move || {
            Joined::start(two.clone(), &common.transport, membership, wait).map(drop)
        });
        let is_begun = |view: &latchwork_membership::View| view.compute().count() == 1;
        let watch =
            common.membership(Role::Memory { bytes: 1 << 20, chip_bytes: 0 }).expect("a free id");
        watch.wait(LONG, is_begun).expect("one begins");
        watch.wait_for_fact("run-0.parties", LONG).expect("it forms a group");
        let three = ClusterConfig { compute_nodes: 3, ..two.clone() };
        let error = common.compute(&three).map(drop).expect_err("others are two").to_string();
        assert!(error.contains("2 compute nodes") && error.contains("--compute-nodes"), "{error}");
        let error = alone.join().expect("no panic").expect_err("nobody else comes").to_string();
        assert!(error.contains("1 of 2 compute nodes"), "{error}");
    });
    // The failed group does not block the next one.
    let ends = common.on_all(two, |joined| {
        assert!(joined.group().run() > 0);
        joined.leave().expect("nothing is in the way");
    });
    assert_eq!(ends.len(), 2);
}

#[test]
fn missing_memory_nodes_and_pools_of_other_lines_or_protocols_are_reported() {
    if let Some(rdma) = Common::rdma() {
        let gam = ClusterConfig { protocol: Protocol::Gam, ..small(1, 1, 16, 1) };
        let error = rdma.compute(&gam).map(drop).expect_err("no agents").to_string();
        assert!(error.contains("use --fabric shm or tcp"), "{error}");
    }
    let [common, _] = Common::both();
    let config = small(1, 1, 16, 1);
    let membership = common.membership(Role::Compute).expect("a free id");
    let wait = Duration::from_millis(300);
    let error = Joined::start(config.clone(), &common.transport, membership, wait).map(drop);
    let error = error.expect_err("there is no memory").to_string();
    assert!(error.contains("0 memory nodes, and 2 are wanted"), "{error}");
    let _memory = common.memory(&config);
    let joined = common.compute(&config).expect("it joins");
    let mut other = config.clone();
    other.line_size = 1024;
    let refused = |config: &ClusterConfig, told: &str| {
        let error = common.compute(config).map(drop).expect_err("it differs").to_string();
        assert!(error.contains(told) && !error.contains('\n'), "{error}");
    };
    refused(&other, "lines of 512 bytes");
    refused(&other, "not of 1024");
    let of = |protocol| ClusterConfig { protocol, ..config.clone() };
    refused(&of(Protocol::Gam), "C1 runs selcc, and this node gam: use the same --protocol");
    let mut survives = config.clone();
    survives.set("survive", "on").expect("a value");
    let both = "runs selcc, and this node selcc with survive=on: use the same --protocol, the same survive";
    refused(&survives, &format!("C1 {both}"));
    joined.leave().expect("nothing is in the way");
    let joined = common.compute(&survives).expect("it is alone");
    let both = "runs selcc with survive=on, and this node selcc: use the same --protocol, the same survive";
    refused(&config, &format!("C1 {both}"));
    joined.leave().expect("nothing is in the way");
    let joined = common.compute(&of(Protocol::Gam)).expect("it is alone");
    refused(&config, "C1 runs gam, and this node selcc: use the same --protocol");
    joined.leave().expect("nothing is in the way");
    // A memory node keeps its agent, which hinders no protocol without agents.
    refused(&of(Protocol::ScaleStore), "M0 runs gam, and this node scalestore: use the same");
    let mut cores = of(Protocol::Gam);
    cores.set("home-cores", "2").expect("a value");
    refused(&cores, "M0 runs gam, and this node gam with home-cores=2: use the same");
    common.compute(&config).expect("it joins").leave().expect("nothing is in the way");
    assert!(matches!(
        common.membership(Role::Compute).expect("an id").me().node,
        NodeName::Compute(_)
    ));
}

#[test]
fn a_node_that_joins_learns_how_much_on_chip_memory_a_memory_node_has() {
    for common in Common::both() {
        let config = ClusterConfig { chip_bytes: 4096, ..small(1, 1, 16, 1) };
        let _memory = common.memory(&config);
        let joined = common.compute(&config).expect("it joins");
        let ends = joined.run(async |member| {
            let port = member.memory.port();
            assert_eq!(port.extent(MemoryNodeId(0)).map(|extent| extent.chip_bytes), Some(4096));
            let last = GlobalAddr::new(MemoryNodeId(0), CHIP_BASE + 4096 - 8);
            port.fetch_add(last, 5).await.expect("a word");
            port.read_words(last, 1).await.expect("a word")
        });
        assert_eq!(ends.expect("it runs"), [[5]]);
        joined.leave().expect("nothing is in the way");
    }
}

/// Bug: a memory node with an impossible size, address or directory died with its id, and its
/// directory was decided for all nodes. Later nodes reported a lost memory node, or used the
/// unusable directory. Mechanism: the node took the id before it tried to start. Fix: a node that
/// cannot start leaves, and tries the directory before it decides.
#[test]
fn a_memory_node_that_cannot_start_does_not_hinder_the_next() {
    for common in Common::both() {
        let bytes = small(1, 1, 16, 1).memory_bytes;
        let membership =
            |bytes| common.membership(Role::Memory { bytes, chip_bytes: 0 }).expect("a free id");
        let nowhere = match &common.transport {
            Transport::Shm { huge_pages, .. } => Transport::Shm {
                directory: Some("/dev/null/shm".into()),
                huge_pages: huge_pages.clone(),
            },
            Transport::Tcp { config, .. } => Transport::Tcp {
                config: config.clone(),
                listen: "192.0.2.1:0".parse().expect("an address of no machine"),
                advertise: None,
            },
            other => other.clone(),
        };
        assert!(MemoryHost::start(&nowhere, membership(bytes), false).is_err());
        assert!(MemoryHost::start(&common.transport, membership(1 << 50), false).is_err());
        let host = MemoryHost::start(&common.transport, membership(bytes), false);
        let host = host.expect("nothing is lost");
        assert_eq!(host.membership().me().node.to_string(), "M0", "the id is free again");
        assert!(host.leave(LONG).expect("membership answers"));
    }
}
