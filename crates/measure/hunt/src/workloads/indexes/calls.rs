//! [`IndexRecord`]: the recorded calls on the keys of an index, and their check.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use latchwork_history::calls::Call;
use latchwork_runtime::Time;
use latchwork_strict::strict_assert;

use super::indexed::{CallOf, ErrorOf, IndexLoad, Indexed};
use super::shared::SharedIndex;
use crate::WorldCheck;
use crate::checks::CheckResult;
use crate::checks::objects::Calls;
use crate::workloads::client::Client;

/// The record of all tasks.
pub(in crate::workloads) struct IndexRecord<I: IndexLoad> {
    calls: Calls<CallOf<I>>,
    /// The calls in progress. A call whose task dies stays in the record, because the call may have
    /// taken effect.
    open: BTreeMap<u64, (usize, u64, Call<CallOf<I>>)>,
    next: u64,
    /// All entries of the index, as each node read them at the end.
    pub(in crate::workloads) ends: Vec<Vec<I::Entry>>,
    /// The statistics of the index. `None` before the validation.
    pub(super) statistics: Option<<I::Index as SharedIndex>::Statistics>,
}

impl<I: IndexLoad> Default for IndexRecord<I> {
    fn default() -> Self {
        let (calls, open, ends) = (Calls::default(), BTreeMap::new(), Vec::new());
        IndexRecord { calls, open, next: 0, ends, statistics: None }
    }
}

impl<I: IndexLoad> IndexRecord<I> {
    /// Adds the open calls: they stay without an end.
    pub(super) fn end(&mut self) {
        for (_, (node, key, call)) in std::mem::take(&mut self.open) {
            self.calls.add(node, key, call);
        }
    }

    pub(super) fn merge(&mut self, other: IndexRecord<I>) {
        self.calls.merge(other.calls);
        self.ends.extend(other.ends);
        self.statistics = self.statistics.take().or(other.statistics);
    }

    /// The last writes of these nodes may be undone.
    pub(super) fn may_be_undone(&mut self, dead: &BTreeMap<usize, Time>) {
        self.calls.may_be_undone(dead);
    }

    pub(super) fn judge(&self) -> CheckResult {
        let name = I::NAME;
        if let Some(first) = self.ends.first()
            && let Some(other) = self.ends.iter().find(|other| *other != first)
        {
            let text = format!("at rest, nodes see {name} differently: {first:?} and {other:?}");
            return Err((WorldCheck::Tree, text));
        }
        if let (Some(statistics), Some(end)) = (&self.statistics, self.ends.first())
            && I::Index::entries(statistics) != end.len() as u64
        {
            let (entries, seen) = (I::Index::entries(statistics), end.len());
            let text = format!("{name} has {entries} entries, and {seen} are found");
            return Err((WorldCheck::Tree, text));
        }
        self.calls.check(&I::model(), &None, "key")
    }
}

/// The number of polls after which an operation is dropped. `None`: the operation is not dropped.
pub(in crate::workloads) type Polls = Option<u64>;

impl<I: IndexLoad> Client<Indexed<I>> {
    /// Records a call on a key.
    pub(in crate::workloads) fn add(
        &self,
        key: u64,
        invoked: Time,
        returned: Option<Time>,
        operation: CallOf<I>,
    ) {
        let call = Call { invoked, returned, operation };
        self.record(|record| record.calls.add(self.process.node, key, call));
    }

    /// Records a call that has ended now.
    pub(in crate::workloads) fn add_now(&self, key: u64, invoked: Time, operation: CallOf<I>) {
        self.add(key, invoked, Some(self.now()), operation);
    }

    /// Runs one call and records it. `told` makes the recorded operation from the answer. `told`
    /// gets `None` for a call without an answer, which may have taken effect or not.
    pub(in crate::workloads) async fn call<T>(
        &self,
        (key, polls): (u64, Polls),
        call: impl Future<Output = Result<T, ErrorOf<I>>>,
        told: impl Fn(Option<Result<T, ErrorOf<I>>>) -> Result<CallOf<I>, ErrorOf<I>>,
    ) -> Result<(), ErrorOf<I>> {
        let invoked = self.now();
        let open = self.open(key, invoked, told(None)?);
        let answer = drop_after(polls, call).await;
        let returned = answer.is_some().then(|| self.now());
        // A failed call stays open, because it may have taken effect.
        let operation = told(answer)?;
        self.close(open);
        self.add(key, invoked, returned, operation);
        Ok(())
    }

    /// Records the start of a call, and returns its number. The call has no end unless
    /// [`close`](Client::close) removes it.
    pub(in crate::workloads) fn open(&self, key: u64, invoked: Time, operation: CallOf<I>) -> u64 {
        let mut record = self.shared.record.borrow_mut();
        let id = record.next;
        record.next += 1;
        let call = Call { invoked, returned: None, operation };
        let before = record.open.insert(id, (self.process.node, key, call));
        strict_assert!(before.is_none(), "two calls have one number");
        id
    }

    /// Removes an open call. If the end of the call is known, the caller then adds the whole call.
    pub(in crate::workloads) fn close(&self, open: u64) {
        self.record(|record| drop(record.open.remove(&open)));
    }
}

/// Runs `future`, and drops it if it is not ready at its `polls`-th poll. `None` if the future was
/// dropped.
pub(in crate::workloads) async fn drop_after<F: Future>(
    polls: Polls,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    strict_assert!(polls != Some(0), "a future is dropped before its first poll");
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == Some(1) => Poll::Ready(None),
        Poll::Pending => {
            left = left.map(|polls| polls - 1);
            Poll::Pending
        }
    })
    .await
}
