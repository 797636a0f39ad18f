//! A cluster without work uses no CPU.

use std::fs;
use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use latchwork_cluster::{Embedded, Member, Protocol};
use latchwork_verbs::contract::alone;

use crate::common::{Load, hammer, small};

const NODES: usize = 4;
const WORKERS: usize = 2;
const LOAD: Load = Load { lines: 8, operations: 200, tasks: 3, writes: 40, dropped: 10 };

/// The time in which idle nodes park and stop reading the clock.
const CALM_DOWN: Duration = Duration::from_millis(100);
const IDLE: Duration = Duration::from_millis(200);
const CPU_MAX: Duration = Duration::from_millis(4);
const SLICES_MAX: u64 = 100;
/// The highest number of measurements. A node uses a little CPU time before it is idle, and threads
/// on a loaded machine may get that time late. A cluster that never becomes idle fails every
/// measurement.
const WINDOWS: usize = 10;

/// The CPU use of all threads of this process; `None` where the system does not report it.
fn used() -> Option<Use> {
    let mut sum = Use { nanos: 0, slices: 0 };
    for task in fs::read_dir("/proc/self/task").ok()? {
        let stat = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        let mut numbers = stat.split_whitespace().map(str::parse::<u64>);
        sum.nanos += numbers.next()?.ok()?;
        sum.slices += numbers.nth(1)?.ok()?;
    }
    Some(sum)
}

/// The CPU time, and the number of times that a thread got a CPU. On a loaded machine polling
/// threads rarely get a CPU, so the CPU time alone would not show them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Use {
    nanos: u64,
    slices: u64,
}

impl Use {
    fn since(self, before: Use) -> Option<Use> {
        let nanos = self.nanos.checked_sub(before.nanos)?;
        Some(Use { nanos, slices: self.slices.checked_sub(before.slices)? })
    }

    fn is_little(self) -> bool {
        self.nanos < CPU_MAX.as_nanos() as u64 && self.slices < SLICES_MAX
    }
}

/// The CPU use of the process while this worker sleeps. A pause before the measurement lets all
/// nodes become idle.
async fn used_while_asleep(member: &Member) -> Option<Use> {
    let mut least = None;
    for _ in 0..WINDOWS {
        member.handle.sleep(CALM_DOWN).await;
        let before = used()?;
        member.handle.sleep(IDLE).await;
        let used = used()?.since(before)?;
        least = Some(least.map_or(used, |least: Use| least.min(used)));
        if used.is_little() {
            return Some(used);
        }
    }
    least
}

/// An event that workers wait for without reading the clock.
#[derive(Default)]
struct Bell(Mutex<(bool, Vec<Waker>)>);

impl Bell {
    fn ring(&self) {
        let (rung, waiting) = &mut *self.0.lock().expect("nobody panics here");
        *rung = true;
        waiting.drain(..).for_each(Waker::wake);
    }

    async fn heard(&self) {
        poll_fn(|context| {
            let (rung, waiting) = &mut *self.0.lock().expect("nobody panics here");
            if *rung {
                return Poll::Ready(());
            }
            waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[test]
fn an_idle_cluster_uses_no_cpu() {
    if !alone("idle::an_idle_cluster_uses_no_cpu") {
        return;
    }
    for protocol in Protocol::ALL {
        let mut config = small(NODES, WORKERS, 8, 1);
        config.protocol = protocol;
        let cluster = Embedded::start(config).expect("a configuration");
        let working = AtomicUsize::new(NODES * WORKERS);
        let measured = Bell::default();
        // The workers of this run all wait for an event.
        let used = cluster.run(async |member| {
            hammer(member.clone(), LOAD).await;
            working.fetch_sub(1, Ordering::Relaxed);
            while working.load(Ordering::Relaxed) > 0 {
                member.handle.sleep(Duration::from_millis(1)).await;
            }
            if member.index == 0 {
                let used = used_while_asleep(&member).await;
                measured.ring();
                used
            } else {
                // The workers wait for an event and not for a time, because a late measurement may
                // end after that time.
                measured.heard().await;
                None
            }
        });
        let with_workers = used.expect("no worker fails")[0];
        // In this run only the handlers and the measuring worker exist.
        let alone = cluster.run_on(1, async |member| {
            if member.index == 0 { used_while_asleep(&member).await } else { None }
        });
        let without_workers = alone.expect("no worker fails")[0];
        println!("{protocol}: {with_workers:?} with workers, {without_workers:?} without");
        for used in [with_workers, without_workers].into_iter().flatten() {
            assert!(used.is_little(), "{protocol}: an idle cluster used {used:?} in {IDLE:?}");
        }
    }
}
