//! Properties in time: a write is visible by its deadline or never, no reader sees a line go back,
//! and no failure loses a write without a report.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::{Member, Protocol, Simulated, Worker};
use latchwork_coherence::CoherentMemory;
use latchwork_history::calls::{Access, check_sequential};
use latchwork_relaxed::{Consistency, LostWrites, RelaxedError, WriteBuffer, WriteBufferSettings};
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{Faults, SimConfig};

use crate::common::{LIMIT, Meeting, config, pause, rc, settings, start, world};

const WORKERS: usize = 4;

/// The number of objects, each a line of its own. Worker k writes number k and number k + 4.
const OBJECTS: usize = 8;

/// One worker writes each object, with versions 1, 2, 3...; all workers read all objects.
#[derive(Default)]
struct Record {
    /// In the order of each worker's calls.
    calls: Vec<Access<usize, usize>>,
    /// The time at which each call began.
    began: Vec<Time>,
    /// The time at which each version of each object was issued, from the first on.
    issued: Vec<Vec<Time>>,
    /// Objects and versions that were lost.
    lost: BTreeSet<(usize, u64)>,
    /// The longest time until a write was visible.
    longest: Duration,
}

struct Load {
    settings: WriteBufferSettings,
    operations: usize,
    /// Of a hundred writes and flushes, the number that is dropped at a random moment.
    dropped: u64,
    /// The deadline is so short that writes are lost.
    loses: bool,
}

fn run(cluster: &Simulated, load: Load) -> Record {
    let record = rc(Record { issued: vec![Vec::new(); OBJECTS], ..Record::default() });
    let (meeting, load) = (Rc::new(Meeting::default()), Rc::new(load));
    let all = {
        let record = record.clone();
        cluster.run(LIMIT, move |member| {
            let (meeting, load, record) = (meeting.clone(), load.clone(), record.clone());
            async move { Process::run(member, &load, &meeting, &record).await }
        })
    };
    all.unwrap_or_else(|error| panic!("seed {}: {error}", cluster.config().seed));
    record.take()
}

struct Process<'a> {
    member: Member,
    load: &'a Load,
    record: &'a RefCell<Record>,
    lines: Vec<GlobalAddr>,
    buffer: WriteBuffer<Worker>,
    /// The last version of each object that this process saw or wrote; `None` after a loss.
    seen: [Option<u64>; OBJECTS],
}

impl Process<'_> {
    async fn run(member: Member, load: &Load, meeting: &Meeting, record: &RefCell<Record>) {
        let lines = meeting.lines(&member, OBJECTS).await;
        let settings = load.settings.clone();
        let buffer = WriteBuffer::new(member.memory.clone(), settings, |lost| panic!("{lost}"));
        let buffer = buffer.expect("settings");
        meeting.meet(&member, WORKERS, &mut 0).await;
        let mut process = Process { member, load, record, lines, buffer, seen: [Some(0); OBJECTS] };
        for _ in 0..load.operations {
            pause(&process.member).await;
            let object = process.member.handle.random_below(OBJECTS as u64) as usize;
            if process.member.handle.random_below(3) < 2 {
                process.read(object).await;
            } else {
                process.write(process.member.index + object / WORKERS * WORKERS).await;
            }
        }
        process.leave().await;
    }

    fn call(&self, began: Time, object: usize, read: Option<u64>, wrote: Option<u64>) {
        let mut record = self.record.borrow_mut();
        record.calls.push(Access { process: self.member.index, object, read, wrote });
        record.began.push(began);
    }

    /// Whether a call took effect. Notes the lost writes.
    fn did(&mut self, end: Result<(), RelaxedError>) -> bool {
        let Err(error) = end else { return true };
        let RelaxedError::Lost(LostWrites(lost)) = error else { panic!("{error}") };
        assert!(self.load.loses, "{lost:?}");
        let mut record = self.record.borrow_mut();
        for lost in lost {
            let object = self.lines.iter().position(|line| *line == lost.addr).expect("its line");
            let last = u64::from_le_bytes(lost.bytes.try_into().expect("a word"));
            // The versions that were merged with the last one.
            let first = record.issued[object].partition_point(|issued| *issued < lost.issued);
            record.lost.extend((first as u64 + 1..=last).map(|version| (object, version)));
            self.seen[object] = None;
        }
        false
    }

    async fn read(&mut self, object: usize) {
        let began = self.member.handle.now();
        let mut word = [0; 8];
        let end = self.buffer.read(self.lines[object], 8, &mut word).await;
        if !self.did(end) {
            return;
        }
        let version = u64::from_le_bytes(word);
        if let Some(seen) = self.seen[object] {
            assert!(version >= seen, "{object} went back from {seen} to {version}");
            let own = object % WORKERS == self.member.index;
            assert!(!own || version == seen, "its own write: {version}, not {seen}");
        }
        self.seen[object] = Some(version);
        self.call(began, object, Some(version), None);
    }

    async fn write(&mut self, object: usize) {
        let handle = self.member.handle.clone();
        let began = handle.now();
        let version = self.record.borrow().issued[object].len() as u64 + 1;
        let dropped = handle.random_below(100) < self.load.dropped;
        let patience =
            if dropped { Duration::from_nanos(handle.random_below(3000)) } else { LIMIT };
        let bytes = version.to_le_bytes();
        let write = self.buffer.write(self.lines[object], 8, &bytes);
        // A buffered write that is dropped was not issued.
        let Ok(end) = handle.timeout(began + patience, write).await else { return };
        if !self.did(end) {
            return;
        }
        self.seen[object] = Some(version);
        self.record.borrow_mut().issued[object].push(handle.now());
        self.call(began, object, None, Some(version));
        if dropped {
            let until = handle.now() + Duration::from_nanos(handle.random_below(5000));
            if let Ok(end) = handle.timeout(until, self.buffer.flush()).await {
                self.did(end);
            }
        }
    }

    async fn leave(mut self) {
        let end = self.buffer.flush().await;
        self.did(end);
        let longest = self.buffer.counts().longest;
        self.buffer.clone().leave().await.expect("told before");
        let me = self.member.index;
        for mine in [me, me + WORKERS] {
            let last =
                self.member.memory.read(self.lines[mine], |w| w.u64(8)).await.expect("a line");
            assert!(self.seen[mine].is_none_or(|seen| seen == last), "all is visible in the end");
        }
        let mut record = self.record.borrow_mut();
        record.longest = record.longest.max(longest);
    }
}

/// The longest time since the issue of the oldest version that a read missed, without lost
/// versions.
fn stalest(record: &Record) -> Duration {
    let mut stalest = Duration::ZERO;
    for (call, began) in record.calls.iter().zip(&record.began) {
        let Some(read) = call.read else { continue };
        let after = record.issued[call.object].iter().zip(1..).skip(read as usize);
        let mut missed =
            after.filter(|(_, version)| !record.lost.contains(&(call.object, *version)));
        if let Some((issued, _)) = missed.next().filter(|(issued, _)| *issued < began) {
            stalest = stalest.max(*began - *issued);
        }
    }
    stalest
}

#[test]
fn whole_runs_are_sequentially_consistent_unless_writes_are_buffered() {
    for level in Consistency::ALL {
        let refused = (0..18).filter(|&seed| {
            let load =
                Load { settings: settings(level, seed), operations: 120, dropped: 0, loses: false };
            check_sequential(&run(&world(seed), load).calls).is_err()
        });
        let refused = refused.count();
        println!("{level}: {refused} of 18 worlds are not sequentially consistent");
        assert_eq!(refused > 0, level.buffers(), "{level}: {refused} worlds refused");
    }
}

/// Messages are delayed and duplicated, connections fail; writes and flushes are dropped before
/// their end.
#[test]
fn faults_and_dropped_calls_lose_no_write() {
    let faults = Faults {
        delay_one_in: 20,
        delay: Duration::from_micros(40),
        repeat_one_in: 3,
        fail_one_in: 5,
        ..Faults::NONE
    };
    // The baseline sends no messages.
    let mut repeated = 0;
    for (seed, level) in
        (40..58).flat_map(|seed| [Consistency::Tso, Consistency::Pso].map(|l| (seed, l)))
    {
        let cluster = world(seed);
        cluster.network().set_faults(faults);
        let load =
            Load { settings: settings(level, seed), operations: 80, dropped: 30, loses: false };
        run(&cluster, load);
        let counts = cluster.network().fault_counts();
        assert!(counts.failed_unapplied > 10, "{level}, seed {seed}: {counts:?}");
        repeated += counts.repeated;
    }
    assert!(repeated > 1000, "{repeated} messages came twice");
}

/// No read that begins after the deadline misses the write. Writes do stay in the buffer, for
/// longer than the batch delay. Where the deadline is too short for the network, writes are lost,
/// and no reader ever sees them.
#[test]
fn a_write_is_visible_by_its_deadline_or_never() {
    let linger = Duration::from_micros(30);
    for (level, micros) in [Consistency::Tso, Consistency::Pso]
        .into_iter()
        .flat_map(|l| [40, 60, 20_000].map(|d| (l, d)))
    {
        let (deadline, loses) = (Duration::from_micros(micros), micros < 1000);
        let (mut oldest, mut longest, mut lost, mut written) =
            (Duration::ZERO, Duration::ZERO, 0, 0);
        for seed in 60..84 {
            let settings = WriteBufferSettings { linger, deadline, ..settings(level, seed) };
            let record = run(&world(seed), Load { settings, operations: 150, dropped: 0, loses });
            let stalest = stalest(&record);
            assert!(stalest <= deadline, "{level}, seed {seed}: missed a write of {stalest:?} ago");
            assert!(record.longest <= deadline, "{level}, seed {seed}: {:?}", record.longest);
            for call in &record.calls {
                let own = call.object % WORKERS == call.process;
                let seen = call.read.is_some_and(|read| record.lost.contains(&(call.object, read)));
                assert!(own || !seen, "{level}, seed {seed}: {call:?} is of a lost write");
            }
            oldest = oldest.max(stalest);
            longest = longest.max(record.longest);
            lost += record.lost.len();
            written += record.issued.iter().map(Vec::len).sum::<usize>();
        }
        println!(
            "{level}, {deadline:?}: visible after up to {longest:?}, missed up to {oldest:?}, {lost} of {written} lost"
        );
        assert!(oldest > linger / 2, "{level}: at most {oldest:?} late, so nothing lingered");
        assert_eq!(lost > 0, loses, "{level}, {deadline:?}: {lost} writes were lost");
    }
}

/// The worker has no other work, so only the tasks of the buffer wake it.
#[test]
fn a_write_of_a_worker_that_parks_is_visible_by_its_deadline() {
    for (level, protocol) in
        [Consistency::Tso, Consistency::Pso].into_iter().flat_map(|l| Protocol::ALL.map(|p| (l, p)))
    {
        let (linger, deadline) = (Duration::from_micros(100), Duration::from_micros(150));
        let cluster = start(config(2, 1, 1, protocol), SimConfig::default());
        let meeting = Rc::new(Meeting::default());
        let issued = Rc::new(Cell::new(None));
        let seen = cluster.run(LIMIT, move |member| {
            let (meeting, issued) = (meeting.clone(), issued.clone());
            async move {
                let lines = meeting.lines(&member, 2).await;
                meeting.meet(&member, 2, &mut 0).await;
                if member.index == 0 {
                    let settings = WriteBufferSettings {
                        consistency: level,
                        linger,
                        deadline,
                        ..WriteBufferSettings::default()
                    };
                    let buffer =
                        WriteBuffer::new(member.memory.clone(), settings, |lost| panic!("{lost}"));
                    let buffer = buffer.expect("settings");
                    issued.set(Some(member.handle.now()));
                    buffer.write(lines[0], 0, &[7]).await.expect("there is room");
                    member.handle.sleep(Duration::from_secs(1)).await;
                    assert_eq!(buffer.pending(), 0);
                    return Duration::ZERO;
                }
                loop {
                    let began = member.handle.now();
                    let value = member.memory.read(lines[0], |w| w.u8(0)).await.expect("a line");
                    if value == 7 {
                        return began - issued.get().expect("issued before it is seen");
                    }
                    member.handle.sleep(Duration::from_nanos(500)).await;
                }
            }
        });
        let after = seen.expect("no worker fails")[1];
        assert!(
            linger / 2 < after && after <= deadline,
            "{level}, {protocol}: seen after {after:?}"
        );
    }
}
