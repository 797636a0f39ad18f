//! Workers that leave, and nodes without activity.

use std::time::Duration;

use latchwork_coherence::{AccessMode, CoherentMemory};
use latchwork_latch::{Answer, WordOp};
use latchwork_verbs_sim::Leg;

use crate::scenarios::stage::*;

/// A few times the interval at which a handler checks for work of workers that have left.
const SOON: Duration = Duration::from_millis(5);

/// Bug: a request waits for local code that has ended, and no worker serves the request. Mechanism:
/// A's only worker ends with a task that holds the line, after B's request was queued. Fix: the
/// handler takes over all checks of a worker that ends, and the end of the worker wakes the
/// handler.
#[test]
fn a_request_that_waits_for_a_worker_that_leaves_is_served_by_the_handler() {
    in_every_world(|seed| {
        let mut stage = Stage::new(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let task = stage.start(A, async move |member| {
            let need = latchwork_coherence::Need { addr: line, mode: AccessMode::Exclusive };
            let ticket = member.memory.ensure(need).await;
            member.handle.sleep(Duration::from_secs(1000)).await;
            drop(ticket);
        });
        let writer = stage.writes(B, line, 2);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        let since = stage.now();
        stage.leave(A);
        assert!(task.is_finished(), "aborted with its worker");
        assert_eq!(stage.end(writer), 1);
        assert!(stage.now() - since < SOON, "seed {seed}: {:?}", stage.now() - since);
        stage.finish();
    });
}

/// At a node without workers, the handler takes all messages from the start.
#[test]
fn a_node_without_workers_still_gives_its_lines_up() {
    in_every_world(|seed| {
        let mut stage = Stage::new(3, seed);
        let lines = [stage.line(), stage.line()];
        for line in lines {
            stage.write(A, line, 1);
        }
        stage.leave(A);
        assert_eq!(stage.read(B, lines[0]), 1);
        assert_eq!(stage.write(C, lines[0], 2), 1);
        assert_eq!(stage.write(C, lines[1], 2), 1);
        stage.finish();
    });
}

/// A message has woken a worker that ends before it handles the message. The ending worker wakes
/// another worker for the message.
#[test]
fn a_message_for_a_worker_that_leaves_is_taken_by_another() {
    in_every_world(|seed| {
        let mut stage = Stage::new(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::Inbox, line, request(B, A));
        let writer = stage.writes(B, line, 2);
        stage.until("the request is in A's inbox", || late.held() == 1);
        // A's worker now is among the workers that the message may wake.
        drop(late);
        stage.leave(A);
        assert_eq!(stage.end(writer), 1);
        stage.finish();
    });
}

/// Bug: a back-off takes a thousand times its length when the handler received the refusal. The
/// handler left the alarm of the back-off to the workers, which had parked before, or had ended.
/// Mechanism: B's worker leaves while its request is in flight, so the handler receives the
/// refusal. Fix: the worker or handler that sets an alarm wakes up for the alarm.
#[test]
fn a_pause_that_the_handler_began_ends_in_time() {
    in_every_world(|seed| {
        let mut stage = Stage::new(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let question = stage.hold(Leg::There, line, request(B, A));
        let access = stage.takes(B, line, AccessMode::Exclusive);
        stage.until("B asks", || question.held() == 1);
        stage.evict_now(A, line);
        access.abort();
        drop(question);
        let answers = stage.hold(Leg::There, line, answer(A, B, Answer::Dropped));
        stage.until("A sends B away", || answers.held() == 1);
        stage.leave(B);
        let since = stage.now();
        drop(answers);
        stage.until("B is at rest", || stage.node(B).lines_in_flight() == 0);
        assert_eq!(stage.count(line, op(B, WordOp::AcquireExclusive)), 2);
        assert!(stage.now() - since < A_WHILE, "seed {seed}: {:?}", stage.now() - since);
        stage.finish();
    });
}

/// A worker does not leave while a completion is outstanding.
#[test]
fn a_worker_leaves_only_when_nothing_of_it_is_in_flight() {
    in_every_world(|seed| {
        let mut stage = Stage::new(2, seed);
        let second = stage.add_worker(A);
        let line = stage.line();
        stage.write(second, line, 1);
        let late = stage.hold(Leg::Back, line, op(A, WordOp::ReleaseExclusive));
        assert!(stage.evict(second, line));
        stage.until("the release has landed", || late.held() == 1);
        let memory = stage.member(second).memory.clone();
        let left = stage.start(second, async move |_| memory.leave().await);
        stage.pass(Duration::from_millis(1));
        assert!(!left.is_finished());
        drop(late);
        stage.end(left).expect("now it can");
        stage.leave(second);
        assert_eq!(stage.read(B, line), 1);
        stage.finish();
    });
}

/// Bug: a node waits for its own operation, and other nodes wait for that node, until their
/// deadlines. Mechanism: a worker of A leaves, and a forgotten task still has a clone of the
/// worker. The task requests the line. Then the task and the last clone are dropped before the
/// operation completes. Fix: the poller keeps the worker until none of its operations is in flight.
#[test]
fn a_clone_that_goes_after_its_worker_left_leaves_nothing_behind() {
    in_every_world(|seed| {
        let mut stage = Stage::new(2, seed);
        let second = stage.add_worker(A);
        let line = stage.line();
        // Otherwise the other worker of A would send the request for both.
        stage.until("A is at rest", || stage.node(A).lines_in_flight() == 0);
        let (actor, member) = stage.take_worker(second);
        let memory = member.memory.clone();
        stage.end(actor.handle().spawn_service(memory.leave())).expect("nothing is in flight");
        let late = stage.hold(Leg::Back, line, op(A, WordOp::AcquireExclusive));
        let forgotten = actor.handle().spawn(async move {
            member.memory.write(line, |guard| fill(guard, 1)).await.expect("a line");
        });
        stage.until("the operation has landed", || late.held() == 1);
        forgotten.abort();
        let since = stage.now();
        drop(late);
        stage.until("A knows of its line", || stage.node(A).lines_in_flight() == 0);
        assert_eq!(stage.read(B, line), 0);
        assert_eq!(stage.write(A, line, 2), 0);
        assert!(stage.now() - since < SOON, "seed {seed}: {:?}", stage.now() - since);
        drop(actor);
        stage.finish();
    });
}

/// A cluster without work has no events, however many lines it owns: no polling, no heartbeat.
#[test]
fn an_idle_cluster_makes_no_events() {
    in_every_world(|seed| {
        for workers_leave in [false, true] {
            let mut stage = Stage::new(3, seed);
            let lines = [stage.line(), stage.line()];
            stage.write(A, lines[0], 1);
            stage.read(B, lines[0]);
            stage.write(C, lines[1], 1);
            // While a request waits for a reservation, one worker keeps checking. After the request
            // is served, no worker checks.
            let ticket = stage.take(C, lines[1], AccessMode::Exclusive);
            let writer = stage.writes(A, lines[1], 2);
            stage.pass(Duration::from_micros(100));
            stage.drop_on(C, ticket);
            stage.end(writer);
            if workers_leave {
                [A, B, C].into_iter().for_each(|node| stage.leave(node));
            }
            stage.pass(Duration::from_millis(100));
            let before = stage.cluster.kernel().events();
            // An alarm may remain for the deadline of an access that has ended, at most one for
            // each worker.
            stage.pass(Duration::from_secs(30));
            let left = stage.cluster.kernel().events() - before;
            assert!(left <= 6, "seed {seed}: {left} events in half an idle minute");
            stage.pass(Duration::from_secs(600));
            let made = stage.cluster.kernel().events() - before - left;
            assert_eq!(made, 0, "seed {seed}: events in ten idle minutes");
            stage.finish();
        }
    });
}
