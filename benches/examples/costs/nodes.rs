//! Two nodes, each with a thread that polls, take a line from each other.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_benches::{cluster, lines};
use latchwork_cluster::{ClusterConfig, Embedded, Member};
use latchwork_coherence::CoherentMemory;
use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_verbs::GlobalAddr;

use crate::Measure;

pub(crate) const HAND_OVER: &str = "hand-over, writer to writer";

struct Two {
    cluster: Embedded,
    line: GlobalAddr,
}

pub(crate) fn all() -> Vec<Measure> {
    let two = Rc::new(OnceCell::new());
    let mut all = Vec::new();
    let mut add = |name: &str, second_writes: bool, of: fn([Duration; 2]) -> Duration| {
        let two = two.clone();
        all.push(Measure::between(name, move |rounds| {
            of(two.get_or_init(Two::new).by_turns(rounds, second_writes))
        }));
    };
    // Two of them in a round.
    add(HAND_OVER, true, |times| times.iter().sum::<Duration>() / 2);
    add("reader downgrades a writer", false, |times| times[1]);
    add("writer over one sharer", false, |times| times[0]);
    all
}

impl Two {
    fn new() -> Two {
        let cluster = cluster(ClusterConfig {
            memory_bytes: 64 << 20,
            cache_bytes: 8 << 20,
            ..ClusterConfig::default()
        });
        let line = lines(&cluster, 1)[0];
        Two { cluster, line }
    }

    /// `rounds` times an access by the first node, then one by the second: the time that each of them
    /// spent on its own accesses. Whoever waits for its turn polls, and so serves the other.
    fn by_turns(&self, rounds: u64, second_writes: bool) -> [Duration; 2] {
        let turn = &AtomicU64::new(0);
        let times = self.cluster.run(async |member| {
            let me = member.index as u64;
            let mut time = Duration::ZERO;
            for round in 0..rounds {
                let mut looks = 0_u32;
                while turn.load(Ordering::Acquire) != 2 * round + me {
                    member.handle.yield_now().await;
                    looks += 1;
                    if looks.is_multiple_of(64) {
                        // The other thread may need this core.
                        std::thread::yield_now();
                    }
                }
                let start = member.handle.now();
                if me == 0 || second_writes {
                    write(&member, self.line).await;
                } else {
                    read(&member, self.line).await;
                }
                time += member.handle.now() - start;
                turn.store(2 * round + me + 1, Ordering::Release);
            }
            time
        });
        let times = times.expect("workers that end in order");
        [times[0], times[1]]
    }
}

async fn write(member: &Member, line: GlobalAddr) {
    let change = member.memory.write(line, |guard| {
        let end = guard.words().len();
        guard.words().set_u64(0, guard.words().u64(0) + 1);
        guard.words().set_u64(end - 8, guard.words().u64(0));
        guard.mark_dirty(0..end);
    });
    change.await.expect("obtained");
}

async fn read(member: &Member, line: GlobalAddr) {
    let ends = member.memory.read(line, |words| (words.u64(0), words.u64(words.len() - 8)));
    let (first, last) = ends.await.expect("obtained");
    assert_eq!(first, last, "a stale or torn copy");
}
