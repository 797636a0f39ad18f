//! The operations of a task on the tree.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow, Range};

use latchwork_history::calls::MapOperation;
use latchwork_index::{ValueEdit, ValueView};
use latchwork_runtime::Time;

use super::TreeWork;
use super::content::{Content, Operation, inserted, key, known, number};
use crate::workloads::client::Client;
use crate::workloads::indexes::{Indexed, MapError, Polls, SharedMap, drop_after};
use crate::{SeededBug, WorldCheck};

impl<T: SharedMap> Client<Indexed<TreeWork<T>>> {
    fn fresh(&self) -> Content {
        let next_id = &self.own().next_id;
        next_id.set(next_id.get() + 1);
        Content::unique(next_id.get())
    }

    /// The number of polls after which to drop the next operation. Mostly `None`.
    fn polls(&self) -> Polls {
        self.percent(self.load().load.dropped).then(|| 1 + self.below(10))
    }

    pub(super) async fn get(&self, n: u64) -> Result<(), MapError<T>> {
        let get = async {
            let found = self.index().get(&key::<T>(n)).await?.map(|bytes| self.whole(&bytes));
            Ok(
                match (self.shared.scenario.plant, self.own().remembered.replace(Some((n, found))))
                {
                    (Some(SeededBug::Remembers), Some((last, remembered))) if last == n => {
                        remembered
                    }
                    _ => found,
                },
            )
        };
        self.call((n, self.polls()), get, |found| {
            let found = found.transpose()?.flatten();
            Ok(Operation::Map(MapOperation::Get { found }))
        })
        .await
    }

    pub(super) async fn try_get(&self, n: u64) -> Result<(), MapError<T>> {
        let invoked = self.now();
        if let Some(found) = self.index().try_get(&key::<T>(n), |value| value.to_vec()) {
            self.saw(n, invoked, found.map(|bytes| self.whole(&bytes)));
        }
        Ok(())
    }

    pub(super) async fn insert(&self, n: u64) -> Result<(), MapError<T>> {
        let value = self.fresh();
        self.call(
            (n, self.polls()),
            self.index().insert(&key::<T>(n), &value.encode::<T>()),
            |answer| {
                let inserted = inserted(answer)?;
                Ok(Operation::Map(MapOperation::Insert { value, inserted }))
            },
        )
        .await
    }

    pub(super) async fn update(&self, n: u64) -> Result<(), MapError<T>> {
        let value = self.fresh();
        let forget = self.has_bug(SeededBug::Forgets) && self.below(4) == 0;
        let update = async {
            match forget {
                true => Ok(self.index().get(&key::<T>(n)).await?.map(drop)),
                false => known(Some(self.index().update(&key::<T>(n), &value.encode::<T>()).await)),
            }
        };
        self.call((n, self.polls()), update, |answer| {
            let updated = answer.transpose()?.flatten().is_some();
            Ok(Operation::Map(MapOperation::Update { value, updated }))
        })
        .await
    }

    pub(super) async fn update_range(&self, n: u64) -> Result<(), MapError<T>> {
        let head = self.fresh().head;
        let update =
            async { self.index().update_range(&key::<T>(n), 0, &head.to_le_bytes()).await };
        self.call((n, self.polls()), update, |answer| {
            Ok(Operation::SetHead { head, found: known(answer)?.is_some() })
        })
        .await
    }

    pub(super) async fn upsert(&self, n: u64) -> Result<(), MapError<T>> {
        let value = self.fresh();
        self.call(
            (n, self.polls()),
            self.index().upsert(&key::<T>(n), &value.encode::<T>()),
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

    pub(super) async fn remove(&self, n: u64) -> Result<(), MapError<T>> {
        self.call((n, self.polls()), self.index().remove(&key::<T>(n)), |answer| {
            let removed = answer.transpose()?.unwrap_or_default();
            Ok(Operation::Map(MapOperation::Remove { removed }))
        })
        .await
    }

    pub(super) async fn modify(&self, n: u64) -> Result<(), MapError<T>> {
        let head = self.fresh().head;
        let seen = Cell::new(None);
        let change = |value: &mut T::ValueMut<'_>| {
            seen.set(Some(self.whole(&value.to_vec())));
            value.set_u64(0, head);
        };
        let invoked = self.now();
        let key = key::<T>(n);
        let open = self.open(n, invoked, Operation::SetHead { head, found: true });
        let answer = drop_after(self.polls(), self.index().modify(&key, change)).await;
        let dropped = answer.is_none();
        if dropped && T::CHANGES_LATE {
            // The call stays open: the change takes effect later, or not at all.
            return Ok(());
        }
        known(answer)?;
        self.close(open);
        // The change may have run before the call was dropped. If the change has read the value, it
        // has taken effect.
        if seen.get().is_some() || !dropped {
            let tail = seen.get().map_or(head, |content| content.tail);
            let written = Content { head, tail };
            let operation = MapOperation::ReadModifyWrite { found: seen.get(), written };
            let operation = Operation::Map(operation);
            self.add_now(n, invoked, operation);
        }
        Ok(())
    }

    pub(super) async fn replace(&self, n: u64) -> Result<(), MapError<T>> {
        let written = self.fresh();
        let key = key::<T>(n);
        let replace = self.index().replace_with(&key, |old, new| {
            new.extend_from_slice(&written.encode::<T>());
            self.whole(&old.to_vec())
        });
        self.call((n, self.polls()), replace, |answer| {
            let found = known(answer)?;
            Ok(Operation::Map(MapOperation::ReadModifyWrite { found, written }))
        })
        .await
    }

    pub(super) async fn scan_up(&self, n: u64) -> Result<(), MapError<T>> {
        let (limit, invoked) = (self.limit(), self.now());
        let (from, first) = match self.below(3) {
            0 => (Bound::Unbounded, 0),
            1 => (Bound::Included(key::<T>(n)), n),
            _ => (Bound::Excluded(key::<T>(n)), n + 1),
        };
        let mut seen = Vec::new();
        let scan =
            self.index().scan_up(from.as_ref().map(Vec::as_slice), limit, self.collect(&mut seen));
        let Some(shown) = drop_after(self.polls(), scan).await.transpose()? else { return Ok(()) };
        self.demand(shown == seen.len(), "as many as were counted", &seen);
        self.demand(seen.windows(2).all(|w| w[0].0 < w[1].0), "keys in ascending order", &seen);
        self.demand(seen.first().is_none_or(|s| s.0 >= first), "no key beyond the bound", &seen);
        // A scan with fewer entries than the limit has reached the end of the keys.
        let end = if shown == limit { seen[limit - 1].0 + 1 } else { self.load().load.keys };
        self.saw_all(first..end, invoked, &seen);
        Ok(())
    }

    pub(super) async fn scan_down(&self, n: u64) -> Result<(), MapError<T>> {
        let (limit, invoked) = (self.limit(), self.now());
        let (from, end) = match self.below(3) {
            0 => (Bound::Unbounded, self.load().load.keys),
            1 => (Bound::Included(key::<T>(n)), n + 1),
            _ => (Bound::Excluded(key::<T>(n)), n),
        };
        let mut seen = Vec::new();
        let scan = self.index().scan_down(
            from.as_ref().map(Vec::as_slice),
            limit,
            self.collect(&mut seen),
        );
        let Some(Some(shown)) = drop_after(self.polls(), scan).await.transpose()? else {
            return Ok(());
        };
        self.demand(shown == seen.len(), "as many as were counted", &seen);
        self.demand(seen.windows(2).all(|w| w[0].0 > w[1].0), "keys in descending order", &seen);
        self.demand(seen.first().is_none_or(|s| s.0 < end), "no key beyond the bound", &seen);
        let first = if shown == limit { seen[limit - 1].0 } else { 0 };
        self.saw_all(first..end, invoked, &seen);
        Ok(())
    }

    fn limit(&self) -> usize {
        if self.below(2) == 0 { usize::MAX } else { 1 + self.below(8) as usize }
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
        self.add_now(n, invoked, Operation::Map(MapOperation::Get { found }));
    }

    fn demand(&self, holds: bool, what: &str, seen: &[(u64, Content)]) {
        if !holds {
            let text = format!("a scan should show {what}, and showed {seen:?}");
            self.wrong(WorldCheck::Tree, text);
        }
    }

    /// The content of `bytes`. Bytes that are not one whole value are a failure.
    pub(super) fn whole(&self, bytes: &[u8]) -> Content {
        Content::decode::<T>(bytes).unwrap_or_else(|what| {
            self.wrong(WorldCheck::Values, format!("a value is {what}"));
            Content::unique(0)
        })
    }

    pub(super) fn collect(
        &self,
        to: &mut Vec<(u64, Content)>,
    ) -> impl FnMut(&[u8], &[u8]) -> ControlFlow<()> {
        |key, value| {
            match number::<T>(key) {
                Ok(n) => to.push((n, self.whole(value))),
                Err(what) => self.wrong(WorldCheck::Values, format!("a scan showed {what}")),
            }
            ControlFlow::Continue(())
        }
    }
}
