//! Runs the workloads of worlds on threads and shared memory, in real time. The races inside a node
//! and between nodes are real. The recorded histories get the same checks as in a world. Checks
//! after every event exist only in worlds.

use std::rc::Rc;

use latchwork_cluster::{ClusterError, Embedded, Member};

use crate::checks::{Verdict, leaks};
use crate::workloads;
use crate::workloads::load::{Load, Phase, Record};
use crate::world::{Observer, Process};
use crate::{Scenario, WorldCheck, WorldFailure, WorldReport};

/// The result of one worker's thread.
struct Brought {
    record: Record,
    operations: u64,
    failure: Option<WorldFailure>,
}

/// Runs a scenario's workload on threads and shared memory, in real time. The network and the
/// faults of the scenario have no effect here. A second run of the scenario can differ. After every
/// successful operation, the worker calls `progress` with its index.
pub fn run_on_threads(
    scenario: &Scenario,
    progress: impl Fn(usize) + Clone + Sync + 'static,
) -> WorldReport {
    let mut report = WorldReport::of_seed(scenario.seed);
    if let Err(error) = scenario.check() {
        report.failure = Some(failure(WorldCheck::Scenario, error.to_string()));
        return report;
    }
    let failure = match work(scenario, progress, &mut report) {
        Ok(verdict) => verdict.err().map(|(check, text)| failure(check, text)),
        Err(error @ ClusterError::Panicked { .. }) => {
            Some(failure(WorldCheck::Panic, error.to_string()))
        }
        Err(error) => Some(failure(WorldCheck::Error, error.to_string())),
    };
    report.failure = report.failure.take().or(failure);
    report
}

fn failure(check: WorldCheck, text: String) -> WorldFailure {
    WorldFailure { check, text, at: latchwork_simulation::Time::ZERO }
}

fn work(
    scenario: &Scenario,
    progress: impl Fn(usize) + Clone + Sync + 'static,
    report: &mut WorldReport,
) -> Result<Verdict, ClusterError> {
    let cluster = Embedded::start(scenario.config())?;
    let of = scenario.clone();
    let mut brought =
        cluster.run(move |member| one_worker(of.clone(), member, progress.clone()))?;
    let of = scenario.clone();
    brought.extend(cluster.run_on(1, move |member| one_look(of.clone(), member))?);
    let (_, all) = start(scenario);
    for one in brought {
        report.operations += one.operations;
        report.failure = report.failure.take().or(one.failure);
        all.add(one.record);
    }
    let lines = all.lines_in_use();
    let lines = lines.map_or(Ok(()), |known| leaks::check_lines(cluster.nodes(), known));
    let (tree, judged) = all.judge();
    report.tree = tree;
    Ok(judged.map(|undecided| report.undecided = undecided).and(lines))
}

/// All operations of one worker.
async fn one_worker(
    scenario: Scenario,
    member: Member,
    progress: impl Fn(usize) + 'static,
) -> Brought {
    let (observer, load) = start(&scenario);
    observer.on_end(move |process| progress(process.node * scenario.workers + process.worker));
    let run = |phase, process| load.clone().run(phase, member.clone(), process);
    let first = Process::new(&member, 0, &scenario);
    run(if member.index == 0 { Phase::SetUp } else { Phase::Find }, first).await;
    let mut tasks = Vec::new();
    if !observer.has_failed() {
        let all = (0..scenario.tasks).map(|task| Process::new(&member, task, &scenario));
        tasks.extend(all.map(|process| member.handle.spawn(run(Phase::Task, process))));
    }
    for task in tasks {
        if task.await.is_err() {
            observer.fail(WorldCheck::Error, "a task was aborted".to_owned());
        }
    }
    run(Phase::Finish, first).await;
    bring(&observer, &load)
}

/// One node reads all data after the work.
async fn one_look(scenario: Scenario, member: Member) -> Brought {
    let (observer, load) = start(&scenario);
    // The first worker of the node reads, because its own work has ended.
    let process = Process::looking(&member, &scenario);
    load.clone().run(Phase::Find, member.clone(), process).await;
    if !observer.has_failed() {
        load.clone().run(Phase::Inspect, member, process).await;
    }
    bring(&observer, &load)
}

fn start(scenario: &Scenario) -> (Rc<Observer>, Rc<dyn Load>) {
    let observer = Rc::new(Observer::new(scenario, None));
    // The scenario was checked before, so the workload can be made.
    let load = workloads::load(scenario, &observer).unwrap_or_else(|text| unreachable!("{text}"));
    (observer, load)
}

fn bring(observer: &Observer, load: &Rc<dyn Load>) -> Brought {
    Brought {
        record: load.take(),
        operations: observer.operations(),
        failure: observer.first_failure(),
    }
}
