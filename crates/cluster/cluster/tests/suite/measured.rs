//! A cluster with a simulated NIC profile. Work takes the times of the profile.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_cluster::{ClusterConfig, Simulated, SimulatedNode};
use latchwork_coherence::{AccessMode, CoherentMemory, LineLocks, LockOutcome, Need};
use latchwork_latch::LatchWord;
use latchwork_peers::RecoveryStep;
use latchwork_selcc::LatchCount;
use latchwork_verbs::MemoryNodeId;
use latchwork_verbs_sim::{NicProfile, SimConfig};

const LIMIT: Duration = Duration::from_secs(10);
const READS: u32 = 1_000;

/// The time of one worker for a thousand reads of a cached line.
fn hits(change: impl Fn(&mut NicProfile)) -> Duration {
    let mut profile = NicProfile::named("connectx5").expect("it comes with the crate");
    change(&mut profile);
    let config = ClusterConfig {
        compute_nodes: 1,
        cache_bytes: 1 << 20,
        memory_bytes: 32 << 20,
        ..ClusterConfig::default()
    };
    let cluster = Simulated::start(config, SimConfig::nic(profile)).expect("a good configuration");
    let times = cluster.run(LIMIT, |member| async move {
        let memory = &member.memory;
        let _operation = memory.enter().await.expect("no faults");
        let line = memory.allocate().await.expect("an empty pool");
        memory.write(line, |guard| guard.words().set_u64(0, 1)).await.expect("no faults");
        let start = member.handle.now();
        for _ in 0..READS {
            assert_eq!(memory.read(line, |words| words.u64(0)).await.expect("no faults"), 1);
        }
        member.handle.now() - start
    });
    times.expect("no worker fails")[0]
}

#[test]
fn a_hit_costs_what_the_profile_says() {
    let free =
        |profile: &mut NicProfile| (profile.cpu.hit_ns, profile.cpu.copy_ns_per_kib) = (0, 0);
    assert_eq!(hits(free), Duration::ZERO);
    let some =
        |profile: &mut NicProfile| (profile.cpu.hit_ns, profile.cpu.copy_ns_per_kib) = (70, 15);
    // A line of 2 KiB is read as a whole.
    assert_eq!(hits(some), READS * Duration::from_nanos(70 + 2 * 15));
}

/// A lock of a cached line costs one hit, and so does its end.
#[test]
fn a_lock_costs_two_hits() {
    let mut profile = NicProfile::named("connectx3").expect("it comes with the crate");
    profile.cpu.hit_ns = 70;
    let config =
        ClusterConfig { cache_bytes: 1 << 20, memory_bytes: 32 << 20, ..ClusterConfig::default() };
    let cluster = Simulated::start(config, SimConfig::nic(profile)).expect("a good configuration");
    let times = cluster.run_on(1, LIMIT, |member| async move {
        let memory = &member.memory;
        let _operation = memory.enter().await.expect("no faults");
        let addr = memory.allocate().await.expect("a pool with room");
        let need = Need { addr, mode: AccessMode::Exclusive };
        let start = member.handle.now();
        for _ in 0..READS {
            let lock = memory.try_lock(need).expect("a new line is here");
            assert!(matches!(lock, LockOutcome::Got(_)));
        }
        member.handle.now() - start
    });
    assert_eq!(times.expect("no worker fails")[0], READS * Duration::from_nanos(2 * 70));
}

fn set(guard: &mut WriteGuard<'_>, value: u64) {
    guard.words().set_u64(0, value);
    guard.mark_dirty(0..8);
}

/// The mean time of a write to a line that `sharers` other nodes share. With `upgrade` the writer
/// has a copy too.
fn write_to_shared(sharers: usize, takeover: bool, upgrade: bool) -> Duration {
    const LINES: u32 = 100;
    // The parts begin at fixed virtual times, so that all messages have arrived before each part.
    const STEP: Duration = Duration::from_millis(10);
    let profile = NicProfile::named("connectx3").expect("it comes with the crate");
    let mut config = ClusterConfig {
        compute_nodes: sharers + 1,
        cache_bytes: 1 << 20,
        memory_bytes: 32 << 20,
        ..ClusterConfig::default()
    };
    config.selcc.takeover = takeover;
    let cluster = Simulated::start(config, SimConfig::nic(profile)).expect("a good configuration");
    let lines: Rc<RefCell<Vec<_>>> = Rc::default();
    let took = cluster.run(LIMIT, move |member| {
        let lines = Rc::clone(&lines);
        async move {
            let (memory, handle) = (&member.memory, &member.handle);
            let _operation = memory.enter().await.expect("no faults");
            let writer = member.node == 0;
            if writer {
                for _ in 0..LINES {
                    let line = memory.allocate().await.expect("an empty pool");
                    memory.write(line, |guard| set(guard, 1)).await.expect("no faults");
                    lines.borrow_mut().push(line);
                }
            }
            handle.sleep_until(latchwork_runtime::Time::ZERO + STEP).await;
            let lines = lines.borrow().clone();
            for &line in lines.iter().filter(|_| !writer) {
                assert_eq!(memory.read(line, |words| words.u64(0)).await.expect("no faults"), 1);
            }
            if writer && !upgrade {
                handle.sleep_until(latchwork_runtime::Time::ZERO + 2 * STEP).await;
                lines.iter().for_each(|&line| assert!(memory.evict(line)));
            }
            handle.sleep_until(latchwork_runtime::Time::ZERO + 3 * STEP).await;
            let mut took = Duration::ZERO;
            for &line in lines.iter().filter(|_| writer) {
                let start = handle.now();
                memory.write(line, |guard| set(guard, 2)).await.expect("no faults");
                took += handle.now() - start;
                // This pause lets reports and other messages in flight arrive.
                handle.sleep(Duration::from_micros(50)).await;
            }
            took / LINES
        }
    });
    let nodes = cluster.counters();
    assert_eq!(LatchCount::Takeovers.of(&nodes), if takeover { u64::from(LINES) } else { 0 });
    took.expect("no worker fails")[0]
}

/// Without takeover the additions of the sharers take effect between request and answer.
#[test]
fn a_takeover_saves_a_write_to_a_shared_line_a_round_trip() {
    for upgrade in [false, true] {
        for sharers in [1, 2, 7] {
            let [off, on] = [false, true].map(|on| write_to_shared(sharers, on, upgrade));
            println!("{sharers} sharers, upgrade {upgrade}: {off:?}, with takeover {on:?}");
            let saved = off.checked_sub(on).expect("faster");
            assert!(saved > Duration::from_micros(1), "{sharers} sharers: {saved:?} saved");
        }
    }
}

/// Accesses of eight nodes to `lines` lines during 5 ms of virtual time, with `writes` writes among
/// a hundred accesses. Returns the number of accesses and the time of the longest one.
fn contended(lines: usize, writes: u64, takeover: bool) -> (u64, Duration) {
    const SPAN: Duration = Duration::from_millis(5);
    let begin = latchwork_runtime::Time::ZERO + Duration::from_millis(5);
    let profile = NicProfile::named("connectx3").expect("it comes with the crate");
    let mut config = ClusterConfig {
        compute_nodes: 8,
        cache_bytes: 1 << 20,
        memory_bytes: 32 << 20,
        ..ClusterConfig::default()
    };
    config.selcc.takeover = takeover;
    let cluster = Simulated::start(config, SimConfig::nic(profile)).expect("a good configuration");
    let all: Rc<RefCell<Vec<_>>> = Rc::default();
    let done = cluster.run(LIMIT, move |member| {
        let all = Rc::clone(&all);
        async move {
            let (memory, handle) = (&member.memory, &member.handle);
            let _operation = memory.enter().await.expect("no faults");
            if member.node == 0 {
                for _ in 0..lines {
                    let line = memory.allocate().await.expect("an empty pool");
                    memory.write(line, |guard| set(guard, 0)).await.expect("no faults");
                    all.borrow_mut().push(line);
                }
            }
            handle.sleep_until(begin).await;
            let all = all.borrow().clone();
            let (mut done, mut longest) = (0, Duration::ZERO);
            while handle.now() < begin + SPAN {
                let line = all[handle.random_below(all.len() as u64) as usize];
                let start = handle.now();
                if handle.random_below(100) < writes {
                    memory.write(line, |guard| set(guard, 1)).await.expect("no faults");
                } else {
                    memory.read(line, |words| words.u64(0)).await.expect("no faults");
                }
                done += 1;
                longest = longest.max(handle.now() - start);
                // This pause lets messages of other nodes be handled.
                handle.sleep(Duration::from_nanos(500)).await;
            }
            (done, longest)
        }
    });
    let done = done.expect("no worker fails");
    let sum = done.iter().map(|(done, _)| done).sum();
    (sum, done.iter().map(|(_, longest)| *longest).max().unwrap_or_default())
}

/// Many nodes write lines that many nodes read. Takeover makes no combination more than a tenth
/// slower, and saves time in total. The test also prints the longest access, which takeover
/// shortens in most combinations.
#[test]
fn takeover_bears_contention() {
    let (mut all, mut all_on) = (0.0, 0.0);
    for lines in [1, 4, 16, 64] {
        for writes in [5, 20, 50] {
            let [(off, longest_off), (on, longest_on)] =
                [false, true].map(|on| contended(lines, writes, on));
            println!(
                "{lines} lines, {writes} % writes: {off}, longest {longest_off:?}; with takeover {on}, {longest_on:?}"
            );
            assert!(on * 10 > off * 9, "{lines} lines, {writes} % writes: {off}, then {on}");
            (all, all_on) = (all + 1.0, all_on + on as f64 / off as f64);
        }
    }
    assert!(all_on > 1.05 * all, "{:.2} on average", all_on / all);
}

/// How long a sweep takes: 4 GiB of lines of 2 KiB are on one memory node, and the dead node had a
/// full cache of 128 MiB of them. `--nocapture` prints the time. An access that waits for one of
/// the lines does not wait for the sweep, whichever node it is of: the dead node is in the way of
/// a reader as the holder, and of a writer as a sharer.
#[test]
fn a_sweep_is_as_fast_as_the_atomics_of_the_memory_node() {
    let mut config = ClusterConfig {
        compute_nodes: 3,
        memory_nodes: 1,
        memory_bytes: 4 << 30,
        line_size: 2048,
        cache_bytes: 1 << 20,
        ..ClusterConfig::default()
    };
    config.selcc.survive = true;
    let profile = NicProfile::named("connectx3").expect("it comes with the crate");
    let cluster = Simulated::start(config, SimConfig::nic(profile)).expect("a good configuration");
    let (memory, dead) = (MemoryNodeId(0), cluster.nodes()[1].id());
    let region = cluster.network().memory(memory).expect("a memory node");
    let pool = cluster.nodes()[0].allocator().pool().clone();
    let words = |step| {
        let geometry = pool.geometry();
        let chunks = (0..pool.chunks(memory)).map(move |at| geometry.chunk_addr(memory, at));
        let lines = chunks.flat_map(move |chunk| {
            (0..geometry.lines_per_chunk()).map(move |at| geometry.line_addr(chunk, at))
        });
        lines.step_by(step).map(move |line| geometry.latch_addr(line).offset() as usize)
    };
    words(32).for_each(|at| region.words().set_u64(at, LatchWord::exclusively(dead).bits()));
    let geometry = pool.geometry();
    let last = geometry.chunk_addr(memory, pool.chunks(memory) - 1);
    let wanted = [1, 2].map(|k| geometry.line_addr(last, geometry.lines_per_chunk() - k));
    let word_of = |line| geometry.latch_addr(line).offset() as usize;
    region.words().set_u64(word_of(wanted[0]), LatchWord::exclusively(dead).bits());
    region.words().set_u64(word_of(wanted[1]), LatchWord::shared_by(dead).bits());
    cluster.kill(1);
    for survivor in [0, 2] {
        cluster.fence(SimulatedNode::Compute(survivor), 1);
        cluster.forget(survivor, 1);
        cluster.let_mend(survivor, [1]);
    }
    let start = cluster.kernel().now();
    let swept = cluster.recover(0, (RecoveryStep::Sweep, 1), Duration::ZERO).expect("a port");
    let waits = [0, 2].map(|node| {
        let (actor, member) = cluster.start_worker((node, 0, node)).expect("room for a port");
        let (line, handle) = (wanted[node / 2], actor.handle());
        let wait = actor.handle().spawn(async move {
            let memory = &member.memory;
            match node {
                0 => memory.read(line, |words| words.u64(0)).await.map(drop).expect("a line"),
                _ => memory.write(line, |guard| guard.words().set_u64(0, 1)).await.expect("a line"),
            }
            let waited = handle.now() - start;
            memory.give_back().await.expect("nothing is in the way");
            member.memory.leave().await.expect("nothing is in the way");
            waited
        });
        (actor, wait)
    });
    cluster.kernel().run_until(start + LIMIT, || swept.is_finished());
    assert_eq!(swept.take().and_then(Result::ok), Some(true));
    let took = cluster.kernel().now() - start;
    cluster.kernel().run_until(start + LIMIT, || waits.iter().all(|(_, wait)| wait.is_finished()));
    let waited = waits.map(|(_, wait)| wait.take().and_then(Result::ok).expect("its end"));
    println!("accesses waited for {waited:?}");
    assert!(waited.iter().all(|waited| *waited < took / 20), "{waited:?}");
    println!("{} words, {} of the dead node: {took:?}", words(1).count(), words(32).count());
    assert!(words(1).all(|at| region.words().u64(at) == 0));
    // 1.8 M atomics a second take 36 ms. With one verb at a time it was 164 ms.
    assert!(took < Duration::from_millis(60), "{took:?}");
}
