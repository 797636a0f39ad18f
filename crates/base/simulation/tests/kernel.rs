//! The guarantees of a world, tested from outside.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use latchwork_simulation::{Actor, ActorId, Cpu, Kernel, RunEnd, STALL_EVENTS, Ties, Time, WAKE};

/// Logs the payloads of its events, and runs the stored action at each event.
struct Log {
    kernel: Kernel,
    fired: RefCell<Vec<(Time, u64)>>,
    #[allow(clippy::type_complexity)]
    then: RefCell<Option<Box<dyn Fn(u64)>>>,
}

impl Log {
    fn add(kernel: &Kernel) -> (Rc<Log>, ActorId) {
        let log = Rc::new(Log {
            kernel: kernel.clone(),
            fired: RefCell::default(),
            then: RefCell::default(),
        });
        let id = kernel.add_actor(log.clone());
        (log, id)
    }

    fn then(&self, act: impl Fn(u64) + 'static) {
        *self.then.borrow_mut() = Some(Box::new(act));
    }

    fn payloads(&self) -> Vec<u64> {
        self.fired.borrow().iter().map(|&(_, payload)| payload).collect()
    }
}

impl Actor for Log {
    fn fire(&self, payload: u64) {
        self.fired.borrow_mut().push((self.kernel.now(), payload));
        if let Some(act) = &*self.then.borrow() {
            act(payload);
        }
    }
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

#[test]
fn events_fire_in_order_of_time_and_time_never_goes_backwards() {
    let kernel = Kernel::new(1);
    let (log, id) = Log::add(&kernel);
    for n in 0..200 {
        kernel.schedule(at(kernel.random_below(50)), id, n);
    }
    let again = kernel.clone();
    log.then(move |n| {
        if n < 20 {
            // The time is in the past, so the event fires at the current instant.
            again.schedule(Time::ZERO, id, 1_000 + n);
        }
    });
    assert_eq!(kernel.run_until(Time::MAX, || false), RunEnd::Quiet);
    let fired = log.fired.borrow();
    assert_eq!(fired.len(), 220);
    assert!(fired.is_sorted_by_key(|&(time, _)| time));
}

#[test]
fn seeds_decide_the_order_of_ties() {
    let order = |kernel: Kernel| {
        let (log, id) = Log::add(&kernel);
        (0..8).for_each(|n| kernel.schedule(at(5), id, n));
        while kernel.step() {}
        log.payloads()
    };
    let distinct: std::collections::BTreeSet<_> =
        (0..50).map(|seed| order(Kernel::new(seed))).collect();
    assert!(distinct.len() > 45, "only {} orders", distinct.len());
    assert_eq!(order(Kernel::new(3)), order(Kernel::new(3)));
    assert_eq!(order(Kernel::with_ties(3, Ties::FirstCome)), (0..8).collect::<Vec<_>>());
}

/// A little world in which actors send each other events after random delays.
fn ring_of_actors(seed: u64) -> Kernel {
    let kernel = Kernel::new(seed);
    let actors: Vec<_> = (0..5).map(|_| Log::add(&kernel)).collect();
    let ids: Vec<_> = actors.iter().map(|&(_, id)| id).collect();
    for (log, _) in &actors {
        let (kernel, ids) = (kernel.clone(), ids.clone());
        log.then(move |n| {
            let to = ids[kernel.random_below(5) as usize];
            kernel.schedule(kernel.now() + Duration::from_nanos(kernel.random_below(4)), to, n + 1);
        });
    }
    kernel.schedule(Time::ZERO, ids[0], 0);
    kernel.schedule(Time::ZERO, ids[1], 0);
    assert_eq!(kernel.run_until(at(1_000), || false), RunEnd::Deadline);
    kernel
}

#[test]
fn same_seed_same_event_hash_other_seed_other_hash() {
    let hashes: Vec<_> = (0..20).map(|seed| ring_of_actors(seed).event_hash()).collect();
    let again: Vec<_> = (0..20).map(|seed| ring_of_actors(seed).event_hash()).collect();
    assert_eq!(hashes, again);
    let distinct: std::collections::BTreeSet<_> = hashes.iter().collect();
    assert_eq!(distinct.len(), hashes.len());
}

#[test]
fn notes_are_part_of_the_event_hash() {
    let hash = |note: Option<(u64, u64)>| {
        let kernel = Kernel::new(0);
        if let Some((a, b)) = note {
            kernel.note(7, a, b);
        }
        kernel.event_hash()
    };
    assert_eq!(hash(Some((1, 2))), hash(Some((1, 2))));
    assert_ne!(hash(Some((1, 2))), hash(Some((2, 1))));
    assert_ne!(hash(Some((0, 0))), hash(None));
}

#[test]
fn run_until_says_why_it_stopped_and_leaves_the_clock_there() {
    let kernel = Kernel::new(0);
    let (log, id) = Log::add(&kernel);
    kernel.schedule(at(10), id, 1);
    kernel.schedule(at(30), id, 2);
    assert_eq!(kernel.run_until(at(20), || false), RunEnd::Deadline);
    assert_eq!((kernel.now(), log.payloads()), (at(20), vec![1]));
    let seen = log.clone();
    assert_eq!(kernel.run_until(at(50), move || seen.payloads().len() == 2), RunEnd::Done);
    assert_eq!(kernel.now(), at(30));
    assert_eq!(kernel.run_until(at(50), || false), RunEnd::Quiet);
    assert_eq!((kernel.now(), kernel.events()), (at(30), 2));
}

#[test]
fn a_world_in_which_time_stands_still_is_reported() {
    struct Spinner(Kernel, Cell<Option<ActorId>>);
    impl Actor for Spinner {
        fn fire(&self, _: u64) {
            self.0.schedule(self.0.now(), self.1.get().unwrap(), 0);
        }
    }
    let kernel = Kernel::with_ties(0, Ties::FirstCome);
    let spinner = Rc::new(Spinner(kernel.clone(), Cell::new(None)));
    let id = kernel.add_actor(spinner.clone());
    spinner.1.set(Some(id));
    kernel.schedule(at(1), id, 0);
    assert_eq!(kernel.run_until(at(1_000), || false), RunEnd::Stalled);
    assert_eq!(kernel.events(), STALL_EVENTS);
}

#[test]
fn a_wake_fires_the_actor_once_at_the_current_instant() {
    let kernel = Kernel::new(0);
    let (log, id) = Log::add(&kernel);
    let (waking, waking_id) = Log::add(&kernel);
    let waker = kernel.waker(id);
    let inner = waker.clone();
    waking.then(move |_| {
        inner.wake();
        inner.wake();
    });
    kernel.schedule(at(9), waking_id, 0);
    while kernel.step() {}
    assert_eq!(*log.fired.borrow(), [(at(9), WAKE)]);

    // A wake counts again from outside an event, and during an event.
    let inner = waker.clone();
    let left = Cell::new(2u32);
    log.then(move |_| {
        if left.replace(left.get().saturating_sub(1)) > 0 {
            inner.wake();
        }
    });
    waker.wake();
    assert_eq!(kernel.run_until(at(9), || false), RunEnd::Quiet);
    assert_eq!(log.payloads().len(), 4);
}

#[test]
fn wakes_are_held_until_the_actor_can_act() {
    let kernel = Kernel::new(0);
    let (log, id) = Log::add(&kernel);
    let waker = kernel.waker(id);
    kernel.hold_wakes(id, at(30));
    waker.wake();
    waker.wake();
    kernel.schedule(at(20), id, 1);
    assert_eq!(kernel.run_until(at(25), || false), RunEnd::Deadline);
    waker.wake();
    assert_eq!(kernel.run_until(at(50), || false), RunEnd::Quiet);
    // The hold is over: a wake fires at once again.
    kernel.schedule(at(60), id, 2);
    kernel.step();
    waker.wake();
    assert_eq!(kernel.run_until(at(90), || false), RunEnd::Quiet);
    let expected = [(at(20), 1), (at(30), WAKE), (at(60), 2), (at(60), WAKE)];
    assert_eq!(*log.fired.borrow(), expected);
}

#[test]
fn a_world_is_freed_with_its_owner_and_events_for_the_dead_pass() {
    let kernel = Kernel::new(0);
    let (log, id) = Log::add(&kernel);
    let weak = Rc::downgrade(&log);
    kernel.schedule(at(5), id, 0);
    let waker = kernel.waker(id);
    drop(log);
    assert!(weak.upgrade().is_none());
    waker.wake();
    assert_eq!(kernel.run_until(at(50), || false), RunEnd::Quiet);
    assert_eq!(kernel.events(), 2);
    drop(kernel);
    waker.wake();
}

#[test]
fn charged_work_moves_the_workers_clock_and_not_the_world() {
    let kernel = Kernel::new(0);
    let (_log, id) = Log::add(&kernel);
    let cpu = Cpu::new(&kernel);
    assert_eq!((cpu.now(), cpu.busy_until()), (Time::ZERO, None));
    cpu.charge(Duration::from_nanos(30));
    cpu.charge(Duration::from_nanos(12));
    assert_eq!((kernel.now(), cpu.now(), cpu.busy_until()), (Time::ZERO, at(42), Some(at(42))));
    kernel.schedule(at(100), id, 0);
    kernel.step();
    assert_eq!((cpu.now(), cpu.busy_until()), (at(100), None));
    cpu.charge(Duration::from_nanos(1));
    assert_eq!(cpu.now(), at(101));
}
