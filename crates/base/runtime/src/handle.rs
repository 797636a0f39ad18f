//! [`Handle`]: what tasks use of their executor.

use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use crate::shared::Core;
use crate::{Coop, Elapsed, JoinHandle, Notifier, Poller, Sleep, Time, YieldNow, join};

/// What an executor has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Activity {
    /// Sweeps begun.
    pub sweeps: u64,
    /// Polls of spawned tasks.
    pub polls: u64,
    /// Times that the executor parked.
    pub parks: u64,
    /// Tasks that started beyond the depth, since none in flight ended.
    pub late_starts: u64,
}

/// Access to one executor for its tasks; clones are cheap and the same executor.
///
/// A handle may outlive its executor: what it spawns then is aborted at once.
#[derive(Clone)]
pub struct Handle(pub(crate) Rc<Core>);

impl Handle {
    /// Starts a task. Beyond [`crate::ExecutorConfig::depth`] tasks in flight it waits for one of
    /// them to end. Where none ends it starts all the same, later
    /// ([`start_within`](crate::ExecutorConfig::start_within)): those in flight may wait for it.
    ///
    /// A panic inside the task unwinds through the executor's sweep.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.start(future, true)
    }

    /// Starts a task that the depth does not count and that never waits to start: for the few
    /// background loops of an engine.
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

    /// As [`spawn_service`](Handle::spawn_service), for a task that ends something which others
    /// would have to do without: a worker that leaves in order waits for it, within its deadline.
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

    /// How many tasks have not ended that [`spawn_finisher`](Handle::spawn_finisher) has started.
    pub fn finishers(&self) -> usize {
        self.0.finishers.get()
    }

    /// The time now, exactly: a look at the clock on the real driver; the worker's own clock,
    /// charged work included, on the virtual one.
    #[inline]
    pub fn now(&self) -> Time {
        self.0.driver.now()
    }

    /// The time by which effects have their order: as [`now`](Handle::now) on the real driver; on
    /// the virtual one the world's, which the worker's own clock may be ahead of. Histories are
    /// kept in it.
    #[inline]
    pub fn instant(&self) -> Time {
        self.0.driver.instant()
    }

    /// The time at the start of this sweep: free.
    #[inline]
    pub fn sweep_time(&self) -> Time {
        self.0.sweep_time.get()
    }

    /// Until when other threads are taken to want the core of this executor; in the past when none
    /// does. Never on the virtual driver, whose workers have a core each.
    #[inline]
    pub fn contended_until(&self) -> Time {
        self.0.contended_until.get()
    }

    /// Is ready from `deadline` on.
    pub fn sleep_until(&self, deadline: Time) -> Sleep {
        Sleep::new(Rc::clone(&self.0), deadline)
    }

    /// Is ready `duration` from now.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Waits for `future` until `deadline`, then drops it.
    ///
    /// # Errors
    /// [`Elapsed`] when the deadline passed first. A future that is ready at once wins even then.
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

    /// Lets everything else have one sweep.
    pub fn yield_now(&self) -> YieldNow {
        YieldNow::default()
    }

    /// To be awaited once per unit of work by code that may never have to wait otherwise: yields
    /// when the task has used up its [`crate::ExecutorConfig::coop_budget`], and is ready at once
    /// before.
    #[inline]
    pub fn coop(&self) -> Coop {
        Coop::new(self.0.spend_coop())
    }

    /// As [`coop`](Handle::coop), for code that cannot wait: counts a unit of work, unless it is
    /// the one after which the task has to yield. Whoever is told `false` has counted nothing, and
    /// leaves the work to what awaits `coop`.
    #[inline]
    pub fn try_coop(&self) -> bool {
        self.0.try_spend_coop()
    }

    /// To be awaited between two units of work that may not have waited for anything: yields on the
    /// virtual driver while the worker's clock is ahead of the world, so that the second does not
    /// take effect before its time. Ready at once on the real driver.
    #[inline]
    pub fn catch_up(&self) -> Coop {
        Coop::new(self.0.driver.busy_until().is_some())
    }

    /// Adds a poller, from the next sweep on. The same poller added twice is polled twice.
    pub fn add_poller(&self, poller: Rc<dyn Poller>) {
        Rc::make_mut(&mut self.0.pollers.borrow_mut()).push(poller);
        // A parked executor has to learn what this one waits for.
        self.notifier().notify();
    }

    /// Removes a poller, by identity. If the executor is parked, the poller is still told when it
    /// is not any more.
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

    /// 64 seeded bits.
    pub fn random(&self) -> u64 {
        self.0.random.borrow_mut().draw()
    }

    /// A seeded number from 0 to `n - 1`.
    ///
    /// # Panics
    /// When `n` is zero.
    pub fn random_below(&self, n: u64) -> u64 {
        self.0.random.borrow_mut().below(n)
    }

    /// Says that what was just computed takes `cost` of CPU time: moves the virtual worker's clock.
    /// Nothing on the real driver, where time passes by itself.
    pub fn charge(&self, cost: Duration) {
        self.0.driver.charge(cost);
    }

    /// How other threads, and fabrics, wake this executor.
    pub fn notifier(&self) -> Notifier {
        self.0.driver.notifier()
    }

    /// What the executor has done so far.
    pub fn activity(&self) -> Activity {
        self.0.activity.get()
    }

    /// How many spawned tasks have not ended, waiting ones included.
    pub fn tasks(&self) -> usize {
        self.0.tasks()
    }

    /// How many timers are registered.
    pub fn timers(&self) -> usize {
        self.0.timers.borrow().len()
    }
}

/// A task that a worker waits for before it leaves.
struct Finisher(Rc<Core>);

impl Finisher {
    fn new(core: &Rc<Core>) -> Finisher {
        core.finishers.set(core.finishers.get() + 1);
        Finisher(Rc::clone(core))
    }
}

impl Drop for Finisher {
    fn drop(&mut self) {
        self.0.finishers.set(self.0.finishers.get() - 1);
    }
}
