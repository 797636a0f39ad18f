//! The benefit and the cost of a replacement policy: the share of accesses that hit, and the time
//! of a hit, by policy, distribution and size of the cache. The cache runs alone, without a
//! protocol. A line that is not cached is published at once, and victims leave in batches, as a
//! node chooses them.
//!   cargo run --release -p latchwork-benches --example replacement
//!   cargo run --release -p latchwork-benches --example replacement -- --evict-sample 2,4,8,16
//!
//! The hit ratios are the same on every machine. The times are from this machine, all in one run.

use clap::Parser;
use latchwork_cache::{Cache, Ownership, ReplacementPolicy};
use latchwork_runtime::Clock;
use latchwork_verbs::{GlobalAddr, MemoryNodeId};
use latchwork_workload::distribution::{Uniform, Zipfian};
use latchwork_workload::random::WorkloadRandom;

const LINE: usize = 512;

#[derive(Parser)]
struct Flags {
    /// Lines of data.
    #[arg(long, default_value_t = 60_000)]
    lines: u64,
    /// Accesses that are measured, after half as many that warm up.
    #[arg(long, default_value_t = 2_000_000)]
    accesses: u64,
    /// Frames that the epochs' policy looks at for each victim.
    #[arg(long = "evict-sample", value_delimiter = ',', default_value = "4")]
    samples: Vec<usize>,
    /// A new epoch begins when one frame in so many was replaced.
    #[arg(long = "epoch-share", value_delimiter = ',', default_value = "10")]
    shares: Vec<usize>,
    /// Lines that are evicted at a time.
    #[arg(long = "evict-batch", default_value_t = 32)]
    batch: usize,
}

/// The distribution from which lines are drawn.
enum Draw {
    Uniform(Uniform),
    Zipfian(Zipfian),
}

impl Draw {
    fn line(&self, random: &mut WorkloadRandom, lines: u64) -> GlobalAddr {
        let rank = match self {
            Draw::Uniform(uniform) => uniform.draw(random),
            Draw::Zipfian(zipfian) => zipfian.draw(random),
        };
        // Hot lines are spread over all addresses, so the first frames are not special.
        let k = rank * 1_000_003 % lines;
        GlobalAddr::new(MemoryNodeId(0), (1 << 20) + k * LINE as u64)
    }
}

/// A node's use of its cache for one access. Returns whether it was a hit.
fn access(cache: &Cache, line: GlobalAddr, batch: usize, victims: &mut Vec<GlobalAddr>) -> bool {
    if let Some(read) = cache.try_read(line) {
        std::hint::black_box(read.words().u64(0));
        return read.validate();
    }
    while cache.free_frames() < batch.min(cache.capacity() / 32).max(1) {
        cache.victims(batch, victims);
        for victim in victims.drain(..) {
            let Some(id) = cache.find(victim) else { continue };
            if cache.frame(id).try_invalidate() {
                cache.detach(id);
            }
        }
    }
    let id = cache.attach(line).expect("a frame was freed");
    cache.frame(id).publish(Ownership::Shared);
    false
}

/// The share of hits, and the nanoseconds of a hit while all lines are cached.
fn measure(flags: &Flags, policy: ReplacementPolicy, draw: &Draw, frames: usize) -> (f64, f64) {
    let cache = Cache::with_frames(frames, LINE).expect("memory").with_replacement(policy);
    let mut random = WorkloadRandom::new(1);
    let mut victims = Vec::new();
    let mut hits = 0;
    for done in 0..flags.accesses * 3 / 2 {
        let line = draw.line(&mut random, flags.lines);
        let hit = access(&cache, line, flags.batch, &mut victims);
        hits += u64::from(hit && done >= flags.accesses / 2);
    }
    let there: Vec<_> = cache.lines().map(|(line, _)| line).collect();
    let picks: Vec<_> =
        (0..1 << 16).map(|_| there[random.below(there.len() as u64) as usize]).collect();
    // The fastest of many rounds counts, because other work disturbed the slower rounds.
    let clock = Clock::start();
    let round = || {
        let start = clock.now();
        for line in &picks {
            let read = cache.try_read(*line).expect("nothing leaves now");
            std::hint::black_box(read.words().u64(0));
            assert!(read.validate());
        }
        (clock.now() - start).as_nanos() as f64 / picks.len() as f64
    };
    let nanos = (0..60).map(|_| round()).fold(f64::INFINITY, f64::min);
    (hits as f64 / flags.accesses as f64, nanos)
}

fn main() {
    let flags = Flags::parse();
    let mut policies = vec![("lru".to_owned(), ReplacementPolicy::Lru)];
    for &sample in &flags.samples {
        for &share in &flags.shares {
            let name = format!("epoch, sample {sample}, share {share}");
            policies.push((name, ReplacementPolicy::Epoch { sample, share }));
        }
    }
    println!("| distribution | cache | policy | hits | ns per hit |");
    println!("| --- | --- | --- | --- | --- |");
    let draws = [
        ("zipfian 0.99", Draw::Zipfian(Zipfian::new(flags.lines, 0.99).expect("a good theta"))),
        ("uniform", Draw::Uniform(Uniform::new(flags.lines).expect("lines"))),
    ];
    for (distribution, draw) in &draws {
        for part in [6, 3] {
            for (name, policy) in &policies {
                let frames = flags.lines as usize / part;
                let (hits, nanos) = measure(&flags, *policy, draw, frames);
                println!(
                    "| {distribution} | 1/{part} | {name} | {:.2} % | {nanos:.1} |",
                    100.0 * hits
                );
            }
        }
    }
}
