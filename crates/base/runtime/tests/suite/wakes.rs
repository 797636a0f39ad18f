//! Parking, and wakes from other threads.

#![allow(clippy::disallowed_methods, reason = "looks at a parked executor from outside")]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use latchwork_runtime::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use latchwork_runtime::{
    Clock, Executor, ExecutorConfig, Handle, Notifier, ParkingSpot, Poller, RealDriver, Time,
};

/// The time limit of a test. A lost wake shows as a wait that only the timer ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// Parks at the first idle sweep.
fn impatient() -> ExecutorConfig {
    ExecutorConfig { spin_sweeps: 0, yield_sweeps: 0, ..Default::default() }
}

fn executor() -> (Executor<RealDriver>, Handle) {
    let executor = Executor::new(RealDriver::new(), impatient());
    let handle = executor.handle();
    (executor, handle)
}

/// A task sends a thread one number at a time. The thread answers and wakes the task.
#[derive(Default)]
struct Desk {
    asked: AtomicU64,
    answered: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Desk {
    async fn ask(&self, n: u64) {
        self.asked.store(n, Ordering::Release);
        poll_fn(|cx| {
            *self.waker.lock() = Some(cx.waker().clone());
            if self.answered.load(Ordering::Acquire) >= n { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn serve(&self, rounds: u64) {
        let clock = Clock::start();
        for n in 1..=rounds {
            while self.asked.load(Ordering::Acquire) < n {
                assert!(clock.now() < Time::ZERO + 2 * PATIENCE, "question {n} does not come");
                thread::yield_now();
            }
            self.answered.store(n, Ordering::Release);
            let waker = self.waker.lock().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

#[test]
fn no_wake_from_another_thread_is_lost() {
    const THREADS: usize = 6;
    const ROUNDS: u64 = 1_500;
    let desks: Vec<_> = (0..THREADS).map(|_| Arc::new(Desk::default())).collect();
    let servers: Vec<_> =
        desks.iter().cloned().map(|desk| thread::spawn(move || desk.serve(ROUNDS))).collect();
    let (mut executor, handle) = executor();
    let give_up = handle.now() + PATIENCE;
    let tasks: Vec<_> = desks
        .into_iter()
        .map(|desk| {
            let handle2 = handle.clone();
            handle.spawn(async move {
                for n in 1..=ROUNDS {
                    let _ = handle2.timeout(give_up, desk.ask(n)).await;
                    assert!(handle2.now() < give_up, "a wake was lost");
                }
            })
        })
        .collect();
    executor.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert!(handle.activity().parks > 0, "the test never parked");
    servers.into_iter().for_each(|server| server.join().unwrap());
}

/// Many threads wake one task at once. The last write of every thread must be seen.
#[test]
fn a_wake_that_meets_another_wake_still_shows_what_was_written_before_it() {
    const THREADS: u64 = 4;
    const COUNT: u64 = 5_000;
    let total = Arc::new(AtomicU64::new(0));
    let (mut executor, handle) = executor();
    let mut threads = Vec::new();
    let sum = total.clone();
    let mut started = false;
    let give_up = handle.now() + PATIENCE;
    let counting = poll_fn(|cx| {
        if !std::mem::replace(&mut started, true) {
            for _ in 0..THREADS {
                let (sum, waker) = (total.clone(), cx.waker().clone());
                threads.push(thread::spawn(move || {
                    for _ in 0..COUNT {
                        // Relaxed: the wake alone has to make this write visible.
                        sum.fetch_add(1, Ordering::Relaxed);
                        waker.wake_by_ref();
                    }
                }));
            }
        }
        if sum.load(Ordering::Relaxed) == THREADS * COUNT { Poll::Ready(()) } else { Poll::Pending }
    });
    let _ = executor.block_on(handle.timeout(give_up, counting));
    assert!(handle.now() < give_up, "a wake was lost");
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A poller whose count of polls other threads can read.
struct Counting(Arc<AtomicU64>);

impl Poller for Counting {
    fn poll(&self, _now: Time) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn flush(&self) {}
}

/// A configuration that never regards its core as contended, for any length of a yield.
fn undisturbed() -> ExecutorConfig {
    ExecutorConfig { yield_limit: Duration::MAX, ..Default::default() }
}

/// A configuration that regards its core as contended at its first idle sweep.
fn contended() -> ExecutorConfig {
    ExecutorConfig { spin_sweeps: 0, yield_limit: Duration::ZERO, ..Default::default() }
}

#[test]
fn an_idle_executor_parks_uses_no_cpu_and_is_woken() {
    let (sweeps, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let given = Arc::new(Mutex::new(None::<Notifier>));
    let worker = thread::spawn({
        let (sweeps, stop, given) = (sweeps.clone(), stop.clone(), given.clone());
        move || {
            let mut executor = Executor::new(RealDriver::new(), undisturbed());
            let handle = executor.handle();
            handle.add_poller(Rc::new(Counting(sweeps)));
            *given.lock() = Some(handle.notifier());
            let give_up = handle.now() + PATIENCE;
            // With this timer, a lost stop fails the test instead of hanging it.
            handle.spawn(handle.sleep_until(give_up));
            executor.run_until_stopped(&stop);
            assert!(handle.now() < give_up, "no notification ended the parking");
        }
    });
    let patience = u64::from(ExecutorConfig::default().spin_sweeps)
        + u64::from(ExecutorConfig::default().yield_sweeps);
    let clock = Clock::start();
    // The count stops soon after `patience` sweeps, because the executor parks. On a busy machine
    // the count also pauses before.
    let mut seen = 0;
    for still in 0..5 {
        while still == 0 && sweeps.load(Ordering::Relaxed) <= patience {
            let swept = sweeps.load(Ordering::Relaxed);
            assert!(clock.now() < Time::ZERO + PATIENCE, "only {swept} sweeps");
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(20));
        seen = sweeps.load(Ordering::Relaxed);
        assert!(seen <= patience + 8, "{seen} sweeps before parking, or while idle");
    }
    assert!(seen > patience);
    stop.store(true, Ordering::Release);
    given.lock().as_ref().unwrap().notify();
    worker.join().unwrap();
}

/// The event that ends the parking of an executor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Notification,
    /// The deadline. The next sweep makes progress.
    Progress,
}

/// Agrees to park a few times, and records the sweep of each.
struct Parks {
    end: End,
    stop: Arc<AtomicBool>,
    notifier: Notifier,
    news: Cell<bool>,
    sweeps: Cell<u64>,
    parked_at: Rc<RefCell<Vec<u64>>>,
}

impl Poller for Parks {
    fn poll(&self, _now: Time) -> bool {
        self.sweeps.set(self.sweeps.get() + 1);
        self.news.take()
    }

    fn flush(&self) {}

    fn next_deadline(&self) -> Option<Time> {
        (self.end == End::Progress).then_some(Time::ZERO)
    }

    fn may_park(&self) -> bool {
        let mut parked_at = self.parked_at.borrow_mut();
        parked_at.push(self.sweeps.get());
        if parked_at.len() == 3 {
            self.stop.store(true, Ordering::Release);
        }
        match self.end {
            End::Notification => self.notifier.notify(),
            End::Progress => self.news.set(true),
        }
        true
    }
}

#[test]
fn an_executor_that_was_woken_or_had_work_is_as_patient_as_before() {
    const PATIENT: u64 = 50;
    for end in [End::Notification, End::Progress] {
        let config = ExecutorConfig { spin_sweeps: 40, yield_sweeps: 10, ..undisturbed() };
        let mut executor = Executor::new(RealDriver::new(), config);
        let handle = executor.handle();
        let (stop, parked_at) = (Arc::new(AtomicBool::new(false)), Rc::<RefCell<_>>::default());
        handle.add_poller(Rc::new(Parks {
            end,
            stop: stop.clone(),
            notifier: handle.notifier(),
            news: Cell::new(false),
            sweeps: Cell::new(0),
            parked_at: parked_at.clone(),
        }));
        executor.run_until_stopped(&stop);
        let parked_at: Vec<u64> = parked_at.take();
        let waits: Vec<u64> = parked_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let worked = u64::from(end == End::Progress);
        assert_eq!(waits, [worked + PATIENT + 1; 2], "{end:?}");
    }
}

/// A poller that refuses to park, has nothing to sleep on, and counts the calls of `doze`.
#[derive(Default)]
struct Sleepless(Cell<u64>);

impl Poller for Sleepless {
    fn poll(&self, _now: Time) -> bool {
        false
    }

    fn flush(&self) {}

    fn may_park(&self) -> bool {
        false
    }

    fn doze(&self, _time: Duration) -> bool {
        self.0.set(self.0.get() + 1);
        false
    }
}

#[test]
fn a_core_counts_as_contended_after_a_yield_that_took_too_long() {
    let mut quiet = Executor::new(RealDriver::new(), undisturbed());
    let handle = quiet.handle();
    quiet.block_on(handle.sleep(Duration::from_millis(5)));
    assert_eq!(handle.contended_until(), Time::ZERO);
    let mut busy = Executor::new(RealDriver::new(), contended());
    let handle = busy.handle();
    let give_up = handle.now() + PATIENCE;
    while handle.contended_until() == Time::ZERO {
        assert!(handle.now() < give_up, "no yield takes any time");
        busy.block_on(handle.sleep(Duration::from_millis(1)));
    }
}

#[test]
fn a_poller_naps_on_a_contended_core_only() {
    let naps_of = |config, until: fn(u64) -> bool| {
        let mut executor = Executor::new(RealDriver::new(), config);
        let (handle, poller) = (executor.handle(), Rc::new(Sleepless::default()));
        handle.add_poller(poller.clone());
        let give_up = handle.now() + PATIENCE;
        loop {
            executor.block_on(handle.sleep(Duration::from_millis(5)));
            if until(poller.0.get()) {
                return poller.0.get();
            }
            assert!(handle.now() < give_up, "{} naps", poller.0.get());
        }
    };
    assert_eq!(naps_of(undisturbed(), |_| true), 0);
    naps_of(contended(), |naps| naps > 0);
}

#[test]
fn an_executor_that_may_not_park_on_a_contended_core_sleeps_between_its_sweeps() {
    let mut executor = Executor::new(RealDriver::new(), contended());
    let handle = executor.handle();
    handle.add_poller(Rc::new(Sleepless::default()));
    let begin = handle.now();
    executor.block_on(handle.sleep(Duration::from_millis(50)));
    let elapsed = handle.now() - begin;
    // A doze takes 200 us. A sweep takes less than one doze.
    let most = (elapsed.as_micros() / 100) as u64;
    let sweeps = handle.activity().sweeps;
    assert!(sweeps < most, "{sweeps} sweeps in {elapsed:?}");
}

#[test]
fn a_sleeping_block_on_sweeps_only_when_the_timer_is_due() {
    let (mut executor, handle) = executor();
    let start = handle.now();
    executor.block_on(handle.sleep(Duration::from_millis(30)));
    assert!(handle.now() - start >= Duration::from_millis(30));
    assert!(handle.activity().sweeps < 10, "{:?}", handle.activity());
}

/// A poller that acts like another thread, in one of the short intervals between the last check for
/// work and the parking.
struct Window<F> {
    when: &'static str,
    act: F,
    published: Rc<Cell<bool>>,
    parked: Rc<Cell<i32>>,
}

impl<F: Fn()> Window<F> {
    fn at(&self, here: &str) {
        if self.when == here && !self.published.replace(true) {
            (self.act)();
        }
    }
}

impl<F: Fn()> Poller for Window<F> {
    fn poll(&self, _now: Time) -> bool {
        false
    }

    fn flush(&self) {}

    fn next_deadline(&self) -> Option<Time> {
        self.at("before the announcement");
        None
    }

    fn may_park(&self) -> bool {
        self.at("after the announcement");
        self.parked.set(self.parked.get() + 1);
        true
    }

    fn unparked(&self) {
        self.parked.set(self.parked.get() - 1);
    }
}

const WINDOWS: [&str; 2] = ["before the announcement", "after the announcement"];

#[test]
fn a_wake_just_before_parking_is_not_lost() {
    for when in WINDOWS {
        let (mut executor, handle) = executor();
        let waker = Rc::new(Cell::new(None::<Waker>));
        let (published, parked) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let kept = waker.clone();
        let act = move || kept.take().unwrap().wake();
        let window = Window { when, act, published: published.clone(), parked: parked.clone() };
        handle.add_poller(Rc::new(window));
        let waiting = poll_fn(|cx| {
            waker.set(Some(cx.waker().clone()));
            if published.get() { Poll::Ready(()) } else { Poll::Pending }
        });
        let give_up = handle.now() + PATIENCE;
        let _ = executor.block_on(handle.timeout(give_up, waiting));
        assert!(handle.now() < give_up, "lost {when}");
        assert_eq!(parked.get(), 0);
    }
}

#[test]
fn a_stop_just_before_parking_is_not_lost() {
    for when in WINDOWS {
        let (mut executor, handle) = executor();
        let stop = Arc::new(AtomicBool::new(false));
        let (published, parked) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let (stopping, notifier) = (stop.clone(), handle.notifier());
        let act = move || {
            stopping.store(true, Ordering::Release);
            notifier.notify();
        };
        handle.add_poller(Rc::new(Window { when, act, published, parked: parked.clone() }));
        let give_up = handle.now() + PATIENCE;
        // With this timer, a lost stop fails the test instead of hanging it.
        handle.spawn(handle.sleep_until(give_up));
        executor.run_until_stopped(&stop);
        assert!(handle.now() < give_up, "lost {when}");
        assert_eq!(parked.get(), 0);
    }
}

#[test]
fn a_message_that_comes_while_a_poller_agrees_to_park_is_not_lost() {
    struct Queue {
        notifier: Notifier,
        message: Cell<bool>,
        waker: Rc<Cell<Option<Waker>>>,
        received: Rc<Cell<bool>>,
    }
    impl Poller for Queue {
        fn poll(&self, _now: Time) -> bool {
            let news = self.message.take();
            if news {
                self.received.set(true);
                self.waker.take().unwrap().wake();
            }
            news
        }
        fn flush(&self) {}
        fn may_park(&self) -> bool {
            // The sender has seen the registration, so it notifies.
            self.message.set(true);
            self.notifier.notify();
            true
        }
    }
    let (mut executor, handle) = executor();
    let (waker, received) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(false)));
    handle.add_poller(Rc::new(Queue {
        notifier: handle.notifier(),
        message: Cell::new(false),
        waker: waker.clone(),
        received: received.clone(),
    }));
    let waiting = poll_fn(|cx| {
        waker.set(Some(cx.waker().clone()));
        if received.get() { Poll::Ready(()) } else { Poll::Pending }
    });
    let give_up = handle.now() + PATIENCE;
    let _ = executor.block_on(handle.timeout(give_up, waiting));
    assert!(handle.now() < give_up, "lost");
}

/// A parking spot that its thread loses after the thread has chosen it, and before the thread calls
/// `parked`. So the wake of [`Notifier::leave_parking_spot`] comes before the sleep.
struct Lost {
    notifier: Notifier,
    was_parked: Arc<AtomicBool>,
}

impl ParkingSpot for Lost {
    fn sleep(&self, parked: &dyn Fn() -> bool, _: Option<Duration>) -> bool {
        assert!(parked(), "the thread parks here");
        self.notifier.leave_parking_spot();
        self.was_parked.store(parked(), Ordering::SeqCst);
        false
    }

    fn wake(&self) {}
}

/// Detects a thread that continues to sleep in a parking spot that it has lost, where no
/// notification wakes it.
#[test]
fn a_thread_does_not_fall_asleep_in_a_parking_spot_that_it_has_lost() {
    let (mut executor, handle) = executor();
    let was_parked = Arc::new(AtomicBool::new(true));
    let notifier = handle.notifier();
    let lost = Lost { notifier: notifier.clone(), was_parked: was_parked.clone() };
    assert!(notifier.sleep_in(Arc::new(lost)));
    executor.block_on({
        let handle = handle.clone();
        async move { handle.sleep(Duration::from_millis(5)).await }
    });
    assert!(!was_parked.load(Ordering::SeqCst), "the thread would sleep where nothing wakes it");
}
