//! Updates and writes of tasks that share a buffer: no write passes an update, and neither keeps
//! the other waiting without end. Another node writes the same lines all the time, so that updates
//! take a while.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use latchwork_cluster::{Member, Protocol, Worker};
use latchwork_coherence::CoherentMemory;
use latchwork_relaxed::{Consistency, RelaxedError, WriteBuffer, WriteBufferSettings};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;

use crate::common::{LIMIT, Meeting, config, settings, start};

/// Many times the duration of an update.
const SOON: Duration = Duration::from_millis(1);

/// The levels that buffer, with either protocol.
fn kinds() -> impl Iterator<Item = (Consistency, Protocol)> {
    let levels = [Consistency::Tso, Consistency::Pso];
    levels.into_iter().flat_map(|level| Protocol::ALL.map(|protocol| (level, protocol)))
}

/// Node 1's worker runs `body` with a buffer and four lines. Node 2's worker writes these lines
/// until `body` ends.
fn contended<F>(
    level: Consistency,
    protocol: Protocol,
    deadline: Duration,
    body: fn(Member, WriteBuffer<Worker>, Vec<GlobalAddr>) -> F,
) where
    F: Future<Output = ()> + 'static,
{
    let cluster = start(config(2, 1, 1, protocol), SimConfig::default());
    let (meeting, ended) = (Rc::new(Meeting::default()), Rc::new(Cell::new(false)));
    let ends = cluster.run(LIMIT, move |member| {
        let (meeting, ended) = (meeting.clone(), ended.clone());
        async move {
            let lines = meeting.lines(&member, 4).await;
            if member.index == 1 {
                for line in lines.iter().cycle() {
                    if ended.get() {
                        return;
                    }
                    member.memory.write(*line, |_| ()).await.expect("a line");
                    meeting.came.set(1);
                    member.handle.sleep(Duration::from_nanos(200)).await;
                }
            }
            while meeting.came.get() == 0 {
                member.handle.sleep(Duration::from_micros(2)).await;
            }
            let settings = WriteBufferSettings { deadline, ..settings(level, 1) };
            // A failed test may lose writes, too.
            let on_loss = |lost| assert!(std::thread::panicking(), "{lost}");
            let buffer = WriteBuffer::new(member.memory.clone(), settings, on_loss);
            body(member, buffer.expect("settings"), lines).await;
            ended.set(true);
        }
    });
    ends.unwrap_or_else(|error| panic!("{level}, {protocol}: {error}"));
}

/// Tasks that share the buffer update lines, each its own line, with this pause in between, until a
/// write of one more task was taken.
async fn write_among_updates(
    member: Member,
    buffer: WriteBuffer<Worker>,
    lines: &[GlobalAddr],
    pause: Option<Duration>,
) {
    let (written, updates) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0_u64)));
    let end = member.handle.now() + 2 * SOON;
    let mut tasks = Vec::new();
    for line in lines.iter().copied() {
        let (buffer, handle) = (buffer.clone(), member.handle.clone());
        let (written, updates) = (written.clone(), updates.clone());
        tasks.push(member.handle.spawn(async move {
            while !written.get() && handle.now() < end {
                // The flush of the update waits for this write, even if the line is here.
                buffer.write(line, 8, &[1]).await.expect("no loss");
                buffer.update(line, |_| ()).await.expect("no loss");
                updates.set(updates.get() + 1);
                if let Some(pause) = pause {
                    handle.sleep(pause).await;
                }
            }
        }));
    }
    while updates.get() < 20 {
        member.handle.sleep(Duration::from_micros(2)).await;
    }
    let (begin, before) = (member.handle.now(), buffer.counts().waits);
    let mut waits = 0;
    // A write may come exactly between two updates.
    for number in 0..20_u64 {
        let bytes = number.to_le_bytes();
        let write = buffer.write(lines[0], 0, &bytes);
        let taken = member.handle.timeout(begin + SOON, write).await;
        taken.expect("updates do not keep a write waiting").expect("no loss");
        waits += u64::from(buffer.counts().waits > before);
        member.handle.sleep(Duration::from_micros(3)).await;
    }
    assert!(waits > 0, "no write came upon an update");
    let during = updates.get();
    while updates.get() < during + 20 {
        assert!(member.handle.now() < end, "writes keep updates waiting");
        member.handle.sleep(Duration::from_micros(2)).await;
    }
    written.set(true);
    for task in tasks {
        task.await.expect("nobody aborts it");
    }
    buffer.leave().await.expect("no loss");
}

#[test]
fn updates_that_overlap_endlessly_let_a_write_through() {
    for (level, protocol) in kinds() {
        contended(level, protocol, LIMIT, |member, buffer, lines| async move {
            let pause = Some(Duration::from_nanos(100));
            write_among_updates(member, buffer, &lines, pause).await;
        });
    }
}

#[test]
fn a_task_that_only_updates_lets_a_write_through() {
    for (level, protocol) in kinds() {
        contended(level, protocol, LIMIT, |member, buffer, lines| async move {
            write_among_updates(member, buffer, &lines[..1], None).await;
        });
    }
}

/// Polls a future once; the future is not ready then.
async fn begin<T>(mut future: Pin<&mut impl Future<Output = T>>) {
    let poll = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await;
    assert!(poll, "it has nothing to wait for");
}

/// A task keeps the future of an update, and writes.
#[test]
fn an_update_that_no_task_awaits_fails_a_write_in_the_end() {
    const DEADLINE: Duration = Duration::from_micros(500);
    for (level, protocol) in kinds() {
        contended(level, protocol, DEADLINE, |member, buffer, lines| async move {
            {
                let mut update = pin!(buffer.update(lines[0], |_| ()));
                begin(update.as_mut()).await;
                let began = member.handle.now();
                let write = buffer.write(lines[1], 0, &[1]);
                let end = member.handle.timeout(began + SOON, write).await;
                let error = end.expect("it has a deadline").expect_err("an update goes on");
                assert!(matches!(error, RelaxedError::HeldBack(DEADLINE)), "{error}");
                assert!(member.handle.now() >= began + DEADLINE);
                assert_eq!(buffer.pending(), 0, "it was issued");
                update.await.expect("no loss");
            }
            buffer.write(lines[1], 0, &[1]).await.expect("no update goes on");
            buffer.leave().await.expect("no loss");
        });
    }
}

/// A task keeps the future of a write that is held back, and updates.
#[test]
fn a_write_that_no_task_awaits_delays_updates_until_its_deadline_only() {
    const DEADLINE: Duration = Duration::from_micros(500);
    for (level, protocol) in kinds() {
        contended(level, protocol, DEADLINE, |member, buffer, lines| async move {
            // A worker's first write also waits for the pool's epoch.
            buffer.write(lines[1], 0, &[1]).await.expect("no update goes on");
            {
                let mut write = pin!(buffer.write(lines[1], 0, &[1]));
                {
                    let mut update = pin!(buffer.update(lines[0], |_| ()));
                    begin(update.as_mut()).await;
                    begin(write.as_mut()).await;
                    update.await.expect("no loss");
                }
                let began = member.handle.now();
                for times in 0..4 {
                    let update = buffer.update(lines[0], |_| ());
                    let end = member.handle.timeout(began + SOON, update).await;
                    end.expect("it has a deadline").expect("no loss");
                    let after = member.handle.now() - began;
                    assert!(times > 0 || after >= DEADLINE / 2, "it did not wait: {after:?}");
                }
                write.await.expect("no update goes on");
            }
            buffer.leave().await.expect("no loss");
        });
    }
}

/// Two tasks share a buffer. The line of one task's update is at another node. A write of the other
/// task during the update comes after the update, for all nodes.
#[test]
fn what_is_written_during_an_update_comes_after_it() {
    for (level, protocol) in
        [Consistency::Tso, Consistency::Pso].into_iter().flat_map(|l| Protocol::ALL.map(|p| (l, p)))
    {
        let cluster = start(config(2, 1, 1, protocol), SimConfig::default());
        let meeting = Rc::new(Meeting::default());
        let ends = cluster.run(LIMIT, move |member| {
            let meeting = meeting.clone();
            async move {
                let lines = meeting.lines(&member, 1).await;
                if member.index == 1 {
                    member.memory.write(lines[0], |_| ()).await.expect("a line");
                }
                meeting.meet(&member, 2, &mut 0).await;
                if member.index == 1 {
                    return;
                }
                let settings = settings(level, 1);
                let buffer =
                    WriteBuffer::new(member.memory.clone(), settings, |lost| panic!("{lost}"));
                let buffer = buffer.expect("settings");
                let updated = Rc::new(Cell::new(false));
                let update = {
                    let (buffer, updated, line) = (buffer.clone(), updated.clone(), lines[0]);
                    member.handle.spawn(async move {
                        let change = |guard: &mut latchwork_cache::WriteGuard<'_>| {
                            guard.words().set_u64(0, 1);
                            guard.mark_dirty(0..8);
                        };
                        buffer.update(line, change).await.expect("no loss");
                        updated.set(true);
                    })
                };
                // The update has begun, and waits for the line.
                member.handle.yield_now().await;
                member.handle.yield_now().await;
                assert!(!updated.get(), "{level}, {protocol}");
                buffer.write(lines[0], 0, &2_u64.to_le_bytes()).await.expect("there is room");
                assert!(updated.get(), "{level}, {protocol}: taken before the update's end");
                update.await.expect("nobody aborts it");
                buffer.leave().await.expect("no loss");
                let last = member.memory.read(lines[0], |w| w.u64(0)).await.expect("a line");
                assert_eq!(last, 2, "{level}, {protocol}");
            }
        });
        ends.expect("no worker fails");
    }
}
