//! A write that cannot become visible is reported exactly once, with its bytes.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::{Member, Protocol, Simulated};
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_relaxed::{
    Consistency, LossCause, LostWrite, LostWrites, RelaxedError, WriteBuffer, WriteBufferSettings,
};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;

use crate::common::{LIMIT, Meeting, config, rc, start};

const DEADLINE: Duration = Duration::from_millis(2);
const BUFFERED: [Consistency; 2] = [Consistency::Tso, Consistency::Pso];

type Told = Rc<RefCell<Vec<LostWrites>>>;

fn buffer(
    member: &Member,
    consistency: Consistency,
    told: &Told,
) -> WriteBuffer<latchwork_cluster::Worker> {
    let settings =
        WriteBufferSettings { consistency, deadline: DEADLINE, ..WriteBufferSettings::default() };
    let told = told.clone();
    WriteBuffer::new(member.memory.clone(), settings, move |lost| told.borrow_mut().push(lost))
        .expect("settings")
}

fn two_nodes(protocol: Protocol) -> Rc<Simulated> {
    Rc::new(start(config(2, 1, 3, protocol), SimConfig::default()))
}

fn lost(end: Result<(), RelaxedError>) -> Vec<LostWrite> {
    match end {
        Err(RelaxedError::Lost(LostWrites(lost))) => lost,
        other => panic!("not a loss: {other:?}"),
    }
}

/// The first line belongs to another node, which dies. With total store order, no write after the
/// write to that line is seen.
#[test]
fn writes_that_wait_for_a_dead_node_are_lost_and_reported() {
    for level in BUFFERED {
        let cluster = two_nodes(Protocol::Selcc);
        let (meeting, world) = (Rc::new(Meeting::default()), cluster.clone());
        let survivor = async move |member: Member| {
            let lines = meeting.lines(&member, 3).await;
            let mut met = 0;
            if member.index == 1 {
                member.memory.write(lines[0], |_| ()).await.expect("a line");
            }
            meeting.meet(&member, 2, &mut met).await;
            if member.index == 1 {
                return;
            }
            member.handle.sleep(Duration::from_millis(1)).await;
            world.kill(1);
            let told = rc(Vec::new());
            let buffer = buffer(&member, level, &told);
            for (line, value) in lines.iter().zip([1, 2, 3]) {
                buffer.write(*line, 16, &[value; 4]).await.expect("there is room");
            }
            let issued = member.handle.now();
            let mut seen = [0];
            buffer.read(lines[0], 19, &mut seen).await.expect("its own write");
            assert_eq!(seen, [1]);
            let end = buffer.flush().await;
            let waited = member.handle.now() - issued;
            assert!(waited <= DEADLINE + Duration::from_micros(10), "{level}: {waited:?}");
            let said = end.as_ref().expect_err("lost").to_string();
            assert!(
                said.contains(&lines[0].to_string()) && said.contains("4 bytes at offset 16"),
                "{said}"
            );
            let lost = lost(end);
            let named: Vec<GlobalAddr> = lost.iter().map(|lost| lost.addr).collect();
            let visible =
                async |line| member.memory.read(line, |w| w.u8(16)).await.expect("a line");
            let after = (visible(lines[1]).await, visible(lines[2]).await);
            match level {
                Consistency::Tso => assert_eq!((&named[..], after), (&lines[..], (0, 0))),
                _ => assert_eq!((&named[..], after), (&lines[..1], (2, 3))),
            }
            assert!(
                lost.iter().skip(1).all(|lost| matches!(lost.cause, LossCause::Order)),
                "{lost:?}"
            );
            assert!(lost.iter().zip(1..).all(|(lost, value)| lost.bytes == [value; 4]));
            // A reported loss has no further effect.
            buffer.write(lines[2], 16, &[9]).await.expect("there is room");
            buffer.flush().await.expect("no loss");
            assert_eq!(visible(lines[2]).await, 9);
            buffer.leave().await.expect("no loss");
            assert_eq!(told.borrow().len(), 0);
        };
        let survivor = Rc::new(survivor);
        let tasks: Vec<_> = (0..2)
            .map(|node| {
                let (actor, member) = cluster.start_worker((node, 0, node)).expect("a node");
                let survivor = survivor.clone();
                let task = actor.handle().spawn_service(async move { survivor(member).await });
                (actor, task)
            })
            .collect();
        let kernel = cluster.kernel();
        kernel.run_until(kernel.now() + LIMIT, || tasks.iter().all(|(_, task)| task.is_finished()));
        assert!(tasks.iter().all(|(_, task)| matches!(task.take(), Some(Ok(())))), "{level}");
    }
}

/// The next call reports the loss, whichever call it is. No later call reports the loss again. The
/// reporting call has no other effect.
#[test]
fn the_next_call_reports_a_loss_and_no_other() {
    for (level, call) in
        BUFFERED.into_iter().flat_map(|level| [0, 1, 2, 3].map(|call| (level, call)))
    {
        let meeting = Rc::new(Meeting::default());
        let ends = two_nodes(Protocol::Selcc).run_on(1, LIMIT, move |member| {
            let meeting = meeting.clone();
            async move {
                let lines = meeting.lines(&member, 1).await;
                if member.index == 1 {
                    return;
                }
                let told = rc(Vec::new());
                let buffer = buffer(&member, level, &told);
                let none = GlobalAddr::from_bits(lines[0].bits() + 8);
                buffer.write(none, 0, &[1, 2]).await.expect("found out later");
                member.handle.sleep(Duration::from_millis(1)).await;
                let mut byte = [0];
                let end = match call {
                    0 => buffer.write(lines[0], 0, &[5]).await,
                    1 => buffer.read(lines[0], 0, &mut byte).await,
                    2 => buffer.flush().await,
                    _ => buffer.update(lines[0], |_| panic!("it did nothing")).await,
                };
                let lost = lost(end);
                assert!(matches!(
                    &lost[..],
                    [LostWrite { addr, offset: 0, bytes, cause: LossCause::Memory(MemoryError::BadAddress { .. }), .. }]
                        if *addr == none && *bytes == [1, 2]
                ), "{lost:?}");
                buffer.read(lines[0], 0, &mut byte).await.expect("told before");
                assert_eq!(byte, [0]);
                buffer.leave().await.expect("told before");
                assert_eq!(told.borrow().len(), 0);
            }
        });
        ends.expect("no worker fails");
    }
}

#[test]
fn a_dropped_buffer_writes_what_it_has_and_reports_the_rest() {
    for (level, protocol) in
        BUFFERED.into_iter().flat_map(|level| Protocol::ALL.map(|p| (level, p)))
    {
        let meeting = Rc::new(Meeting::default());
        let ends = two_nodes(protocol).run(LIMIT, move |member| {
            let meeting = meeting.clone();
            async move {
                let lines = meeting.lines(&member, 1).await;
                if member.index == 1 {
                    return;
                }
                let told = rc(Vec::new());
                let buffer = buffer(&member, level, &told);
                buffer.write(lines[0], 0, &[5]).await.expect("there is room");
                let none = GlobalAddr::from_bits(lines[0].bits() + 8);
                buffer.write(none, 3, &[6]).await.expect("found out later");
                drop(buffer);
                member.handle.sleep(Duration::from_millis(1)).await;
                assert_eq!(member.memory.read(lines[0], |w| w.u8(0)).await.expect("a line"), 5);
                let told = told.take();
                assert!(matches!(
                    &told[..],
                    [LostWrites(lost)] if lost.len() == 1 && lost[0].addr == none && lost[0].bytes == [6]
                ), "{told:?}");
            }
        });
        ends.expect("no worker fails");
    }
}

/// The worker's executor ends while there are writes in the buffer.
#[test]
fn abandoned_writes_are_reported() {
    for level in BUFFERED {
        let told: Told = rc(Vec::new());
        let cluster = two_nodes(Protocol::Selcc);
        let (actor, member) = cluster.start_worker((0, 0, 0)).expect("a node");
        let line = rc(None);
        let task = {
            let (told, line) = (told.clone(), line.clone());
            actor.handle().spawn_service(async move {
                let addr = member.memory.allocate().await.expect("room");
                line.replace(Some(addr));
                let buffer = buffer(&member, level, &told);
                buffer.write(addr, 0, &[5, 6]).await.expect("there is room");
            })
        };
        let kernel = cluster.kernel();
        kernel.run_until(kernel.now() + LIMIT, || task.is_finished());
        drop((actor, task));
        let told = told.take();
        assert!(
            matches!(
                &told[..],
                [LostWrites(lost)] if Some(lost[0].addr) == *line.borrow() && lost[0].bytes == [5, 6]
                    && matches!(lost[0].cause, LossCause::Abandoned)
            ),
            "{level}: {told:?}"
        );
    }
}

/// A worker that stands still until a write's deadline has passed does not make the write visible
/// then.
#[test]
fn a_write_after_its_deadline_never_becomes_visible() {
    for level in BUFFERED {
        let cluster = two_nodes(Protocol::Selcc);
        let (meeting, world) = (Rc::new(Meeting::default()), cluster.clone());
        let ends = cluster.run(LIMIT, move |member| {
            let (meeting, world) = (meeting.clone(), world.clone());
            async move {
                let lines = meeting.lines(&member, 1).await;
                meeting.meet(&member, 2, &mut 0).await;
                if member.index == 1 {
                    member.handle.sleep(DEADLINE * 10).await;
                    let value = member.memory.read(lines[0], |w| w.u8(0)).await.expect("a line");
                    assert_eq!(value, 0, "{level}");
                    return;
                }
                let told = rc(Vec::new());
                let buffer = buffer(&member, level, &told);
                buffer.write(lines[0], 0, &[5]).await.expect("there is room");
                world.pause(0, DEADLINE * 2);
                member.handle.sleep(Duration::from_micros(1)).await;
                let lost = lost(buffer.flush().await);
                assert!(matches!(lost[0].cause, LossCause::Deadline(DEADLINE)), "{lost:?}");
                buffer.leave().await.expect("told before");
                member.handle.sleep(DEADLINE * 10).await;
            }
        });
        ends.expect("no worker fails");
    }
}

#[test]
fn bad_calls_are_refused_at_once() {
    let meeting = Rc::new(Meeting::default());
    let ends = two_nodes(Protocol::Selcc).run(LIMIT, move |member| {
        let meeting = meeting.clone();
        async move {
            let lines = meeting.lines(&member, 1).await;
            let told = rc(Vec::new());
            for level in Consistency::ALL {
                let first = buffer(&member, level, &told);
                let second = first.clone();
                let payload = member.memory.payload_len();
                for (offset, len) in [(payload - 1, 2), (usize::MAX, 1)] {
                    let written = first.write(lines[0], offset, &vec![0; len]).await;
                    let read = first.read(lines[0], offset, &mut vec![0; len]).await;
                    for end in [written, read] {
                        assert!(matches!(end, Err(RelaxedError::OutOfLine { .. })), "{end:?}");
                    }
                }
                first.leave().await.expect("no loss");
                let end = second.write(lines[0], 0, &[1]).await;
                assert!(matches!(end, Err(RelaxedError::Closed)), "{level}: {end:?}");
            }
        }
    });
    ends.expect("no worker fails");
}
