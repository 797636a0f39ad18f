//! [`Conditions`]: the machines on which a run was measured, and whether the workers had their
//! cores.

use latchwork_strict::strict_assert;
use serde::{Deserialize, Serialize};

/// A run is crowded if its workers waited for a core for more than this share of their time.
const KEPT_OFF_MAX: f64 = 0.1;

/// A machine during a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The machine's name.
    pub host: String,
    /// The processor's model.
    pub cpu: String,
    /// Cores that the program may use.
    pub cores: usize,
    /// Mean clock frequency of the cores in MHz at the end of the run, if the system reports the
    /// frequency.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mhz: Option<f64>,
    /// The load average of the last minute, before the run.
    pub load_before: f64,
    /// The share of the run in which a hypervisor kept the cores from the machine, 0 to 1.
    pub steal: f64,
}

/// The processor time of one worker's thread, from the start of the warm-up to the end of the run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WorkerTime {
    /// Index of the worker's compute node, from 0.
    pub node: usize,
    /// Index of the worker on its node, from 0.
    pub worker: usize,
    /// Seconds that the run took.
    pub elapsed_s: f64,
    /// Seconds on a core.
    pub cpu_s: f64,
    /// Seconds in which the thread was ready while other threads had the cores.
    pub run_delay_s: f64,
}

/// How far the figures of a run on real threads can be trusted.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Conditions {
    /// The machines.
    pub machines: Vec<Machine>,
    /// The times of all workers; empty if the system does not report them.
    pub workers: Vec<WorkerTime>,
}

impl Conditions {
    /// The share of the workers' time in which they were ready and had no core, 0 to 1.
    pub fn kept_off(&self) -> f64 {
        self.share(|worker| worker.run_delay_s)
    }

    /// The share of the workers' time in which they had a core, 0 to 1.
    pub fn on_core(&self) -> f64 {
        self.share(|worker| worker.cpu_s)
    }

    /// Whether the workers waited for cores for more than a tenth of their time. Other work on the
    /// machine then influences the figures noticeably.
    pub fn is_crowded(&self) -> bool {
        self.kept_off() > KEPT_OFF_MAX
    }

    fn share(&self, part: impl Fn(&WorkerTime) -> f64) -> f64 {
        let all: f64 = self.workers.iter().map(|worker| worker.elapsed_s).sum();
        if all > 0.0 { self.workers.iter().map(part).sum::<f64>() / all } else { 0.0 }
    }

    /// Adds the machines and workers that another process of the same run observed.
    pub fn merge(&mut self, other: Conditions) {
        for machine in other.machines {
            match self.machines.iter_mut().find(|known| known.host == machine.host) {
                // Processes of one machine observe nearly the same steal. The highest share counts.
                Some(known) => known.steal = known.steal.max(machine.steal),
                None => self.machines.push(machine),
            }
        }
        self.workers.extend(other.workers);
        strict_assert!(
            self.machines
                .iter()
                .enumerate()
                .all(|(i, one)| self.machines[..i].iter().all(|other| other.host != one.host)),
            "a machine is counted twice"
        );
        self.workers.sort_by_key(|worker| (worker.node, worker.worker));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(node: usize, cpu_s: f64, run_delay_s: f64) -> WorkerTime {
        WorkerTime { node, worker: 0, elapsed_s: 4.0, cpu_s, run_delay_s }
    }

    fn of(workers: &[WorkerTime]) -> Conditions {
        Conditions { workers: workers.to_vec(), ..Conditions::default() }
    }

    #[test]
    fn shares_are_of_the_time_of_all_workers() {
        let conditions = of(&[worker(0, 4.0, 0.0), worker(1, 2.0, 1.0)]);
        assert_eq!((conditions.on_core(), conditions.kept_off()), (0.75, 0.125));
        assert!(conditions.is_crowded());
        assert!(!of(&[worker(0, 3.6, 0.4)]).is_crowded(), "a tenth itself is none too many");
        let unknown = of(&[]);
        assert_eq!((unknown.on_core(), unknown.is_crowded()), (0.0, false));
    }

    #[test]
    fn processes_of_one_machine_name_it_once_and_all_workers_in_order() {
        let machine =
            |host: &str, steal| Machine { host: host.into(), steal, ..Machine::default() };
        let mut all = of(&[worker(1, 1.0, 0.0)]);
        all.machines.push(machine("a", 0.1));
        let mut other = of(&[worker(0, 1.0, 0.0)]);
        other.machines.extend([machine("a", 0.3), machine("b", 0.0)]);
        all.merge(other);
        let machines: Vec<_> = all.machines.iter().map(|m| (m.host.as_str(), m.steal)).collect();
        assert_eq!(machines, [("a", 0.3), ("b", 0.0)]);
        assert_eq!(all.workers.iter().map(|w| w.node).collect::<Vec<_>>(), [0, 1]);
    }
}
