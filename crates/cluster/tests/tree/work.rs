//! What the workers do to the tree, and how they look at it in the end.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};
use std::time::Duration;

use latchwork_blink::{Tree, TreeError, TreeStatistics, ValueMut};
use latchwork_cluster::Member;
use latchwork_memnode::ObjectKind;
use latchwork_selcc::Worker;
use latchwork_verbs::GlobalAddr;
use latchwork_workload::history::MapOperation;

use crate::content::{Content, Operation, key, number};
use crate::record::{Calls, Polls, Recorder, drop_after};
use crate::shape::{FAN_OUT_3, Shape};

const TREE: ObjectKind = ObjectKind(7);
const WAIT: Duration = Duration::from_secs(20);

/// The tree that the first worker makes and fills with `load`; the others find it.
pub(crate) async fn shared_tree(
    member: &Member,
    load: impl AsyncFnOnce(&Tree<Worker>) -> Result<(), TreeError>,
) -> Result<Tree<Worker>, TreeError> {
    let port = member.memory.port();
    if member.index == 0 {
        let tree = Tree::create(member.memory.clone(), FAN_OUT_3).await?;
        load(&tree).await?;
        let registered = member.catalogue.register(port, "tree", TREE, tree.root().bits()).await;
        registered.expect("a new name");
        return Ok(tree);
    }
    let deadline = member.handle.now() + WAIT;
    let found = member.catalogue.wait_for(port, &member.handle, "tree", deadline).await;
    let root = GlobalAddr::from_bits(found.expect("the first worker's tree").value);
    Tree::open(member.memory.clone(), root, FAN_OUT_3).await
}

/// Some time passes, and everybody else has a turn. In virtual time nothing takes time unless it says
/// so, and a worker that never yields would do all its work at one instant.
pub(crate) async fn pass_time(member: &Member) {
    member.handle.charge(Duration::from_nanos(50 + member.handle.random_below(400)));
    member.handle.yield_now().await;
}

/// A client that is wrong on purpose: the checks must notice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    None,
    /// Now and then says that it has updated what it has not.
    Forgets,
    /// Now and then answers from memory.
    Remembers,
}

/// Random operations of all of a worker's tasks; returns what they were told. `progress` is told of
/// every operation, with the worker's index.
pub(crate) async fn work(
    member: Member,
    shape: Shape,
    mistake: Mistake,
    progress: impl Fn(usize) + Clone + 'static,
) -> Result<Calls, TreeError> {
    let recorder = Recorder::new(&member.handle);
    let load = async |tree: &Tree<Worker>| {
        let invoked = recorder.now();
        let content = |n: u64| Content::unique(u64::MAX - n);
        let entries = (0..shape.loaded).map(|n| (key(n), content(n).encode()));
        tree.bulk_load(entries, 0.8).await?;
        for n in 0..shape.loaded {
            let operation = MapOperation::Insert { value: content(n), inserted: true };
            recorder.add(n, invoked, Some(recorder.now()), Operation::Map(operation));
        }
        Ok(())
    };
    let tree = shared_tree(&member, load).await?;
    let tasks: Vec<_> = (0..shape.tasks)
        .map(|task| {
            let client = Client {
                member: member.clone(),
                tree: tree.clone(),
                recorder: recorder.clone(),
                shape,
                mistake,
                remembered: Cell::new(None),
                next_id: Cell::new((member.index as u64 * shape.tasks + task + 1) << 32),
            };
            let progress = progress.clone();
            member.handle.spawn(async move {
                for _ in 0..shape.operations {
                    client.operation().await?;
                    progress(client.member.index);
                    pass_time(&client.member).await;
                }
                Ok::<(), TreeError>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("nobody aborts it")?;
    }
    tree.release_spares().await?;
    Ok(recorder.take())
}

struct Client {
    member: Member,
    tree: Tree<Worker>,
    recorder: Recorder,
    shape: Shape,
    mistake: Mistake,
    remembered: Cell<Option<(u64, Option<Content>)>>,
    next_id: Cell<u64>,
}

impl Client {
    fn random(&self, below: u64) -> u64 {
        self.member.handle.random_below(below)
    }

    fn fresh(&self) -> Content {
        self.next_id.set(self.next_id.get() + 1);
        Content::unique(self.next_id.get())
    }

    /// How long this operation may take: mostly as long as it wants.
    fn polls(&self) -> Polls {
        (self.random(100) < self.shape.dropped).then(|| 1 + self.random(10))
    }

    async fn operation(&self) -> Result<(), TreeError> {
        let n = self.random(self.shape.keys);
        match self.random(100) {
            0..15 => self.get(n).await,
            15..20 => {
                self.try_get(n);
                Ok(())
            }
            20..35 => self.insert(n).await,
            35..45 => self.update(n).await,
            45..55 => self.update_range(n).await,
            55..65 => self.upsert(n).await,
            65..75 => self.remove(n).await,
            75..85 => self.modify(n).await,
            85..90 => self.replace(n).await,
            90..95 => self.scan_up(n).await,
            _ => self.scan_down(n).await,
        }
    }

    async fn get(&self, n: u64) -> Result<(), TreeError> {
        let get = async {
            let found = self.tree.get(&key(n)).await?.map(|bytes| whole(&bytes));
            Ok(match (self.mistake, self.remembered.replace(Some((n, found)))) {
                (Mistake::Remembers, Some((last, remembered))) if last == n => remembered,
                _ => found,
            })
        };
        self.recorder
            .call(n, self.polls(), get, |found| {
                let found = found.transpose()?.flatten();
                Ok(Operation::Map(MapOperation::Get { found }))
            })
            .await
    }

    fn try_get(&self, n: u64) {
        let invoked = self.recorder.now();
        if let Ok(found) = self.tree.try_get(&key(n), |value| value.to_vec()) {
            self.recorder.saw(n, invoked, found.map(|bytes| whole(&bytes)));
        }
    }

    async fn insert(&self, n: u64) -> Result<(), TreeError> {
        let value = self.fresh();
        self.recorder
            .call(n, self.polls(), self.tree.insert(&key(n), &value.encode()), |answer| {
                let inserted = match answer {
                    Some(Err(TreeError::Exists)) => false,
                    other => other.transpose()?.is_some(),
                };
                Ok(Operation::Map(MapOperation::Insert { value, inserted }))
            })
            .await
    }

    async fn update(&self, n: u64) -> Result<(), TreeError> {
        let value = self.fresh();
        let forget = self.mistake == Mistake::Forgets && self.random(4) == 0;
        let update = async {
            let known = match forget {
                true => self.tree.get(&key(n)).await?.is_some(),
                false => return self.tree.update(&key(n), &value.encode()).await,
            };
            if known { Ok(()) } else { Err(TreeError::NotFound) }
        };
        self.recorder
            .call(n, self.polls(), update, |answer| {
                let updated = known(answer)?.is_some();
                Ok(Operation::Map(MapOperation::Update { value, updated }))
            })
            .await
    }

    async fn update_range(&self, n: u64) -> Result<(), TreeError> {
        let head = self.fresh().head;
        let update = async { self.tree.update_range(&key(n), 0, &head.to_le_bytes()).await };
        self.recorder
            .call(n, self.polls(), update, |answer| {
                Ok(Operation::SetHead { head, found: known(answer)?.is_some() })
            })
            .await
    }

    async fn upsert(&self, n: u64) -> Result<(), TreeError> {
        let value = self.fresh();
        self.recorder
            .call(n, self.polls(), self.tree.upsert(&key(n), &value.encode()), |answer| {
                // Whether the key is new shows what stood there: as an insert, or as an update.
                Ok(Operation::Map(match answer.transpose()? {
                    None => MapOperation::Upsert { value },
                    Some(true) => MapOperation::Insert { value, inserted: true },
                    Some(false) => MapOperation::Update { value, updated: true },
                }))
            })
            .await
    }

    async fn remove(&self, n: u64) -> Result<(), TreeError> {
        self.recorder
            .call(n, self.polls(), self.tree.remove(&key(n)), |answer| {
                let removed = answer.transpose()?.unwrap_or_default();
                Ok(Operation::Map(MapOperation::Remove { removed }))
            })
            .await
    }

    async fn modify(&self, n: u64) -> Result<(), TreeError> {
        let head = self.fresh().head;
        let seen = Cell::new(None);
        let change = |value: &mut ValueMut<'_>| {
            seen.set(Some(whole(&value.to_vec())));
            value.set_u64(0, head);
        };
        let invoked = self.recorder.now();
        let key = key(n);
        let answer = drop_after(self.polls(), self.tree.modify(&key, change)).await;
        let dropped = answer.is_none();
        known(answer)?;
        // What it saw tells that it took effect, even if it was dropped afterwards.
        if seen.get().is_some() || !dropped {
            let tail = seen.get().map_or(head, |content| content.tail);
            let written = Content { head, tail };
            let operation = MapOperation::ReadModifyWrite { found: seen.get(), written };
            self.recorder.add(n, invoked, Some(self.recorder.now()), Operation::Map(operation));
        }
        Ok(())
    }

    async fn replace(&self, n: u64) -> Result<(), TreeError> {
        let written = self.fresh();
        let key = key(n);
        let replace = self.tree.replace_with(&key, |old, new| {
            new.extend_from_slice(&written.encode());
            whole(&old.to_vec())
        });
        self.recorder
            .call(n, self.polls(), replace, |answer| {
                let found = known(answer)?;
                Ok(Operation::Map(MapOperation::ReadModifyWrite { found, written }))
            })
            .await
    }

    async fn scan_up(&self, n: u64) -> Result<(), TreeError> {
        let (limit, invoked) = (self.limit(), self.recorder.now());
        let (from, first) = match self.random(3) {
            0 => (Bound::Unbounded, 0),
            1 => (Bound::Included(key(n)), n),
            _ => (Bound::Excluded(key(n)), n + 1),
        };
        let mut seen = Vec::new();
        let scan = self.tree.scan_up(from.as_ref().map(Vec::as_slice), limit, collect(&mut seen));
        let Some(shown) = drop_after(self.polls(), scan).await.transpose()? else { return Ok(()) };
        assert_eq!(shown, seen.len());
        assert!(seen.windows(2).all(|w| w[0].0 < w[1].0), "not in ascending order: {seen:?}");
        assert!(seen.first().is_none_or(|s| s.0 >= first), "beyond the bound");
        // With fewer than the limit, the scan came to the end.
        let end = if shown == limit { seen[limit - 1].0 + 1 } else { self.shape.keys };
        self.saw_all(first..end, invoked, &seen);
        Ok(())
    }

    async fn scan_down(&self, n: u64) -> Result<(), TreeError> {
        let (limit, invoked) = (self.limit(), self.recorder.now());
        let (from, end) = match self.random(3) {
            0 => (Bound::Unbounded, self.shape.keys),
            1 => (Bound::Included(key(n)), n + 1),
            _ => (Bound::Excluded(key(n)), n),
        };
        let mut seen = Vec::new();
        let scan = self.tree.scan_down(from.as_ref().map(Vec::as_slice), limit, collect(&mut seen));
        let Some(shown) = drop_after(self.polls(), scan).await.transpose()? else { return Ok(()) };
        assert_eq!(shown, seen.len());
        assert!(seen.windows(2).all(|w| w[0].0 > w[1].0), "not in descending order: {seen:?}");
        assert!(seen.first().is_none_or(|s| s.0 < end), "beyond the bound");
        let first = if shown == limit { seen[limit - 1].0 } else { 0 };
        self.saw_all(first..end, invoked, &seen);
        Ok(())
    }

    fn limit(&self) -> usize {
        if self.random(2) == 0 { usize::MAX } else { 1 + self.random(8) as usize }
    }

    /// A scan sees each page at one instant, so of each key it says whether it was there at some
    /// instant of the scan.
    fn saw_all(
        &self,
        range: std::ops::Range<u64>,
        invoked: latchwork_runtime::Time,
        seen: &[(u64, Content)],
    ) {
        for n in range {
            let found = seen.iter().find(|(at, _)| *at == n).map(|(_, content)| *content);
            self.recorder.saw(n, invoked, found);
        }
    }
}

fn whole(bytes: &[u8]) -> Content {
    Content::decode(bytes).unwrap_or_else(|what| panic!("{what}"))
}

/// The answer, if the key was known; any other failure is one.
fn known<T>(answer: Option<Result<T, TreeError>>) -> Result<Option<T>, TreeError> {
    match answer {
        Some(Err(TreeError::NotFound)) => Ok(None),
        other => other.transpose(),
    }
}

fn collect(to: &mut Vec<(u64, Content)>) -> impl FnMut(&[u8], &[u8]) -> ControlFlow<()> {
    |key, value| {
        to.push((number(key).unwrap_or_else(|what| panic!("{what}")), whole(value)));
        ControlFlow::Continue(())
    }
}

/// How one node sees the tree when all is over.
pub(crate) struct Inspection {
    pub(crate) calls: Calls,
    pub(crate) entries: Vec<(u64, Content)>,
    /// The first node's only.
    pub(crate) statistics: Option<TreeStatistics>,
}

/// Reads everything, in every way.
pub(crate) async fn inspect(member: Member, shape: Shape) -> Result<Inspection, TreeError> {
    let port = member.memory.port();
    let root = member.catalogue.lookup(port, "tree").await.expect("no error").expect("a tree");
    let root = GlobalAddr::from_bits(root.value);
    let tree = Tree::open(member.memory.clone(), root, FAN_OUT_3).await?;
    let recorder = Recorder::new(&member.handle);
    let mut got = Vec::new();
    for n in 0..shape.keys {
        let invoked = recorder.now();
        let found = tree.get(&key(n)).await?.map(|bytes| whole(&bytes));
        recorder.saw(n, invoked, found);
        got.extend(found.map(|content| (n, content)));
    }
    let (mut up, mut down) = (Vec::new(), Vec::new());
    tree.scan_up(Bound::Unbounded, usize::MAX, collect(&mut up)).await?;
    tree.scan_down(Bound::Unbounded, usize::MAX, collect(&mut down)).await?;
    down.reverse();
    assert_eq!(up, got, "a scan up of a tree at rest");
    assert_eq!(down, got, "a scan down of a tree at rest");
    let statistics = if member.index == 0 { Some(tree.validate().await?) } else { None };
    Ok(Inspection { calls: recorder.take(), entries: got, statistics })
}
