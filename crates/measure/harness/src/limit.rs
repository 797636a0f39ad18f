//! [`Limit`]: finds the resource that limited the speed of a run.
//!
//! ```text
//!   Cluster::metered ── begin of the measured part ──► Usage ┐
//!                       its end ─────────────────────► Usage ┴─► Limit::between ──► Limit
//! ```
//!
//! If one resource is in use for most of the time, more of any other resource helps little, so that
//! resource is the limit. A simulated cluster counts the use of NICs, latch words and CPUs. A run
//! on real threads counts only two things: how long workers waited for a core, and how long the log
//! synced.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::Usage;
use latchwork_report::conditions::Conditions;
use latchwork_runtime::Time;
use latchwork_verbs_sim::NicWork;

use crate::{RunCluster, RunPart};

/// A resource that is in use for at least this share of the time is a limit. The share is less than
/// 1, because the queue of a limiting resource is empty now and then.
const BUSY: f64 = 0.8;

/// The least share of the time of all atomics with which one latch word is the limit, if no
/// resource is busy. The workers then take turns at the line of that word.
const ONE_LINE: f64 = 0.5;
const _: () = assert!(0.0 < BUSY && BUSY < 1.0, "a share of the time");
const _: () = assert!(0.0 < ONE_LINE && ONE_LINE <= 1.0, "a share of all atomics");

/// The limit of a run's speed. Shares are of the measured time, 0 to 1.
#[derive(Clone, PartialEq, Debug)]
pub enum Limit {
    /// A part of one node's NIC.
    Nic {
        /// The node.
        owner: String,
        /// The part.
        part: String,
        /// The share of the time in which the part worked.
        busy: f64,
    },
    /// The latch word of one line, at which the workers took turns.
    LatchWord {
        /// The memory node of the line.
        owner: String,
        /// The word's share of the time of all atomics.
        atomics: f64,
        /// The share of the time in which the NIC executed atomics on the word.
        busy: f64,
    },
    /// The CPUs of a compute node's workers, or the cores of an agent.
    Cpu {
        /// The compute node, or the agent.
        node: String,
        /// The average share of the time in which the CPUs worked.
        busy: f64,
    },
    /// Too few cores: workers were ready and had no core. Known only for real threads.
    RunDelay {
        /// The share of the time in which workers waited for a core.
        share: f64,
    },
    /// The storage device of the logs.
    LogSync {
        /// The share of the time in which a log was syncing, as a mean of all logs.
        busy: f64,
    },
    /// No resource was in use for most of the time. Workers waited for answers, or for the time of
    /// the next operation.
    Waits {
        /// The share of the busiest part of a NIC.
        nic: f64,
        /// The share of the busiest node's CPUs.
        cpu: f64,
    },
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: &f64| (100.0 * share).round();
        match self {
            Limit::Nic { owner, part, busy } => {
                write!(f, "NIC of {owner} {} % busy ({part})", percent(busy))
            }
            Limit::LatchWord { owner, atomics, busy } => {
                let (atomics, busy) = (percent(atomics), percent(busy));
                write!(
                    f,
                    "latch word of one line at {owner}: {atomics} % of all atomics, {busy} % busy"
                )
            }
            Limit::Cpu { node, busy } => write!(f, "CPUs of {node} {} % busy", percent(busy)),
            Limit::RunDelay { share } => {
                write!(f, "run delay: workers waited for a core {} % of the time", percent(share))
            }
            Limit::LogSync { busy } => {
                write!(f, "log sync: the device was at it {} % of the time", percent(busy))
            }
            Limit::Waits { nic, cpu } => {
                let (nic, cpu) = (percent(nic), percent(cpu));
                write!(f, "waits: NICs at most {nic} % busy, CPUs {cpu} %")
            }
        }
    }
}

impl Limit {
    /// The share of the time in which the named resource was in use; 0 without one.
    fn busy(&self) -> f64 {
        match self {
            Limit::Nic { busy, .. } | Limit::LatchWord { busy, .. } | Limit::Cpu { busy, .. } => {
                *busy
            }
            Limit::LogSync { busy } => *busy,
            Limit::RunDelay { share } => *share,
            Limit::Waits { .. } => 0.0,
        }
    }

    /// Whether this is a latch word at which the workers took turns. Its NIC may be idle for most
    /// of the time.
    fn is_one_line(&self) -> bool {
        matches!(self, Limit::LatchWord { atomics, .. } if *atomics >= ONE_LINE)
    }

    /// The limit of a run on real threads. `None` if neither the cores nor the log limited the run.
    /// `conditions` says how long workers waited for a core. `log_sync` is the share of the time in
    /// which the logs were syncing.
    pub fn of_threads(conditions: Option<&Conditions>, log_sync: Option<f64>) -> Option<Limit> {
        if let Some(conditions) = conditions.filter(|conditions| conditions.is_crowded()) {
            return Some(Limit::RunDelay { share: conditions.kept_off() });
        }
        log_sync.filter(|busy| *busy >= BUSY).map(|busy| Limit::LogSync { busy })
    }

    /// The limit of a run. `counted` is the limit that a simulated cluster found, or `None` on real
    /// threads. A simulated cluster does not count syncs of the log. So there the log is the limit
    /// if no counted resource was busy and the logs synced for most of the time.
    pub fn of_run(
        counted: Option<Limit>,
        conditions: Option<&Conditions>,
        log_sync: Option<f64>,
    ) -> Option<Limit> {
        match counted {
            None => Limit::of_threads(conditions, log_sync),
            Some(limit) if limit.busy() >= BUSY => Some(limit),
            Some(limit) => Limit::of_threads(None, log_sync).or(Some(limit)),
        }
    }

    /// The limit of a simulated cluster between two times. `None` if no time passed, or if the
    /// fabric has no NIC profile, because only NICs with a profile count their work.
    pub fn between(before: &Usage, after: &Usage) -> Option<Limit> {
        let elapsed = (after.at - before.at).as_secs_f64();
        let share = |work: Duration| (work.as_secs_f64() / elapsed).min(1.0);
        if elapsed <= 0.0 {
            return None;
        }
        let pairs = || after.nics.iter().zip(&before.nics);
        let all = pairs()
            .map(|(after, before)| atomic_work(after).saturating_sub(atomic_work(before)))
            .sum();
        let nics = pairs().flat_map(|(after, before)| {
            parts(after, before, &share).chain(atomics(after, before, &share, all))
        });
        let cpus = cpus(after, before, &share);
        choose(nics.collect(), cpus)
    }
}

/// Chooses the limit of a simulated cluster.
fn choose(nics: Vec<Limit>, cpus: Vec<Limit>) -> Option<Limit> {
    let busiest =
        |limits: Vec<Limit>| limits.into_iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
    let one_line = nics.iter().find(|limit| limit.is_one_line()).cloned();
    let (nic, cpu) = (busiest(nics)?, busiest(cpus)?);
    let waits = Limit::Waits { nic: nic.busy(), cpu: cpu.busy() };
    // If a NIC and a CPU are both busy, the NIC is the limit. A busy NIC delays the workers of all
    // nodes that use it, and a busy CPU only its own node.
    let busy = [nic, cpu].into_iter().find(|limit| limit.busy() >= BUSY);
    Some(busy.or(one_line).unwrap_or(waits))
}

/// The total time of the atomics that a NIC has executed.
fn atomic_work(nic: &NicWork) -> Duration {
    nic.atomics.values().map(|work| work.all).sum()
}

fn parts(
    after: &NicWork,
    before: &NicWork,
    share: &impl Fn(Duration) -> f64,
) -> impl Iterator<Item = Limit> {
    let limit = |((part, after), (_, before)): (&(_, Duration), &(_, _))| {
        (format!("{part}"), share(after.saturating_sub(*before)))
    };
    let parts: Vec<_> = after.parts.iter().zip(&before.parts).map(limit).collect();
    let owner = after.owner.to_string();
    parts.into_iter().map(move |(part, busy)| Limit::Nic { owner: owner.clone(), part, busy })
}

/// The busiest bucket of a NIC's atomics, as a limit. A NIC executes atomics of one bucket one
/// after the other. The low bits of an address select the bucket. The limit is one latch word if
/// more than half of the bucket's time went to atomics on the same word as the previous atomic.
fn atomics(
    after: &NicWork,
    before: &NicWork,
    share: &impl Fn(Duration) -> f64,
    of_all: Duration,
) -> impl Iterator<Item = Limit> {
    let busiest = after.atomics.iter().map(|(bucket, after)| {
        let before = before.atomics.get(bucket).copied().unwrap_or_default();
        let all = after.all.saturating_sub(before.all);
        (all, after.same_word.saturating_sub(before.same_word))
    });
    let owner = after.owner.to_string();
    let limit = busiest.max().map(|(all, same_word)| match 2 * same_word > all {
        true => {
            let atomics = all.as_secs_f64() / of_all.as_secs_f64().max(1e-9);
            Limit::LatchWord { owner, atomics, busy: share(all) }
        }
        false => Limit::Nic { owner, part: "atomics".to_owned(), busy: share(all) },
    });
    limit.into_iter()
}

/// The CPUs of each compute node and of each agent, as limits. The share is the mean over the
/// node's workers that existed at both times, or over the agent's cores.
fn cpus(after: &Usage, before: &Usage, share: &impl Fn(Duration) -> f64) -> Vec<Limit> {
    let nodes = cpus_of(&after.workers, &before.workers, share);
    let nodes = nodes.into_iter().zip(1..).map(|(busy, id)| (format!("C{id}"), busy));
    let agents = cpus_of(&after.agents, &before.agents, share);
    let agents =
        agents.into_iter().zip(0..).map(|(busy, id)| (format!("the agent of M{id}"), busy));
    nodes.chain(agents).map(|(node, busy)| Limit::Cpu { node, busy }).collect()
}

/// The mean shares of the CPUs of each node, by index.
fn cpus_of(
    after: &[(usize, Duration)],
    before: &[(usize, Duration)],
    share: &impl Fn(Duration) -> f64,
) -> Vec<f64> {
    let nodes = after.iter().map(|(node, _)| node + 1).max().unwrap_or(0);
    let of_node = |node: usize| {
        let workers = after.iter().zip(before);
        let shares: Vec<f64> = workers
            .filter(|((after, _), (before, _))| *after == node && *before == node)
            .map(|((_, after), (_, before))| share(after.saturating_sub(*before)))
            .collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    };
    (0..nodes).map(of_node).collect()
}

#[derive(Default)]
struct Marks {
    before: Option<Usage>,
    after: Option<Usage>,
}

impl RunCluster {
    /// Runs `run`, and returns its result with the limit of its measured part. `part` returns the
    /// part of the run at a time, and `None` when the run is over. On real threads the limit is
    /// `None`.
    pub fn metered<T>(
        &self,
        part: impl Fn(Time) -> Option<RunPart> + 'static,
        run: impl FnOnce() -> T,
    ) -> (T, Option<Limit>) {
        let RunCluster::Simulated(cluster) = self else { return (run(), None) };
        let marks = Rc::new(RefCell::new(Marks::default()));
        let noted = marks.clone();
        cluster.set_watch(Some(Box::new(move |cluster| {
            let mut marks = noted.borrow_mut();
            if marks.after.is_some() {
                return;
            }
            match part(cluster.kernel().now()) {
                Some(RunPart::WarmUp) => {}
                Some(RunPart::Measured) => {
                    marks.before.get_or_insert_with(|| cluster.usage());
                }
                None if marks.before.is_some() => marks.after = Some(cluster.usage()),
                None => {}
            }
        })));
        let result = run();
        cluster.set_watch(None);
        let Marks { before, after } = marks.take();
        let after = after.or_else(|| before.is_some().then(|| cluster.usage()));
        let limit = before.zip(after).and_then(|(before, after)| Limit::between(&before, &after));
        (result, limit)
    }
}

#[cfg(test)]
mod tests {
    use latchwork_report::conditions::WorkerTime;

    use super::*;

    fn nic(owner: &str, part: &str, busy: f64) -> Limit {
        Limit::Nic { owner: owner.to_owned(), part: part.to_owned(), busy }
    }

    fn cpu(node: &str, busy: f64) -> Limit {
        Limit::Cpu { node: node.to_owned(), busy }
    }

    fn told(nics: &[Limit], cpus: &[Limit]) -> String {
        choose(nics.to_vec(), cpus.to_vec()).expect("there are NICs and CPUs").to_string()
    }

    #[test]
    fn what_was_busy_nearly_all_of_the_time_is_the_limit() {
        let idle = [nic("C1", "issuing", 0.2), nic("M0", "serving", 0.41)];
        let busy = [idle[0].clone(), nic("M0", "serving", 0.976)];
        assert_eq!(told(&busy, &[cpu("C1", 0.99)]), "NIC of M0 98 % busy (serving)");
        assert_eq!(told(&idle, &[cpu("C1", 0.5), cpu("C2", 0.93)]), "CPUs of C2 93 % busy");
        let waits = "waits: NICs at most 41 % busy, CPUs 12 %";
        assert_eq!(told(&idle, &[cpu("C1", 0.12)]), waits);
        let word = |atomics, busy| Limit::LatchWord { owner: "M3".to_owned(), atomics, busy };
        assert_eq!(
            told(&[busy[1].clone(), word(0.3, 1.0)], &[cpu("C1", 0.1)]),
            "latch word of one line at M3: 30 % of all atomics, 100 % busy"
        );
        // While nodes take turns at one line, no resource is busy.
        let told_of = |atomics| told(&[idle[1].clone(), word(atomics, 0.02)], &[cpu("C1", 0.12)]);
        assert_eq!(told_of(0.97), "latch word of one line at M3: 97 % of all atomics, 2 % busy");
        assert_eq!(told_of(0.4), waits);
    }

    #[test]
    fn of_real_threads_crowded_cores_come_before_the_log() {
        let worker = |run_delay_s| WorkerTime { elapsed_s: 1.0, run_delay_s, ..Default::default() };
        let of = |delay| Conditions { workers: vec![worker(delay)], ..Conditions::default() };
        let told = |conditions: Option<&Conditions>, log_sync| {
            Limit::of_threads(conditions, log_sync).map(|limit| limit.to_string())
        };
        let crowded = "run delay: workers waited for a core 43 % of the time";
        assert_eq!(told(Some(&of(0.43)), Some(0.99)).as_deref(), Some(crowded));
        let log = "log sync: the device was at it 95 % of the time";
        assert_eq!(told(Some(&of(0.02)), Some(0.95)).as_deref(), Some(log));
        assert_eq!(told(Some(&of(0.02)), Some(0.79)), None);
        assert_eq!(told(None, None), None);
    }

    #[test]
    fn a_node_is_as_busy_as_its_workers_are_in_the_mean() {
        let at = |at_ms, workers: [(usize, u64); 3]| Usage {
            at: latchwork_runtime::Time::ZERO + Duration::from_millis(at_ms),
            nics: Vec::new(),
            workers: workers.map(|(node, ms)| (node, Duration::from_millis(ms))).to_vec(),
            agents: workers.map(|(node, ms)| (node, Duration::from_millis(ms))).to_vec(),
        };
        let (before, after) = (
            at(1_000, [(0, 900), (0, 500), (1, 0)]),
            at(3_000, [(0, 2_900), (0, 1_500), (1, 500)]),
        );
        let share = |work: Duration| work.as_secs_f64() / 2.0;
        let limits = [
            cpu("C1", 0.75),
            cpu("C2", 0.25),
            cpu("the agent of M0", 0.75),
            cpu("the agent of M1", 0.25),
        ];
        assert_eq!(cpus(&after, &before, &share), limits);
    }

    #[test]
    fn a_simulated_run_is_limited_by_its_log_if_no_counted_resource_was_busy() {
        let waits = Limit::Waits { nic: 0.1, cpu: 0.2 };
        let log = Limit::LogSync { busy: 0.9 };
        assert_eq!(Limit::of_run(Some(waits.clone()), None, Some(0.9)), Some(log));
        assert_eq!(Limit::of_run(Some(waits.clone()), None, Some(0.5)), Some(waits));
        let busy = cpu("C1", 0.95);
        assert_eq!(Limit::of_run(Some(busy.clone()), None, Some(0.9)), Some(busy));
    }

    #[test]
    fn where_nothing_is_known_nothing_is_said() {
        assert_eq!(choose(Vec::new(), vec![cpu("C1", 1.0)]), None);
    }
}
