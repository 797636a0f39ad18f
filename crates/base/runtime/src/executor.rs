//! [`Executor`]: one worker's sweep, and the loops that repeat it on a real thread.

use std::cell::Cell;
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use latchwork_strict::strict_assert;

use crate::idle::{Idle, Step};
use crate::mailbox::{TaskHeader, TaskId};
use crate::shared::{Core, Pollers};
use crate::sync::{AtomicBool, Ordering, spin_loop, yield_now};
use crate::{Driver, ExecutorConfig, Handle, Notifier, RealDriver, Time};

/// The most virtual time of a sweep's tasks with which the sweep still ends in the same event. The
/// time counts from the clock after the pollers were polled. Ending the sweep early saves one event
/// and changes no time, because pollers post at the time of the worker's clock.
const FLUSH_AHEAD: Duration = Duration::from_nanos(500);

/// The longest doze on a contended core. Short compared with a time slice of other threads, long
/// compared with a wake. A notification does not end the doze of [`Driver::doze`]. An arrival ends
/// the doze of a poller that has something to sleep on.
const NAP: Duration = Duration::from_micros(200);
const _: () = assert!(NAP.as_micros() <= 200, "a doze ends after 200 us");
const _: () = assert!(FLUSH_AHEAD.as_nanos() < NAP.as_nanos());

/// The result of one sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sweep {
    /// The sweep did some work, or more work is ready.
    Progress,
    /// The sweep found no work. The next work comes with a notification, at `next`, or from a
    /// poller that refuses to park.
    Idle {
        /// The earliest deadline: of a timer, of a poller, or of a start beyond the depth.
        next: Option<Time>,
    },
    /// The worker's virtual clock is ahead of the world. The next call, at `until`, continues this
    /// sweep. Never occurs on the real driver.
    Busy {
        /// The time at which the world reaches the worker's clock.
        until: Time,
    },
}

/// One worker's tasks, timers and pollers, advanced by [`Executor::sweep`]. The crate's page has a
/// picture.
///
/// Dropping the executor drops all its tasks.
pub struct Executor<D: Driver> {
    driver: Rc<D>,
    core: Rc<Core>,
    notifier: Notifier,
    /// Tasks that were ready when a sweep began and have not been polled yet.
    ready: VecDeque<TaskId>,
    /// The sweep that is between its poll and its flush.
    sweep: Option<OpenSweep>,
    /// The pollers that agreed to park, until [`Poller::unparked`](crate::Poller::unparked) is
    /// called on each.
    parked: Option<Pollers>,
}

struct OpenSweep {
    progress: bool,
    /// The worker's clock after the pollers were polled.
    polled: Time,
    /// The number of tasks that this sweep may still poll.
    tasks_left: usize,
}

impl<D: Driver> Executor<D> {
    /// An executor without tasks and pollers.
    pub fn new(driver: D, config: ExecutorConfig) -> Self {
        let driver = Rc::new(driver);
        let core = Core::new(driver.clone(), config);
        let notifier = driver.notifier();
        Executor { driver, core, notifier, ready: VecDeque::new(), sweep: None, parked: None }
    }

    /// Access for tasks.
    pub fn handle(&self) -> Handle {
        Handle(Rc::clone(&self.core))
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// One pass: polls the pollers, fires due timers, polls ready tasks, and flushes the pollers.
    /// Each ready task is polled at most once, and at most [`ExecutorConfig::sweep_tasks`] tasks
    /// are polled. On the virtual driver a pass may take several calls ([`Sweep::Busy`]).
    pub fn sweep(&mut self) -> Sweep {
        self.sweep_with(&mut || {})
    }

    /// `root` polls the future of `block_on` after a wake of that future.
    fn sweep_with(&mut self, root: &mut dyn FnMut()) -> Sweep {
        self.unpark();
        strict_assert!(self.parked.is_none(), "a parked executor sweeps");
        let mut open = match self.sweep.take() {
            Some(open) => open,
            None => self.begin_sweep(),
        };
        loop {
            // The work of a task takes virtual time, and the next step of the sweep comes after
            // that time.
            if let Some(until) = self.driver.busy_until()
                && until > open.polled
                && !(self.ready.is_empty() && until - open.polled <= FLUSH_AHEAD)
            {
                self.sweep = Some(open);
                return Sweep::Busy { until };
            }
            if open.tasks_left == 0 {
                break;
            }
            strict_assert!(open.tasks_left > 0);
            open.tasks_left -= 1;
            match self.ready.pop_front() {
                None => break,
                Some(TaskId::ROOT) => {
                    root();
                    open.progress = true;
                }
                Some(id) => {
                    if self.core.run(id) {
                        open.progress = true;
                        self.core.count(|activity| activity.polls += 1);
                    }
                }
            }
        }
        let pollers = self.pollers();
        strict_assert!(self.sweep.is_none(), "the sweep that ends is open");
        pollers.iter().for_each(|poller| poller.flush());
        if open.progress || !self.ready.is_empty() || !self.core.mailbox.is_empty() {
            self.driver.charge(self.core.config.sweep_cost);
            Sweep::Progress
        } else {
            Sweep::Idle { next: self.core.next_deadline(&pollers) }
        }
    }

    fn begin_sweep(&mut self) -> OpenSweep {
        let now = self.driver.now();
        strict_assert!(now >= self.core.sweep_time.get(), "the clock of the driver runs backwards");
        self.core.sweep_time.set(now);
        self.core.count(|activity| activity.sweeps += 1);
        let mut progress = false;
        for poller in self.pollers().iter() {
            progress |= poller.poll(now);
        }
        while let Some(waker) = self.take_due(now) {
            waker.wake();
            progress = true;
        }
        progress |= self.core.mind_line(now);
        if !self.core.mailbox.is_empty() {
            // A bounded number: other threads may fill the mailbox as fast as the loop drains it.
            for _ in 0..self.core.mailbox.len() {
                self.ready.extend(self.core.mailbox.take());
            }
        }
        let tasks_left = self.core.config.sweep_tasks.max(1);
        strict_assert!(tasks_left > 0, "a sweep runs one task at least");
        OpenSweep { progress, polled: self.driver.busy_until().unwrap_or(now), tasks_left }
    }

    fn take_due(&self, now: Time) -> Option<Waker> {
        self.core.timers.borrow_mut().take_due(now)
    }

    fn pollers(&self) -> Pollers {
        Rc::clone(&self.core.pollers.borrow())
    }

    /// Whether the pollers are settled and no task is ready, so that another sweep right now would
    /// only serve due deadlines. Called after a sweep that made progress. `Some` holds the next
    /// deadline.
    pub(crate) fn next_if_settled(&self) -> Option<Option<Time>> {
        let pollers = self.pollers();
        let ready = !self.ready.is_empty() || !self.core.mailbox.is_empty();
        let settled = !ready && pollers.iter().all(|p| p.is_settled());
        settled.then(|| self.core.next_deadline(&pollers))
    }

    /// Prepares to park. Returns `false`, without having parked, when a task was woken, when a
    /// poller refuses to park, or when `done` reports another reason to end the wait.
    pub(crate) fn try_park(&mut self, done: &dyn Fn() -> bool) -> bool {
        // The announcement comes before each check for work, and before the checks of the pollers.
        strict_assert!(self.parked.is_none(), "the executor parks twice");
        self.notifier.announce();
        if !self.core.mailbox.is_empty() || done() {
            self.notifier.retract();
            return false;
        }
        let pollers = self.pollers();
        for (asked, poller) in pollers.iter().enumerate() {
            if !poller.may_park() {
                pollers[..asked].iter().for_each(|poller| poller.unparked());
                self.notifier.retract();
                return false;
            }
        }
        self.parked = Some(pollers);
        self.core.count(|activity| activity.parks += 1);
        true
    }

    /// Ends the parking, if the executor is parked. Returns `true` when a notification came since
    /// the parking began.
    pub(crate) fn unpark(&mut self) -> bool {
        let Some(pollers) = self.parked.take() else {
            return false;
        };
        let notified = self.notifier.retract();
        pollers.iter().for_each(|poller| poller.unparked());
        notified
    }
}

impl Executor<RealDriver> {
    /// Runs until `future` is ready. Spawned tasks run meanwhile. Tasks that have not ended stay
    /// for the next call.
    ///
    /// Without work, the thread first spins, then offers the core to other threads between sweeps,
    /// then parks until a notification or the next deadline. On a contended core the thread parks
    /// earlier ([`ExecutorConfig::yield_limit`]). While a poller refuses to park, the thread
    /// continues to sweep. Pollers are served only inside this call and
    /// [`Executor::run_until_stopped`]. So a thread that does other work for long first removes its
    /// pollers or drops the executor.
    pub fn block_on<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let core = Rc::clone(&self.core);
        let header = TaskHeader::new(TaskId::ROOT, &core.mailbox);
        let waker = Waker::from(header.clone());
        let result = Cell::new(None);
        let ended = Cell::new(false);
        let mut root = || {
            if !ended.get() {
                header.begin_poll();
                core.renew_coop();
                if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    result.set(Some(value));
                    ended.set(true);
                }
            }
        };
        waker.wake_by_ref();
        self.drive(&mut root, &|| ended.get());
        match result.take() {
            Some(value) => value,
            None => unreachable!("driven until the result was there"),
        }
    }

    /// Runs tasks and pollers until `stop` is true. The thread that sets `stop` then calls
    /// [`Notifier::notify`].
    pub fn run_until_stopped(&mut self, stop: &AtomicBool) {
        self.drive(&mut || {}, &|| stop.load(Ordering::Acquire));
    }

    fn drive(&mut self, root: &mut dyn FnMut(), done: &dyn Fn() -> bool) {
        let mut idle = Idle::new(&self.core.config);
        while !done() {
            let Sweep::Idle { next } = self.sweep_with(root) else {
                idle.worked();
                continue;
            };
            let now = self.core.sweep_time.get();
            let mut step = idle.step(now);
            // Before any spinning: the poller may wait for another thread that needs this core.
            if idle.is_contended(now) && self.pollers().iter().any(|poller| poller.doze(NAP)) {
                continue;
            }
            if step == Step::Park {
                if self.try_park(done) {
                    self.driver.park(next);
                    if self.unpark() {
                        idle.worked();
                    }
                    continue;
                }
                step = idle.refused(now);
            }
            match step {
                Step::Spin | Step::Park => spin_loop(),
                Step::Yield => self.offer_core(&mut idle),
                Step::Doze => self.driver.doze(NAP),
            }
        }
    }

    fn offer_core(&self, idle: &mut Idle) {
        let began = self.driver.now();
        yield_now();
        strict_assert!(self.driver.now() >= began);
        if idle.yielded(began, self.driver.now()) {
            self.core.contended_until.set(idle.contended_until());
        }
    }
}

impl<D: Driver> Drop for Executor<D> {
    fn drop(&mut self) {
        self.unpark();
        self.core.close();
        strict_assert!(self.parked.is_none());
    }
}
