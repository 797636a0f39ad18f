//! Latches that local writers hold for some virtual time, in a world where work on cached lines
//! costs time.

use std::time::Duration;

use latchwork_coherence::{AccessMode, CoherentMemory};
use latchwork_engine::CpuCosts;
use latchwork_latch::{Answer, WordOp};
use latchwork_runtime::{JoinHandle, Time};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::Leg;

use crate::common::small;
use crate::scenarios::stage::*;

const HOLD: Duration = Duration::from_micros(30);

/// A time for work that an alarm starts. Without its alarm a handler does the work much later.
const SOON: Duration = Duration::from_micros(5);

fn stage(nodes: usize, seed: u64) -> Stage {
    let mut config = small(nodes, 1, 16, seed);
    let costs = CpuCosts { latch_hold: HOLD, ..CpuCosts::default() };
    config.node.costs = Some(costs);
    Stage::on(config)
}

/// Starts a task that writes a line several times. It returns the time when the last write ended.
fn write_often(stage: &Stage, worker: usize, line: GlobalAddr, times: u64) -> JoinHandle<Time> {
    stage.start(worker, async move |member| {
        for _ in 0..times {
            let write = member.memory.write(line, |guard| {
                let next = value(guard.words()) + 1;
                fill(guard, next);
            });
            write.await.expect("no error");
            member.handle.yield_now().await;
        }
        member.handle.now()
    })
}

/// Two workers of one node write one line. Their critical sections do not overlap.
#[test]
fn local_writers_of_a_line_wait_for_each_other() {
    in_every_world(|seed| {
        let mut stage = stage(1, seed);
        let second = stage.add_worker(A);
        let line = stage.line();
        stage.write(A, line, 0);
        stage.pass(A_WHILE);
        let since = stage.now();
        let tasks = [write_often(&stage, A, line, 10), write_often(&stage, second, line, 10)];
        let ends = tasks.map(|task| stage.end(task));
        let took = *ends.iter().max().expect("two") - since;
        assert!(took >= 20 * HOLD, "seed {seed}: {took:?}");
        assert!(took < 24 * HOLD, "seed {seed}: {took:?}, and nothing else costs anything");
        assert_eq!(stage.read(A, line), 20);
        stage.finish();
    });
}

/// Latches of different lines are held independently.
#[test]
fn local_writers_of_two_lines_do_not_wait() {
    in_every_world(|seed| {
        let mut stage = stage(1, seed);
        let second = stage.add_worker(A);
        let lines = [stage.line(), stage.line()];
        lines.iter().for_each(|line| _ = stage.write(A, *line, 0));
        stage.pass(A_WHILE);
        let since = stage.now();
        let tasks =
            [write_often(&stage, A, lines[0], 10), write_often(&stage, second, lines[1], 10)];
        let ends = tasks.map(|task| stage.end(task));
        assert!(ends.iter().all(|end| *end - since < 12 * HOLD), "seed {seed}: {ends:?}");
        stage.finish();
    });
}

/// A local reader finds the line latched, and comes back when the writer has finished.
#[test]
fn a_local_reader_waits_for_the_writer() {
    in_every_world(|seed| {
        let mut stage = stage(1, seed);
        let second = stage.add_worker(A);
        let line = stage.line();
        stage.write(A, line, 1);
        stage.pass(A_WHILE);
        let held = stage.now() + HOLD;
        let writer = stage.writes(A, line, 2);
        stage.until("the line is written", || writer.is_finished());
        let read = stage.start(second, async move |member| {
            let seen = member.memory.read(line, value).await.expect("no error");
            (seen, member.handle.now())
        });
        let (seen, at) = stage.end(read);
        assert_eq!(seen, 2);
        assert!(at >= held && at < held + SOON, "seed {seed}: {at:?}, held until {held:?}");
        stage.finish();
    });
}

/// A request of another node is queued until the local writer has ended its write, and is served
/// then. The writer's worker is busy with other work, and no other event happens at that time.
#[test]
fn a_request_that_meets_a_held_latch_is_served_when_it_ends() {
    in_every_world(|seed| {
        for write in [true, false] {
            let mut stage = stage(2, seed);
            let second = stage.add_worker(A);
            let line = stage.line();
            stage.write(A, line, 1);
            let asked = stage.hold(Leg::Inbox, line, request(B, A));
            let access = if write { stage.writes(B, line, 3) } else { stage.reads(B, line) };
            stage.until("B asks", || asked.held() == 1);
            // The writer's worker has more work after the write, so another worker has to serve the
            // request.
            let writer = stage.start(second, async move |member| {
                member.memory.write(line, |guard| fill(guard, 2)).await.expect("no error");
                member.handle.charge(20 * HOLD);
            });
            stage.until("the line is written", || writer.is_finished());
            let held = stage.now() + HOLD;
            drop(asked);
            // The first worker runs now, even if the message woke the other worker. That worker
            // would check only after its work.
            stage.run(A, async |_| ());
            stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
            assert!(stage.now() < held);
            stage.until("A grants", || stage.count(line, grant(A, B)) == 1);
            let at = stage.now();
            assert!(at + SOON >= held && at < held + SOON, "seed {seed}: {at:?} for {held:?}");
            assert_eq!(stage.end(access), 2);
            stage.finish();
        }
    });
}

/// A line that a local writer holds is evicted after the write, although no other line could be
/// evicted.
#[test]
fn a_frame_that_is_held_is_free_for_others_when_that_ends() {
    in_every_world(|seed| {
        let mut config = small(1, 1, 4, seed);
        config.node.costs = Some(CpuCosts { latch_hold: HOLD, ..CpuCosts::default() });
        let stage = Stage::on(config);
        let lines: Vec<GlobalAddr> = (0..12).map(|_| stage.line()).collect();
        let since = stage.now();
        for (i, line) in (1..).zip(&lines) {
            stage.write(A, *line, i);
        }
        let took = stage.now() - since;
        assert!(took < 24 * HOLD, "seed {seed}: {took:?}");
        stage.finish();
    });
}

/// Bug: under SEL a line stays with a node that does not use it, and other nodes try in vain until
/// their deadlines. Mechanism: two accesses of A wait for the line. One writes, and holds the latch
/// for a while. The other is dropped meanwhile, after the line was granted to it. The drop finds
/// the latch held, so it releases nothing. The writer had found the line reserved, so it releases
/// nothing either. Fix: code that finds the latch held sets an alarm for the end of the latch.
#[test]
fn a_line_is_released_that_was_held_when_the_last_access_was_dropped() {
    in_every_world(|seed| {
        let mut config = small(2, 1, 16, seed);
        config.node.costs = Some(CpuCosts { latch_hold: HOLD, ..CpuCosts::default() });
        config.protocol = latchwork_cluster::Protocol::Sel;
        let mut stage = Stage::on(config);
        let second = stage.add_worker(A);
        let line = stage.line();
        stage.until("A is at rest", || stage.node(A).lines_in_flight() == 0);
        let late = stage.hold(Leg::Back, line, op(A, WordOp::AcquireExclusive));
        let writer = stage.writes(second, line, 1);
        stage.until("the operation has landed", || late.held() == 1);
        let dropped = stage.takes(A, line, AccessMode::Exclusive);
        stage.pass(Duration::from_micros(2));
        drop(late);
        stage.until("the line is written", || writer.is_finished());
        assert!(!dropped.is_finished(), "seed {seed}: the other has not had its turn yet");
        dropped.abort();
        let since = stage.now();
        assert_eq!(stage.write(B, line, 2), 1);
        let took = stage.now() - since;
        assert!(HOLD / 2 < took && took < 5 * HOLD, "seed {seed}: {took:?}");
        stage.finish();
    });
}
