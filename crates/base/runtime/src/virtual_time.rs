//! [`VirtualWorker`]: an executor as an actor of a simulated world.

use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use latchwork_simulation::{Actor, ActorId, ActorWaker, Cpu, Kernel, RunEnd};

use crate::{Driver, Executor, ExecutorConfig, Handle, JoinHandle, Notifier, Sweep, Time};

/// Sweeps within one event before the worker lets time pass, when sweeps cost nothing.
const SWEEPS_PER_EVENT: u32 = 32;

/// Virtual time: the clock of a simulated CPU, and a notifier that fires the worker's actor.
pub struct VirtualDriver {
    cpu: Rc<Cpu>,
    notifier: Notifier,
}

impl VirtualDriver {
    /// The driver of the worker that `waker` fires.
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

    fn nap(&self, _time: Duration) {}

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
/// When something wakes it, it sweeps. A sweep that made progress costs
/// [`ExecutorConfig::sweep_cost`], so that the next one is an event of its own, a little later;
/// where all pollers are [settled](crate::Poller::is_settled) and no task is ready there is none.
/// An idle worker makes no events but its next deadline. Work that a task charges delays all that
/// this worker does afterwards, in this sweep too; what polling charges moves the worker's clock,
/// but the tasks that it wakes run at the same event, and so does the flush after a task whose work
/// was short.
///
/// Dropping it drops the worker's tasks; the world forgets it.
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
    /// The driver's.
    cpu: Rc<Cpu>,
    /// When events of this worker are scheduled, the next one last: rarely more than two. Events
    /// cannot be taken back, but an early one does no harm: the worker then looks again at what
    /// comes next.
    scheduled: RefCell<Vec<Time>>,
    /// What time passes between two looks at pollers that refuse to park.
    step: Duration,
}

impl VirtualWorker {
    /// A worker in `kernel`'s world. It lives for as long as the value returned.
    pub fn spawn(kernel: &Kernel, config: ExecutorConfig) -> VirtualWorker {
        let actor = Rc::new(Worker { kernel: kernel.clone(), parts: OnceCell::new() });
        let id = kernel.add_actor(actor.clone());
        let step = config.sweep_cost.max(Duration::from_nanos(1));
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

    /// The world.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Control over the worker's CPU, for whoever makes nodes pause, die, or crawl.
    pub fn power(&self) -> Power {
        Power { actor: Rc::downgrade(&self.actor) }
    }

    /// The worker's actor, as events name it.
    pub fn actor(&self) -> ActorId {
        self.actor.parts().id
    }

    /// Runs the world until `future`, as a task of this worker, is ready.
    ///
    /// # Errors
    /// Why the world stopped before: `limit` of virtual time is over, nothing happens any more, or
    /// time stands still. The task is then aborted.
    pub fn run<F>(&self, limit: Duration, future: F) -> Result<F::Output, RunEnd>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let mut results = run_all(&self.kernel, limit, [self.handle.spawn(future)])?;
        results.pop().ok_or(RunEnd::Quiet)
    }
}

/// The power over one worker's CPU, from outside; see [`VirtualWorker::power`].
#[derive(Clone)]
pub struct Power {
    actor: Weak<Worker>,
}

impl Power {
    /// Whether the worker is gone.
    pub fn is_gone(&self) -> bool {
        self.actor.strong_count() == 0
    }

    /// The worker does nothing for `duration`. Then it goes on where it was, and what arrived
    /// meanwhile is old.
    pub fn stop_for(&self, duration: Duration) {
        self.with_cpu(|cpu| cpu.stop_for(duration));
    }

    /// The worker never does anything again.
    pub fn stop(&self) {
        self.stop_for(Duration::MAX);
    }

    /// All that the worker does takes `times` as long; 1 is as usual.
    pub fn slow_down(&self, times: u32) {
        self.with_cpu(|cpu| cpu.slow_down(times));
    }

    /// How long the worker has computed so far; nothing when it is gone.
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

/// Runs the world until all `tasks`, of whatever workers, have ended, and gives their results in
/// order.
///
/// # Errors
/// Why the world stopped before: `limit` of virtual time is over, nothing happens any more (also
/// when a task was aborted), or time stands still. All tasks are then aborted.
pub fn run_all<T>(
    kernel: &Kernel,
    limit: Duration,
    tasks: impl IntoIterator<Item = JoinHandle<T>>,
) -> Result<Vec<T>, RunEnd> {
    run_all_watched(kernel, limit, tasks, || {})
}

/// As [`run_all`], and calls `watch` after every event.
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
        ended == tasks.len()
    });
    if end != RunEnd::Done {
        tasks.iter().for_each(JoinHandle::abort);
        return Err(end);
    }
    tasks.iter().map(|task| task.take().and_then(Result::ok).ok_or(RunEnd::Quiet)).collect()
}

impl Worker {
    fn parts(&self) -> &Parts {
        match self.parts.get() {
            Some(parts) => parts,
            None => unreachable!("set before anybody could fire this actor"),
        }
    }

    /// Makes sure that an event fires at `at` or before.
    fn schedule(&self, at: Time) {
        let parts = self.parts();
        let mut scheduled = parts.scheduled.borrow_mut();
        if scheduled.last().is_none_or(|&first| first > at) {
            scheduled.push(at);
            self.kernel.schedule(at, parts.id, 0);
        }
    }

    /// The worker has parked, and there is nothing to do before `next` unless it is woken.
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
        for _ in 0..SWEEPS_PER_EVENT {
            match executor.sweep() {
                Sweep::Busy { until } => return self.schedule(until),
                Sweep::Progress => {
                    // The sweep that would find nothing is spared: most have little to do, and the
                    // worker would be fired once more for it.
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
        drop(scheduled);
        self.sweep();
    }
}
