//! Sleeps and timeouts, in virtual time so that instants are exact.

use std::cell::RefCell;
use std::future::{pending, ready};
use std::rc::Rc;
use std::time::Duration;

use latchwork_runtime::{Elapsed, ExecutorConfig, Time, VirtualWorker, run_all};
use latchwork_simulation::{Kernel, RunEnd};

const LIMIT: Duration = Duration::from_secs(10);

fn worker() -> VirtualWorker {
    VirtualWorker::spawn(&Kernel::new(0), ExecutorConfig::default())
}

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

#[test]
fn timers_fire_in_order_and_equal_deadlines_in_the_order_set() {
    let worker = worker();
    let fired = Rc::new(RefCell::new(Vec::new()));
    let tasks = [50, 10, 30, 10, 40, 20].into_iter().enumerate().map(|(n, at)| {
        let (handle, fired) = (worker.handle(), fired.clone());
        worker.handle().spawn(async move {
            handle.sleep_until(Time::ZERO + micros(at)).await;
            fired.borrow_mut().push((at, n));
        })
    });
    run_all(worker.kernel(), LIMIT, tasks.collect::<Vec<_>>()).unwrap();
    assert_eq!(*fired.borrow(), [(10, 1), (10, 3), (20, 5), (30, 2), (40, 4), (50, 0)]);
}

#[test]
fn an_idle_worker_wakes_exactly_at_the_deadline_and_makes_no_events_before() {
    let worker = worker();
    let handle = worker.handle();
    let woken = worker.run(LIMIT, async move {
        handle.sleep_until(Time::ZERO + Duration::from_secs(3)).await;
        handle.now()
    });
    assert_eq!(woken, Ok(Time::ZERO + Duration::from_secs(3)));
    assert!(worker.kernel().events() < 6, "{:?}", worker.kernel());
}

#[test]
fn a_passed_deadline_is_ready_at_once_and_registers_nothing() {
    let worker = worker();
    let handle = worker.handle();
    let timers = worker.run(LIMIT, async move {
        handle.sleep(micros(5)).await;
        handle.sleep_until(Time::ZERO + micros(1)).await;
        handle.timers()
    });
    assert_eq!(timers, Ok(0));
}

#[test]
fn a_timeout_gives_the_value_or_elapsed_and_leaves_no_timer() {
    let worker = worker();
    let handle = worker.handle();
    worker
        .run(LIMIT, async move {
            let soon = handle.now() + micros(10);
            assert_eq!(handle.timeout(soon, ready(7)).await, Ok(7));
            assert_eq!(handle.timeout(Time::ZERO, ready(8)).await, Ok(8));
            let slow = handle.sleep(micros(50));
            assert_eq!(handle.timeout(soon, slow).await, Err(Elapsed));
            assert_eq!(handle.now(), soon);
            let quick = handle.sleep(micros(5));
            assert_eq!(handle.timeout(soon + micros(20), quick).await, Ok(()));
            assert_eq!(handle.timers(), 0);
        })
        .unwrap();
}

#[test]
fn futures_dropped_at_any_await_leave_no_timer_and_no_task() {
    for seed in 0..200 {
        let kernel = Kernel::new(seed);
        let config = ExecutorConfig { seed, depth: 8, ..Default::default() };
        let worker = VirtualWorker::spawn(&kernel, config);
        let handle = worker.handle();
        worker
            .run(LIMIT, async move {
                let tasks: Vec<_> = (0..20)
                    .map(|_| {
                        let inner = handle.clone();
                        handle.spawn(async move {
                            for _ in 0..inner.random_below(10) {
                                let nap = inner.sleep(micros(inner.random_below(20)));
                                let deadline = inner.now() + micros(inner.random_below(20));
                                let _ = inner.timeout(deadline, nap).await;
                                inner.coop().await;
                            }
                        })
                    })
                    .collect();
                for task in &tasks {
                    handle.sleep(micros(handle.random_below(10))).await;
                    task.abort();
                }
                assert!(tasks.iter().all(|task| task.is_finished()));
                assert_eq!((handle.timers(), handle.tasks()), (0, 1));
            })
            .unwrap();
    }
}

#[test]
fn a_run_that_cannot_end_says_why_and_drops_its_future() {
    let worker = worker();
    assert_eq!(worker.run(LIMIT, pending::<()>()), Err(RunEnd::Quiet));
    let handle = worker.handle();
    let ticking = async move {
        loop {
            handle.sleep(micros(100)).await;
        }
    };
    assert_eq!(worker.run(Duration::from_millis(1), ticking), Err::<(), _>(RunEnd::Deadline));
    assert_eq!((worker.handle().tasks(), worker.handle().timers()), (0, 0));
}
