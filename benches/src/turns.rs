//! Two nodes on two cores that take a line from each other.

use std::time::Duration;

use latchwork_cluster::{Embedded, Member};
use latchwork_coherence::CoherentMemory;
use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_verbs::GlobalAddr;

/// Repeats `rounds` times: an access by the first node, then one by the second. Returns the time
/// that each node spent on its own accesses, in total. A waiting node polls, and so serves the
/// other node.
///
/// # Panics
/// When an access fails, or returns a stale or torn copy.
pub fn by_turns(
    cluster: &Embedded,
    line: GlobalAddr,
    rounds: u64,
    second_writes: bool,
) -> [Duration; 2] {
    let turn = &AtomicU64::new(0);
    let times = cluster.run(async |member| {
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
                write(&member, line).await;
            } else {
                read(&member, line).await;
            }
            time += member.handle.now() - start;
            turn.store(2 * round + me + 1, Ordering::Release);
        }
        time
    });
    let times = times.expect("workers that end in order");
    [times[0], times[1]]
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
