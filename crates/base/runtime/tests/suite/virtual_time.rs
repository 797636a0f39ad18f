//! Workers of a simulated world.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use latchwork_runtime::{ExecutorConfig, Handle, Poller, Time, VirtualWorker, run_all};
use latchwork_simulation::{Kernel, RunEnd};

const LIMIT: Duration = Duration::from_secs(10);

fn nanos(n: u64) -> Duration {
    Duration::from_nanos(n)
}

fn free_sweeps() -> ExecutorConfig {
    ExecutorConfig { sweep_cost: Duration::ZERO, ..Default::default() }
}

/// A cell through which tasks of different workers pass a value.
#[derive(Default)]
struct Baton {
    holder: Cell<usize>,
    wakers: RefCell<Vec<Waker>>,
}

impl Baton {
    async fn arrives_at(&self, who: usize) {
        poll_fn(|cx| {
            if self.holder.get() == who {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn give(&self, to: usize) {
        self.holder.set(to);
        self.wakers.take().into_iter().for_each(Waker::wake);
    }
}

/// Three workers pass a baton in a ring and work for random times. Also checks that no clock goes
/// backwards.
fn relay(seed: u64) -> (u64, Time) {
    let kernel = Kernel::new(seed);
    let baton = Rc::new(Baton::default());
    let world_time = Rc::new(Cell::new(Time::ZERO));
    let workers: Vec<_> = (0..3)
        .map(|n| VirtualWorker::spawn(&kernel, ExecutorConfig { seed: n, ..Default::default() }))
        .collect();
    let tasks: Vec<_> = workers
        .iter()
        .enumerate()
        .map(|(who, worker)| {
            let (handle, baton) = (worker.handle(), baton.clone());
            let (kernel, world_time) = (kernel.clone(), world_time.clone());
            worker.handle().spawn(async move {
                let mut own_time = Time::ZERO;
                for _ in 0..20 {
                    baton.arrives_at(who).await;
                    assert!(handle.now() >= own_time, "a worker's clock went back");
                    assert!(kernel.now() >= world_time.get(), "the world's clock went back");
                    world_time.set(kernel.now());
                    handle.charge(nanos(kernel.random_below(500)));
                    handle.sleep(nanos(kernel.random_below(500))).await;
                    own_time = handle.now();
                    baton.give((who + 1) % 3);
                }
            })
        })
        .collect();
    run_all(&kernel, LIMIT, tasks).unwrap();
    (kernel.event_hash(), kernel.now())
}

#[test]
fn same_seed_same_events_and_other_seed_other_events() {
    let first: Vec<_> = (0..30).map(relay).collect();
    let again: Vec<_> = (0..30).map(relay).collect();
    assert_eq!(first, again);
    let hashes: BTreeSet<_> = first.iter().map(|run| run.0).collect();
    assert_eq!(hashes.len(), first.len());
}

#[test]
fn seeds_decide_which_of_two_workers_comes_first() {
    let first = |seed| {
        let kernel = Kernel::new(seed);
        let order = Rc::new(RefCell::new(Vec::new()));
        let workers: Vec<_> =
            (0..4).map(|_| VirtualWorker::spawn(&kernel, ExecutorConfig::default())).collect();
        let tasks: Vec<_> = workers
            .iter()
            .enumerate()
            .map(|(n, worker)| {
                let order = order.clone();
                worker.handle().spawn(async move { order.borrow_mut().push(n) })
            })
            .collect();
        run_all(&kernel, LIMIT, tasks).unwrap();
        order.take()
    };
    let orders: BTreeSet<_> = (0..100).map(first).collect();
    assert!(orders.len() > 15, "{} of 24 orders", orders.len());
}

/// Records the times of its polls and flushes, and the order of its calls.
#[derive(Default)]
struct Recorder {
    kernel: Option<Kernel>,
    polls: RefCell<Vec<Time>>,
    flushes: RefCell<Vec<Time>>,
    calls: RefCell<String>,
    refuse: Cell<u32>,
    settled: Cell<bool>,
}

impl Poller for Recorder {
    fn poll(&self, _now: Time) -> bool {
        self.calls.borrow_mut().push('p');
        if let Some(kernel) = &self.kernel {
            self.polls.borrow_mut().push(kernel.now());
        }
        false
    }

    fn flush(&self) {
        self.calls.borrow_mut().push('f');
        if let Some(kernel) = &self.kernel {
            self.flushes.borrow_mut().push(kernel.now());
        }
    }

    fn is_settled(&self) -> bool {
        self.settled.get()
    }

    fn may_park(&self) -> bool {
        let refused = self.refuse.get() > 0;
        self.refuse.set(self.refuse.get().saturating_sub(1));
        self.calls.borrow_mut().push(if refused { 'r' } else { 'm' });
        !refused
    }

    fn unparked(&self) {
        self.calls.borrow_mut().push('u');
    }
}

#[test]
fn charged_work_delays_all_that_the_worker_does_later_and_no_other_worker() {
    let kernel = Kernel::new(5);
    let worker = VirtualWorker::spawn(&kernel, free_sweeps());
    let other = VirtualWorker::spawn(&kernel, free_sweeps());
    let recorder = Rc::new(Recorder { kernel: Some(kernel.clone()), ..Default::default() });
    worker.handle().add_poller(recorder.clone());

    let at = |worker: &VirtualWorker, work: Duration| {
        let (handle, kernel) = (worker.handle(), kernel.clone());
        worker.handle().spawn(async move {
            let began = kernel.now();
            handle.charge(work);
            assert_eq!(handle.now(), began + work);
            began
        })
    };
    let first = at(&worker, nanos(700));
    let second = at(&worker, nanos(300));
    let third = at(&worker, Duration::ZERO);
    let elsewhere = at(&other, Duration::ZERO);
    let began = run_all(&kernel, LIMIT, [first, second, third, elsewhere]).unwrap();
    assert_eq!(began, [0, 700, 1_000, 0].map(Time::from_nanos));
    assert_eq!(recorder.flushes.borrow()[0], Time::from_nanos(1_000), "rang before the work");

    // A worker that is woken while its clock is ahead does not sweep until the world reaches the
    // clock.
    assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
    let began = kernel.now();
    recorder.polls.borrow_mut().clear();
    worker.handle().charge(nanos(500));
    worker.handle().notifier().notify();
    assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
    assert_eq!(*recorder.polls.borrow(), [began + nanos(500)]);
}

#[test]
fn a_sweep_with_progress_takes_time_and_an_idle_worker_makes_no_events() {
    let kernel = Kernel::new(0);
    let config = ExecutorConfig { sweep_cost: nanos(40), ..Default::default() };
    let worker = VirtualWorker::spawn(&kernel, config);
    let handle = worker.handle();
    let ended = worker.run(LIMIT, async move {
        for _ in 0..10 {
            handle.yield_now().await;
        }
        handle.now()
    });
    assert_eq!(ended, Ok(Time::from_nanos(400)));
    assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
    assert!(kernel.events() < 20);
    assert_eq!(kernel.pending(), 0);
}

#[test]
fn time_passes_even_when_a_task_yields_endlessly_at_no_cost() {
    let kernel = Kernel::new(0);
    let worker = VirtualWorker::spawn(&kernel, free_sweeps());
    let handle = worker.handle();
    let spinning = async move {
        loop {
            handle.yield_now().await;
        }
    };
    assert_eq!(worker.run(nanos(2_000), spinning), Err::<(), _>(RunEnd::Deadline));
}

#[test]
fn a_poller_is_called_before_parking_and_notified_afterwards() {
    let kernel = Kernel::new(0);
    let worker = VirtualWorker::spawn(&kernel, free_sweeps());
    let recorder = Rc::new(Recorder::default());
    worker.handle().add_poller(recorder.clone());
    let drain = |kernel: &Kernel| {
        assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
        recorder.calls.take()
    };
    assert_eq!(drain(&kernel), "pfm");
    worker.handle().notifier().notify();
    assert_eq!(drain(&kernel), "upfm");
    recorder.refuse.set(2);
    worker.handle().notifier().notify();
    assert_eq!(drain(&kernel), "upfrpfrpfm");

    // The second of two pollers refuses. The first poller, which had agreed, gets the call of
    // `unparked` at once.
    let second = Rc::new(Recorder::default());
    second.refuse.set(1);
    worker.handle().add_poller(second.clone());
    assert_eq!(drain(&kernel), "upfmupfm");
    assert_eq!(second.calls.take(), "pfrpfm");

    // A poller that is removed while the worker is parked gets one more call, of `unparked`.
    let removed: Rc<dyn Poller> = second.clone();
    worker.handle().remove_poller(&removed);
    worker.handle().notifier().notify();
    assert_eq!(drain(&kernel), "upfm");
    assert_eq!(second.calls.take(), "u");
    drop(worker);
    assert_eq!(recorder.calls.take(), "u");
}

#[test]
fn a_sweep_that_would_find_nothing_is_spared_where_the_pollers_are_settled() {
    let calls = |settled: bool| {
        let kernel = Kernel::new(0);
        let worker = VirtualWorker::spawn(&kernel, ExecutorConfig::default());
        let recorder = Rc::new(Recorder::default());
        recorder.settled.set(settled);
        worker.handle().add_poller(recorder.clone());
        assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
        recorder.calls.take();
        let before = kernel.events();
        worker.handle().spawn(async {});
        assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
        (recorder.calls.take(), kernel.events() - before)
    };
    assert_eq!(calls(true), ("upfm".to_string(), 1));
    assert_eq!(calls(false), ("upfpfm".to_string(), 2));
}

#[test]
fn a_flush_comes_before_the_end_of_short_work_and_after_that_of_long_work() {
    let flushed = |work: u64| {
        let kernel = Kernel::new(0);
        let worker = VirtualWorker::spawn(&kernel, free_sweeps());
        let recorder = Rc::new(Recorder { kernel: Some(kernel.clone()), ..Default::default() });
        worker.handle().add_poller(recorder.clone());
        let handle = worker.handle();
        worker.handle().spawn(async move { handle.charge(nanos(work)) });
        assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
        recorder.flushes.borrow()[0]
    };
    assert_eq!(flushed(500), Time::ZERO);
    assert_eq!(flushed(501), Time::from_nanos(501));
}

#[test]
fn a_settled_poller_with_something_to_do_is_not_left_alone() {
    let kernel = Kernel::new(0);
    let worker = VirtualWorker::spawn(&kernel, ExecutorConfig::default());
    let recorder = Rc::new(Recorder::default());
    recorder.settled.set(true);
    worker.handle().add_poller(recorder.clone());
    kernel.run_until(Time::MAX, || false);
    recorder.calls.take();
    // The poller refuses to park twice. The worker sweeps until the poller agrees.
    recorder.refuse.set(2);
    worker.handle().spawn(async {});
    assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
    assert_eq!(recorder.calls.take(), "upfrpfrpfm");

    // A task that wakes itself always gets another sweep, and time passes between its polls.
    let handle = worker.handle();
    let began = kernel.now();
    let times = worker.run(LIMIT, async move {
        let first = handle.now();
        handle.yield_now().await;
        (first, handle.now())
    });
    assert_eq!(times, Ok((began, began + nanos(100))));
}

#[test]
fn what_polling_costs_is_no_event_of_its_own_and_a_wake_meanwhile_waits() {
    /// Wakes the waiting task, at some cost.
    struct Costly {
        handle: Handle,
        arrived: Cell<u32>,
        waiting: RefCell<Option<Waker>>,
    }
    impl Poller for Costly {
        fn poll(&self, _now: Time) -> bool {
            let arrived = self.arrived.take();
            self.handle.charge(nanos(40) * arrived);
            let waker = (arrived > 0).then(|| self.waiting.take()).flatten();
            waker.map(Waker::wake).is_some()
        }
        fn flush(&self) {}
        fn is_settled(&self) -> bool {
            true
        }
        fn may_park(&self) -> bool {
            self.arrived.get() == 0
        }
    }
    let kernel = Kernel::new(0);
    let worker = VirtualWorker::spawn(&kernel, ExecutorConfig::default());
    let handle = worker.handle();
    let costly = Rc::new(Costly {
        handle: handle.clone(),
        arrived: Cell::new(0),
        waiting: RefCell::default(),
    });
    handle.add_poller(costly.clone());
    let (waiting, world) = (costly.clone(), kernel.clone());
    let ran = Rc::new(RefCell::new(Vec::new()));
    let log = ran.clone();
    handle.spawn(async move {
        poll_fn::<(), _>(|cx| {
            log.borrow_mut().push((world.now(), waiting.handle.now()));
            waiting.waiting.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    });
    kernel.run_until(Time::MAX, || false);
    let (began, events) = (handle.now(), kernel.events());
    costly.arrived.set(2);
    handle.notifier().notify();
    assert!(kernel.step());
    // The task ran in the same event, on a clock that was ahead by the cost of polling.
    assert_eq!((kernel.now(), kernel.events()), (began, events + 1));
    assert_eq!(ran.borrow().last(), Some(&(began, began + nanos(2 * 40))));
    assert_eq!(handle.now(), began + nanos(2 * 40 + 100));
    // A worker that is woken while its clock is ahead fires once, when the world reaches the clock.
    costly.arrived.set(1);
    handle.notifier().notify();
    assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
    assert_eq!((kernel.now(), kernel.events()), (began + nanos(180), events + 2));
}

#[test]
fn a_pollers_deadline_brings_a_sweep() {
    struct Due(Cell<bool>);
    impl Poller for Due {
        fn poll(&self, now: Time) -> bool {
            !self.0.get() && now >= Time::from_nanos(5_000) && !self.0.replace(true)
        }
        fn flush(&self) {}
        fn next_deadline(&self) -> Option<Time> {
            (!self.0.get()).then_some(Time::from_nanos(5_000))
        }
    }
    let kernel = Kernel::new(0);
    let worker = VirtualWorker::spawn(&kernel, free_sweeps());
    let due = Rc::new(Due(Cell::new(false)));
    worker.handle().add_poller(due.clone());
    assert_eq!(kernel.run_until(Time::MAX, || due.0.get()), RunEnd::Done);
    assert_eq!(kernel.now(), Time::from_nanos(5_000));
}

#[test]
fn a_worker_that_is_dropped_drops_its_tasks_and_the_world_goes_on() {
    let kernel = Kernel::new(0);
    let worker = VirtualWorker::spawn(&kernel, ExecutorConfig::default());
    let held = Rc::new(());
    let holding = held.clone();
    let handle: Handle = worker.handle();
    let task = worker.handle().spawn(async move {
        let _holding = (holding, handle);
        pending::<()>().await;
    });
    assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
    let notifier = worker.handle().notifier();
    drop(worker);
    assert_eq!(Rc::strong_count(&held), 1);
    assert!(task.is_finished());
    notifier.notify();
    assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
}

#[test]
fn a_thousand_workers_share_one_thread() {
    let kernel = Kernel::new(9);
    let workers: Vec<_> =
        (0..1_000).map(|_| VirtualWorker::spawn(&kernel, ExecutorConfig::default())).collect();
    let tasks: Vec<_> = workers
        .iter()
        .map(|worker| {
            let (handle, kernel) = (worker.handle(), kernel.clone());
            worker.handle().spawn(async move {
                for _ in 0..5 {
                    handle.sleep(nanos(kernel.random_below(10_000))).await;
                }
                1
            })
        })
        .collect();
    assert_eq!(run_all(&kernel, LIMIT, tasks).unwrap().len(), 1_000);
}
