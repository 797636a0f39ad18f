//! The target `log`: a directory of logs and checkpoints, in which any file has any bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use latchwork_wal::storage::{Storage, Torn};
use latchwork_wal::{DatabaseId, LogDirectory, Opening, WalError};

use super::archive::{Files, pack, unpack};
use super::target::{FuzzTarget, assert_one_line};
use crate::{INPUT_MAX, Mutator, class_of};

/// Logs and checkpoints, with their opening and replay.
pub const TARGET: FuzzTarget = FuzzTarget { name: "log", run, mutate, tried: 10_000 };

/// The id of the database in the corpus.
pub const DATABASE: DatabaseId = DatabaseId(0xda7a);

const FILE_HEADER: usize = 64;
const GROUP_HEADER: usize = 40;

/// Opens the directory in `data` for reading, then for writing, then once more, and replays it each
/// time.
///
/// - An error is one line, and names a file of the directory or the directory.
/// - Opening for reading changes nothing, and returns the same as opening for writing.
/// - A directory that opens once opens again, and returns the same.
/// - A directory that does not open is opened again with its loss accepted. Then the same rules
///   hold.
///
/// # Panics
/// When one of these does not hold.
pub fn run(data: &[u8]) -> String {
    let files = unpack(data);
    let torn = directory(&files);
    let before = torn.operations();
    let read = LogDirectory::open_to_read(Arc::new(torn.clone()), DATABASE);
    let read = read.and_then(|directory| shown(&directory));
    assert_eq!(torn.operations(), before, "reading changed the directory");
    let opened = LogDirectory::open(Arc::new(torn.clone()), DATABASE);
    let opened = opened.and_then(|directory| shown(&directory));
    match (&read, &opened) {
        (Ok(read), Ok(opened)) => {
            assert_eq!(read, opened, "reading and opening disagree");
            let again = LogDirectory::open(Arc::new(torn.clone()), DATABASE);
            let again = again.and_then(|directory| shown(&directory));
            assert_eq!(again.as_ref().ok(), Some(opened), "it does not open twice: {again:?}");
        }
        (Err(read), Err(_)) => {
            told(read);
            accept(&files);
        }
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => {
            panic!("reading and opening disagree: {error}");
        }
    }
    match opened {
        Ok(keys) => format!("whole: {} files, {} keys", files.len().min(12), keys.len().min(24)),
        Err(error) => {
            told(&error);
            class(&error)
        }
    }
}

/// Accepts the loss, if that is possible: first for reading, then for writing. Afterwards no loss
/// is left.
fn accept(files: &Files) {
    let torn = directory(files);
    let before = torn.operations();
    let open = |to_read| {
        let opening = Opening { to_read, accept_loss: true };
        let directory = LogDirectory::open_as(Arc::new(torn.clone()), DATABASE, opening);
        directory.and_then(|directory| shown(&directory))
    };
    let read = open(true);
    assert_eq!(torn.operations(), before, "reading changed the directory");
    match (read, open(false)) {
        (Ok(read), Ok(opened)) => {
            assert_eq!(read, opened, "reading and opening accept different losses");
            let again = LogDirectory::open(Arc::new(torn), DATABASE);
            let again = again.and_then(|directory| shown(&directory));
            assert_eq!(again.as_ref().ok(), Some(&opened), "an accepted loss stays one: {again:?}");
        }
        (Err(read), Err(opened)) => [&read, &opened].into_iter().for_each(told),
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => {
            panic!("reading and opening disagree on a loss: {error}");
        }
    }
}

/// The class of an error: its kind, and the kind of file.
fn class(error: &WalError) -> String {
    match error {
        WalError::Damaged { file, what, .. } => {
            let kind = file.rsplit(['.', '-']).next().unwrap_or_default();
            class_of(&format!("{kind} damaged: {what}"))
        }
        error => {
            let name = format!("{error:?}");
            name.split([' ', '(']).next().unwrap_or_default().to_owned()
        }
    }
}

fn directory(files: &Files) -> Torn {
    let torn = Torn::new(0);
    for (name, bytes) in files {
        // A second file with the same name is left out.
        let Ok(file) = torn.create(name) else { continue };
        file.append(bytes).and_then(|()| file.sync()).expect("the device has room");
    }
    torn.sync_directory().expect("the device has power");
    torn
}

type Keys = BTreeMap<(u32, Vec<u8>), Option<Vec<u8>>>;

fn shown(directory: &LogDirectory) -> Result<Keys, WalError> {
    let replayed = directory.replay(1)?;
    let own = |(table, latest): (latchwork_wal::TableId, &latchwork_wal::LatestValue)| {
        ((table.0, latest.key.to_vec()), latest.value.as_deref().map(<[u8]>::to_vec))
    };
    Ok(replayed.keys().map(own).collect())
}

fn told(error: &WalError) {
    assert_one_line(&error.to_string());
    match error {
        WalError::Damaged { file, .. }
        | WalError::Version { file, .. }
        | WalError::OtherDatabase { file, .. }
        | WalError::Missing { file, .. } => assert!(!file.is_empty(), "{error}"),
        // The simulated device does not fail, and no other process uses it.
        WalError::Io { .. } | WalError::InUse { .. } | WalError::Full { .. } => panic!("{error}"),
        _ => {}
    }
}

// ---- mutation ----------------------------------------------------------------------------------

/// Changes one file, its name, or the set of files. Mostly the checksums are corrected afterwards,
/// so that the parser reaches the changed bytes.
pub fn mutate(mutator: &mut Mutator, data: &mut Vec<u8>) {
    let mut files = unpack(data);
    if files.is_empty() || mutator.one_in(32) {
        return mutator.bytes(data);
    }
    let at = mutator.below(files.len());
    match mutator.below(16) {
        0 => _ = files.remove(at),
        1 => {
            let others = unpack(mutator.partner());
            let from = mutator.below(others.len());
            files.extend(others.get(from).cloned());
        }
        2 => {
            let mut name = std::mem::take(&mut files[at].0).into_bytes();
            mutator.text(&mut name);
            files[at].0 = String::from_utf8_lossy(&name).chars().take(60).collect();
        }
        3 => {
            // The highest number that a segment's name can have.
            let name = &mut files[at].0;
            if let Some(rest) = name.strip_suffix(".log").and_then(|name| name.split('-').next()) {
                *name = format!("{rest}-{}.log", u64::MAX);
            }
        }
        _ => mutator.bytes(&mut files[at].1),
    }
    if !mutator.one_in(6) {
        files.iter_mut().for_each(|(name, bytes)| seal(name, bytes));
    }
    *data = pack(&files);
    data.truncate(INPUT_MAX);
}

/// Corrects the checksums of a file. A segment has one in its header and one in each log record.
/// Any other file has one at its end.
pub fn seal(name: &str, bytes: &mut [u8]) {
    if !bytes.starts_with(b"LATCHWAL") {
        return seal_end(bytes);
    }
    let Some(head) = bytes.first_chunk_mut::<FILE_HEADER>() else { return };
    // The name must agree with the header. Otherwise the file is refused at once.
    if let Some((node, number)) = name.strip_suffix(".log").and_then(|name| name.split_once('-'))
        && let (Ok(node), Ok(number)) = (node.parse::<u8>(), number.parse::<u64>())
    {
        (head[12], head[13]) = (1, node);
        head[32..40].copy_from_slice(&number.to_le_bytes());
    }
    let crc = crc32fast::hash(&head[..FILE_HEADER - 4]);
    head[FILE_HEADER - 4..].copy_from_slice(&crc.to_le_bytes());
    let head = *head;
    for at in (FILE_HEADER..bytes.len()).step_by(8) {
        if bytes[at..].starts_with(b"GRP1") {
            seal_group(&head, bytes, at);
        }
    }
}

fn seal_end(bytes: &mut [u8]) {
    if let Some((covered, crc)) = bytes.split_last_chunk_mut::<4>() {
        *crc = crc32fast::hash(covered).to_le_bytes();
    }
}

/// Seals the log record at `at`: the checksum of its body, if the body is complete, and the
/// checksum of its header and position.
fn seal_group(head: &[u8; FILE_HEADER], bytes: &mut [u8], at: usize) {
    let Some(group) = bytes.get(at..).filter(|group| group.len() >= GROUP_HEADER) else { return };
    let length = u32::from_le_bytes([group[4], group[5], group[6], group[7]]) as usize;
    let body = group.get(GROUP_HEADER..length).map(crc32fast::hash);
    if let Some(body) = body {
        bytes[at + 32..at + 36].copy_from_slice(&body.to_le_bytes());
    }
    let mut place = [0; 32];
    place[0] = head[12];
    match head[12] {
        2 => place[4..8].copy_from_slice(&head[16..20]),
        _ => place[4] = head[13],
    }
    place[8..16].copy_from_slice(&head[24..32]);
    place[16..24].copy_from_slice(&head[32..40]);
    place[24..].copy_from_slice(&(at as u64).to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place);
    hasher.update(&bytes[at..at + GROUP_HEADER - 4]);
    bytes[at + 36..at + 40].copy_from_slice(&hasher.finalize().to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Corpus;

    /// This is needed, because otherwise the first checksum would refuse every mutation.
    #[test]
    fn sealing_a_whole_file_changes_nothing() {
        let corpus = Corpus::load(&Corpus::home().join("log")).expect("readable");
        let mut sealed = 0;
        for (_, input) in &corpus.inputs {
            for (name, bytes) in unpack(input) {
                let mut again = bytes.clone();
                seal(&name, &mut again);
                assert!(again == bytes || name == "LOCK", "{name} has another checksum");
                sealed += 1;
            }
        }
        assert!(sealed > 4, "{sealed} files");
    }

    /// Bug: the segment after the segment with the highest number had no number. Only a forged
    /// header has that number.
    #[test]
    fn a_segment_without_a_next_number_is_refused() {
        let corpus = Corpus::load(&Corpus::home().join("log")).expect("readable");
        let mut refused = 0;
        for (_, input) in &corpus.inputs {
            let files = unpack(input);
            let witness = files.iter().filter(|(name, _)| name == "WITNESS");
            for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(".log")) {
                let (last, mut bytes) = (format!("00-{}.log", u64::MAX), bytes.clone());
                seal(&last, &mut bytes);
                let beside = witness.clone().cloned().chain([(last, bytes)]);
                let class = run(&pack(&beside.collect::<Vec<_>>()));
                // The corpus also has files of other versions, and logs without a witness.
                let expected = class.starts_with("log damaged")
                    || ["Version", "NoCheckpoint"].contains(&class.as_str());
                assert!(expected, "{name}: {class}");
                refused += usize::from(class.contains("such a kind, number"));
            }
        }
        assert!(refused > 1, "{refused} refused");
    }
}
