//! [`Cores`]: measures how long the workers of a run had a core and how long they waited for one.
//! The numbers are counters of the operating system.
//!
//! ```text
//!   Cores::before ── load, steal      each worker: /proc/thread-self/schedstat, begin and end
//!         │                                │
//!         └──── around(body) ──────────────┴───► after ──► Conditions, of all processes
//! ```
//!
//! When other threads have the core of a worker, throughput and latencies suffer, and the worker
//! does not notice. The Linux kernel counts for each thread the time in which the thread was ready
//! and had no core. On other systems the report leaves these times out.

use std::fs;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::Member;
use latchwork_report::conditions::{Conditions, Machine, WorkerTime};
use latchwork_runtime::sync::Mutex;

use crate::{AppError, RunCluster};

/// The counters of one run. Clones share them.
#[derive(Clone)]
pub struct Cores {
    load_before: f64,
    ticks_before: Ticks,
    workers: Arc<Mutex<Vec<WorkerTime>>>,
}

impl Cores {
    /// Reads the counters of the machine. The caller calls this before the run.
    pub fn before() -> Cores {
        Cores {
            load_before: load().unwrap_or(0.0),
            ticks_before: Ticks::now().unwrap_or_default(),
            workers: Arc::default(),
        }
    }

    /// Wraps the body of a run's workers, so that each worker records the processor time of its
    /// thread.
    pub fn around<T, F, Fut>(
        &self,
        body: F,
    ) -> impl Fn(Member) -> BoxedBody<T> + Sync + use<T, F, Fut>
    where
        T: 'static,
        F: Fn(Member) -> Fut + Sync,
        Fut: Future<Output = T> + 'static,
    {
        let workers = Arc::clone(&self.workers);
        move |member| {
            let (workers, handle) = (Arc::clone(&workers), member.handle.clone());
            let (node, worker) = (member.node, member.worker);
            let body = body(member);
            Box::pin(async move {
                let (begin, before) = (handle.now(), Processor::of_thread());
                let result = body.await;
                let elapsed_s = (handle.now() - begin).as_secs_f64();
                if let (Some(before), Some(after)) = (before, Processor::of_thread()) {
                    let (cpu_s, run_delay_s) = after.since(before);
                    let time = WorkerTime { node, worker, elapsed_s, cpu_s, run_delay_s };
                    workers.lock().push(time);
                }
                result
            })
        }
    }

    /// The conditions of the measurement, from all processes. `None` for a simulated run, because
    /// its time is virtual. All processes of a cluster call this method after the run.
    ///
    /// # Errors
    /// When another process died or left.
    pub fn after(self, cluster: &RunCluster) -> Result<Option<Conditions>, AppError> {
        if let RunCluster::Simulated(_) = cluster {
            return Ok(None);
        }
        let mut workers = std::mem::take(&mut *self.workers.lock());
        workers.sort_by_key(|worker| (worker.node, worker.worker));
        let machine = self.machine();
        let own = Conditions { machines: vec![machine], workers };
        let all = cluster.share(own)?.into_iter();
        Ok(all.reduce(|mut all, other| {
            all.merge(other);
            all
        }))
    }

    fn machine(&self) -> Machine {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let steal = Ticks::now().map_or(0.0, |now| now.stolen_since(self.ticks_before));
        Machine {
            host: host.trim().to_owned(),
            cpu: value_of(&cpus, "model name").next().unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            mhz: mean(value_of(&cpus, "cpu MHz").filter_map(|mhz| mhz.parse().ok())),
            load_before: self.load_before,
            steal,
        }
    }
}

/// The body of one worker, with the recording of its processor time.
pub(crate) type BoxedBody<T> = std::pin::Pin<Box<dyn Future<Output = T>>>;

/// The processor time of a thread since its start.
#[derive(Clone, Copy)]
struct Processor {
    cpu: Duration,
    /// Time in which the thread was ready without a core.
    delay: Duration,
}

impl Processor {
    fn of_thread() -> Option<Processor> {
        let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
        let mut next = || numbers.next().map(Duration::from_nanos);
        Some(Processor { cpu: next()?, delay: next()? })
    }

    /// The seconds on a core, and the seconds in which the thread was ready without a core, since
    /// an earlier reading of the same thread.
    fn since(self, before: Processor) -> (f64, f64) {
        let seconds = |after: Duration, before| after.saturating_sub(before).as_secs_f64();
        (seconds(self.cpu, before.cpu), seconds(self.delay, before.delay))
    }
}

/// The time of all cores of the machine together, and the part that a hypervisor took (steal), in
/// ticks.
#[derive(Clone, Copy, Default)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    fn now() -> Option<Ticks> {
        Ticks::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// `cpu  user nice system idle iowait irq softirq steal ..`
    fn parse(text: &str) -> Option<Ticks> {
        const STEAL: usize = 7;
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|n| n.parse().ok()).collect();
        let stolen = *ticks.get(STEAL)?;
        // The values after `steal` are parts of earlier values, so they are not added.
        Some(Ticks { all: ticks[..=STEAL].iter().sum(), stolen })
    }

    fn stolen_since(self, before: Ticks) -> f64 {
        let all = self.all.saturating_sub(before.all);
        self.stolen.saturating_sub(before.stolen) as f64 / all.max(1) as f64
    }
}

fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// The values of all lines `name : value`.
fn value_of<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.filter(move |(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_a_share_of_all_ticks_between_two_looks() {
        let at = |text| Ticks::parse(text).expect("a line of all cores");
        let before = at("cpu  100 0 50 800 0 0 0 10 7 0\ncpu0 1 1\n");
        let after = at("cpu  160 0 60 810 0 0 0 30 9 0\n");
        assert_eq!(after.stolen_since(before), 0.2);
        assert_eq!(before.stolen_since(before), 0.0);
        assert!(Ticks::parse("cpu  1 2 3\n").is_none() && Ticks::parse("").is_none());
    }

    #[test]
    fn the_processor_is_named_once_and_its_frequency_is_the_mean() {
        let text = "processor : 0\nmodel name\t: A 1\ncpu MHz\t\t: 2000.5\n\nmodel name\t: A 1\ncpu MHz\t: 3000.5\n";
        assert_eq!(value_of(text, "model name").next(), Some("A 1"));
        let mhz = mean(value_of(text, "cpu MHz").filter_map(|mhz| mhz.parse().ok()));
        assert_eq!(mhz, Some(2500.5));
        assert_eq!(mean([].into_iter()), None);
    }

    #[test]
    fn a_worker_has_what_its_thread_had_since_the_run_began() {
        let at = |cpu, delay| Processor {
            cpu: Duration::from_millis(cpu),
            delay: Duration::from_millis(delay),
        };
        assert_eq!(at(7_500, 3_250).since(at(7_000, 1_000)), (0.5, 2.25));
        assert_eq!(at(7_000, 1_000).since(at(7_000, 1_000)), (0.0, 0.0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_computes_has_had_the_processor() {
        let clock = latchwork_runtime::Clock::start();
        let before = Processor::of_thread().expect("Linux counts it");
        let deadline = clock.now() + Duration::from_secs(60);
        while Processor::of_thread().expect("still").cpu <= before.cpu {
            assert!(clock.now() < deadline, "a minute on a core, and none is counted");
        }
    }
}
