//! [`Client`]: one task of the workload, with its operations on the tree.

use std::cell::{Cell, RefCell};
use std::ops::{Bound, ControlFlow, Range};
use std::pin::Pin;

use latchwork_blink::{Tree, TreeError, ValueMut};
use latchwork_cluster::{Member, Worker};
use latchwork_history::calls::MapOperation;
use latchwork_runtime::Time;
use latchwork_workload::random::WorkloadRandom;

use super::content::{Content, Operation, key, number};
use super::recorder::{Polls, drop_after, inserted, known};
use super::state::TreeWork;
use crate::world::Process;
use crate::{SeededBug, WorldCheck};

/// One task.
pub(super) struct Client<'a> {
    pub(super) load: &'a TreeWork,
    pub(super) member: &'a Member,
    pub(super) process: Process,
    pub(super) tree: Tree<Worker>,
    pub(super) random: RefCell<WorkloadRandom>,
    pub(super) remembered: Cell<Option<(u64, Option<Content>)>>,
    pub(super) next_id: Cell<u64>,
}

/// Maximum number of waits for a line in one operation. This is an estimate: a scan may read every
/// page.
const ACCESSES_MAX: u32 = 200;

impl<'a> Client<'a> {
    pub(super) fn new(
        load: &'a TreeWork,
        member: &'a Member,
        process: Process,
        tree: Tree<Worker>,
    ) -> Client<'a> {
        let number = u64::from(process.number);
        let random = RefCell::new(WorkloadRandom::for_stream(load.seed, number));
        let (remembered, next_id) = (Cell::new(None), Cell::new(number << 32));
        Client { load, member, process, tree, random, remembered, next_id }
    }

    fn random(&self, below: u64) -> u64 {
        self.random.borrow_mut().below(below)
    }

    pub(super) fn now(&self) -> Time {
        self.load.observer.time(&self.member.handle)
    }

    fn fresh(&self) -> Content {
        self.next_id.set(self.next_id.get() + 1);
        Content::unique(self.next_id.get())
    }

    /// The number of polls after which to drop the next operation. Mostly `None`.
    fn polls(&self) -> Polls {
        (self.random(100) < self.load.load.dropped).then(|| 1 + self.random(10))
    }

    pub(super) async fn operation(&self) {
        let n = self.random(self.load.load.keys);
        let _ended = match self.random(100) {
            0..15 => self.observed("get", n, Box::pin(self.get(n))).await,
            15..20 => self.observed("try to get", n, Box::pin(self.try_get(n))).await,
            20..35 => self.observed("insert", n, Box::pin(self.insert(n))).await,
            35..45 => self.observed("update", n, Box::pin(self.update(n))).await,
            45..55 => self.observed("update a range of", n, Box::pin(self.update_range(n))).await,
            55..65 => self.observed("upsert", n, Box::pin(self.upsert(n))).await,
            65..75 => self.observed("remove", n, Box::pin(self.remove(n))).await,
            75..85 => self.observed("modify", n, Box::pin(self.modify(n))).await,
            85..90 => self.observed("replace", n, Box::pin(self.replace(n))).await,
            90..95 => self.observed("scan up from", n, Box::pin(self.scan_up(n))).await,
            _ => self.observed("scan down from", n, Box::pin(self.scan_down(n))).await,
        };
    }

    pub(super) async fn observed<T>(
        &self,
        what: &'static str,
        n: u64,
        work: Pin<Box<impl Future<Output = Result<T, TreeError>>>>,
    ) -> Option<T> {
        let about = (what, format!("key {n}"), ACCESSES_MAX);
        self.load.observer.operation(self.process, about, work).await
    }

    async fn get(&self, n: u64) -> Result<(), TreeError> {
        let get = async {
            let found = self.tree.get(&key(n)).await?.map(|bytes| self.whole(&bytes));
            Ok(match (self.load.plant, self.remembered.replace(Some((n, found)))) {
                (Some(SeededBug::Remembers), Some((last, remembered))) if last == n => remembered,
                _ => found,
            })
        };
        self.load
            .recorder
            .call(&self.member.handle, (n, self.polls()), get, |found| {
                let found = found.transpose()?.flatten();
                Ok(Operation::Map(MapOperation::Get { found }))
            })
            .await
    }

    async fn try_get(&self, n: u64) -> Result<(), TreeError> {
        let invoked = self.now();
        if let Ok(found) = self.tree.try_get(&key(n), |value| value.to_vec()) {
            self.saw(n, invoked, found.map(|bytes| self.whole(&bytes)));
        }
        Ok(())
    }

    async fn insert(&self, n: u64) -> Result<(), TreeError> {
        let value = self.fresh();
        self.load
            .recorder
            .call(
                &self.member.handle,
                (n, self.polls()),
                self.tree.insert(&key(n), &value.encode()),
                |answer| {
                    let inserted = inserted(answer)?;
                    Ok(Operation::Map(MapOperation::Insert { value, inserted }))
                },
            )
            .await
    }

    async fn update(&self, n: u64) -> Result<(), TreeError> {
        let value = self.fresh();
        let forget = self.load.plant == Some(SeededBug::Forgets) && self.random(4) == 0;
        let update = async {
            let known = match forget {
                true => self.tree.get(&key(n)).await?.is_some(),
                false => return self.tree.update(&key(n), &value.encode()).await,
            };
            if known { Ok(()) } else { Err(TreeError::NotFound) }
        };
        self.load
            .recorder
            .call(&self.member.handle, (n, self.polls()), update, |answer| {
                let updated = known(answer)?.is_some();
                Ok(Operation::Map(MapOperation::Update { value, updated }))
            })
            .await
    }

    async fn update_range(&self, n: u64) -> Result<(), TreeError> {
        let head = self.fresh().head;
        let update = async { self.tree.update_range(&key(n), 0, &head.to_le_bytes()).await };
        self.load
            .recorder
            .call(&self.member.handle, (n, self.polls()), update, |answer| {
                Ok(Operation::SetHead { head, found: known(answer)?.is_some() })
            })
            .await
    }

    async fn upsert(&self, n: u64) -> Result<(), TreeError> {
        let value = self.fresh();
        self.load
            .recorder
            .call(
                &self.member.handle,
                (n, self.polls()),
                self.tree.upsert(&key(n), &value.encode()),
                |answer| {
                    // The answer says whether the key was new: then the upsert counts as an insert,
                    // else as an update.
                    Ok(Operation::Map(match answer.transpose()? {
                        None => MapOperation::Upsert { value },
                        Some(true) => MapOperation::Insert { value, inserted: true },
                        Some(false) => MapOperation::Update { value, updated: true },
                    }))
                },
            )
            .await
    }

    async fn remove(&self, n: u64) -> Result<(), TreeError> {
        self.load
            .recorder
            .call(&self.member.handle, (n, self.polls()), self.tree.remove(&key(n)), |answer| {
                let removed = answer.transpose()?.unwrap_or_default();
                Ok(Operation::Map(MapOperation::Remove { removed }))
            })
            .await
    }

    async fn modify(&self, n: u64) -> Result<(), TreeError> {
        let head = self.fresh().head;
        let seen = Cell::new(None);
        let change = |value: &mut ValueMut<'_>| {
            seen.set(Some(self.whole(&value.to_vec())));
            value.set_u64(0, head);
        };
        let invoked = self.now();
        let key = key(n);
        let open = self.load.recorder.open(n, invoked, Operation::SetHead { head, found: true });
        let answer = drop_after(self.polls(), self.tree.modify(&key, change)).await;
        let dropped = answer.is_none();
        known(answer)?;
        self.load.recorder.close(open);
        // The change may have run before the call was dropped. If the change has read the value, it
        // has taken effect.
        if seen.get().is_some() || !dropped {
            let tail = seen.get().map_or(head, |content| content.tail);
            let written = Content { head, tail };
            let operation = MapOperation::ReadModifyWrite { found: seen.get(), written };
            let operation = Operation::Map(operation);
            self.load.recorder.add(n, invoked, Some(self.now()), operation);
        }
        Ok(())
    }

    async fn replace(&self, n: u64) -> Result<(), TreeError> {
        let written = self.fresh();
        let key = key(n);
        let replace = self.tree.replace_with(&key, |old, new| {
            new.extend_from_slice(&written.encode());
            self.whole(&old.to_vec())
        });
        self.load
            .recorder
            .call(&self.member.handle, (n, self.polls()), replace, |answer| {
                let found = known(answer)?;
                Ok(Operation::Map(MapOperation::ReadModifyWrite { found, written }))
            })
            .await
    }

    async fn scan_up(&self, n: u64) -> Result<(), TreeError> {
        let (limit, invoked) = (self.limit(), self.now());
        let (from, first) = match self.random(3) {
            0 => (Bound::Unbounded, 0),
            1 => (Bound::Included(key(n)), n),
            _ => (Bound::Excluded(key(n)), n + 1),
        };
        let mut seen = Vec::new();
        let scan =
            self.tree.scan_up(from.as_ref().map(Vec::as_slice), limit, self.collect(&mut seen));
        let Some(shown) = drop_after(self.polls(), scan).await.transpose()? else { return Ok(()) };
        self.demand(shown == seen.len(), "as many as were counted", &seen);
        self.demand(seen.windows(2).all(|w| w[0].0 < w[1].0), "keys in ascending order", &seen);
        self.demand(seen.first().is_none_or(|s| s.0 >= first), "no key beyond the bound", &seen);
        // A scan with fewer entries than the limit has reached the end of the keys.
        let end = if shown == limit { seen[limit - 1].0 + 1 } else { self.load.load.keys };
        self.saw_all(first..end, invoked, &seen);
        Ok(())
    }

    async fn scan_down(&self, n: u64) -> Result<(), TreeError> {
        let (limit, invoked) = (self.limit(), self.now());
        let (from, end) = match self.random(3) {
            0 => (Bound::Unbounded, self.load.load.keys),
            1 => (Bound::Included(key(n)), n + 1),
            _ => (Bound::Excluded(key(n)), n),
        };
        let mut seen = Vec::new();
        let scan =
            self.tree.scan_down(from.as_ref().map(Vec::as_slice), limit, self.collect(&mut seen));
        let Some(shown) = drop_after(self.polls(), scan).await.transpose()? else { return Ok(()) };
        self.demand(shown == seen.len(), "as many as were counted", &seen);
        self.demand(seen.windows(2).all(|w| w[0].0 > w[1].0), "keys in descending order", &seen);
        self.demand(seen.first().is_none_or(|s| s.0 < end), "no key beyond the bound", &seen);
        let first = if shown == limit { seen[limit - 1].0 } else { 0 };
        self.saw_all(first..end, invoked, &seen);
        Ok(())
    }

    fn limit(&self) -> usize {
        if self.random(2) == 0 { usize::MAX } else { 1 + self.random(8) as usize }
    }

    /// Records a scan as one read of each key in its range. A scan reads each page at one instant
    /// during the scan. So each of these reads also has an instant during the scan.
    fn saw_all(&self, range: Range<u64>, invoked: Time, seen: &[(u64, Content)]) {
        for n in range {
            let found = seen.iter().find(|(at, _)| *at == n).map(|(_, content)| *content);
            self.saw(n, invoked, found);
        }
    }

    /// Records that a key was found or not found at some instant between `invoked` and now.
    pub(super) fn saw(&self, n: u64, invoked: Time, found: Option<Content>) {
        let operation = Operation::Map(MapOperation::Get { found });
        self.load.recorder.add(n, invoked, Some(self.now()), operation);
    }

    fn demand(&self, holds: bool, what: &str, seen: &[(u64, Content)]) {
        if !holds {
            let text = format!("{}: a scan should show {what}, and showed {seen:?}", self.process);
            self.load.observer.fail(WorldCheck::Tree, text);
        }
    }

    /// The content of `bytes`. Bytes that are not one whole value are a failure.
    pub(super) fn whole(&self, bytes: &[u8]) -> Content {
        Content::decode(bytes).unwrap_or_else(|what| {
            self.load
                .observer
                .fail(WorldCheck::Values, format!("{}: a value is {what}", self.process));
            Content::unique(0)
        })
    }

    pub(super) fn collect(
        &self,
        to: &mut Vec<(u64, Content)>,
    ) -> impl FnMut(&[u8], &[u8]) -> ControlFlow<()> {
        |key, value| {
            match number(key) {
                Ok(n) => to.push((n, self.whole(value))),
                Err(what) => {
                    let text = format!("{}: a scan showed {what}", self.process);
                    self.load.observer.fail(WorldCheck::Values, text);
                }
            }
            ControlFlow::Continue(())
        }
    }
}
