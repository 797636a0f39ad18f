//! The cost of the remote paths on shared memory, beside the cost of memory itself, in one run.
//!
//! ```text
//! cargo run --release -p latchwork-benches --example remote
//! cargo run --release -p latchwork-benches --example remote -- turns --time 5
//! ```
//!
//! Two compute nodes have one worker each, on two cores. Both workers poll.
//!
//! - `limits` measures two bare threads: a cache line that moves back and forth, and copies of a
//!   line that the other core has changed.
//! - `turns` measures accesses in turn. The node that waits for the line takes the time. So the
//!   time does not include the signal of the turn.
//! - `misses` measures misses that also evict a line.
//! - `popular` measures both nodes at work on lines with YCSB's popularity.

use std::hint::{black_box, spin_loop};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use latchwork_benches::access::LINE;
use latchwork_benches::{Draws, cluster, lines, on_first};
use latchwork_cluster::{ClusterConfig, Embedded, Member};
use latchwork_coherence::{AccessMode, CoherentMemory, Need};
use latchwork_runtime::Clock;
use latchwork_runtime::sync::{AtomicU64, Ordering, fence};
use latchwork_verbs::{GlobalAddr, Region, Words};
use latchwork_workload::distribution::ScrambledZipfian;
use latchwork_workload::random::WorkloadRandom;

/// Accesses of each node in one sample.
const ROUNDS: u64 = 2000;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Limits,
    Turns,
    Misses,
    Popular,
}

/// The remote paths on shared memory.
#[derive(Parser)]
struct Arguments {
    /// What to measure; all of it by default.
    parts: Vec<Part>,
    /// Time for each figure.
    #[arg(long = "time", value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
    /// Lines that misses are drawn from: 1 GiB of them by default, 64 MiB fit the cache.
    #[arg(long, default_value_t = (1 << 30) / LINE)]
    lines: usize,
    /// Operations in flight on each node, where lines are popular.
    #[arg(long, default_value_t = 8)]
    inflight: usize,
}

fn main() {
    let arguments = Arguments::parse();
    let does = |part| arguments.parts.is_empty() || arguments.parts.contains(&part);
    let time = Duration::from_secs_f64(arguments.seconds);
    println!("{:<44} {:>9} {:>9} {:>9}", "ns, of the samples:", "median", "least", "most");
    if does(Part::Limits) {
        limits(time);
    }
    if does(Part::Turns) {
        turns(time);
    }
    if does(Part::Misses) {
        misses(time, arguments.lines);
    }
    if does(Part::Popular) {
        popular(time, arguments.inflight);
    }
}

/// Takes samples for the given time, and at least three, after one warm-up sample.
fn sample(what: &str, time: Duration, mut one: impl FnMut() -> f64) {
    let clock = Clock::start();
    let mut nanos = Vec::new();
    black_box(one());
    while clock.now().as_nanos() < time.as_nanos() as u64 || nanos.len() < 3 {
        nanos.push(one());
    }
    nanos.sort_by(f64::total_cmp);
    let (least, most) = (nanos[0], nanos[nanos.len() - 1]);
    println!("{what:<44} {:>9.1} {least:>9.1} {most:>9.1}", nanos[nanos.len() / 2]);
}

// ---- the cost of memory itself
// --------------------------------------------------------------------

/// Repeats `ROUNDS` times: `mine` by this thread, then `theirs` by another thread. Both threads
/// spin for their turn. Returns the mean time that this thread spent in `mine`, without the signal
/// of the turn.
fn in_turn(mine: impl Fn(), theirs: impl Fn() + Sync) -> f64 {
    let turn = &AtomicU64::new(0);
    let wait = |until: u64| {
        while turn.load(Ordering::Acquire) != until {
            spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                wait(2 * round + 1);
                theirs();
                turn.store(2 * round + 2, Ordering::Release);
            }
        });
        let clock = Clock::start();
        let mut spent = Duration::ZERO;
        for round in 0..ROUNDS {
            wait(2 * round);
            let before = clock.now();
            mine();
            spent += clock.now() - before;
            turn.store(2 * round + 1, Ordering::Release);
        }
        spent.as_nanos() as f64 / ROUNDS as f64
    })
}

/// The mean nanoseconds of a round trip of a word that two threads increment in turn.
fn round_trip() -> f64 {
    let word = &AtomicU64::new(0);
    let bounce = |first: u64, rounds: u64| {
        for round in 0..rounds {
            while word.load(Ordering::Acquire) != 2 * round + first {
                spin_loop();
            }
            word.store(2 * round + first + 1, Ordering::Release);
        }
    };
    let rounds = 10 * ROUNDS;
    std::thread::scope(|scope| {
        scope.spawn(|| bounce(1, rounds));
        // The first round waits until the other thread has started.
        bounce(0, 1);
        while word.load(Ordering::Acquire) != 2 {
            spin_loop();
        }
        let clock = Clock::start();
        for round in 1..rounds {
            word.store(2 * round + 1, Ordering::Release);
            while word.load(Ordering::Acquire) != 2 * round + 2 {
                spin_loop();
            }
        }
        clock.now().as_nanos() as f64 / (rounds - 1) as f64
    })
}

fn limits(time: Duration) {
    sample("cache line, round trip", time, round_trip);
    let (mine, theirs) =
        (Region::zeroed(LINE).expect("memory"), Region::zeroed(LINE).expect("memory"));
    let copy = |from: Words<'_>, to: Words<'_>| {
        to.copy_from(from);
        // Without the fence the stores of the copy might still be in flight.
        fence(Ordering::SeqCst);
    };
    let dirty = |words: Words<'_>| (0..LINE / 64).for_each(|i| words.set_u64(i * 64, 1));
    sample("copy 2 KiB that the other core changed", time, || {
        in_turn(|| copy(theirs.words(), mine.words()), || dirty(theirs.words()))
    });
    sample("copy 2 KiB to where the other core has it", time, || {
        in_turn(|| copy(mine.words(), theirs.words()), || dirty(theirs.words()))
    });
    let memory = Region::zeroed(1 << 30).expect("memory");
    let count = memory.len() / LINE;
    let line = |i: u64| memory.words().slice(i as usize * LINE..(i as usize + 1) * LINE);
    (0..count as u64).for_each(|i| line(i).set_u64(0, 1));
    let mut draws = Draws::new(count as u64, 1);
    sample("two copies of 2 KiB, random in 1 GiB", time, || {
        let clock = Clock::start();
        for _ in 0..2 * ROUNDS {
            copy(line(draws.draw()), line(draws.draw()));
        }
        clock.now().as_nanos() as f64 / ROUNDS as f64
    });
}

// ---- two nodes ----------------------------------------------------------------------------------

/// Repeats `ROUNDS` times: an access by the first node, then one by the second. Returns the mean
/// time that each node spent on an access of its own, in nanoseconds. A waiting node polls, and so
/// serves the other node.
fn by_turns(cluster: &Embedded, line: GlobalAddr, second_writes: bool) -> [f64; 2] {
    let turn = &AtomicU64::new(0);
    let times = cluster.run(async |member| {
        let me = member.index as u64;
        let mut time = Duration::ZERO;
        for round in 0..ROUNDS {
            while turn.load(Ordering::Acquire) != 2 * round + me {
                member.handle.yield_now().await;
            }
            let start = member.handle.now();
            if me == 0 || second_writes {
                write(&member, line).await;
            } else {
                read(&member, line).await;
            }
            let spent = member.handle.now() - start;
            turn.store(2 * round + me + 1, Ordering::Release);
            if round >= ROUNDS / 10 {
                time += spent;
            }
        }
        time.as_nanos() as f64 / (ROUNDS - ROUNDS / 10) as f64
    });
    let times = times.expect("workers that end in order");
    [times[0], times[1]]
}

async fn write(member: &Member, line: GlobalAddr) {
    let change = member.memory.write(line, |guard| {
        let end = guard.words().len();
        guard.words().set_u64(0, guard.words().u64(0) + search(guard.words()));
        guard.words().set_u64(end - 8, guard.words().u64(0));
        guard.mark_dirty(0..end);
    });
    change.await.expect("obtained");
}

/// Returns 1. The function finds the number as a search in a page finds an entry: each step depends
/// on the previous step.
fn search(words: Words<'_>) -> u64 {
    let (mut low, mut high) = (0, words.len());
    for _ in 0..6 {
        let middle = (low + high) / 16 * 8;
        // All words except the ends are zero.
        if words.u64(middle) == 0 { low = middle } else { high = middle }
    }
    1 + (low - low.min(high)) as u64
}

async fn read(member: &Member, line: GlobalAddr) {
    let ends =
        member.memory.read(line, |words| (words.u64(0), words.u64(words.len() - 8), search(words)));
    let (first, last, _) = ends.await.expect("obtained");
    assert_eq!(first, last, "a stale or torn copy");
}

fn turns(time: Duration) {
    let cluster = cluster(ClusterConfig::default());
    let line = lines(&cluster, 1)[0];
    sample("a sweep with nothing to do", time, || {
        on_first(&cluster, async |member| {
            let start = member.handle.now();
            for _ in 0..10 * ROUNDS {
                member.handle.yield_now().await;
            }
            (member.handle.now() - start).as_nanos() as f64 / (10 * ROUNDS) as f64
        })
    });
    sample("hand-over", time, || by_turns(&cluster, line, true).iter().sum::<f64>() / 2.0);
    sample("reader downgrades writer", time, || by_turns(&cluster, line, false)[1]);
    sample("writer over a sharer", time, || by_turns(&cluster, line, false)[0]);
    let before = cluster.counters();
    by_turns(&cluster, line, true);
    let each = 2.0 * ROUNDS as f64;
    for (name, count) in (cluster.counters() - before).entries(cluster.config().own_counts()) {
        if count > 0 {
            println!("    each hand-over: {name:<28} {:>9.2}", count as f64 / each);
        }
    }
}

fn misses(time: Duration, count: usize) {
    let config = ClusterConfig {
        cache_bytes: 64 << 20,
        memory_bytes: 1200 << 20,
        ..ClusterConfig::default()
    };
    let cluster = cluster(config);
    let all = lines(&cluster, count);
    for (what, mode, dirty) in [
        ("miss, shared, evicting clean", AccessMode::Shared, 0),
        ("miss, exclusive, evicting clean", AccessMode::Exclusive, 0),
        ("miss, exclusive, evicting dirty", AccessMode::Exclusive, LINE - 32),
    ] {
        let mut draws = Draws::new(all.len() as u64, 1);
        sample(what, time, || {
            let before = cluster.counters();
            let drawn: Vec<_> = (0..2 * ROUNDS).map(|_| all[draws.draw() as usize]).collect();
            let drawn = &drawn;
            let time = on_first(&cluster, async |member| {
                let start = member.handle.now();
                for &addr in drawn {
                    let ticket = member.memory.ensure(Need { addr, mode }).await.expect("obtained");
                    if mode == AccessMode::Exclusive {
                        let mut guard = member.memory.try_write(addr).expect("reserved");
                        guard.mark_dirty(0..dirty);
                    }
                    drop(ticket);
                }
                member.handle.now() - start
            });
            let missed = (cluster.counters() - before).cache_misses;
            time.as_nanos() as f64 / missed.max(1) as f64
        });
    }
}

/// Half of the accesses are writes. Returns the nanoseconds per access of both nodes together.
fn popular(time: Duration, inflight: usize) {
    let config = ClusterConfig { inflight, ..ClusterConfig::default() };
    let cluster = cluster(config);
    let all = &lines(&cluster, 20_000);
    let zipf = &ScrambledZipfian::new(all.len() as u64).expect("there are lines");
    for (what, writes) in
        [("popular lines, half of it writes", 50), ("popular lines, writes only", 100)]
    {
        let mut seed = 0;
        let before = cluster.counters();
        let (mut done, mut sweeps, mut parks) = (0, 0, 0);
        sample(what, time, || {
            seed += 1;
            let clock = Clock::start();
            let spent = Duration::from_millis(50);
            let counts = cluster.run(async |member| {
                let mut tasks = Vec::new();
                for task in 0..inflight as u64 {
                    let (member, all, zipf) = (member.clone(), all.clone(), zipf.clone());
                    let mut random =
                        WorkloadRandom::for_stream(seed, member.index as u64 * 1000 + task);
                    tasks.push(async move {
                        let mut count = 0;
                        while clock.now().as_nanos() < spent.as_nanos() as u64 {
                            let line = all[zipf.draw(&mut random) as usize];
                            if random.below(100) < writes {
                                write(&member, line).await;
                            } else {
                                read(&member, line).await;
                            }
                            count += 1;
                            member.handle.coop().await;
                        }
                        count
                    });
                }
                let handles: Vec<_> =
                    tasks.into_iter().map(|task| member.handle.spawn(task)).collect();
                let mut count = 0_u64;
                for handle in handles {
                    count += handle.await.expect("a task that ends");
                }
                (count, member.handle.activity())
            });
            let counts = counts.expect("workers that end in order");
            let count: u64 = counts.iter().map(|&(count, _)| count).sum();
            for (_, activity) in counts {
                sweeps += activity.sweeps;
                parks += activity.parks;
            }
            done += count;
            clock.now().as_nanos() as f64 / count as f64
        });
        let counters = cluster.counters() - before;
        let own = cluster.config().own_counts();
        for (name, count) in counters.entries(own).chain([("sweeps", sweeps), ("parks", parks)]) {
            if count > 0 {
                println!("    each access: {name:<28} {:>9.3}", count as f64 / done as f64);
            }
        }
    }
}
