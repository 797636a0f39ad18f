//! A directory of one log, as files that a test can change.

use std::sync::Arc;

use latchwork_wal::storage::{Storage as _, Torn};
use latchwork_wal::{CheckpointWriter, LogDirectory, LogEntry, LogSettings, Opening, WalError};

use crate::common::{DATABASE, NODE, TABLE, at, commit, counters, open, run, soon, start};

pub(crate) fn small() -> LogSettings {
    LogSettings { segment_bytes: 1024, ..LogSettings::default() }
}

pub(crate) fn content(torn: &Torn, name: &str) -> Vec<u8> {
    let file = torn.open(name).expect("there");
    let mut bytes = vec![0; file.length().expect("read") as usize];
    file.read(0, &mut bytes).expect("read");
    bytes
}

/// A directory with these files and nothing else.
pub(crate) fn made_of(files: &[(String, Vec<u8>)]) -> Torn {
    let torn = Torn::new(0);
    for (name, bytes) in files {
        let file = torn.create(name).expect("made");
        file.append(bytes).expect("written");
        file.sync().expect("synced");
    }
    torn.sync_directory().expect("synced");
    torn
}

pub(crate) fn files(torn: &Torn) -> Vec<(String, Vec<u8>)> {
    let names = torn.list().expect("listed");
    names.into_iter().map(|name| (name.clone(), content(torn, &name))).collect()
}

pub(crate) fn replay(torn: &Torn) -> Result<Vec<u64>, WalError> {
    Ok(counters(&open(torn)?.replay(2)?))
}

/// The number of commits in an example: the last segment is not empty.
pub(crate) const LAST: u64 = 18;

/// How the process of an example ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum End {
    Closed,
    Killed,
}

/// Puts a checkpoint of the first ten commits in place. Every version up to the commit `floor` is
/// in it, and the segments from `continues` on are needed behind it.
pub(crate) fn checkpoint(directory: &Arc<LogDirectory>, floor: u64, continues: u64) {
    let writer = CheckpointWriter::begin(directory, at(floor), [(NODE, continues)]).expect("begun");
    let mut part = writer.part().expect("begun");
    for counter in 1..=10u64 {
        let (key, value) = (&counter.to_be_bytes()[..], Some(&[3; 150][..]));
        part.put(LogEntry { timestamp: at(counter), table: TABLE, key, value }).expect("written");
    }
    part.finish().expect("synced");
    writer.publish().expect("in place");
}

/// Commits in several segments, with a checkpoint of the first ten.
pub(crate) fn example(with_checkpoint: bool, end: End) -> Vec<(String, Vec<u8>)> {
    let torn = Torn::new(0);
    let directory = open(&torn).expect("empty");
    let log = start(&directory, small());
    run(async |handle| {
        commit(&log, &handle, 1..=10, 150).await;
        if with_checkpoint {
            let number = log.rotate(&handle, soon(&handle)).await.expect("rotated");
            checkpoint(&directory, 10, number);
            log.remove_through(at(10)).expect("removed");
        }
        commit(&log, &handle, 11..=LAST, 150).await;
        if end == End::Killed {
            return files(&torn);
        }
        log.close(&handle, soon(&handle)).await.expect("closed");
        files(&torn)
    })
}

/// A length of the last segment at which, or before which, its last record begins.
pub(crate) fn last_batch(files: &[(String, Vec<u8>)]) -> u64 {
    let (_, last) = files.iter().rfind(|(name, _)| name.ends_with(".log")).expect("a segment");
    // Each record is a flush batch of its own: its header states how much was durable before.
    let at = (0..last.len() / 8).rfind(|at| last[at * 8..].starts_with(b"GRP1")).expect("a group");
    at as u64 * 8
}

/// The commits that an opening which accepts losses finds, and the number that it reports missing.
pub(crate) fn accept(torn: &Torn, to_read: bool) -> Result<(Vec<u64>, u64), WalError> {
    let opening = Opening { to_read, accept_loss: true };
    let directory = LogDirectory::open_as(Arc::new(torn.clone()), DATABASE, opening)?;
    let missing = directory.losses().iter().map(|loss| loss.missing).sum();
    Ok((counters(&directory.replay(2)?), missing))
}
