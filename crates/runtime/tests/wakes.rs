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
    let tasks: Vec<_> = desks
        .into_iter()
        .map(|desk| {
            let handle2 = handle.clone();
            handle.spawn(async move {
                for n in 1..=ROUNDS {
                    let deadline = handle2.now() + Duration::from_secs(30);
                    handle2.timeout(deadline, desk.ask(n)).await.expect("a wake was lost");
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
    let deadline = handle.now() + Duration::from_secs(30);
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
    executor.block_on(handle.timeout(deadline, counting)).expect("a wake was lost");
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
    // Wait for it to get idle: it stops counting soon after `patience` sweeps.
    let mut seen = 0;
    for _ in 0..1_000 {
        thread::sleep(Duration::from_millis(10));
        let now = sweeps.load(Ordering::Relaxed);
        if now > patience && now == seen {
            break;
        }
        seen = now;
    }
    thread::sleep(Duration::from_millis(50));
    assert_eq!(sweeps.load(Ordering::Relaxed), seen, "swept while idle");
    assert!(seen <= patience + 8, "{seen} sweeps before parking");
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

/// Lets a notification arrive in the narrowest window: after the poller registered as parked and
/// before the thread parks.
struct Window {
    notifier: Notifier,
    published: Cell<bool>,
    found: Rc<Cell<bool>>,
    waker: Rc<Cell<Option<Waker>>>,
    parked: Rc<Cell<i32>>,
}

impl Poller for Window {
    fn poll(&self, _now: Time) -> bool {
        let news = self.published.take();
        if news {
            self.found.set(true);
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
        news
    }

    fn flush(&self) {}

    fn may_park(&self) -> bool {
        self.published.set(true);
        self.notifier.notify();
        self.parked.set(self.parked.get() + 1);
        true
    }

    fn unparked(&self) {
        self.parked.set(self.parked.get() - 1);
    }
}

#[test]
fn a_notification_between_registering_and_parking_is_not_lost() {
    let (mut executor, handle) = executor();
    let (found, waker) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(None)));
    let parked = Rc::new(Cell::new(0));
    handle.add_poller(Rc::new(Window {
        notifier: handle.notifier(),
        published: Cell::new(false),
        found: found.clone(),
        waker: waker.clone(),
        parked: parked.clone(),
    }));
    let waiting = poll_fn(|cx| {
        waker.set(Some(cx.waker().clone()));
        if found.get() { Poll::Ready(()) } else { Poll::Pending }
    });
    let deadline = handle.now() + Duration::from_secs(30);
    executor.block_on(handle.timeout(deadline, waiting)).expect("the notification was lost");
    assert_eq!(parked.get(), 0);
}
