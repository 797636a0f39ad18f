//! Writes the inputs of the corpus that programs make: `cargo run -p latchwork-fuzz --example
//! seeds`.
//!
//! Run it when a format changes. Texts that exist elsewhere in the source tree are copied from
//! there.

use std::error::Error;
use std::fs;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use latchwork_fuzz::Corpus;
use latchwork_fuzz::targets::{archive, log};
use latchwork_history::{Direction, RecordedChange, Recording, TransactionOutcome};
use latchwork_hunt::{Scenario, SwarmChoice};
use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
use latchwork_verbs::{
    ComputeNodeId, LocalBuffer, MemoryNodeId, Message, Region, RegionKey, WorkRequest,
};
use latchwork_verbs_tcp::TcpNode;
use latchwork_verbs_tcp::wire::{
    AgentGreeting, ClientGreeting, Hello, Refusal, VERSION, Welcome, begin_batch, begin_reply,
    end_batch, end_reply, put_lease, put_ping, put_pong, put_request, put_time,
};
use latchwork_wal::storage::{Storage, Torn};
use latchwork_wal::{
    CheckpointWriter, Log, LogDirectory, LogEntry, LogRecord, LogRecordKind, LogSettings, NodeId,
    TableId, Timestamp,
};

type Done = Result<(), Box<dyn Error>>;

fn main() -> Done {
    logs()?;
    wire()?;
    letters()?;
    homes()?;
    histories()?;
    for seed in [1, 2, 3] {
        let scenario = Scenario::from_seed(seed, &SwarmChoice::default());
        put("scenario", &format!("drawn-{seed}"), scenario.to_toml().as_bytes())?;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (target, folder) in [
        ("properties", "crates/measure/workload/workloads"),
        ("profile", "crates/fabric/verbs-sim/profiles"),
        ("scenario", "apps/sim/worlds"),
    ] {
        for (name, bytes) in Corpus::load(&root.join(folder))?.inputs {
            put(target, &name, &bytes)?;
        }
    }
    Ok(())
}

fn put(target: &str, name: &str, bytes: &[u8]) -> Done {
    let folder = Corpus::home().join(target);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join(name), bytes)?)
}

// ---- logs --------------------------------------------------------------------------------------

fn logs() -> Done {
    for (name, nodes, checkpoint, close) in [
        ("closed", 1, false, true),
        ("killed", 1, false, false),
        ("checkpoint", 1, true, true),
        ("two-nodes", 2, true, false),
    ] {
        put("log", name, &archive::pack(&directory(nodes, checkpoint, close)?))?;
    }
    put("log", "empty", &[])
}

/// The files of a database in which each node commits 12 times.
fn directory(nodes: u8, checkpoint: bool, close: bool) -> Result<archive::Files, Box<dyn Error>> {
    let torn = Torn::new(0);
    let directory = LogDirectory::open(Arc::new(torn.clone()), log::DATABASE)?;
    let settings = LogSettings { segment_bytes: 1024, ..LogSettings::default() };
    let logs = (0..nodes).map(|node| Log::threaded(&directory, NodeId(node), settings.clone()));
    let logs = logs.collect::<Result<Vec<_>, _>>()?;
    let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
    let handle = executor.handle();
    executor.block_on(async {
        let soon = || handle.now() + Duration::from_secs(60);
        for counter in 1..=12_u64 {
            for (node, log) in (0..).map(NodeId).zip(&logs) {
                let at = Timestamp::new(counter, node).ok_or("a small timestamp")?;
                let kind =
                    if counter % 6 == 5 { LogRecordKind::Note(1) } else { LogRecordKind::Commit };
                let mut group = LogRecord::new(kind, at);
                group.put(TableId(7), &counter.to_be_bytes(), &[counter as u8; 90])?;
                group.remove(TableId(8), &[node.0, counter as u8])?;
                let position = log.append(&group)?;
                log.durable(&handle, &position, soon()).await?;
            }
            if checkpoint && counter == 6 {
                let floor = Timestamp::new(6, NodeId(nodes - 1)).ok_or("a small timestamp")?;
                let mut continues = Vec::new();
                for (node, log) in (0..).map(NodeId).zip(&logs) {
                    continues.push((node, log.rotate(&handle, soon()).await?));
                }
                let writer = CheckpointWriter::begin(&directory, floor, continues)?;
                let mut part = writer.part()?;
                for counter in 1..=4_u64 {
                    let timestamp = Timestamp::new(counter, NodeId(0)).ok_or("small")?;
                    let (key, value) = (&counter.to_be_bytes()[..], Some(&[3; 50][..]));
                    part.put(LogEntry { timestamp, table: TableId(7), key, value })?;
                }
                part.finish()?;
                writer.publish()?;
                logs.iter().try_for_each(|log| log.remove_through(floor).map(drop))?;
            }
        }
        if close {
            for log in &logs {
                log.close(&handle, soon()).await?;
            }
        }
        let read = |name: String| {
            let file = torn.open(&name)?;
            let mut bytes = vec![0; file.length()? as usize];
            file.read(0, &mut bytes)?;
            Ok::<_, Box<dyn Error>>((name, bytes))
        };
        torn.list()?.into_iter().map(read).collect()
    })
}

// ---- the wire ----------------------------------------------------------------------------------

fn wire() -> Done {
    let node = ComputeNodeId::new(3).ok_or("a node")?;
    let memory = Region::zeroed(256)?;
    let local = LocalBuffer { region: RegionKey(0), offset: 0, len: 64 };
    let batches = [
        vec![WorkRequest::Read { remote: 64, local }, WorkRequest::Write { remote: 128, local }],
        vec![
            WorkRequest::CompareSwap { remote: 8, expected: 1, desired: 2 },
            WorkRequest::ReadIf { remote: 64, local, mask: 0xff, value: 1 },
            WorkRequest::FetchAdd { remote: 16, add: 3 },
            WorkRequest::Send(Message { from: node, body: [5; Message::WORDS] }),
        ],
        vec![WorkRequest::WriteWord { remote: 24, value: 9 }],
    ];
    let mut client = vec![0];
    for (seq, requests) in (1..).zip(&batches) {
        put_lease(&mut client, 1 << 40);
        let start = begin_batch(&mut client, requests.len(), 1, seq);
        for request in requests {
            put_request(&mut client, request, |local| memory.words().slice(0..local.len as usize));
        }
        end_batch(&mut client, start);
        put("frames", &format!("batch-{seq}"), &client)?;
    }
    put_ping(&mut client, 7);
    put("frames", "client", &client)?;
    let mut agent = vec![1];
    let start = begin_reply(&mut agent, 1, false);
    agent.extend([6; 72]);
    end_reply(&mut agent, start, 0b10);
    put_time(&mut agent, 1 << 41);
    put_pong(&mut agent, 7, 1 << 41);
    let start = begin_reply(&mut agent, 2, true);
    end_reply(&mut agent, start, 0);
    put("frames", "agent", &agent)?;

    let greeting = |which: u8, bytes: &[u8]| [&[which], bytes].concat();
    let hello = Hello { version: VERSION, secret: true, nonce: [7; 32] };
    put("greetings", "hello", &greeting(0, &hello.bytes()))?;
    let answer = AgentGreeting { version: VERSION, refusal: None, nonce: [8; 32] };
    put("greetings", "answer", &greeting(1, &answer.bytes()))?;
    let (from, to) = (TcpNode::Compute(node), TcpNode::Memory(MemoryNodeId(1)));
    let introduction = ClientGreeting { from, to, epoch: 4, incarnation: 5, session: [9; 16] };
    put("greetings", "introduction", &greeting(2, &introduction.bytes()))?;
    let welcome = Welcome { refusal: None, regions: 2, incarnation: 5, clock: 1 << 41 };
    put("greetings", "welcome", &greeting(3, &welcome.bytes()))?;
    let refused = Welcome { refusal: Some(Refusal::Epoch), regions: 0, ..welcome };
    put("greetings", "refused", &greeting(3, &refused.bytes()))
}

/// Messages of SELCC by their words, because the code that writes them is not public.
fn letters() -> Done {
    let request = 2 | 3 << 6 | 1 << 12 | 4 << 13 | 9 << 18 | 5 << 32;
    let head = |kind: u64| kind | 2 << 8 | 9 << 16;
    for (name, first, rest) in [
        ("request", 1, vec![request]),
        ("answer", head(2), vec![]),
        ("grant", head(3) | 1 << 32 | 2 << 40, vec![0, request, request]),
        ("settled", 4 | 9 << 16, vec![]),
        ("doubt", 5, vec![77]),
        ("verdict", 6 | 1 << 32, vec![77]),
        ("pledged", head(7), vec![]),
        ("taken", 8 | 9 << 16, vec![]),
        ("gave-up", 9 | 9 << 16, vec![]),
        ("mail", 10, vec![1, 2, 3]),
    ] {
        put("letters", name, &message(first, rest))?;
    }
    Ok(())
}

fn message(first: u64, rest: Vec<u64>) -> Vec<u8> {
    let mut words = vec![first, 4096_u64, 1 << 16 | 1];
    words.extend(rest);
    words.resize(14, 0);
    let bytes = words.iter().flat_map(|word: &u64| word.to_le_bytes());
    [1].into_iter().chain(bytes).collect()
}

/// Messages of GAM and ScaleStore.
fn homes() -> Done {
    let (to_home, from_home) = (1 << 8, 2 << 8);
    for (name, first, rest) in [
        ("request", 11 | to_home | 1 << 16, vec![4096]),
        ("reply", 15 | from_home | 5 << 16 | 1 << 24 | 2 << 32, vec![6, 3 | 1 << 8]),
        ("directive", 18 | 1 << 16 | 5 << 24 | 2 << 40, vec![4096]),
        ("settle", 22 | from_home | 7 << 16 | 1 << 24, vec![4]),
        ("lost", 26 | from_home | 3 << 16, vec![]),
    ] {
        put("homes", name, &message(first, rest))?;
    }
    Ok(())
}

// ---- histories ---------------------------------------------------------------------------------

fn histories() -> Done {
    for (name, first, second) in [("good", 0, 64), ("write-skew", 0, 0)] {
        let recording = Recording::memory(0);
        let recorder = recording.recorder();
        for (worker, cts, row, seen) in [(0, 64, b"x", first), (1, 128, b"y", second)] {
            let mut record = recorder.begin(0, worker, 10 * cts);
            record.read_value(1, b"x", seen, 0xfeed);
            record.read(1, b"y", 0);
            record.write(1, row, RecordedChange::Value(0xfeed));
            recorder.finish(record, TransactionOutcome::Committed { cts }, 10 * cts + 5);
        }
        let mut record = recorder.begin(1, 0, 2000);
        let scan = record.scan(1, Bound::Included(b"a"), Bound::Excluded(b"z"), Direction::Up);
        record.saw(scan, b"x", Some(64));
        record.saw(scan, b"y", Some(128));
        record.write(2, b"gone", RecordedChange::Delete);
        recorder.finish(record, TransactionOutcome::Unknown { cts: 192 }, 2005);
        let mut bytes = Vec::new();
        recording.history().write(&mut bytes)?;
        put("history", name, &bytes)?;
    }
    Ok(())
}
