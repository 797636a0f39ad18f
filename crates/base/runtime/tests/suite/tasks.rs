//! Tasks on an executor that the test advances sweep by sweep: joining, depth, abort, yielding.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use latchwork_runtime::{Aborted, Executor, ExecutorConfig, Handle, RealDriver, Sweep};

fn executor(config: ExecutorConfig) -> (Executor<RealDriver>, Handle) {
    let executor = Executor::new(RealDriver::new(), config);
    let handle = executor.handle();
    (executor, handle)
}

fn settle(executor: &mut Executor<RealDriver>) {
    for _ in 0..1_000 {
        if matches!(executor.sweep(), Sweep::Idle { .. }) {
            return;
        }
    }
    panic!("not idle after a thousand sweeps");
}

/// Sets its flag when it is dropped.
struct Flag(Rc<Cell<bool>>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
fn a_join_handle_gives_the_result_and_wakes_its_waiter() {
    let (mut executor, handle) = executor(ExecutorConfig::default());
    let first = handle.spawn({
        let handle = handle.clone();
        async move {
            handle.yield_now().await;
            20
        }
    });
    let second = handle.spawn(async move { first.await.unwrap() + 1 });
    assert!(!second.is_finished());
    settle(&mut executor);
    assert!(second.is_finished());
    assert_eq!(second.take(), Some(Ok(21)));
    assert_eq!(second.take(), None);
    assert_eq!(handle.tasks(), 0);
}

#[test]
fn dropping_a_join_handle_detaches_the_task() {
    let (mut executor, handle) = executor(ExecutorConfig::default());
    let done = Rc::new(Cell::new(false));
    let flag = Flag(done.clone());
    drop(handle.spawn(async move { drop(flag) }));
    assert!(!done.get());
    settle(&mut executor);
    assert!(done.get());
}

#[test]
fn a_sweep_polls_no_more_tasks_than_it_may_and_the_rest_comes_in_order() {
    let (mut executor, handle) = executor(ExecutorConfig { sweep_tasks: 2, ..Default::default() });
    let polled = Rc::new(RefCell::new(Vec::new()));
    for n in 0..5 {
        let (handle2, polled) = (handle.clone(), polled.clone());
        handle.spawn(async move {
            polled.borrow_mut().push(n);
            handle2.yield_now().await;
            polled.borrow_mut().push(n);
        });
    }
    let mut counts = Vec::new();
    while executor.sweep() == Sweep::Progress {
        counts.push(polled.borrow().len());
    }
    assert_eq!(counts, [2, 4, 6, 8, 10]);
    assert_eq!(*polled.borrow(), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
}

#[test]
fn tasks_that_wait_for_one_another_all_start_although_they_are_more_than_the_depth() {
    let (tasks, depth) = (20, 3);
    let start_within = Duration::from_millis(5);
    let config = ExecutorConfig { depth, start_within, ..Default::default() };
    let (mut executor, handle) = executor(config);
    let arrived = Rc::new(Cell::new(0));
    let met = (0..tasks).map(|_| {
        let (handle2, arrived) = (handle.clone(), arrived.clone());
        handle.spawn(async move {
            arrived.set(arrived.get() + 1);
            while arrived.get() < tasks {
                handle2.sleep(Duration::from_millis(1)).await;
            }
        })
    });
    let met: Vec<_> = met.collect();
    let all = async {
        for task in met {
            task.await.expect("it is not aborted");
        }
    };
    let deadline = handle.now() + Duration::from_secs(60);
    let ended = executor.block_on(handle.timeout(deadline, all));
    assert_eq!(ended, Ok(()), "{} of {tasks} tasks have started", arrived.get());
    assert_eq!(handle.activity().late_starts, (tasks - depth) as u64);
}

#[test]
fn a_finisher_counts_until_it_has_ended_or_was_dropped() {
    let (mut executor, handle) = executor(ExecutorConfig::default());
    let (ends, stays) = (handle.spawn_finisher(async {}), handle.spawn_finisher(pending::<()>()));
    assert_eq!(handle.finishers(), 2);
    settle(&mut executor);
    assert!(ends.is_finished() && handle.finishers() == 1);
    stays.abort();
    assert_eq!(handle.finishers(), 0);
}

#[test]
fn no_more_tasks_than_the_depth_are_in_flight_and_the_rest_start_in_order() {
    let depth = 3;
    let (mut executor, handle) = executor(ExecutorConfig { depth, ..Default::default() });
    let (in_flight, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let started = Rc::new(RefCell::new(Vec::new()));
    for n in 0..20 {
        let (handle2, in_flight) = (handle.clone(), in_flight.clone());
        let (most, started) = (most.clone(), started.clone());
        handle.spawn(async move {
            started.borrow_mut().push(n);
            in_flight.set(in_flight.get() + 1);
            most.set(most.get().max(in_flight.get()));
            for _ in 0..=n % 3 {
                handle2.yield_now().await;
            }
            in_flight.set(in_flight.get() - 1);
        });
    }
    let service = Rc::new(Cell::new(false));
    let seen = service.clone();
    handle.spawn_service(async move { seen.set(true) });
    executor.sweep();
    assert!(service.get(), "a service waits for no depth");
    settle(&mut executor);
    assert_eq!(*started.borrow(), (0..20).collect::<Vec<_>>());
    assert_eq!((most.get(), in_flight.get(), handle.tasks()), (depth, 0, 0));
}

#[test]
fn abort_drops_the_future_and_notifies_the_joiner() {
    let (mut executor, handle) = executor(ExecutorConfig::default());
    let dropped = Rc::new(Cell::new(false));
    let flag = Flag(dropped.clone());
    let task = Rc::new(handle.spawn(async move {
        let _flag = flag;
        pending::<()>().await;
    }));
    settle(&mut executor);
    assert!(!dropped.get());
    task.abort();
    assert!(dropped.get());
    assert_eq!(task.take(), Some(Err(Aborted)));
    task.abort();
    settle(&mut executor);
    assert_eq!(handle.tasks(), 0);
}

#[test]
fn aborting_a_waiting_task_frees_its_place_in_line_and_aborting_a_running_one_starts_the_next() {
    let (mut executor, handle) = executor(ExecutorConfig { depth: 1, ..Default::default() });
    let first = handle.spawn(pending::<()>());
    let second = handle.spawn(async { 2 });
    let third = handle.spawn(async { 3 });
    settle(&mut executor);
    second.abort();
    assert_eq!(second.take(), Some(Err(Aborted)));
    assert!(!third.is_finished());
    first.abort();
    settle(&mut executor);
    assert_eq!(third.take(), Some(Ok(3)));
}

#[test]
fn a_task_that_aborts_itself_ends_at_its_next_await() {
    let (mut executor, handle) = executor(ExecutorConfig::default());
    let own = Rc::new(RefCell::new(None::<latchwork_runtime::JoinHandle<()>>));
    let (mine, went_on) = (own.clone(), Rc::new(Cell::new(0)));
    let (steps, handle2) = (went_on.clone(), handle.clone());
    *own.borrow_mut() = Some(handle.spawn(async move {
        mine.borrow().as_ref().unwrap().abort();
        steps.set(1);
        handle2.yield_now().await;
        steps.set(2);
    }));
    settle(&mut executor);
    assert_eq!(went_on.get(), 1);
    assert_eq!(own.borrow().as_ref().unwrap().take(), Some(Err(Aborted)));
}

#[test]
fn dropping_the_executor_drops_its_tasks_although_they_hold_its_handle() {
    let (mut executor, handle) = executor(ExecutorConfig { depth: 1, ..Default::default() });
    let flags: Vec<_> = (0..3).map(|_| Rc::new(Cell::new(false))).collect();
    let tasks: Vec<_> = flags
        .iter()
        .map(|dropped| {
            let (flag, handle2) = (Flag(dropped.clone()), handle.clone());
            handle.spawn(async move {
                let _flag = flag;
                handle2.sleep(std::time::Duration::MAX).await;
            })
        })
        .collect();
    settle(&mut executor);
    assert_eq!(handle.timers(), 1);
    drop(executor);
    assert!(flags.iter().all(|dropped| dropped.get()));
    assert!(tasks.iter().all(|task| task.take() == Some(Err(Aborted))));
    assert_eq!((handle.timers(), handle.tasks()), (0, 0));
    assert_eq!(handle.spawn(async { 1 }).take(), Some(Err(Aborted)));
}

#[test]
fn coop_yields_once_per_budget() {
    let (mut executor, handle) = executor(ExecutorConfig { coop_budget: 4, ..Default::default() });
    let steps = Rc::new(Cell::new(0));
    let (counter, handle2) = (steps.clone(), handle.clone());
    handle.spawn(async move {
        for _ in 0..12 {
            counter.set(counter.get() + 1);
            handle2.coop().await;
        }
    });
    for expected in [4, 8, 12, 12] {
        executor.sweep();
        assert_eq!(steps.get(), expected);
    }
    assert_eq!(handle.tasks(), 0);
}

#[test]
fn a_busy_task_does_not_keep_others_from_running() {
    let (mut executor, handle) = executor(ExecutorConfig::default());
    let stop = Rc::new(Cell::new(false));
    let (seen, handle2) = (stop.clone(), handle.clone());
    let busy = handle.spawn(async move {
        while !seen.get() {
            handle2.coop().await;
        }
    });
    handle.spawn(async move { stop.set(true) });
    settle(&mut executor);
    assert!(busy.is_finished());
}

#[test]
fn a_task_woken_while_it_runs_runs_again_in_the_next_sweep_only() {
    let (mut executor, handle) = executor(ExecutorConfig::default());
    let polls = Rc::new(Cell::new(0));
    let counter = polls.clone();
    handle.spawn(std::future::poll_fn::<(), _>(move |cx| {
        counter.set(counter.get() + 1);
        cx.waker().wake_by_ref();
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    }));
    for expected in 1..5 {
        executor.sweep();
        assert_eq!(polls.get(), expected);
    }
}

#[test]
fn a_late_wake_of_an_ended_task_does_nothing() {
    let (mut executor, handle) = executor(ExecutorConfig::default());
    let kept = Rc::new(RefCell::new(None));
    let keep = kept.clone();
    let gone = handle.spawn(std::future::poll_fn::<(), _>(move |cx| {
        *keep.borrow_mut() = Some(cx.waker().clone());
        std::task::Poll::Pending
    }));
    settle(&mut executor);
    gone.abort();
    // The next task gets the same slot.
    let polls = Rc::new(Cell::new(0));
    let counter = polls.clone();
    handle.spawn(std::future::poll_fn::<(), _>(move |_| {
        counter.set(counter.get() + 1);
        std::task::Poll::Pending
    }));
    settle(&mut executor);
    kept.borrow().as_ref().unwrap().wake_by_ref();
    settle(&mut executor);
    assert_eq!(polls.get(), 1);
    drop(executor);
    kept.borrow().as_ref().unwrap().wake_by_ref();
}

#[test]
fn spawned_tasks_stay_between_two_block_ons() {
    let (mut executor, handle) = executor(ExecutorConfig::default());
    let task = handle.spawn(pending::<()>());
    assert_eq!(executor.block_on(async { 1 }), 1);
    assert!(!task.is_finished());
    let shared = Rc::new(task);
    let aborted = shared.clone();
    executor.block_on(async move { aborted.abort() });
    assert!(shared.is_finished());
}

#[test]
fn random_draws_depend_on_the_seed_alone() {
    let draws = |seed| {
        let (_executor, handle) = executor(ExecutorConfig { seed, ..Default::default() });
        (0..4).map(|_| handle.random()).collect::<Vec<_>>()
    };
    assert_eq!(draws(1), draws(1));
    assert_ne!(draws(1), draws(2));
}
