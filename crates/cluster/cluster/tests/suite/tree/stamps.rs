//! Timestamp ordering with only the leaf stamps. A reader at a time sees each key that was added
//! before that time and not deleted before that time. That also holds for a key whose addition,
//! deletion and removal happen during the read.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use latchwork_blink::{Insertion, Leaf, ReplaceOutcome, Tree, TreeConfig, TreeError};
use latchwork_cluster::{Embedded, Member, Protocol, Simulated, Worker};

use crate::tree::shape::{FAN_OUT_3, Shape, seeds};
use crate::tree::shared::{key, number, pass_time, shared_tree_of};

const LIMIT: Duration = Duration::from_secs(30);

const CONFIG: TreeConfig = TreeConfig { stamped: true, ..FAN_OUT_3 };

/// The number of keys in use at a time. The range of these keys moves on, so that some leaves were
/// never split.
const KEYS: u64 = 24;
/// The time between the first uses of two neighbouring keys.
const PACE: u64 = 3;

/// The key with this index, among the keys in use at this time.
fn in_use(at: u64, which: u64) -> u64 {
    at / PACE + which
}

/// Only even numbers, because with leaf stamps the longest odd keys do not fit.
fn even_key(n: u64) -> Vec<u8> {
    key(2 * n)
}

/// The entry of a key: the time of its addition, and the time of its deletion or 0.
fn entry(added: u64, deleted: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&added.to_le_bytes());
    bytes[8..].copy_from_slice(&deleted.to_le_bytes());
    bytes
}

fn times(entry: &[u8]) -> (u64, u64) {
    let [added, deleted] = [0, 8].map(|at| {
        let bytes = entry.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_le_bytes(bytes.expect("an entry of 16 bytes"))
    });
    (added, deleted)
}

fn is_visible((added, deleted): (u64, u64), at: u64) -> bool {
    added < at && (deleted == 0 || deleted > at)
}

/// A read: its time, the first and last of its keys, and the keys that it saw.
type Read = (u64, (u64, u64), Vec<u64>);

/// The shared data of all workers, without the tree.
#[derive(Default)]
struct Board {
    clock: AtomicU64,
    /// For each key its lives: the time of each addition, with the time of the deletion.
    lives: Mutex<BTreeMap<u64, BTreeMap<u64, u64>>>,
    reads: Mutex<Vec<Read>>,
    /// The number of readers and writers that came too late or met a change.
    refused: AtomicU64,
}

impl Board {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn lived(&self, n: u64, added: u64, deleted: u64) {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        let life = lives.entry(n).or_default().entry(added).or_default();
        // The worker that deletes may report before the worker that added.
        *life = deleted.max(*life);
    }

    /// Compares what all reads saw with the lives of the keys.
    fn check(&self, what: &str) {
        let lives = self.lives.lock().expect("all are done");
        let reads = self.reads.lock().expect("all are done");
        for (at, (first, last), seen) in reads.iter() {
            let lives = lives.range(first..=last);
            let is_there = |lives: &BTreeMap<u64, u64>| {
                lives.iter().any(|(added, deleted)| is_visible((*added, *deleted), *at))
            };
            let wanted: Vec<_> = lives.filter(|(_, all)| is_there(all)).map(|(n, _)| *n).collect();
            assert_eq!(*seen, wanted, "{what}: at {at}, keys {first} to {last}");
        }
        let refused = self.refused.load(Ordering::Relaxed);
        assert!(
            reads.len() > 10 && refused > 0,
            "{what}: {} reads, {refused} refused",
            reads.len()
        );
    }
}

async fn add(tree: &Tree<Worker>, board: &Board, member: &Member) -> Result<(), TreeError> {
    let now = board.now();
    let n = in_use(now, member.handle.random_below(KEYS));
    pass_time(member).await;
    let admit = |stamp: &latchwork_blink::LeafStamp| stamp.read < now && stamp.removed < now;
    match tree.insert_stamped(&even_key(n), &entry(now, 0), admit, |_| (), |_| ()).await? {
        Insertion::New { .. } => board.lived(n, now, 0),
        Insertion::Exists { .. } => {}
        Insertion::Refused(_) => board.refuse(),
    }
    Ok(())
}

/// Deletes a key, and removes the entry later.
async fn delete(tree: &Tree<Worker>, board: &Board, member: &Member) -> Result<(), TreeError> {
    let now = board.now();
    let n = in_use(now, member.handle.random_below(KEYS));
    let Some(old) = tree.get(&even_key(n)).await? else { return Ok(()) };
    let (added, deleted) = times(&old);
    if deleted != 0 || added > now {
        return Ok(());
    }
    pass_time(member).await;
    let (key, new) = (even_key(n), entry(added, now));
    match tree.replace_stamped(&key, &old, &new, |stamp| stamp.read < now).await? {
        ReplaceOutcome::Done { .. } => board.lived(n, added, now),
        ReplaceOutcome::Missing(_) | ReplaceOutcome::Different(_) => return Ok(()),
        ReplaceOutcome::Refused(_) => {
            board.refuse();
            return Ok(());
        }
    }
    pass_time(member).await;
    assert!(tree.remove_stamped(&key, &new, 0, now).await?, "somebody else took {n} away");
    Ok(())
}

async fn read(tree: &Tree<Worker>, board: &Board, member: &Member) -> Result<(), TreeError> {
    let (now, which) = (board.now(), member.handle.random_below(KEYS));
    let (first, more) = (in_use(now, which), member.handle.random_below(KEYS - which));
    let last = first + more;
    pass_time(member).await;
    let (mut seen, mut leaves) = (Vec::new(), Vec::<Leaf>::new());
    let is_down = member.handle.random_below(2) == 0;
    let visit = |key: &[u8], value: &[u8]| {
        let n = number(key).unwrap_or_else(|what| panic!("{what}")) / 2;
        if !(first..=last).contains(&n) {
            return ControlFlow::Break(());
        }
        if is_visible(times(value), now) {
            seen.push(n);
        }
        ControlFlow::Continue(())
    };
    if is_down {
        let from = even_key(last);
        tree.scan_down_stamped(Bound::Included(&from), usize::MAX, visit, |leaf| leaves.push(leaf))
            .await?;
        seen.reverse();
    } else {
        let (from, to) = (even_key(first), even_key(last));
        let (from, to) = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        tree.scan_up_stamped(from, to, usize::MAX, visit, |leaf| leaves.push(leaf)).await?;
    }
    for leaf in leaves {
        let raised = tree.raise_read(&leaf, now).await?;
        if raised.is_none_or(|stamp| stamp.removed > now) {
            board.refuse();
            return Ok(());
        }
    }
    let mut reads = board.reads.lock().unwrap_or_else(PoisonError::into_inner);
    reads.push((now, (first, last), seen));
    Ok(())
}

async fn work(member: Member, board: Arc<Board>, steps: u64) -> Result<(), TreeError> {
    let tree = shared_tree_of(&member, CONFIG, async |_| Ok(())).await?;
    for _ in 0..steps {
        match member.handle.random_below(5) {
            0 | 1 => add(&tree, &board, &member).await?,
            2 => delete(&tree, &board, &member).await?,
            _ => read(&tree, &board, &member).await?,
        }
        pass_time(&member).await;
    }
    tree.release_spares().await
}

fn shape(seed: u64, protocol: Protocol) -> Shape {
    Shape { nodes: 3, ..Shape::drawn(seed, protocol) }
}

#[test]
fn readers_at_a_time_miss_nothing_that_came_or_went_before() {
    for (seed, protocol) in seeds(7 << 20, 10).flat_map(|seed| Protocol::ALL.map(|p| (seed, p))) {
        let (shape, board) = (shape(seed, protocol), Arc::new(Board::default()));
        let cluster = Simulated::start(shape.config(), shape.network()).expect("a configuration");
        let workers = board.clone();
        cluster
            .run(LIMIT, move |member| work(member, workers.clone(), 60))
            .unwrap_or_else(|error| panic!("{shape:?}: {error}"))
            .into_iter()
            .for_each(|end| end.unwrap_or_else(|error| panic!("{shape:?}: {error}")));
        board.check(&format!("{shape:?}"));
    }
}

#[test]
fn nor_do_those_of_threads() {
    for protocol in Protocol::ALL {
        let shape = Shape { workers: 2, frames: 12, ..shape(1, protocol) };
        let board = Arc::new(Board::default());
        let cluster = Embedded::start(shape.config()).expect("a configuration");
        cluster
            .run(|member| work(member, board.clone(), 400))
            .unwrap_or_else(|error| panic!("{shape:?}: {error}"))
            .into_iter()
            .for_each(|end| end.unwrap_or_else(|error| panic!("{shape:?}: {error}")));
        board.check(&format!("{shape:?}"));
    }
}
