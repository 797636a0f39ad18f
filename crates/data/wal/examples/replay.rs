//! Measures how fast logs and checkpoints are read back.
//!
//! ```text
//! cargo run --release -p latchwork-wal --example replay -- [DIRECTORY] [MILLION COMMITS] [KEYS, THOUSANDS]
//! ```
//!
//! Four nodes commit values of 100 bytes to random keys, as fast as the log takes them. Then one,
//! two and four threads read everything back. The bytes come from the memory of the system, because
//! they were just written.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::{Clock, Executor, ExecutorConfig, RealDriver};
use latchwork_simulation::Random;
use latchwork_wal::storage::Disk;
use latchwork_wal::{
    CommitMode, DatabaseId, Log, LogDirectory, LogRecord, LogRecordKind, LogSettings, NodeId,
    TableId, Timestamp, WalError,
};

const NODES: u8 = 4;
const VALUE: [u8; 100] = [7; 100];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().map_or_else(|| PathBuf::from("target/replay"), PathBuf::from);
    let millions: f64 = args.next().map_or(Ok(2.0), |millions| millions.parse())?;
    let thousands: u64 = args.next().map_or(Ok(200), |thousands| thousands.parse())?;
    let (commits, keys) = ((millions * 1e6) as u64, (thousands * 1000).max(1));
    if path.exists() {
        return Err(format!("{} exists: name a directory that does not", path.display()).into());
    }
    let open = || {
        LogDirectory::open(Arc::new(Disk::new(&path)?), DatabaseId(1))
            .map_err(Box::<dyn Error>::from)
    };
    write(&open()?, commits / u64::from(NODES), keys)?;
    let mut bytes = 0;
    for entry in std::fs::read_dir(&path)? {
        bytes += entry?.metadata()?.len();
    }
    let clock = Clock::start();
    let begin = clock.now();
    let directory = open()?;
    let opened = clock.now() - begin;
    println!("{commits} commits, {:.0} MB, opened in {opened:.0?}", bytes as f64 / 1e6);
    for threads in [1, 2, 4] {
        let begin = clock.now();
        let replayed = directory.replay(threads)?;
        let took = clock.now() - begin;
        println!(
            "{threads} threads: {} keys in {took:.0?}, {:.2} million commits/s, {:.0} MB/s",
            replayed.keys().count(),
            replayed.groups as f64 / took.as_secs_f64() / 1e6,
            bytes as f64 / took.as_secs_f64() / 1e6,
        );
    }
    std::fs::remove_dir_all(&path)?;
    Ok(())
}

fn write(directory: &Arc<LogDirectory>, commits: u64, keys: u64) -> Result<(), WalError> {
    let settings = LogSettings { mode: CommitMode::Async, ..LogSettings::default() };
    for node in (0..NODES).map(NodeId) {
        let log = Log::threaded(directory, node, settings.clone())?;
        let mut random = Random::new(u64::from(node.0));
        let mut group = LogRecord::new(LogRecordKind::Commit, Timestamp::ZERO);
        let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
        let handle = executor.handle();
        executor.block_on(async {
            for counter in 1..=commits {
                let deadline = handle.now() + Duration::from_secs(60);
                group.reset(
                    LogRecordKind::Commit,
                    Timestamp::new(counter, node).unwrap_or_default(),
                );
                group.put(TableId(0), &random.below(keys).to_be_bytes(), &VALUE)?;
                while let Err(error) = log.append(&group) {
                    let WalError::Backlog { .. } = error else { return Err(error) };
                    log.room(&handle, deadline).await?;
                }
            }
            log.close(&handle, handle.now() + Duration::from_secs(60)).await
        })?;
    }
    Ok(())
}
