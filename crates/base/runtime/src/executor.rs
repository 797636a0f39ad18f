//! [`Executor`]: the sweep of one worker, and the loops that repeat the sweep on a real thread.

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

/// In virtual time, a sweep must wait for the end of its tasks' work before it flushes the pollers.
/// If the tasks together charged at most this time since the pollers were polled, the flush comes
/// in the same event. This saves one event. The earlier flush changes no time, because pollers post
/// at the time of the worker's clock.
const FLUSH_AHEAD: Duration = Duration::from_nanos(500);

/// The longest doze on a contended core. The doze is short compared with a time slice of other
/// threads, and long compared with a wake. A notification does not end [`Driver::doze`]. An arrival
/// ends [`Poller::doze`](crate::Poller::doze), if the poller has something to sleep on.
const NAP: Duration = Duration::from_micros(200);
const _: () = assert!(NAP.as_micros() <= 200, "a doze ends after 200 us");
const _: () = assert!(FLUSH_AHEAD.as_nanos() < NAP.as_nanos());

/// The result of one sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sweep {
    /// The sweep did some work, or more work is ready.
    Progress,
    /// The sweep found no work. New work comes with a notification, at the time `next`, or from a
    /// poller that refuses to park.
    Idle {
        /// The earliest deadline: of a timer, of a poller, or of a start beyond the depth.
        next: Option<Time>,
    },
    /// The worker's virtual clock is ahead of the world. The next call, at `until`, continues this
    /// sweep. Does not occur on the real driver.
    Busy {
        /// The time at which the world reaches the worker's clock.
        until: Time,
    },
}

/// One worker's tasks, timers and pollers. [`Executor::sweep`] advances them. The [crate's
/// page](crate) has a picture.
///
/// Dropping the executor drops all its tasks.
pub struct Executor<D: Driver> {
    driver: Rc<D>,
    core: Rc<Core>,
    notifier: Notifier,
    /// Tasks that were ready at the begin of a sweep and have not been polled yet.
    ready: VecDeque<TaskId>,
    /// The sweep that has polled the pollers and not flushed them yet, if there is one.
    sweep: Option<OpenSweep>,
    /// While the executor is parked: the pollers that agreed to park. At the end of the parking,
    /// [`Poller::unparked`](crate::Poller::unparked) is called on each.
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
    /// Makes an executor without tasks and pollers.
    pub fn new(driver: D, config: ExecutorConfig) -> Self {
        let driver = Rc::new(driver);
        let core = Core::new(driver.clone(), config);
        let notifier = driver.notifier();
        Executor { driver, core, notifier, ready: VecDeque::new(), sweep: None, parked: None }
    }

    /// The executor's handle, through which tasks use the executor.
    pub fn handle(&self) -> Handle {
        Handle(Rc::clone(&self.core))
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// Executes one sweep: polls the pollers, fires due timers, polls ready tasks, and flushes the
    /// pollers. The sweep polls each ready task at most once, and at most
    /// [`ExecutorConfig::sweep_tasks`] tasks. On the virtual driver a sweep may take several calls
    /// ([`Sweep::Busy`]).
    pub fn sweep(&mut self) -> Sweep {
        self.sweep_with(&mut || {})
    }

    /// Like [`Executor::sweep`]. `root` polls the future of `block_on`, and is called after a wake
    /// of this future.
    fn sweep_with(&mut self, root: &mut dyn FnMut()) -> Sweep {
        self.unpark();
        strict_assert!(self.parked.is_none(), "a parked executor sweeps");
        let mut open = match self.sweep.take() {
            Some(open) => open,
            None => self.begin_sweep(),
        };
        loop {
            // The work of a task takes virtual time. The next step of the sweep must come after
            // this time.
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
            // Only the present number of ids is taken, because other threads may fill the mailbox
            // as fast as the loop drains it.
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

    /// Returns `Some` if the pollers are settled and no task is ready, so that another sweep at
    /// once would only serve due deadlines. The value is the next deadline, if there is one. Called
    /// after a sweep that made progress.
    pub(crate) fn next_if_settled(&self) -> Option<Option<Time>> {
        let pollers = self.pollers();
        let ready = !self.ready.is_empty() || !self.core.mailbox.is_empty();
        let settled = !ready && pollers.iter().all(|p| p.is_settled());
        settled.then(|| self.core.next_deadline(&pollers))
    }

    /// Announces the parking, and checks for work. Returns `false` and withdraws the announcement
    /// in three cases: a task was woken, a poller refuses to park, or `done` returns true.
    pub(crate) fn try_park(&mut self, done: &dyn Fn() -> bool) -> bool {
        // The announcement must come before all checks for work, including the checks of the
        // pollers. Otherwise a wake between check and announcement would be lost.
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

    /// Ends the parking, if the executor is parked. Returns `true` when a notification has come
    /// since the announcement.
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
    /// Runs until `future` is ready, and runs spawned tasks at the same time. Tasks that have not
    /// ended stay for the next call.
    ///
    /// Without work, the thread takes three steps. First it spins. After
    /// [`ExecutorConfig::spin_sweeps`] it offers the core to other threads between sweeps. After
    /// [`ExecutorConfig::yield_sweeps`] more it parks until a notification or the next deadline. On
    /// a contended core the thread parks earlier ([`ExecutorConfig::yield_limit`]). While a poller
    /// refuses to park, the thread continues to sweep.
    ///
    /// Pollers are served only inside this call and [`Executor::run_until_stopped`]. So a thread
    /// that does other work for long must first remove its pollers or drop the executor.
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

    /// Runs tasks and pollers until `stop` is true. The thread that sets `stop` must call
    /// [`Notifier::notify`] afterwards.
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
            // The doze comes before any spinning, because the poller may wait for a thread that
            // needs this core.
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
