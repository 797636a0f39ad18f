//! The best that the machine can do: no code of this project except the clock.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use latchwork_benches::Draws;
use latchwork_benches::access::LINE;
use latchwork_runtime::Clock;
use latchwork_runtime::sync::{AtomicU64, Ordering, spin_loop};
use latchwork_verbs::Region;
use rustc_hash::FxBuildHasher;

use crate::measure::{HOT_LINES, Measure, Sizes};

/// The distance between lines in memory, in bytes, as in a cache of this project.
const STEP: usize = LINE + 64;

pub(crate) const COPY_HOT: &str = "copy of 2 KiB, hot";
pub(crate) const COPY_FAR: &str = "copy of 2 KiB, far";
pub(crate) const MAP_HOT: &str = "hash map and copy of 2 KiB, hot";
pub(crate) const MAP_FAR: &str = "hash map and copy of 2 KiB, far";
pub(crate) const ROUND_TRIP: &str = "cache line to another core and back";

/// Lines in plain memory, and the index of each by a key.
struct Plain {
    memory: Arc<Region>,
    keys: Vec<u64>,
    places: HashMap<u64, u32, FxBuildHasher>,
}

impl Plain {
    fn new(lines: usize) -> Plain {
        // The memory is like that of a cache: large, and of huge pages if the system has them.
        let memory = Region::zeroed(lines * STEP).expect("memory for the benchmark");
        memory.words().clear(0..lines * STEP);
        // Keys that look like addresses of lines.
        let keys: Vec<u64> = (1..=lines as u64).map(|n| n * LINE as u64).collect();
        let places = keys.iter().copied().zip(0..).collect();
        Plain { memory, keys, places }
    }

    #[inline]
    fn copy(&self, line: usize) -> u8 {
        let mut copy = [0; LINE];
        self.memory.words().read_bytes(line * STEP, &mut copy);
        black_box(&copy)[100]
    }
}

pub(crate) fn all(sizes: Sizes) -> Vec<Measure> {
    let mut all = Vec::new();
    for (place, lines) in [("hot", HOT_LINES), ("far", sizes.far_lines)] {
        let plain = Rc::new(OnceCell::new());
        let chain = Rc::new(OnceCell::new());
        all.push(Measure::new(format!("dependent load, {place}"), move |count| {
            let chain = chain.get_or_init(|| chain_of(lines * LINE / 64));
            timed(|| {
                let mut at = 0;
                for _ in 0..count {
                    at = chain.words().word(at as usize);
                }
                black_box(at);
            })
        }));
        let (copied, mapped) = (plain.clone(), plain.clone());
        all.push(Measure::new(format!("copy of 2 KiB, {place}"), move |count| {
            let plain = copied.get_or_init(|| Plain::new(lines));
            let mut draws = Draws::new(lines as u64, count);
            timed(|| {
                for _ in 0..count {
                    black_box(plain.copy(draws.draw() as usize));
                }
            })
        }));
        all.push(Measure::new(format!("hash map lookup, {place}"), move |count| {
            let plain = mapped.get_or_init(|| Plain::new(lines));
            let mut draws = Draws::new(lines as u64, count);
            timed(|| {
                for _ in 0..count {
                    let key = plain.keys.len() as u64;
                    let key = (draws.draw() % key + 1) * LINE as u64;
                    black_box(plain.places.get(&key));
                }
            })
        }));
        all.push(Measure::new(format!("hash map and copy of 2 KiB, {place}"), move |count| {
            let plain = plain.get_or_init(|| Plain::new(lines));
            let mut draws = Draws::new(lines as u64, count);
            timed(|| {
                for _ in 0..count {
                    let key = (draws.draw() + 1) * LINE as u64;
                    let place = plain.places.get(&key).expect("a known key");
                    black_box(plain.copy(*place as usize));
                }
            })
        }));
    }
    all.push(Measure::new("compare-and-swap, uncontended", |count| {
        let word = AtomicU64::new(0);
        timed(|| {
            for i in 0..count {
                let seen = black_box(&word);
                let _ = seen.compare_exchange(i, i + 1, Ordering::AcqRel, Ordering::Relaxed);
            }
        })
    }));
    all.push(Measure::between(ROUND_TRIP, round_trips));
    all
}

/// One cycle through this number of cache lines, in random order (Sattolo).
fn chain_of(lines: usize) -> Arc<Region> {
    let memory = Region::zeroed(lines * 64).expect("memory for the benchmark");
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut draws = Draws::new(1 << 32, 3);
    for i in (1..lines).rev() {
        order.swap(i, draws.draw() as usize % i);
    }
    let words = memory.words();
    // The word at index `from` has the index of the first word of `to`.
    for (from, to) in (0..lines).zip(&order) {
        words.set_word(from * 8, u64::from(*to) * 8);
    }
    memory
}

fn timed(work: impl FnOnce()) -> Duration {
    let clock = Clock::start();
    let start = clock.now();
    work();
    clock.now() - start
}

#[repr(align(128))]
struct Alone(AtomicU64);

/// The time of `count` round trips of a word that two threads change in turn.
fn round_trips(count: u64) -> Duration {
    let word = &Alone(AtomicU64::new(0));
    // Spins, and sometimes yields the core, which the other thread may need.
    let wait_for = |value: u64| {
        let mut looks = 0_u32;
        while word.0.load(Ordering::Acquire) != value {
            looks += 1;
            if looks.is_multiple_of(10_000) {
                thread::yield_now();
            }
            spin_loop();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..count + 1 {
                wait_for(2 * i + 1);
                word.0.store(2 * i + 2, Ordering::Release);
            }
        });
        let trip = |i: u64| {
            word.0.store(2 * i + 1, Ordering::Release);
            wait_for(2 * i + 2);
        };
        // The first trip includes the start of the other thread, so it is not measured.
        trip(0);
        timed(|| (1..=count).for_each(trip))
    })
}
