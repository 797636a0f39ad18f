//! Tests of parking and waking of the real executor, with the model checker loom
//! (`scripts/loom.sh`). No model has a timer, so loom reports a lost wake as a deadlock.
#![cfg(loom)]

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use latchwork_runtime::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use latchwork_runtime::{Executor, ExecutorConfig, Poller, RealDriver, Time};
use loom::thread;

/// An executor that parks at the first idle sweep.
fn executor() -> Executor<RealDriver> {
    let config = ExecutorConfig { spin_sweeps: 0, yield_sweeps: 0, ..ExecutorConfig::default() };
    Executor::new(RealDriver::new(), config)
}

/// Waits in an executor until each of `threads` threads has added one and has woken the executor.
fn count_to(threads: u64) {
    let mut executor = executor();
    let sum = Arc::new(AtomicU64::new(0));
    let mut started = Vec::new();
    let counted = poll_fn(|cx| {
        if started.is_empty() {
            for _ in 0..threads {
                let (sum, waker) = (sum.clone(), cx.waker().clone());
                started.push(thread::spawn(move || {
                    // Relaxed: the wake alone has to make this write visible.
                    sum.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                }));
            }
        }
        if sum.load(Ordering::Relaxed) == threads { Poll::Ready(()) } else { Poll::Pending }
    });
    executor.block_on(counted);
    started.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn no_wake_is_lost_by_an_executor_that_parks() {
    loom::model(|| count_to(1));
}

#[test]
fn a_wake_that_meets_another_wake_still_shows_what_was_written_before_it() {
    loom::model(|| count_to(2));
}

#[test]
fn a_task_that_is_woken_while_it_runs_is_polled_again() {
    loom::model(|| {
        let mut executor = executor();
        let handle = executor.handle();
        let done = Arc::new(AtomicBool::new(false));
        let (waker, flag) = (Rc::new(Cell::new(None::<Waker>)), done.clone());
        let kept = waker.clone();
        let task = handle.spawn(poll_fn(move |cx| {
            kept.set(Some(cx.waker().clone()));
            if flag.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        }));
        // The first poll has ended. The second poll may run at the same time as the wake.
        executor.sweep();
        let given = waker.take().expect("polled once");
        given.wake_by_ref();
        let other = thread::spawn(move || {
            done.store(true, Ordering::Relaxed);
            given.wake();
        });
        executor.block_on(async { task.await.expect("nobody aborts it") });
        other.join().unwrap();
    });
}

#[test]
fn a_stop_is_not_lost_by_an_executor_that_parks() {
    loom::model(|| {
        let mut executor = executor();
        let stop = Arc::new(AtomicBool::new(false));
        let before = Arc::new(AtomicBool::new(false));
        let (notifier, stopping, done) =
            (executor.handle().notifier(), stop.clone(), before.clone());
        let stopper = thread::spawn(move || {
            done.store(true, Ordering::Relaxed);
            stopping.store(true, Ordering::Release);
            notifier.notify();
        });
        executor.run_until_stopped(&stop);
        assert!(before.load(Ordering::Relaxed), "what was done before the stop");
        stopper.join().unwrap();
    });
}

/// A minimal fabric: flags that other threads set, and a poller that takes them.
struct Boxes {
    full: Vec<Arc<AtomicBool>>,
    received: Cell<usize>,
    waiter: Cell<Option<Waker>>,
}

impl Boxes {
    fn found(&self) -> usize {
        self.full.iter().filter(|full| full.load(Ordering::Relaxed)).count()
    }
}

impl Poller for Boxes {
    fn poll(&self, _now: Time) -> bool {
        let full = self.full.iter().filter(|full| full.load(Ordering::Acquire)).count();
        let news = full > self.received.replace(full);
        if news {
            self.waiter.take().into_iter().for_each(Waker::wake);
        }
        news
    }

    fn flush(&self) {}

    fn may_park(&self) -> bool {
        // Relaxed, because the memory fences of both sides must be enough.
        self.found() == self.received.get()
    }

    fn unparked(&self) {
        // The executor was parked, and only a sender can have ended the parking. With two senders,
        // the wake of one sender may come late, after its message was taken.
        let alone = self.full.len() == 1;
        assert!(!alone || self.found() > self.received.get(), "woken, and nothing is there yet");
    }
}

fn receive_from(senders: usize) {
    let mut executor = executor();
    let full: Vec<_> = (0..senders).map(|_| Arc::new(AtomicBool::new(false))).collect();
    let send = |full: &Arc<AtomicBool>| {
        let (full, notifier) = (full.clone(), executor.handle().notifier());
        thread::spawn(move || {
            full.store(true, Ordering::Relaxed);
            notifier.notify();
        })
    };
    let threads: Vec<_> = full.iter().map(send).collect();
    let boxes = Rc::new(Boxes { full, received: Cell::new(0), waiter: Cell::new(None) });
    executor.handle().add_poller(boxes.clone());
    executor.block_on(poll_fn(|cx| {
        boxes.waiter.set(Some(cx.waker().clone()));
        if boxes.received.get() == senders { Poll::Ready(()) } else { Poll::Pending }
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn what_is_published_before_a_notification_is_found_before_parking_or_ends_it() {
    loom::model(|| receive_from(1));
}

#[test]
fn a_sender_that_leaves_the_wake_to_another_sender_is_heard() {
    loom::model(|| receive_from(2));
}
