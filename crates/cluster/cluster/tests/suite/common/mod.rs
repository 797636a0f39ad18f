//! Common code of the cluster's tests: a random workload whose outcome can be checked.

pub(crate) mod invariants;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Member};
use latchwork_coherence::{AccessMode, CoherentMemory, MemoryError, Need, Upgrade};
use latchwork_memnode::ObjectKind;
use latchwork_verbs::GlobalAddr;

/// The work of each worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) lines: usize,
    pub(crate) operations: usize,
    /// The tasks of each worker.
    pub(crate) tasks: usize,
    /// Writes among a hundred operations.
    pub(crate) writes: u64,
    /// Operations among a hundred that are dropped at a random moment.
    pub(crate) dropped: u64,
}

/// A limit for one step of a test. No step takes this long, even on a very busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The line with this name. With `makes` the call makes the line if it does not exist. Otherwise
/// the call waits for the line.
#[cfg(feature = "processes")]
pub(crate) async fn named_line(member: &Member, name: &str, makes: bool) -> GlobalAddr {
    let (memory, port) = (&member.memory, member.memory.port());
    if makes && member.catalogue.lookup(port, name).await.expect("memory").is_none() {
        let line = memory.allocate().await.expect("room");
        let clear = |guard: &mut latchwork_cache::WriteGuard<'_>| {
            let end = guard.words().len();
            guard.words().clear(0..end);
            guard.mark_dirty(0..end);
        };
        memory.write(line, clear).await.expect("a new line");
        let named = member.catalogue.register(port, name, ObjectKind(7), line.bits()).await;
        named.expect("a new name");
    }
    let deadline = member.handle.now() + LONG;
    let found = member.catalogue.wait_for(port, &member.handle, name, deadline).await;
    GlobalAddr::from_bits(found.expect("it is made").value)
}

/// A small cluster with lines of 512 bytes and caches of at least `frames` frames.
pub(crate) fn small(
    compute_nodes: usize,
    workers: usize,
    frames: usize,
    seed: u64,
) -> ClusterConfig {
    ClusterConfig {
        compute_nodes,
        memory_nodes: 2,
        workers,
        inflight: 16,
        memory_bytes: 1 << 20,
        cache_bytes: latchwork_cache::Cache::footprint(frames, 512),
        line_size: 512,
        chunk_size: 64 << 10,
        seed,
        ..ClusterConfig::default()
    }
}

/// Lines that the first worker makes and all workers find.
pub(crate) async fn shared_lines(member: &Member, count: usize) -> Vec<GlobalAddr> {
    let memory = &member.memory;
    let deadline = member.handle.now() + LONG;
    if member.index == 0 {
        for k in 0..count {
            let line = memory.allocate().await.expect("a pool with room");
            memory.write(line, clear).await.expect("a new line");
            let name = format!("line {k}");
            let done =
                member.catalogue.register(memory.port(), &name, ObjectKind(7), line.bits()).await;
            done.expect("a new name");
        }
    }
    let mut lines = Vec::new();
    for k in 0..count {
        let name = format!("line {k}");
        let found = member.catalogue.wait_for(memory.port(), &member.handle, &name, deadline).await;
        lines.push(GlobalAddr::from_bits(found.expect("registered by the first").value));
    }
    lines
}

fn clear(guard: &mut latchwork_cache::WriteGuard<'_>) {
    let end = guard.words().len();
    guard.words().clear(0..end);
    guard.mark_dirty(0..end);
}

/// Adds one to the counters at both ends of the line. Panics when the two differ, as in a torn
/// copy.
pub(crate) fn bump(guard: &mut latchwork_cache::WriteGuard<'_>) {
    let words = guard.words();
    let last = words.len() - 8;
    let (first, second) = (words.u64(0), words.u64(last));
    assert_eq!(first, second, "a writer found {} torn", guard.addr());
    words.set_u64(0, first + 1);
    words.set_u64(last, second + 1);
    guard.mark_dirty(0..8);
    guard.mark_dirty(last..last + 8);
}

/// Random reads, writes, upgrades and dropped accesses. Returns the number of writes of each line.
pub(crate) async fn hammer(member: Member, load: Load) -> Vec<u64> {
    let lines = Rc::new(shared_lines(&member, load.lines).await);
    let written: Rc<[Cell<u64>]> = (0..load.lines).map(|_| Cell::new(0)).collect();
    let tasks: Vec<_> = (0..load.tasks)
        .map(|_| {
            let (member, lines, written) = (member.clone(), lines.clone(), written.clone());
            member.handle.clone().spawn(async move { task(&member, &lines, &written, load).await })
        })
        .collect();
    for task in tasks {
        task.await.expect("nobody aborts it").expect("no error");
    }
    written.iter().map(Cell::get).collect()
}

async fn task(
    member: &Member,
    lines: &[GlobalAddr],
    written: &[Cell<u64>],
    load: Load,
) -> Result<(), MemoryError> {
    let memory = &member.memory;
    let mut seen = vec![0; lines.len()];
    for _ in 0..load.operations {
        let _operation = memory.enter().await?;
        let at = member.handle.random_below(lines.len() as u64) as usize;
        let line = lines[at];
        let kind = member.handle.random_below(100);
        if kind < load.writes / 2 {
            memory.write(line, bump).await?;
            written[at].set(written[at].get() + 1);
        } else if kind < load.writes {
            read_then_write(member, line).await?;
            written[at].set(written[at].get() + 1);
        } else if kind < load.writes + load.dropped {
            drop_midway(member, line).await?;
        } else {
            let (first, last) = memory.read(line, |w| (w.u64(0), w.u64(w.len() - 8))).await?;
            assert_eq!(first, last, "{line} was read torn");
            assert!(first >= seen[at], "{line} went back from {} to {first}", seen[at]);
            seen[at] = first;
        }
        // Virtual time advances only on request. A worker that never yields would do all its work
        // at one instant.
        member.handle.charge(Duration::from_nanos(50 + member.handle.random_below(400)));
        member.handle.yield_now().await;
    }
    Ok(())
}

/// Reads, then upgrades. The write happens only if no other node has written since the read.
async fn read_then_write(member: &Member, line: GlobalAddr) -> Result<(), MemoryError> {
    let memory = &member.memory;
    let mut kept = None;
    loop {
        let version = match memory.try_read(line) {
            Ok(read) => read.version(),
            Err(need) => {
                drop(kept.take());
                kept = Some(memory.ensure(need).await?);
                continue;
            }
        };
        let (upgrade, ticket) = memory.upgrade(version, kept.take()).await?;
        if upgrade == Upgrade::Kept {
            assert!(ticket.is_some(), "a kept line is reserved");
            if let Ok(mut guard) = memory.try_write(line) {
                // Another task of this node may have written since the read, but no other node has.
                bump(&mut guard);
                return Ok(());
            }
        }
    }
}

async fn drop_midway(member: &Member, line: GlobalAddr) -> Result<(), MemoryError> {
    let mode =
        if member.handle.random_below(2) == 0 { AccessMode::Shared } else { AccessMode::Exclusive };
    let patience = Duration::from_nanos(member.handle.random_below(8000));
    let access = member.memory.ensure(Need { addr: line, mode });
    match member.handle.timeout(member.handle.now() + patience, access).await {
        Ok(ticket) => ticket.map(drop),
        Err(_) => Ok(()),
    }
}

/// Sums the counts that the workers returned.
pub(crate) fn totals(counts: &[Vec<u64>]) -> Vec<u64> {
    (0..counts[0].len()).map(|line| counts.iter().map(|worker| worker[line]).sum()).collect()
}

/// Reads the counters of all lines, at the end.
pub(crate) async fn read_counters(member: &Member, lines: usize) -> Vec<u64> {
    let mut counters = Vec::new();
    for line in shared_lines_again(member, lines).await {
        counters.push(member.memory.read(line, |w| w.u64(0)).await.expect("no error"));
    }
    counters
}

async fn shared_lines_again(member: &Member, count: usize) -> Vec<GlobalAddr> {
    let mut lines = Vec::new();
    for k in 0..count {
        let found = member.catalogue.lookup(member.memory.port(), &format!("line {k}")).await;
        lines.push(GlobalAddr::from_bits(found.expect("no error").expect("registered").value));
    }
    lines
}
