//! Random transactions of many workers, with two-phase locks that never wait. Conflicting locks are
//! never held at the same time. Data read under a lock does not change, and no transfer is lost.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Embedded, Lock, Member, Protocol, Simulated};
use latchwork_coherence::{AccessMode, CoherentMemory, LineLocks, LockOutcome, MemoryError, Need};
use latchwork_fabric::AnyFabric;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{Faults, SimConfig};

use crate::common::invariants::{check_at_rest, check_step};
use crate::common::{shared_lines, small};

const LIMIT: Duration = Duration::from_secs(30);
const LINES: usize = 5;
/// The value of each line at the start.
const START: u64 = 1_000_000;
/// The number of transfers that each worker attempts.
const TRIES: u64 = 60;

/// The locks of all nodes, counted beside the real locks: for each line the number of readers, or
/// -1 for a writer.
#[derive(Default)]
struct Witness {
    holders: [AtomicI64; LINES],
    commits: AtomicU64,
    refusals: AtomicU64,
    upgrades: AtomicU64,
    /// Whether transactions leave out the locks, as a seeded bug.
    forgets_to_lock: bool,
}

/// A lock, with its entry in the witness.
struct Held<'a> {
    witness: &'a Witness,
    at: usize,
    mode: AccessMode,
    lock: Option<Lock>,
}

impl<'a> Held<'a> {
    fn new(witness: &'a Witness, at: usize, mode: AccessMode, lock: Option<Lock>) -> Self {
        let old = match mode {
            AccessMode::Shared => witness.holders[at].fetch_add(1, Ordering::SeqCst),
            AccessMode::Exclusive => witness.holders[at].fetch_sub(1, Ordering::SeqCst),
        };
        let alone = if mode == AccessMode::Shared { old >= 0 } else { old == 0 };
        assert!(alone, "line {at} was locked {mode:?} beside {old}");
        Held { witness, at, mode, lock }
    }

    fn upgraded(&mut self) {
        let old = self.witness.holders[self.at].swap(-1, Ordering::SeqCst);
        assert_eq!(old, 1, "line {} was upgraded beside others", self.at);
        self.mode = AccessMode::Exclusive;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // The entry ends before the lock, because another task may take the lock as soon as it
        // ends.
        match self.mode {
            AccessMode::Shared => self.witness.holders[self.at].fetch_sub(1, Ordering::SeqCst),
            AccessMode::Exclusive => self.witness.holders[self.at].fetch_add(1, Ordering::SeqCst),
        };
        drop(self.lock.take());
    }
}

async fn balance(member: &Member, line: GlobalAddr) -> Result<u64, MemoryError> {
    member.memory.read(line, |words| words.u64(0)).await
}

async fn lock<'a>(
    member: &Member,
    witness: &'a Witness,
    lines: &[GlobalAddr],
    at: usize,
    mode: AccessMode,
) -> Result<Option<Held<'a>>, MemoryError> {
    if witness.forgets_to_lock {
        return Ok(Some(Held::new(witness, at, mode, None)));
    }
    let locking = pin!(member.memory.lock(Need { addr: lines[at], mode }));
    // One attempt in ten is dropped at some moment, and leaves nothing locked.
    let end = if member.handle.random_below(10) == 0 {
        let until = member.handle.now() + Duration::from_micros(member.handle.random_below(30));
        match member.handle.timeout(until, locking).await {
            Ok(end) => end?,
            Err(_) => return Ok(None),
        }
    } else {
        locking.await?
    };
    Ok(match end {
        LockOutcome::Got(lock) => Some(Held::new(witness, at, mode, Some(lock))),
        LockOutcome::Locked => None,
    })
}

/// Moves a unit from one line to another, under locks that are taken in any order. Returns false
/// after a conflict with another transaction.
async fn transfer(
    member: &Member,
    witness: &Witness,
    lines: &[GlobalAddr],
) -> Result<bool, MemoryError> {
    let random = |below| member.handle.random_below(below);
    let from = random(LINES as u64) as usize;
    let to = (from + 1 + random(LINES as u64 - 1) as usize) % LINES;
    let reads_first = random(2) == 0;
    let first = if reads_first { AccessMode::Shared } else { AccessMode::Exclusive };
    let Some(mut source) = lock(member, witness, lines, from, first).await? else {
        return Ok(false);
    };
    let had = balance(member, lines[from]).await?;
    let Some(_target) = lock(member, witness, lines, to, AccessMode::Exclusive).await? else {
        return Ok(false);
    };
    let has = balance(member, lines[to]).await?;
    if random(3) == 0 {
        member.handle.sleep(Duration::from_micros(random(30))).await;
    }
    if reads_first && let Some(lock) = &mut source.lock {
        if member.memory.upgrade_lock(lock).await? == LockOutcome::Locked {
            return Ok(false);
        }
        source.upgraded();
        witness.upgrades.fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(balance(member, lines[from]).await?, had, "written under a lock of another");
    assert_eq!(balance(member, lines[to]).await?, has, "written under a lock of another");
    for (line, value) in [(lines[from], had - 1), (lines[to], has + 1)] {
        member
            .memory
            .write(line, |guard| {
                guard.words().set_u64(0, value);
                guard.mark_dirty(0..8);
            })
            .await?;
    }
    Ok(true)
}

/// The sum of all lines under locks to read, or `None` after a conflict with another transaction.
async fn audit(
    member: &Member,
    witness: &Witness,
    lines: &[GlobalAddr],
) -> Result<Option<u64>, MemoryError> {
    let (mut held, mut sum) = (Vec::new(), 0);
    for at in 0..LINES {
        let Some(lock) = lock(member, witness, lines, at, AccessMode::Shared).await? else {
            return Ok(None);
        };
        held.push(lock);
        sum += balance(member, lines[at]).await?;
    }
    Ok(Some(sum))
}

async fn transact(member: Member, witness: Arc<Witness>) {
    let lines = shared_lines(&member, LINES).await;
    if member.index == 0 {
        for line in &lines {
            let begin = member.memory.write(*line, |guard| {
                guard.words().set_u64(0, guard.words().u64(0) + START);
                guard.mark_dirty(0..8);
            });
            begin.await.expect("no error");
        }
    }
    // The others wait for the lines of the transfer.
    for line in &lines {
        while balance(&member, *line).await.expect("no error") == 0 {
            member.handle.sleep(Duration::from_micros(50)).await;
        }
    }
    for _ in 0..TRIES {
        if member.handle.random_below(8) == 0 {
            let sum = audit(&member, &witness, &lines).await.expect("no error");
            assert!(sum.is_none_or(|sum| sum == START * LINES as u64), "{sum:?}");
        } else if transfer(&member, &witness, &lines).await.expect("no error") {
            witness.commits.fetch_add(1, Ordering::Relaxed);
        } else {
            witness.refusals.fetch_add(1, Ordering::Relaxed);
            let pause = Duration::from_micros(member.handle.random_below(100));
            member.handle.sleep(pause).await;
        }
    }
}

/// The sum of all lines, after all transactions have ended.
async fn total(member: Member) -> u64 {
    let mut sum = 0;
    for line in shared_lines_again(&member).await {
        sum += balance(&member, line).await.expect("no error");
    }
    sum
}

async fn shared_lines_again(member: &Member) -> Vec<GlobalAddr> {
    // The lines are registered already, so this only looks them up.
    let other = Member { index: usize::MAX, ..member.clone() };
    shared_lines(&other, LINES).await
}

fn world(config: ClusterConfig, witness: Witness) -> Arc<Witness> {
    world_with(config, witness, Faults::NONE)
}

/// One world with faults during the transactions.
fn world_with(config: ClusterConfig, witness: Witness, faults: Faults) -> Arc<Witness> {
    let seed = config.seed;
    let network = if seed.is_multiple_of(2) { SimConfig::default() } else { SimConfig::rough() };
    let cluster = Simulated::start(config, network).expect("a good configuration");
    let fabric = match cluster.fabric() {
        AnyFabric::Sim(fabric) => fabric.clone(),
        _ => unreachable!("a simulated cluster"),
    };
    fabric.set_faults(faults);
    let witness = Arc::new(witness);
    let theirs = witness.clone();
    cluster
        .run_watched(
            LIMIT,
            move |member| transact(member, theirs.clone()),
            |cluster| check_step(cluster, seed),
        )
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    fabric.set_faults(Faults::NONE);
    let sums = cluster.run(LIMIT, total).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert!(sums.iter().all(|&sum| sum == START * LINES as u64), "seed {seed}: {sums:?}");
    cluster.settle(Duration::from_millis(50));
    check_at_rest(&cluster, seed);
    assert!(cluster.nodes().iter().all(|node| node.locked_lines() == 0), "seed {seed}");
    witness
}

#[test]
fn transactions_lose_nothing_in_any_of_many_worlds() {
    let (mut commits, mut refusals, mut upgrades) = (0, 0, 0);
    for (seed, protocol) in (0..24).flat_map(|seed| Protocol::ALL.map(|p| (seed, p))) {
        let mut config = small(3, 2, 16, seed);
        config.protocol = protocol;
        config.selcc.takeover = seed % 3 != 0;
        config.selcc.forwarding = seed % 5 != 0;
        let witness = world(config, Witness::default());
        commits += witness.commits.load(Ordering::Relaxed);
        refusals += witness.refusals.load(Ordering::Relaxed);
        upgrades += witness.upgrades.load(Ordering::Relaxed);
    }
    println!("{commits} transfers, {refusals} refused, {upgrades} upgrades");
    assert!(commits > 1000 && refusals > 1000 && upgrades > 100);
}

/// Messages arrive twice, and connections fail under operations, forwards and requests.
#[test]
fn transactions_lose_nothing_where_connections_fail() {
    let faults = Faults {
        delay_one_in: 20,
        delay: Duration::from_micros(40),
        repeat_one_in: 3,
        fail_one_in: 5,
        ..Faults::NONE
    };
    let mut commits = 0;
    for seed in 100..112 {
        let witness = world_with(small(4, 1, 16, seed), Witness::default(), faults);
        commits += witness.commits.load(Ordering::Relaxed);
    }
    assert!(commits > 500, "{commits} transfers");
}

/// The same without locks. The check detects the lost transfers.
#[test]
fn transactions_without_locks_are_noticed() {
    let broken = || Witness { forgets_to_lock: true, ..Witness::default() };
    let noticed = std::panic::catch_unwind(|| _ = world(small(3, 2, 16, 2), broken())).is_err();
    assert!(noticed, "nobody was in the way of anybody");
}

#[test]
fn threads_on_shared_memory_lose_nothing_either() {
    for protocol in Protocol::ALL {
        let mut config = small(3, 2, 16, 1);
        config.protocol = protocol;
        let cluster = Embedded::start(config).expect("a configuration");
        let witness = Arc::new(Witness::default());
        let theirs = witness.clone();
        cluster.run(move |member| transact(member, theirs.clone())).expect("no worker fails");
        let sums = cluster.run_on(1, total).expect("no worker fails");
        assert!(sums.iter().all(|&sum| sum == START * LINES as u64), "{protocol}: {sums:?}");
        assert!(witness.commits.load(Ordering::Relaxed) > 0, "{protocol}");
    }
}
