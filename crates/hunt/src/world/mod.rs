//! A world: its cluster, its workers, and the run from the first event to the report.

mod observer;

pub(crate) use observer::{Observer, Process};

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::{Member, Simulated};
use latchwork_runtime::{JoinHandle, VirtualWorker};
use latchwork_simulation::RunEnd;
use latchwork_verbs_sim::Faults;

use crate::workloads::{self, Load};
use crate::{Check, Failure, NodeFaults, Report, Scenario, Trace};

/// Runs a world to its end, or to the first thing that is wrong with it. Never panics: a panic inside is
/// a failure of the report.
pub fn run(scenario: &Scenario) -> Report {
    drive(scenario, None)
}

/// As [`run`], and tells `trace` what happens.
pub fn run_traced(scenario: &Scenario, trace: &mut Trace) -> Report {
    drive(scenario, Some(trace.clone()))
}

fn drive(scenario: &Scenario, trace: Option<Trace>) -> Report {
    let observer = Rc::new(Observer::new(scenario, trace));
    let place = RefCell::new(None);
    let work = || {
        let world = match World::start(scenario, &observer) {
            Ok(world) => place.borrow_mut().insert(world).clone(),
            Err(text) => return observer.fail(Check::Scenario, text),
        };
        world.run();
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        observer.fail(Check::Panic, panic_text(&*panic));
        // What panicked may be in any state: to drop it could panic again, and that would be the end of
        // the whole program. Worlds that panic are few.
        std::mem::forget(place.into_inner().clone());
    }
    observer.report()
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}

/// How long making what the workload needs may take.
const SET_UP_LIMIT: Duration = Duration::from_secs(20);

/// How long operations of a world may take in all, in its own time.
const WORK_LIMIT: Duration = Duration::from_secs(600);

struct World {
    scenario: Scenario,
    observer: Rc<Observer>,
    load: Rc<dyn Load>,
    cluster: Simulated,
    workers: Vec<(VirtualWorker, Member)>,
}

impl World {
    fn start(scenario: &Scenario, observer: &Rc<Observer>) -> Result<Rc<World>, String> {
        scenario.check().map_err(|error| error.to_string())?;
        let network = scenario.network.config().map_err(|error| error.to_string())?;
        let cluster = Simulated::start(scenario.config(), network).map_err(|e| e.to_string())?;
        observer.attach(&cluster);
        let mut workers = Vec::new();
        for node in 0..scenario.compute_nodes {
            for worker in 0..scenario.workers {
                let place = (node, worker, node * scenario.workers + worker);
                workers.push(cluster.start_worker(place).map_err(|error| error.to_string())?);
            }
        }
        Ok(Rc::new(World {
            scenario: scenario.clone(),
            observer: observer.clone(),
            load: workloads::load(scenario, observer),
            cluster,
            workers,
        }))
    }

    fn run(&self) {
        if !(self.set_up() && self.work() && self.inspect()) {
            return;
        }
        if let Err((check, text)) = self.load.judge() {
            self.observer.fail(check, text);
        }
    }

    /// Lets the world go on until `done`; false when something is wrong.
    fn go_on(&self, limit: Duration, what: &str, mut done: impl FnMut() -> bool) -> bool {
        let kernel = self.cluster.kernel();
        let observer = &self.observer;
        let end = kernel.run_until(kernel.now() + limit, || observer.has_failed() || done());
        if end != RunEnd::Done {
            let text = format!("{what} came to no end: {end:?}{}", observer.open_operations());
            observer.fail(Check::Starvation, text);
        }
        !observer.has_failed()
    }

    fn set_up(&self) -> bool {
        let member = self.workers[0].1.clone();
        let handle = member.handle.clone();
        let task = handle.spawn_service(self.load.clone().set_up(member));
        let limit = SET_UP_LIMIT;
        if !self.go_on(limit, "setting up", || task.is_finished()) {
            return false;
        }
        if let Some(Ok(Err(text))) = task.take() {
            self.observer.fail(Check::Error, format!("setting up failed: {text}"));
        }
        !self.observer.has_failed()
    }

    fn work(&self) -> bool {
        let tasks: Vec<_> = self
            .processes()
            .map(|(process, member)| {
                let handle = member.handle.clone();
                handle.spawn(self.load.clone().task(member.clone(), process))
            })
            .collect();
        let plan = &self.scenario.faults;
        self.observer.set_faults(plan.by_chance());
        let kernel = self.cluster.kernel();
        kernel.run_until(kernel.now() + plan.until(), || {
            self.observer.has_failed() || tasks.iter().all(JoinHandle::is_finished)
        });
        self.observer.set_faults(Faults::NONE);
        self.all_end(&tasks, "the work")
    }

    fn inspect(&self) -> bool {
        let first_workers = self.processes().filter(|(p, _)| p.worker == 0 && p.task == 0);
        let tasks: Vec<_> = first_workers
            .map(|(process, member)| {
                let handle = member.handle.clone();
                handle.spawn(self.load.clone().inspect(member.clone(), process))
            })
            .collect();
        self.all_end(&tasks, "looking at all in the end")
    }

    fn all_end(&self, tasks: &[JoinHandle<()>], what: &str) -> bool {
        let mut ended = 0;
        self.go_on(WORK_LIMIT, what, || {
            while tasks.get(ended).is_some_and(JoinHandle::is_finished) {
                ended += 1;
            }
            ended == tasks.len()
        })
    }

    fn processes(&self) -> impl Iterator<Item = (Process, &Member)> {
        let tasks = self.scenario.tasks;
        self.workers.iter().flat_map(move |(_, member)| {
            (0..tasks).map(move |task| (Process::new(member, task, tasks), member))
        })
    }
}

impl Observer {
    fn report(&self) -> Report {
        let (hash, events, verbs, now) = self.totals();
        Report {
            seed: self.seed(),
            hash,
            events,
            verbs,
            virtual_time: now - latchwork_simulation::Time::ZERO,
            operations: self.operations(),
            clean_errors: self.clean_errors(),
            faults: self.fault_counts(),
            node_faults: NodeFaults::default(),
            failure: self.failure(),
        }
    }

    fn failure(&self) -> Option<Failure> {
        self.first_failure()
    }
}
