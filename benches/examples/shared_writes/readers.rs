//! The readers: the part that runs under valgrind.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::{Bound, ControlFlow};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use latchwork_benches::{key, lines};
use latchwork_blink::{Tree, TreeConfig};
use latchwork_cluster::{ClusterConfig, Embedded, Member, Worker};
use latchwork_coherence::CoherentMemory;
use latchwork_engine::NodeSettings;
use latchwork_memnode::PoolSettings;
use latchwork_rtree::{NewEntry, RTree, RTreeConfig, RTreeError, Rect};
use latchwork_runtime::sync::{AtomicU64, AtomicUsize, Ordering};
use latchwork_verbs::GlobalAddr;

use crate::spoil::Spoil;

/// Reads of each reader in each phase. The number is larger than the reads that a task may do
/// before it has to yield.
pub(crate) const READS: usize = 50;
/// Keys that one call looks up.
const MANY: usize = 16;
/// Entries of a scan.
const SCANNED: usize = 30;
/// With this number of keys the tree has three levels of pages of 512 bytes.
const KEYS: u64 = 800;
/// The points of the R-tree stand in a square with this side. It has two levels of pages.
const SIDE: u64 = 12;
const LINES: usize = 30;
const NODES: usize = 2;
const WORKERS: usize = 2;
/// A time longer than all phases. It replaces the intervals of periodic actions, which are not part
/// of a read, and would be frequent because valgrind is slow.
const NEVER: Duration = Duration::from_secs(600);

/// The value of the count of warm readers after a reader has failed.
const GAVE_UP: usize = usize::MAX;

const OTHER_GAVE_UP: &str = "another reader gave up";

/// The interval at which a reader checks whether it is its turn to warm up.
const POLL: Duration = Duration::from_millis(5);

/// A way to read.
#[derive(Clone, Copy)]
enum Path {
    TryGet,
    Get,
    GetMany,
    Scan,
    Window,
    Nearest,
    TryRead,
    Read,
    Sweep,
}

/// The paths that obtain missing lines come first.
const PATHS: [Path; 9] = [
    Path::Get,
    Path::TryGet,
    Path::GetMany,
    Path::Scan,
    Path::Window,
    Path::Nearest,
    Path::Read,
    Path::TryRead,
    Path::Sweep,
];

impl Path {
    fn name(self) -> &'static str {
        match self {
            Path::TryGet => "tree get, plain function",
            Path::Get => "tree get",
            Path::GetMany => "tree get of many, 16 keys",
            Path::Scan => "tree scan",
            Path::Window => "R-tree, window of 4 points",
            Path::Nearest => "R-tree, nearest 3 points",
            Path::TryRead => "line read, plain function",
            Path::Read => "line read",
            Path::Sweep => "sweep of the executor",
        }
    }
}

/// Whose turn it is to run a phase. All other readers are blocked.
struct Turns {
    /// The number of the next phase. `None` when a reader has failed, so that no reader waits for
    /// it.
    next: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Turns {
    fn wait(&self, mine: usize) -> Result<(), String> {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let others = |next: &mut Option<usize>| next.is_some_and(|next| next != mine);
        let turn = self.changed.wait_timeout_while(next, NEVER, others);
        let (next, _) = turn.unwrap_or_else(PoisonError::into_inner);
        if *next == Some(mine) { Ok(()) } else { Err(OTHER_GAVE_UP.to_owned()) }
    }

    fn set(&self, next: Option<usize>) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = next;
        self.changed.notify_all();
    }
}

/// The shared state of all readers.
struct Shared {
    root: GlobalAddr,
    boxes: GlobalAddr,
    lines: Vec<GlobalAddr>,
    /// The number of readers that have read all data once.
    warm: AtomicUsize,
    turns: Turns,
    spoil: Option<Spoil>,
    // The counters are in one cache line, which one of the seeded bugs needs.
    counters: [AtomicU64; NODES * WORKERS],
}

struct Reader<'a> {
    shared: &'a Shared,
    member: Member,
    tree: Tree<Worker>,
    boxes: RTree<Worker, 2>,
}

pub(crate) fn run(spoil: Option<Spoil>) -> Result<(), String> {
    let config = ClusterConfig {
        compute_nodes: NODES,
        workers: WORKERS,
        memory_bytes: 4 << 20,
        cache_bytes: 1 << 20,
        line_size: 512,
        chunk_size: 256 << 10,
        node: NodeSettings { deadline: NEVER, ..NodeSettings::default() },
        pool: PoolSettings {
            stripes: 1,
            tick_interval: NEVER,
            idle_after: NEVER,
            deadline: NEVER,
            ..PoolSettings::default()
        },
        ..ClusterConfig::default()
    };
    let cluster = Embedded::start(config).map_err(text)?;
    let lines = lines(&cluster, LINES);
    let root = latchwork_benches::on_first(&cluster, async |member| {
        let tree = Tree::create(member.memory.clone(), TreeConfig::default()).await?;
        for i in 0..KEYS {
            tree.insert(&key(i), &i.to_be_bytes()).await?;
        }
        Ok::<_, latchwork_blink::TreeError>(tree.root())
    });
    let root = root.map_err(text)?;
    let boxes = latchwork_benches::on_first(&cluster, async |member| {
        let boxes = RTree::create(member.memory.clone(), RTreeConfig::default()).await?;
        let points = (0..SIDE * SIDE).map(|id| {
            let rect = Rect::point([(id % SIDE) as f64, (id / SIDE) as f64])?;
            Ok(NewEntry { rect, id, payload: Vec::new() })
        });
        boxes.bulk_load(points.collect::<Result<_, RTreeError>>()?).await?;
        Ok::<_, RTreeError>(boxes.root())
    });
    let boxes = boxes.map_err(text)?;
    let shared = &Shared {
        root,
        boxes,
        lines,
        warm: AtomicUsize::new(0),
        turns: Turns { next: Mutex::new(Some(0)), changed: Condvar::new() },
        spoil,
        counters: Default::default(),
    };
    let ends = cluster.run(async |member| {
        let tree = Tree::open(member.memory.clone(), shared.root, TreeConfig::default()).await;
        let tree = tree.map_err(text)?;
        let boxes = RTree::open(member.memory.clone(), shared.boxes, RTreeConfig::default()).await;
        let boxes = boxes.map_err(text)?;
        let end = Reader { shared, member, tree, boxes }.take_part().await;
        if end.is_err() {
            shared.warm.store(GAVE_UP, Ordering::Release);
            shared.turns.set(None);
        }
        end
    });
    let ends = ends.map_err(text)?;
    // The error of the first failed reader explains more than the errors that follow from it.
    let mut errors: Vec<String> = ends.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| error == OTHER_GAVE_UP);
    errors.into_iter().next().map_or(Ok(()), Err)
}

impl Reader<'_> {
    async fn take_part(&self) -> Result<(), String> {
        let me = self.member.index;
        // The readers warm up in turn. A reader that is not warming up serves requests, so that the
        // lines can move to the others.
        self.until_warm(me).await?;
        self.tree.count().await.map_err(text)?;
        self.boxes.count(&Rect::EVERYTHING).await.map_err(text)?;
        for &line in &self.shared.lines {
            self.member.memory.read(line, |_| ()).await.map_err(text)?;
        }
        for path in PATHS {
            self.read(path).await?;
        }
        self.shared.warm.store(me + 1, Ordering::Release);
        self.until_warm(NODES * WORKERS).await?;
        // The marks go through a separate file, because the standard handle has a lock. All readers
        // would store to that lock's cache line.
        let mut marks = OpenOptions::new().append(true).open("/dev/stderr").map_err(text)?;
        for (number, path) in PATHS.iter().enumerate() {
            let turn = number * NODES * WORKERS + me;
            self.shared.turns.wait(turn)?;
            // A read before the phase takes effects that occur only at the first read of a path.
            self.read(*path).await?;
            mark(&mut marks, &format!("MARK begin {me} {}\n", path.name()))?;
            self.read(*path).await?;
            mark(&mut marks, "MARK end\n")?;
            if number + 1 == PATHS.len() && me == 0 {
                self.tell_where_code_is(&mut marks)?;
            }
            self.shared.turns.set(Some(turn + 1));
        }
        // No reader ends and drops its state while another reader still reads.
        self.shared.turns.wait(PATHS.len() * NODES * WORKERS)
    }

    /// Waits until this number of readers is warm.
    async fn until_warm(&self, readers: usize) -> Result<(), String> {
        let deadline = self.member.handle.now() + NEVER;
        loop {
            match self.shared.warm.load(Ordering::Acquire) {
                warm if warm == readers => return Ok(()),
                GAVE_UP => return Err(OTHER_GAVE_UP.to_owned()),
                _ if self.member.handle.now() > deadline => {
                    return Err("the readers do not get warm".to_owned());
                }
                _ => self.member.handle.sleep(POLL).await,
            }
        }
    }

    async fn read(&self, path: Path) -> Result<(), String> {
        let number = |i: usize| key(i as u64 * 13 % KEYS);
        let mut found = Vec::new();
        for i in 0..READS {
            let key = number(i);
            let line = self.shared.lines[i % LINES];
            let there = match path {
                Path::TryGet => {
                    matches!(self.tree.try_get(&key, |value| value.u64(0)), Ok(Some(_)))
                }
                Path::Get => {
                    let found = self.tree.get_with(&key, |value| value.u64(0)).await;
                    found.map_err(text)?.is_some()
                }
                Path::GetMany => {
                    let keys: [_; MANY] = std::array::from_fn(|n| number(i * MANY + n));
                    let visit = |_, value: latchwork_blink::TreeValue<'_>| value.u64(0);
                    self.tree.get_many(&keys, visit, &mut found).await.map_err(text)?;
                    found.len() == MANY && found.iter().all(Option::is_some)
                }
                Path::Scan => {
                    let visit = |_: &[u8], _: &[u8]| ControlFlow::Continue(());
                    let from = Bound::Included(key.as_slice());
                    self.tree.scan_up(from, SCANNED, visit).await.map_err(text)? > 0
                }
                Path::Window => {
                    let low = [i as f64 % (SIDE - 1) as f64, (i * 7) as f64 % (SIDE - 1) as f64];
                    let window = Rect::new(low, low.map(|at| at + 1.0)).map_err(text)?;
                    self.boxes.count(&window).await.map_err(text)? == 4
                }
                Path::Nearest => {
                    let at = [i as f64 % SIDE as f64, (i * 7) as f64 % SIDE as f64];
                    self.boxes.nearest(at, 3).await.map_err(text)?.len() == 3
                }
                Path::TryRead => self.member.memory.try_read(line).is_ok_and(|seen| {
                    let word = seen.words().u64(64);
                    seen.validate() && word == 0
                }),
                Path::Read => {
                    let word = self.member.memory.read(line, |words| words.u64(64)).await;
                    word.map_err(text)? == 0
                }
                Path::Sweep => {
                    self.member.handle.yield_now().await;
                    true
                }
            };
            if !there {
                return Err(format!(
                    "{}: read {i} found nothing, or not what is there",
                    path.name()
                ));
            }
            match self.shared.spoil {
                Some(Spoil::Counter) => &self.shared.counters[0],
                Some(Spoil::Neighbour) => &self.shared.counters[self.member.index],
                None => continue,
            }
            .fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Prints the address of the program's code in memory, so that the parent can name addresses.
    fn tell_where_code_is(&self, marks: &mut File) -> Result<(), String> {
        let me = std::env::current_exe().map_err(text)?;
        let maps = std::fs::read_to_string("/proc/self/maps").map_err(text)?;
        let first = maps.lines().find(|line| line.ends_with(me.to_string_lossy().as_ref()));
        let base = first.and_then(|line| line.split('-').next());
        base.map_or(Ok(()), |base| mark(marks, &format!("MARK code {base}\n")))
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn mark(marks: &mut File, line: &str) -> Result<(), String> {
    marks.write_all(line.as_bytes()).map_err(text)
}
