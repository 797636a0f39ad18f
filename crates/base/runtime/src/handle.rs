//! [`Handle`]: the interface of an executor for its tasks.

use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use latchwork_strict::strict_assert;

use crate::activity::Activity;
use crate::shared::Core;
use crate::{Coop, Elapsed, JoinHandle, Notifier, Poller, Sleep, Time, YieldNow, join};

/// The interface of one executor for its tasks. A clone is cheap and refers to the same executor.
///
/// A handle may outlive its executor. A task that is spawned after the executor's end is aborted at
/// once.
#[derive(Clone)]
pub struct Handle(pub(crate) Rc<Core>);

impl Handle {
    /// Starts a task. When [`crate::ExecutorConfig::depth`] tasks are in flight, the new task waits
    /// in line for its start. When a task ends and fewer than `depth` tasks remain in flight, the
    /// first task in line starts. If no task in line starts for
    /// [`start_within`](crate::ExecutorConfig::start_within), the first tasks in line start beyond
    /// the depth. The reason is that the tasks in flight may wait for them.
    ///
    /// A panic of the task unwinds through the executor's sweep.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.start(future, true)
    }

    /// Starts a task at once, without counting it towards the depth. This is for the few background
    /// loops of an engine.
    pub fn spawn_service<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.start(future, false)
    }

    fn start<F>(&self, future: F, counted: bool) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let (completion, unbound) = join::pair();
        let task = Box::pin(async move { completion.finish(future.await) });
        let id = self.0.spawn(task, counted);
        unbound.bind(Rc::clone(&self.0), id)
    }

    /// Like [`spawn_service`](Handle::spawn_service), for a task that finishes work on which other
    /// nodes or tasks depend. A worker that leaves gracefully waits for such tasks until its
    /// deadline ([`Handle::finishers`]).
    pub fn spawn_finisher<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let finisher = Finisher::new(&self.0);
        self.spawn_service(async move {
            let _finisher = finisher;
            future.await
        })
    }

    /// The number of tasks of [`spawn_finisher`](Handle::spawn_finisher) that have not ended.
    pub fn finishers(&self) -> usize {
        self.0.finishers.get()
    }

    /// The current time. The real driver reads the clock. The virtual driver returns the worker's
    /// own clock, including charged work.
    #[inline]
    pub fn now(&self) -> Time {
        self.0.driver.now()
    }

    /// The time that orders effects. On the real driver it is the same as [`now`](Handle::now). On
    /// the virtual driver it is the time of the world, which the worker's own clock may have
    /// passed. Histories use this time.
    #[inline]
    pub fn instant(&self) -> Time {
        self.0.driver.instant()
    }

    /// The time at the start of the current sweep, without a read of the clock.
    #[inline]
    pub fn sweep_time(&self) -> Time {
        self.0.sweep_time.get()
    }

    /// The time until which the executor treats its core as contended by other threads. A time in
    /// the past means that the core is not contended. On the virtual driver the core is not
    /// contended, because each worker has a core of its own.
    #[inline]
    pub fn contended_until(&self) -> Time {
        self.0.contended_until.get()
    }

    /// A future that is ready in a sweep that begins at `deadline` or later.
    pub fn sleep_until(&self, deadline: Time) -> Sleep {
        Sleep::new(Rc::clone(&self.0), deadline)
    }

    /// A future that is ready in a sweep that begins at least `duration` after this call.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Waits for `future` until `deadline`. Drops `future` when the deadline passes.
    ///
    /// # Errors
    /// [`Elapsed`] when the deadline passes first. If `future` is ready in the poll that also finds
    /// the deadline passed, the result is that of `future`.
    pub fn timeout<F: Future>(
        &self,
        deadline: Time,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + use<F> {
        let sleep = self.sleep_until(deadline);
        async move {
            let mut future = pin!(future);
            let mut sleep = pin!(sleep);
            std::future::poll_fn(|cx| {
                if let Poll::Ready(value) = future.as_mut().poll(cx) {
                    return Poll::Ready(Ok(value));
                }
                sleep.as_mut().poll(cx).map(|()| Err(Elapsed))
            })
            .await
        }
    }

    /// Lets all other ready tasks and all pollers run once.
    pub fn yield_now(&self) -> YieldNow {
        YieldNow::default()
    }

    /// Yields when the task has used up its [`crate::ExecutorConfig::coop_budget`] in the current
    /// poll. Before that the future is ready at once. Code that may run for long without waiting
    /// must await this future once per unit of work.
    #[inline]
    pub fn coop(&self) -> Coop {
        Coop::new(self.0.spend_coop())
    }

    /// On the virtual driver, yields once if the worker's clock is ahead of the world. On the real
    /// driver the future is ready at once. Code awaits this future between two units of work
    /// without a wait between them. Otherwise the second unit would take effect before its time.
    #[inline]
    pub fn catch_up(&self) -> Coop {
        Coop::new(self.0.driver.busy_until().is_some())
    }

    /// Adds a poller, from the next sweep on. A poller that is added twice is polled twice in each
    /// sweep.
    pub fn add_poller(&self, poller: Rc<dyn Poller>) {
        Rc::make_mut(&mut self.0.pollers.borrow_mut()).push(poller);
        // If the executor is parked, it must wake and read the deadline of the new poller.
        self.notifier().notify();
    }

    /// Removes a poller, which is compared by its address. If the executor is parked, the poller
    /// still gets the call of [`Poller::unparked`] at the end of the parking.
    pub fn remove_poller(&self, poller: &Rc<dyn Poller>) {
        let removed = {
            let mut pollers = self.0.pollers.borrow_mut();
            let at = pollers
                .iter()
                .position(|other| std::ptr::addr_eq(Rc::as_ptr(other), Rc::as_ptr(poller)));
            at.map(|at| Rc::make_mut(&mut pollers).remove(at))
        };
        drop(removed);
    }

    /// 64 random bits from the seeded generator.
    pub fn random(&self) -> u64 {
        self.0.random.borrow_mut().draw()
    }

    /// A random number from 0 to `n - 1` from the seeded generator.
    ///
    /// # Panics
    /// When `n` is zero.
    pub fn random_below(&self, n: u64) -> u64 {
        self.0.random.borrow_mut().below(n)
    }

    /// Charges `cost` of CPU time for the work just done. The virtual worker's clock moves by
    /// `cost`, or by a multiple of it after [`Power::slow_down`](crate::Power::slow_down). Does
    /// nothing on the real driver, where time passes by itself.
    pub fn charge(&self, cost: Duration) {
        self.0.driver.charge(cost);
    }

    /// The notifier by which other threads and fabrics wake this executor.
    pub fn notifier(&self) -> Notifier {
        self.0.driver.notifier()
    }

    /// The counters of the work that the executor has done.
    pub fn activity(&self) -> Activity {
        self.0.activity.get()
    }

    /// The number of spawned tasks that have not ended, including tasks that wait for their start.
    pub fn tasks(&self) -> usize {
        self.0.tasks()
    }

    /// The number of registered timers.
    pub fn timers(&self) -> usize {
        self.0.timers.borrow().len()
    }
}

/// Counts one task of [`Handle::spawn_finisher`] until the task is dropped.
struct Finisher(Rc<Core>);

impl Finisher {
    fn new(core: &Rc<Core>) -> Finisher {
        core.finishers.set(core.finishers.get() + 1);
        strict_assert!(core.finishers.get() > 0);
        Finisher(Rc::clone(core))
    }
}

impl Drop for Finisher {
    fn drop(&mut self) {
        strict_assert!(self.0.finishers.get() > 0, "a finisher ended twice");
        self.0.finishers.set(self.0.finishers.get() - 1);
    }
}
