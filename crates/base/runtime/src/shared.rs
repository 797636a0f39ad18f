//! [`Core`]: the state that an executor shares with its handles.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use latchwork_simulation::Random;
use latchwork_strict::{strict_assert, strict_assert_eq};

use crate::activity::Activity;
use crate::mailbox::{Mailbox, TaskId};
use crate::sync::Arc;
use crate::tasks::Tasks;
use crate::timers::Timers;
use crate::{Driver, ExecutorConfig, Poller, Time};

/// The pollers of an executor. A change replaces the whole list. So a sweep can finish with its own
/// list while pollers are added and removed.
pub(crate) type Pollers = Rc<Vec<Rc<dyn Poller>>>;

/// The tasks, timers, pollers and settings of one executor.
pub(crate) struct Core {
    pub(crate) driver: Rc<dyn Driver>,
    pub(crate) config: ExecutorConfig,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) pollers: RefCell<Pollers>,
    pub(crate) random: RefCell<Random>,
    pub(crate) sweep_time: Cell<Time>,
    pub(crate) activity: Cell<Activity>,
    /// The time until which other threads are assumed to want this executor's core.
    pub(crate) contended_until: Cell<Time>,
    tasks: RefCell<Tasks>,
    /// The time at which waiting tasks start beyond the depth, unless a waiting task starts before.
    /// `None` when no task waits. But an abort of the last waiting task leaves the time set until
    /// the time passes.
    late_at: Cell<Option<Time>>,
    /// The number of tasks of [`Handle::spawn_finisher`](crate::Handle::spawn_finisher) that have
    /// not ended.
    pub(crate) finishers: Cell<usize>,
    /// The number of calls of `coop` that remain in the current poll of the running task. The last
    /// of these calls yields.
    coop_left: Cell<u32>,
}

impl Core {
    pub(crate) fn new(driver: Rc<dyn Driver>, config: ExecutorConfig) -> Rc<Self> {
        Rc::new(Core {
            mailbox: Mailbox::new(driver.notifier()),
            timers: RefCell::default(),
            pollers: RefCell::default(),
            random: RefCell::new(Random::new(config.seed)),
            sweep_time: Cell::new(driver.now()),
            activity: Cell::default(),
            contended_until: Cell::new(Time::ZERO),
            tasks: RefCell::new(Tasks::new(config.depth)),
            late_at: Cell::default(),
            finishers: Cell::default(),
            coop_left: Cell::new(config.coop_budget),
            driver,
            config,
        })
    }

    pub(crate) fn spawn(&self, future: Pin<Box<dyn Future<Output = ()>>>, counted: bool) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        if tasks.is_closed() {
            drop(tasks);
            drop(future);
            // No task in the table has this id, so later calls with the id do nothing.
            return TaskId::ROOT;
        }
        let (id, starts) = tasks.insert(future, counted, &self.mailbox);
        strict_assert!(id != TaskId::ROOT, "a task has a slot");
        drop(tasks);
        match starts {
            Some(waker) => waker.wake(),
            None if self.late_at.get().is_none() => self.watch_line(),
            None => {}
        }
        id
    }

    /// Polls the task once. Returns `false`, without a poll, when the task has already ended.
    pub(crate) fn run(&self, id: TaskId) -> bool {
        let Some(mut body) = self.tasks.borrow_mut().check_out(id) else {
            return false;
        };
        body.header.begin_poll();
        self.renew_coop();
        strict_assert!(self.coop_left.get() >= 1, "a task may call coop once at least");
        let poll = body.future.as_mut().poll(&mut Context::from_waker(&body.waker));
        let ended = match poll {
            Poll::Ready(()) => Some(body),
            Poll::Pending => self.tasks.borrow_mut().check_in(id, body).err(),
        };
        if let Some(body) = ended {
            drop(body);
            self.finish(id);
        }
        true
    }

    fn finish(&self, id: TaskId) {
        let starts = self.tasks.borrow_mut().finish(id);
        self.start(starts);
    }

    /// Starts a waiting task by its waker, if there is one.
    fn start(&self, starts: Option<Waker>) {
        if let Some(waker) = starts {
            self.watch_line();
            waker.wake();
        }
    }

    pub(crate) fn abort(&self, id: TaskId) {
        let (body, starts) = self.tasks.borrow_mut().abort(id);
        drop(body);
        self.start(starts);
    }

    /// Sets the time of late starts anew, or clears it when no task waits. Called when the first
    /// task begins to wait for its start, and when a waiting task starts.
    fn watch_line(&self) {
        let waits = self.tasks.borrow().waiting() > 0;
        self.late_at.set(waits.then(|| self.driver.now() + self.config.start_within));
    }

    /// Starts waiting tasks beyond the depth, if the time of late starts has come. Returns whether
    /// a task started.
    pub(crate) fn mind_line(&self, now: Time) -> bool {
        if self.late_at.get().is_none_or(|late_at| now < late_at) {
            return false;
        }
        strict_assert!(self.late_at.get().is_some(), "no start is late when no task waits");
        let waiting = self.tasks.borrow().waiting();
        let wakers = self.tasks.borrow_mut().start_late();
        self.watch_line();
        let (depth, started) = (self.config.depth, wakers.len());
        strict_assert!(started <= waiting, "{started} of {waiting} waiting tasks started");
        self.count(|activity| activity.late_starts += started as u64);
        if started > 0 {
            let what = "tasks start beyond the depth, since none in flight has ended for long";
            tracing::warn!(depth, waiting, started, "{what}");
        }
        wakers.into_iter().for_each(Waker::wake);
        started > 0
    }

    /// The number of tasks, including tasks that wait for their start.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.borrow().len()
    }

    pub(crate) fn renew_coop(&self) {
        self.coop_left.set(self.config.coop_budget.max(1));
    }

    /// Counts one call of `coop`. Returns `true` when the task must yield.
    #[inline]
    pub(crate) fn spend_coop(&self) -> bool {
        let left = self.coop_left.get().saturating_sub(1);
        self.coop_left.set(left);
        left == 0
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Activity)) {
        let mut activity = self.activity.get();
        change(&mut activity);
        self.activity.set(activity);
    }

    /// The earliest time at which a sweep is needed even without a notification.
    pub(crate) fn next_deadline(&self, pollers: &Pollers) -> Option<Time> {
        let timer = self.timers.borrow().next();
        let asked = pollers.iter().filter_map(|poller| poller.next_deadline());
        asked.chain(timer).chain(self.late_at.get()).min()
    }

    /// Drops all tasks, timers and pollers. Tasks and pollers may hold handles, and each handle
    /// holds this value. Without this call the cycle would never be freed.
    pub(crate) fn close(&self) {
        let bodies = self.tasks.borrow_mut().close();
        self.late_at.set(None);
        strict_assert!(
            self.tasks.borrow().is_closed() && self.tasks.borrow().len() == 0,
            "a closed executor has no task"
        );
        drop(bodies);
        let wakers = self.timers.borrow_mut().take_all();
        drop(wakers);
        strict_assert_eq!(self.timers.borrow().len(), 0);
        let pollers = self.pollers.take();
        drop(pollers);
    }
}
