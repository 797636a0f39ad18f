//! Measures commits per second on this machine's disk, and for comparison the syncs per second of
//! the disk.
//!
//! ```text
//! cargo run --release -p latchwork-wal --example group_commit -- [DIRECTORY] [SECONDS EACH] [THREADS] [MICROSECONDS] [NODES]
//! ```
//!
//! Each commit is one value of 100 bytes. The committers are tasks of the given threads, with one
//! commit each at a time. The directory should be on the disk to be measured, and is left empty.
//! With MICROSECONDS above 0, a sync does not reach the disk but waits for that time, because the
//! sync time of a shared disk varies. With NODES, the committers are distributed over that many
//! logs of one directory.

mod paced;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::{Clock, Executor, ExecutorConfig, Handle, RealDriver};
use latchwork_wal::storage::{Disk, Storage};
use latchwork_wal::{
    CommitMode, DatabaseId, Log, LogDirectory, LogRecord, LogRecordKind, LogSettings, NodeId,
    Stats, TableId, Timestamp, WalError,
};

use paced::Paced;

const ROUNDS: u32 = 9;
const CASES: [(CommitMode, u64); 5] = [
    (CommitMode::Sync, 1),
    (CommitMode::Sync, 8),
    (CommitMode::Sync, 64),
    (CommitMode::Sync, 256),
    (CommitMode::Async, 64),
];
const VALUE: [u8; 100] = [7; 100];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().map_or_else(|| PathBuf::from("target/group-commit"), PathBuf::from);
    let seconds: u64 = args.next().map_or(Ok(3), |seconds| seconds.parse())?;
    let threads: u64 = args.next().map_or(Ok(1), |threads| threads.parse::<u64>())?.max(1);
    let sync: Option<u64> = args.next().map(|micros| micros.parse()).transpose()?;
    let sync = sync.filter(|micros| *micros > 0).map(Duration::from_micros);
    let nodes: u8 = args.next().map_or(Ok(1), |nodes| nodes.parse::<u8>())?.max(1);
    let span = Duration::from_secs(seconds.max(1));
    if path.exists() {
        return Err(format!("{} exists: name a directory that does not", path.display()).into());
    }
    // A disk with other users has good and bad times. So there are many short rounds, each with a
    // measurement of the disk at that time. The medians count.
    let round = span / ROUNDS;
    let mut found: Vec<Vec<Round>> = vec![Vec::new(); CASES.len()];
    for n in 0..ROUNDS {
        for (&(mode, committers), found) in CASES.iter().zip(&mut found) {
            // Files are removed at the end: freeing their space would become a part of the next
            // sync.
            let path = path.join(format!("{n}-{mode}-{committers}"));
            let before = alone(storage(&path.join("before"), sync)?, round / 4)?;
            let (commits, stats) =
                together(storage(&path, sync)?, round, mode, committers, (threads, nodes))?;
            let syncs = (before + alone(storage(&path.join("after"), sync)?, round / 4)?) / 2.0;
            found.push(Round { syncs, commits, ratio: commits / syncs, stats });
        }
    }
    std::fs::remove_dir_all(&path)?;
    println!("mode   committers  fdatasyncs/s   commits/s     ratio   groups/sync   mean sync");
    for ((mode, committers), found) in CASES.into_iter().zip(found) {
        let median = |of: fn(&Round) -> f64| {
            let mut all: Vec<f64> = found.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        println!(
            "{mode:<6} {committers:>10} {:>13.0} {:>11.0} {:>8.1}x {:>13.1} {:>8.0} us",
            median(|round| round.syncs),
            median(|round| round.commits),
            median(|round| round.ratio),
            median(|round| round.stats.groups_per_sync()),
            median(|round| round.stats.syncing.as_secs_f64() * 1e6 / round.stats.syncs as f64),
        );
    }
    Ok(())
}

/// One measurement.
#[derive(Clone, Copy)]
struct Round {
    /// Syncs per second of one writer that syncs each time, measured just before and just after.
    syncs: f64,
    commits: f64,
    ratio: f64,
    stats: Stats,
}

fn storage(path: &Path, sync: Option<Duration>) -> Result<Arc<dyn Storage>, Box<dyn Error>> {
    let disk = Disk::new(path)?;
    Ok(match sync {
        Some(sync) => Arc::new(Paced { disk, sync }),
        None => Arc::new(disk),
    })
}

/// Syncs per second of a file that grows by the size of a commit each time.
fn alone(disk: Arc<dyn Storage>, span: Duration) -> Result<f64, Box<dyn Error>> {
    let file = disk.create("alone")?;
    disk.sync_directory()?;
    let (clock, mut syncs) = (Clock::start(), 0u32);
    while clock.now().as_nanos() < span.as_nanos() as u64 {
        file.append(&[1; 160])?;
        file.sync()?;
        syncs += 1;
    }
    Ok(f64::from(syncs) * 1e9 / clock.now().as_nanos() as f64)
}

/// Commits per second of committers that commit at the same time.
fn together(
    disk: Arc<dyn Storage>,
    span: Duration,
    mode: CommitMode,
    committers: u64,
    (threads, nodes): (u64, u8),
) -> Result<(f64, Stats), Box<dyn Error>> {
    let directory = LogDirectory::open(disk, DatabaseId(1))?;
    let open = |node| {
        Log::threaded(&directory, NodeId(node), LogSettings { mode, ..LogSettings::default() })
    };
    let logs = (0..nodes).map(open).collect::<Result<Vec<Log>, WalError>>()?;
    let clock = Clock::start();
    let committed = std::thread::scope(|scope| {
        let run = |thread| {
            let logs = logs.clone();
            move || -> Result<u64, WalError> {
                let config = ExecutorConfig { depth: 256, ..ExecutorConfig::default() };
                let mut executor = Executor::new(RealDriver::with_clock(clock), config);
                let handle = executor.handle();
                executor.block_on(async {
                    let mine = (thread..committers).step_by(threads as usize);
                    let tasks: Vec<_> = mine
                        .map(|committer| {
                            let log = logs[committer as usize % logs.len()].clone();
                            handle.spawn(commits(log, handle.clone(), committer, span))
                        })
                        .collect();
                    let mut commits = 0;
                    for task in tasks {
                        commits += task.await.unwrap_or(Err(WalError::Closed))?;
                    }
                    Ok(commits)
                })
            }
        };
        let started: Vec<_> = (0..threads).map(|thread| scope.spawn(run(thread))).collect();
        started.into_iter().try_fold(0, |sum, thread| match thread.join() {
            Ok(commits) => Ok(sum + commits?),
            Err(_) => Err(WalError::Closed),
        })
    })?;
    let rate = committed as f64 * 1e9 / clock.now().as_nanos() as f64;
    let stats = logs.iter().map(Log::stats).fold(Stats::default(), |all, one| Stats {
        groups: all.groups + one.groups,
        syncs: all.syncs + one.syncs,
        syncing: all.syncing + one.syncing,
        ..all
    });
    let mut executor = Executor::new(RealDriver::with_clock(clock), ExecutorConfig::default());
    let handle = executor.handle();
    for log in &logs {
        executor.block_on(log.close(&handle, handle.now() + Duration::from_secs(10)))?;
    }
    Ok((rate, stats))
}

async fn commits(
    log: Log,
    handle: Handle,
    committer: u64,
    span: Duration,
) -> Result<u64, WalError> {
    let mut group = LogRecord::new(LogRecordKind::Commit, Timestamp::ZERO);
    let mut commits = 0;
    while handle.now().as_nanos() < span.as_nanos() as u64 {
        group.reset(LogRecordKind::Commit, Timestamp(commits + 1));
        group.put(TableId(0), &committer.to_be_bytes(), &VALUE)?;
        let deadline = handle.now() + Duration::from_secs(10);
        match log.append(&group) {
            Ok(position) => log.acknowledged(&handle, &position, deadline).await?,
            Err(WalError::Backlog { .. }) => {
                log.room(&handle, deadline).await?;
                continue;
            }
            Err(error) => return Err(error),
        }
        commits += 1;
        // A commit that does not wait for the log would otherwise never let other tasks run.
        handle.coop().await;
    }
    Ok(commits)
}
