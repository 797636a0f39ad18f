//! [`VirtualWorker`]: an executor as an actor of a simulated world.

use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use latchwork_simulation::{Actor, ActorId, ActorWaker, Cpu, Kernel, RunEnd};
use latchwork_strict::strict_assert;

use crate::{Driver, Executor, ExecutorConfig, Handle, JoinHandle, Notifier, Sweep, Time};

/// The largest number of sweeps in one event. Several sweeps fit into one event when they charge no
/// time. After this number, the worker schedules a later event, so that virtual time passes.
const SWEEPS_PER_EVENT: u32 = 32;
const _: () = assert!(SWEEPS_PER_EVENT > 0, "an event sweeps at least once");

/// The driver of virtual time. The driver has the clock of a simulated CPU, and a notifier that
/// fires the worker's actor.
pub struct VirtualDriver {
    cpu: Rc<Cpu>,
    notifier: Notifier,
}

impl VirtualDriver {
    /// Makes the driver of the worker whose actor `waker` fires.
    pub fn new(kernel: &Kernel, waker: ActorWaker) -> Self {
        VirtualDriver { cpu: Rc::new(Cpu::new(kernel)), notifier: Notifier::for_actor(waker) }
    }
}

impl Driver for VirtualDriver {
    fn now(&self) -> Time {
        self.cpu.now()
    }

    fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    fn park(&self, _until: Option<Time>) {}

    fn doze(&self, _time: Duration) {}

    fn charge(&self, cost: Duration) {
        self.cpu.charge(cost);
    }

    fn instant(&self) -> Time {
        self.cpu.world_now()
    }

    fn busy_until(&self) -> Option<Time> {
        self.cpu.busy_until()
    }
}

/// One worker of a simulated world.
///
/// - A wake or a deadline fires the worker, and the worker sweeps. If the worker's clock is ahead
///   of the world, the worker schedules the sweep for the time of its clock.
/// - A sweep that made progress costs [`ExecutorConfig::sweep_cost`]. So the next sweep is a
///   separate event a little later. No next sweep follows if no task is ready, and all pollers are
///   [settled](crate::Poller::is_settled) and agree to park.
/// - A parked worker schedules only its next deadline.
/// - Work that a task charges delays all later work of this worker, also in the same sweep.
/// - Time that a poller charges while it is polled moves the worker's clock. But the tasks that the
///   poller woke run in the same event.
/// - The flush runs in the same event as the tasks if all tasks of the sweep together charged
///   little time.
///
/// Dropping the worker drops its tasks. Later events of its actor have no effect.
pub struct VirtualWorker {
    actor: Rc<Worker>,
    kernel: Kernel,
    handle: Handle,
}

struct Worker {
    kernel: Kernel,
    parts: OnceCell<Parts>,
}

struct Parts {
    id: ActorId,
    executor: RefCell<Executor<VirtualDriver>>,
    /// The CPU of the executor's driver.
    cpu: Rc<Cpu>,
    /// The times of the scheduled events of this worker, with the next event last. An event cannot
    /// be cancelled. An event that is no longer needed is harmless, because the worker computes its
    /// next deadline again.
    scheduled: RefCell<Vec<Time>>,
    /// The minimum virtual time between two events while a poller refuses to park. One event may
    /// have several sweeps.
    step: Duration,
}

impl VirtualWorker {
    /// Adds a worker to the world of `kernel`. The worker lives as long as the returned value.
    pub fn spawn(kernel: &Kernel, config: ExecutorConfig) -> VirtualWorker {
        let actor = Rc::new(Worker { kernel: kernel.clone(), parts: OnceCell::new() });
        let id = kernel.add_actor(actor.clone());
        let step = config.sweep_cost.max(Duration::from_nanos(1));
        strict_assert!(step > Duration::ZERO, "time passes between two sweeps");
        let driver = VirtualDriver::new(kernel, kernel.waker(id));
        let cpu = Rc::clone(&driver.cpu);
        let executor = Executor::new(driver, config);
        let handle = executor.handle();
        let parts = Parts {
            id,
            executor: RefCell::new(executor),
            cpu,
            scheduled: RefCell::default(),
            step,
        };
        let fresh = actor.parts.set(parts).is_ok();
        debug_assert!(fresh);
        VirtualWorker { actor, kernel: kernel.clone(), handle }
    }

    /// Access to the worker's executor.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The world's kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The control over the worker's CPU, for faults that pause, kill or slow down nodes.
    pub fn power(&self) -> Power {
        Power { actor: Rc::downgrade(&self.actor) }
    }

    /// The id of the worker's actor.
    pub fn actor(&self) -> ActorId {
        self.actor.parts().id
    }

    /// Runs the world until `future`, as a task of this worker, is ready.
    ///
    /// # Errors
    /// The reason why the world stopped before the future was ready: `limit` of virtual time has
    /// passed, no event is left, or a live-lock. The task is aborted after an error.
    pub fn run<F>(&self, limit: Duration, future: F) -> Result<F::Output, RunEnd>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let mut results = run_all(&self.kernel, limit, [self.handle.spawn(future)])?;
        results.pop().ok_or(RunEnd::Quiet)
    }
}

/// Control over one worker's CPU from outside the worker; see [`VirtualWorker::power`].
#[derive(Clone)]
pub struct Power {
    actor: Weak<Worker>,
}

impl Power {
    /// Whether the worker was dropped.
    pub fn has_ended(&self) -> bool {
        self.actor.strong_count() == 0
    }

    /// Pauses the worker for `duration`. After the pause the worker continues where it was, and
    /// handles the work that arrived during the pause.
    pub fn stop_for(&self, duration: Duration) {
        self.with_cpu(|cpu| cpu.stop_for(duration));
    }

    /// Stops the worker permanently.
    pub fn stop(&self) {
        self.stop_for(Duration::MAX);
    }

    /// Multiplies by `times` the time of all later work of the worker. The default is 1.
    pub fn slow_down(&self, times: u32) {
        self.with_cpu(|cpu| cpu.slow_down(times));
    }

    /// Gives the worker `percent` percent of its core from now on: its work takes longer by the
    /// factor 100 / `percent`. The default is 100.
    pub fn take_share(&self, percent: u32) {
        self.with_cpu(|cpu| cpu.take_share(percent));
    }

    /// The CPU time that the worker has used so far ([`Cpu::worked`]), or zero when the worker was
    /// dropped.
    pub fn worked(&self) -> Duration {
        let worker = self.actor.upgrade();
        worker.map_or(Duration::ZERO, |worker| worker.parts().cpu.worked())
    }

    fn with_cpu(&self, act: impl FnOnce(&Cpu)) {
        if let Some(worker) = self.actor.upgrade() {
            act(&worker.parts().cpu);
        }
    }
}

/// Runs the world until all `tasks`, of any workers, have ended. Returns their results in order.
///
/// # Errors
/// The reason why the world stopped before the tasks had ended: `limit` of virtual time has passed,
/// no event is left, or a live-lock. [`RunEnd::Quiet`] also when a task was aborted. All tasks are
/// aborted after an error.
pub fn run_all<T>(
    kernel: &Kernel,
    limit: Duration,
    tasks: impl IntoIterator<Item = JoinHandle<T>>,
) -> Result<Vec<T>, RunEnd> {
    run_all_watched(kernel, limit, tasks, || {})
}

/// Like [`run_all`], and calls `watch` before the first event and after every event.
///
/// # Errors
/// As [`run_all`].
pub fn run_all_watched<T>(
    kernel: &Kernel,
    limit: Duration,
    tasks: impl IntoIterator<Item = JoinHandle<T>>,
    mut watch: impl FnMut(),
) -> Result<Vec<T>, RunEnd> {
    let tasks: Vec<_> = tasks.into_iter().collect();
    let mut ended = 0;
    let end = kernel.run_until(kernel.now() + limit, || {
        watch();
        while tasks.get(ended).is_some_and(JoinHandle::is_finished) {
            ended += 1;
        }
        strict_assert!(ended <= tasks.len());
        ended == tasks.len()
    });
    if end != RunEnd::Done {
        tasks.iter().for_each(JoinHandle::abort);
        return Err(end);
    }
    strict_assert!(tasks.iter().all(JoinHandle::is_finished), "the world is done before a task");
    tasks.iter().map(|task| task.take().and_then(Result::ok).ok_or(RunEnd::Quiet)).collect()
}

impl Worker {
    fn parts(&self) -> &Parts {
        match self.parts.get() {
            Some(parts) => parts,
            None => unreachable!("set before anybody could fire this actor"),
        }
    }

    /// Ensures that an event fires at `at` or earlier.
    fn schedule(&self, at: Time) {
        let parts = self.parts();
        strict_assert!(at >= self.kernel.now(), "a worker schedules an event in the past");
        let mut scheduled = parts.scheduled.borrow_mut();
        if scheduled.last().is_none_or(|&first| first > at) {
            scheduled.push(at);
            self.kernel.schedule(at, parts.id, 0);
            strict_assert!(
                scheduled.is_sorted_by(|later, sooner| later > sooner),
                "the next event comes last"
            );
        }
    }

    /// Called when the worker has parked. Schedules the next sweep for the deadline `next`, if
    /// there is one, but not before `soon`.
    fn rest(&self, next: Option<Time>, soon: Time) {
        let Parts { id, cpu, .. } = self.parts();
        self.kernel.hold_wakes(*id, cpu.now());
        if let Some(next) = next {
            self.schedule(next.max(soon));
        }
    }

    fn sweep(&self) {
        let parts = self.parts();
        let mut executor = parts.executor.borrow_mut();
        if let Some(until) = executor.driver().busy_until() {
            return self.schedule(until);
        }
        let soon = self.kernel.now() + parts.step;
        strict_assert!(soon > self.kernel.now(), "the next sweep is later than this one");
        for _ in 0..SWEEPS_PER_EVENT {
            match executor.sweep() {
                Sweep::Busy { until } => return self.schedule(until),
                Sweep::Progress => {
                    // A sweep that would find no work is skipped, because it would cost one more
                    // event. Most sweeps have little work, so this would double the events.
                    if let Some(next) = executor.next_if_settled()
                        && executor.try_park(&|| false)
                    {
                        return self.rest(next, soon);
                    }
                    if let Some(until) = executor.driver().busy_until() {
                        return self.schedule(until);
                    }
                }
                Sweep::Idle { next } => {
                    if executor.try_park(&|| false) {
                        return self.rest(next, soon);
                    }
                }
            }
        }
        self.schedule(soon);
    }
}

impl Actor for Worker {
    fn fire(&self, _payload: u64) {
        let now = self.kernel.now();
        let mut scheduled = self.parts().scheduled.borrow_mut();
        while scheduled.pop_if(|at| *at <= now).is_some() {}
        strict_assert!(
            scheduled.last().is_none_or(|&at| at > now),
            "an event of the past is still expected"
        );
        drop(scheduled);
        self.sweep();
    }
}
