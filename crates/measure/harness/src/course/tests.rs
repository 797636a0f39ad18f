//! Tests of a course: a test takes operations at given times, and checks in which part each counts.

use std::time::Duration;

use latchwork_runtime::sync::AtomicUsize;

use super::*;

fn course(warmup: Warmup, operations: Option<u64>, time: Option<Duration>) -> Course {
    Course::new(Plan { warmup, operations, time }, &[], 1, LoopTime::Virtual, Time::ZERO)
}

fn parts(course: &Course, step: u64) -> (u64, u64) {
    let share = Share::default();
    let (mut warm, mut measured, mut now) = (0, 0, 0);
    while let Some(part) = course.next(&share, Time::from_nanos(now)) {
        match part {
            RunPart::WarmUp => warm += 1,
            RunPart::Measured => measured += 1,
        }
        now += step;
        assert!(warm + measured < 100_000, "it ends");
    }
    (warm, measured)
}

#[test]
fn as_many_operations_as_were_asked_for() {
    assert_eq!(parts(&course(Warmup::Operations(0), Some(100), None), 10), (0, 100));
    let both = course(Warmup::Operations(50), Some(100), None);
    assert_eq!(parts(&both, 10), (50, 100));
    let went = both.went().expect("no error");
    assert_eq!((went.from, went.end), (Time::from_nanos(500), Time::from_nanos(1500)));
    assert_eq!(went.warm_ups, 51, "one was taken that nobody got");
}

#[test]
fn as_long_as_was_asked_for() {
    let us = Duration::from_micros;
    let timed = course(Warmup::Time(us(1)), None, Some(us(2)));
    assert_eq!(parts(&timed, 10), (100, 200));
    let went = timed.went().expect("no error");
    assert_eq!((went.end - went.from).as_secs_f64(), 2e-6);
    assert_eq!(parts(&course(Warmup::Time(us(1)), Some(20), Some(us(2))), 10), (100, 20));
}

#[test]
fn it_goes_on_though_no_worker_takes_anything() {
    let us = Duration::from_micros;
    let timed = course(Warmup::Time(us(1)), None, Some(us(2)));
    let at = |us: u64| Time::from_nanos(1_000 * us);
    timed.look(at(1));
    assert_eq!(timed.next(&Share::default(), at(2)), Some(RunPart::Measured));
    timed.look(at(2));
    assert!(!timed.is_over());
    timed.look(at(4));
    assert!(timed.is_over());
    let went = timed.went().expect("no error");
    assert_eq!((went.from, went.end), (at(1), at(3)));
}

#[test]
fn a_warm_up_is_over_when_its_windows_agree() {
    // Without nodes there are no misses, so the windows agree at once.
    let steady = course(Warmup::Steady { window: 10 }, Some(5), None);
    let (warm, measured) = parts(&steady, 1);
    assert_eq!((warm, measured), (10 * Warmup::STEADY as u64, 5));
    assert_eq!(steady.went().expect("no error").hit_ratios, [1.0; Warmup::STEADY]);
}

#[test]
fn an_error_ends_it_for_all() {
    let failed = course(Warmup::Operations(0), Some(100), None);
    let share = Share::default();
    assert_eq!(failed.next(&share, Time::ZERO), Some(RunPart::Measured));
    failed.fail("first".to_owned());
    failed.fail("second".to_owned());
    assert_eq!(failed.next(&share, Time::ZERO), None);
    assert!(failed.is_over());
    assert_eq!(failed.went().expect_err("it failed").to_string(), "first");
}

/// Bug: a run that had failed went on, without an end if its plan had no limit. Mechanism: the
/// error was set under the lock, and the end was stored after it. A worker that began the measured
/// part in between overwrote the end. Fix: the end is stored under the lock.
#[test]
fn an_error_while_a_worker_begins_the_measured_part_ends_the_run() {
    const COURSES: usize = 20_000;
    let courses: Vec<Course> =
        (0..COURSES).map(|_| course(Warmup::Operations(0), None, None)).collect();
    // Both threads come to each course at the same time.
    let come = AtomicUsize::new(0);
    let each = |act: &dyn Fn(&Course)| {
        for (number, course) in courses.iter().enumerate() {
            come.fetch_add(1, Ordering::AcqRel);
            while come.load(Ordering::Acquire) < 2 * (number + 1) {
                // With one core, the other thread comes only when this one makes room.
                std::thread::yield_now();
            }
            act(course);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| each(&|course| course.fail("the error".to_owned())));
        each(&|course| course.turn(WARM_UP, Time::ZERO));
    });
    let lost = courses.iter().filter(|course| !course.is_over()).count();
    assert_eq!(lost, 0, "of {COURSES} ends so many were overwritten");
}

#[test]
fn a_signal_ends_the_measured_part_as_if_its_time_were_over() {
    let plan = Plan { warmup: Warmup::Operations(0), operations: Some(1 << 30), time: None };
    // In real time a worker takes many operations at once.
    let course = Course::new(plan, &[], 1, LoopTime::Real, Time::ZERO);
    let share = Share::default();
    let at = Time::from_nanos;
    assert_eq!(course.next(&share, at(5)), Some(RunPart::Measured));
    assert_eq!(course.next(&share, at(7)), Some(RunPart::Measured));
    course.stop(Signal::Terminate);
    assert_eq!(course.next(&share, at(9)), None);
    assert!(course.is_over());
    let went = course.went().expect("something was measured");
    assert_eq!((went.from, went.end), (at(5), at(9)));
}

#[test]
fn a_signal_in_the_warm_up_leaves_nothing_to_show() {
    for warmup in [Warmup::Operations(10), Warmup::Time(Duration::from_secs(1))] {
        let course = course(warmup, None, Some(Duration::from_secs(1)));
        let share = Share::default();
        assert_eq!(course.next(&share, Time::ZERO), Some(RunPart::WarmUp));
        course.stop(Signal::Interrupt);
        course.look(Time::from_nanos(1));
        assert_eq!(course.next(&share, Time::from_nanos(1)), None);
        let error = course.went().expect_err("nothing was measured");
        assert_eq!(error.status(), 130);
    }
}

#[test]
fn a_worker_that_is_warm_goes_on_warming_up_until_all_are() {
    let time = Some(Duration::from_nanos(1000));
    for warmup in [Warmup::Operations(20), Warmup::Steady { window: 10 }] {
        let course = course(warmup, None, time);
        assert!(course.waits_for_others());
        let share = Share::default();
        let take = |now| course.next(&share, Time::from_nanos(now));
        for now in 0..100 {
            assert_eq!(take(now), Some(RunPart::WarmUp), "nobody has said when to begin");
        }
        assert!(course.is_warm());
        course.begin(Ok(Time::from_nanos(150)));
        assert_eq!(take(149), Some(RunPart::WarmUp));
        assert_eq!(take(160), Some(RunPart::Measured));
        assert_eq!(take(1149), Some(RunPart::Measured));
        assert_eq!(take(1150), None);
        let went = course.went().expect("it was measured");
        let all = (Time::from_nanos(150), Time::from_nanos(1150));
        assert_eq!((went.from, went.end), all, "as agreed, whenever somebody looked");
    }
}

#[test]
fn a_worker_that_waits_for_others_can_be_stopped() {
    let course = course(Warmup::Operations(1), Some(10), None);
    assert!(course.waits_for_others());
    let share = Share::default();
    let take = |now| course.next(&share, Time::from_nanos(now));
    (0..10).for_each(|now| assert_eq!(take(now), Some(RunPart::WarmUp)));
    course.stop(Signal::Terminate);
    course.begin(Ok(Time::from_nanos(1 << 40)));
    assert_eq!(take(11), None);
    assert_eq!(course.went().expect_err("nothing was measured").status(), 143);
}

#[test]
fn threads_share_the_operations() {
    let plan = Plan { warmup: Warmup::Operations(1000), operations: Some(100_000), time: None };
    let course = Course::new(plan, &[], 4, LoopTime::Real, Time::ZERO);
    let measured: u64 = std::thread::scope(|scope| {
        let count = || {
            let share = Share::default();
            let next = || course.next(&share, Time::ZERO);
            std::iter::from_fn(next).filter(|part| *part == RunPart::Measured).count() as u64
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(measured, 100_000);
}

/// Bug: after the end of a timed run, each worker executed and counted up to 64 more operations.
/// Mechanism: a worker executed the operations that it had taken, however the run ended. Fix: a
/// worker does so only if the number of operations ended the run.
#[test]
fn no_operation_begins_when_the_time_is_over() {
    let (us, share) = (Duration::from_micros, Share::default());
    let plan = |operations, time| Plan { warmup: Warmup::Operations(0), operations, time };
    let timed = Course::new(plan(None, Some(us(1))), &[], 1, LoopTime::Real, Time::ZERO);
    let next = |now| timed.next(&share, Time::from_nanos(now));
    assert_eq!(next(0), Some(RunPart::Measured));
    assert!(share.left.get() > 0, "it has taken more than one");
    assert_eq!(next(999), Some(RunPart::Measured));
    assert_eq!([1_000, 1_001, 5_000].map(next), [None; 3]);
    assert_eq!(timed.part(), None);

    // If the number of operations ends the run, a worker still executes the operations that it has
    // taken.
    let counted = Course::new(plan(Some(512 * 4), None), &[], 1, LoopTime::Real, Time::ZERO);
    let (own, other) = (Share::default(), Share::default());
    let mut done = 0;
    counted.next(&own, Time::ZERO).expect("one to begin");
    while counted.next(&other, Time::ZERO).is_some() {
        done += 1;
    }
    assert!(counted.is_over() && own.left.get() > 0);
    while counted.next(&own, Time::from_nanos(7)).is_some() {
        done += 1;
    }
    assert_eq!(done + 1, 512 * 4);
}
