//! Parking, and wakes from other threads.

#![allow(clippy::disallowed_methods, reason = "looks at a parked executor from outside")]

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use latchwork_runtime::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use latchwork_runtime::{Executor, ExecutorConfig, Handle, Notifier, Poller, RealDriver, Time};

/// Long enough on any machine; a test that needs it has failed. (A lost wake shows as a wait that only
/// the timer ended.)
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

/// One question at a time from a task to a thread, which answers and wakes.
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
        for n in 1..=rounds {
            while self.asked.load(Ordering::Acquire) < n {
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

/// Many threads wake one task at once; every thread's last word must be seen.
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
                        // Relaxed: the wake alone has to carry it over.
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

/// Counts its polls where other threads can see it.
struct Counting(Arc<AtomicU64>);

impl Poller for Counting {
    fn poll(&self, _now: Time) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn flush(&self) {}
}

#[test]
fn an_idle_executor_parks_uses_no_cpu_and_is_woken() {
    let (sweeps, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let given = Arc::new(Mutex::new(None::<Notifier>));
    let worker = thread::spawn({
        let (sweeps, stop, given) = (sweeps.clone(), stop.clone(), given.clone());
        move || {
            let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
            executor.handle().add_poller(Rc::new(Counting(sweeps)));
            *given.lock() = Some(executor.handle().notifier());
            executor.run_until_stopped(&stop);
        }
    });
    let patience = u64::from(ExecutorConfig::default().spin_sweeps)
        + u64::from(ExecutorConfig::default().yield_sweeps);
    // It stops counting soon after `patience` sweeps, for good; on a busy machine it stands still before, too.
    let mut seen = 0;
    for still in 0..5 {
        while still == 0 && sweeps.load(Ordering::Relaxed) <= patience {
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

#[test]
fn a_sleeping_block_on_sweeps_only_when_the_timer_is_due() {
    let (mut executor, handle) = executor();
    let start = handle.now();
    executor.block_on(handle.sleep(Duration::from_millis(30)));
    assert!(handle.now() - start >= Duration::from_millis(30));
    assert!(handle.activity().sweeps < 10, "{:?}", handle.activity());
}

/// Acts like another thread in one of the narrow windows between the last look and parking.
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
        // Only so that a lost stop fails the test instead of hanging it.
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
            // The sender saw the registration, so it notifies.
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
