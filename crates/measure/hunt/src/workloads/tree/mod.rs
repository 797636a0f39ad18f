//! The workload `tree`: tasks of all nodes execute all operations of one ordered index, and
//! record each call with its answer. In the end every node reads everything in every way.
//!
//! The workload `queue` is the same with other draws: see [`Queue`].

mod content;
mod kind;
mod operations;
mod queue;

use std::cell::Cell;
use std::ops::Bound;

use latchwork_history::calls::MapOperation;
use latchwork_strict::strict_assert;

use super::client::Client;
use super::indexes::{IndexLoad, Indexed, MapError, SharedMap};
use crate::WorldCheck;
use crate::scenario::{SeededBug, TreeLoad};
use content::{Operation, TreeKey};
use kind::Kind;
use queue::Queue;

pub(super) use content::{Content, inserted, key, known};

/// Maximum number of waits for a line in one operation. This is an estimate: a scan may read every
/// page.
const ACCESSES_MAX: u32 = 200;

/// The workload.
pub(super) struct TreeWork<T: SharedMap> {
    load: TreeLoad,
    common: T::Common,
    /// The queues. Without any, all keys have the same probability.
    queues: Vec<Queue>,
}

/// Of a hundred operations, the number of each kind. The rest scans down.
const SHARES: [(u64, Kind); 10] = [
    (15, Kind::Get),
    (5, Kind::TryGet),
    (15, Kind::Insert),
    (10, Kind::Update),
    (10, Kind::UpdateRange),
    (10, Kind::Upsert),
    (10, Kind::Remove),
    (10, Kind::Modify),
    (5, Kind::Replace),
    (5, Kind::ScanUp),
];

/// What a task knows.
pub(super) struct Task {
    /// The last answer of a lookup. A seeded bug returns it again.
    remembered: Cell<Option<(u64, Option<Content>)>>,
    next_id: Cell<u64>,
}

impl<T: SharedMap> TreeWork<T> {
    pub(super) fn new(load: &TreeLoad, queues: u64) -> Indexed<TreeWork<T>> {
        let queues = Queue::all(load.keys, queues);
        Indexed::new(TreeWork { load: load.clone(), common: T::Common::default(), queues })
    }
}

impl<T: SharedMap> IndexLoad for TreeWork<T> {
    const NAME: &'static str = "tree";
    const WALK_MAX: u32 = 1_000;
    type Index = T;
    type Model = TreeKey;
    type Value = Content;
    type Task = Task;
    type Operation = (Kind, u64);
    type Entry = (u64, Content);

    fn config(client: &Client<Indexed<Self>>) -> T::Config {
        let TreeWork { load, common, .. } = client.load();
        T::config(load, &client.shared.scenario, common)
    }

    async fn fill(client: &Client<Indexed<Self>>, tree: &T) -> Result<(), MapError<T>> {
        let (loaded, invoked) = (client.load().load.loaded, client.now());
        let content = |n: u64| Content::unique(u64::MAX - n);
        let entries = (0..loaded).map(|n| (key::<T>(n), content(n).encode::<T>()));
        tree.bulk_load(entries, 0.8).await?;
        for n in 0..loaded {
            let operation = MapOperation::Insert { value: content(n), inserted: true };
            client.add_now(n, invoked, Operation::Map(operation));
        }
        Ok(())
    }

    fn begin(client: &Client<Indexed<Self>>) -> Result<Task, String> {
        let next_id = Cell::new(u64::from(client.process.number) << 32);
        Ok(Task { remembered: Cell::new(None), next_id })
    }

    fn draw(client: &Client<Indexed<Self>>) -> (Kind, u64) {
        let TreeWork { load, queues, .. } = client.load();
        if !queues.is_empty() {
            let queue = &queues[client.below(queues.len() as u64) as usize];
            let drawn = client.kind(&queue::SHARES, queue::REST);
            return queue.choose(drawn, |bound| client.below(bound));
        }
        let n = client.below(load.keys);
        (client.kind(&SHARES, Kind::ScanDown), n)
    }

    async fn apply(client: &Client<Indexed<Self>>, (kind, n): (Kind, u64)) {
        match kind {
            Kind::Get => client.key("get", n, client.get(n)).await,
            Kind::TryGet => client.key("try to get", n, client.try_get(n)).await,
            Kind::Insert => client.key("insert", n, client.insert(n)).await,
            Kind::Update => client.key("update", n, client.update(n)).await,
            Kind::UpdateRange => client.key("update a range of", n, client.update_range(n)).await,
            Kind::Upsert => client.key("upsert", n, client.upsert(n)).await,
            Kind::Remove => client.key("remove", n, client.remove(n)).await,
            Kind::Modify => client.key("modify", n, client.modify(n)).await,
            Kind::Replace => client.key("replace", n, client.replace(n)).await,
            Kind::ScanUp => client.key("scan up from", n, client.scan_up(n)).await,
            Kind::ScanDown => client.key("scan down from", n, client.scan_down(n)).await,
        }
    }

    async fn look(client: &Client<Indexed<Self>>) {
        client.observed("look at", "every key", Self::WALK_MAX, client.look()).await;
    }

    /// Corrupts the tree, if the scenario has this seeded bug.
    async fn before_validation(client: &Client<Indexed<Self>>) -> Result<(), MapError<T>> {
        if !client.has_bug(SeededBug::Scribbles) {
            return Ok(());
        }
        client.index().scribble(&client.member).await
    }

    fn model() -> TreeKey {
        TreeKey
    }
}

impl<T: SharedMap> Client<Indexed<TreeWork<T>>> {
    async fn key(
        &self,
        what: &'static str,
        n: u64,
        work: impl Future<Output = Result<(), MapError<T>>>,
    ) {
        self.observed(what, format!("key {n}"), ACCESSES_MAX, work).await;
    }

    /// Reads all entries by lookups and by scans in both directions, and compares the results.
    async fn look(&self) -> Result<(), MapError<T>> {
        let (tree, mut got) = (self.index(), Vec::new());
        for n in 0..self.load().load.keys {
            let invoked = self.now();
            let found = tree.get(&key::<T>(n)).await?.map(|bytes| self.whole(&bytes));
            self.saw(n, invoked, found);
            got.extend(found.map(|content| (n, content)));
        }
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let all = (Bound::Unbounded, usize::MAX);
        tree.scan_up(all.0, all.1, self.collect(&mut up)).await?;
        let downwards = tree.scan_down(all.0, all.1, self.collect(&mut down)).await?;
        down.reverse();
        strict_assert!(
            got.is_sorted_by(|one, next| one.0 < next.0),
            "keys are looked at out of order"
        );
        for (scan, seen) in [("up", Some(up)), ("down", downwards.map(|_| down))] {
            if let Some(seen) = seen.filter(|seen| *seen != got) {
                let text = format!("at rest, a scan {scan} shows {seen:?}, and each key {got:?}");
                self.shared.observer.fail(WorldCheck::Tree, text);
            }
        }
        self.record(|record| record.ends.push(got));
        Ok(())
    }
}
