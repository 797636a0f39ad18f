//! [`Indexed`]: a workload on one index that all workers share, a B-link tree or an R-tree.
//!
//! ```text
//!   every task:    random operations ──► calls with their answers, key by key
//!   in the end:    every node reads everything, one validates
//!   judge:         per key: does one order explain all answers?
//! ```

mod calls;
mod indexed;
mod shared;
mod sherman;

use std::collections::BTreeMap;

use latchwork_blink::TreeStatistics;
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;

use super::client::{Client, Phase, Shared, Work};
use crate::WorldCheck;
use crate::checks::CheckResult;
use crate::world::Failing;
use calls::IndexRecord;
use indexed::{ErrorOf, IndexTask};
use shared::SharedIndex;

pub(super) use calls::{Polls, drop_after};
pub(super) use indexed::{IndexLoad, Indexed};
pub(super) use shared::{MapError, SharedMap};

impl<I: IndexLoad> Work for Indexed<I> {
    type Task = IndexTask<I>;
    type Operation = I::Operation;
    type Record = IndexRecord<I>;
    const ALLOCATES: bool = true;

    async fn set_up(client: &Client<Self>) -> Result<Vec<GlobalAddr>, String> {
        let make = async {
            let index = I::Index::create(&client.member, I::config(client)).await?;
            client.of().handles.borrow_mut().insert(client.member.index, index.clone());
            I::fill(client, &index).await?;
            Ok(vec![index.root()])
        };
        make.await.map_err(|error: ErrorOf<I>| error.to_string())
    }

    async fn begin(client: &Client<Self>, phase: Phase) -> Option<IndexTask<I>> {
        let open = client.open_index(phase);
        let index = client.observed("open", I::NAME, I::WALK_MAX, open).await?;
        match I::begin(client) {
            Ok(own) => Some(IndexTask { index, own }),
            Err(text) => {
                client.shared.observer.fail(WorldCheck::Scenario, text);
                None
            }
        }
    }

    fn draw(client: &Client<Self>) -> I::Operation {
        I::draw(client)
    }

    async fn apply(client: &Client<Self>, operation: I::Operation) {
        I::apply(client, operation).await;
    }

    /// Drops this worker's handle and releases its lines in reserve, so that the worker can leave.
    async fn finish(client: &Client<Self>) {
        let finish = async {
            let index = client.of().handles.borrow_mut().remove(&client.member.index);
            match index {
                Some(index) => index.release_spares().await,
                None => Ok(()),
            }
        };
        client.observed("give back", "lines in reserve", I::WALK_MAX, finish).await;
    }

    async fn inspect(client: &Client<Self>) {
        if !client.begin(Phase::Inspect).await {
            return;
        }
        I::look(client).await;
        if client.shared.record.borrow().statistics.is_some() {
            return;
        }
        let validate = async {
            I::before_validation(client).await?;
            match client.index().validate().await {
                Ok(statistics) => client.record(|record| record.statistics = Some(statistics)),
                // Such an error says nothing about the index.
                Err(error) if !error.is_of_index() => return Err(error),
                Err(error) => {
                    client.shared.observer.fail(WorldCheck::Tree, error.to_string());
                }
            }
            Ok(())
        };
        client.observed("validate", I::NAME, I::WALK_MAX, validate).await;
    }

    fn end(shared: &Shared<Self>) {
        shared.record.borrow_mut().end();
    }

    fn roots(&self) -> u64 {
        1
    }

    fn lines_in_use(&self, record: &IndexRecord<I>) -> Option<u64> {
        record.statistics.as_ref().and_then(I::Index::pages)
    }

    fn merge(record: &mut IndexRecord<I>, more: IndexRecord<I>) {
        record.merge(more);
    }

    fn forget_unseen(record: &mut IndexRecord<I>, dead: &BTreeMap<usize, Time>) {
        record.may_be_undone(dead);
    }

    fn judge(&self, record: &IndexRecord<I>) -> CheckResult {
        record.judge()
    }

    fn tree(record: &IndexRecord<I>) -> Option<TreeStatistics> {
        record.statistics.as_ref().and_then(I::Index::of_tree)
    }
}

impl<I: IndexLoad> Client<Indexed<I>> {
    /// The workload of the index.
    pub(super) fn load(&self) -> &I {
        &self.of().load
    }

    /// This task's handle on the index.
    pub(super) fn index(&self) -> &I::Index {
        &self.task().index
    }

    /// What the task knows, beside its handle.
    pub(super) fn own(&self) -> &I::Task {
        &self.task().own
    }

    /// This worker's handle on the index. All tasks of the worker share the handle, with its lines
    /// in reserve. A task that reads everything at the end has a handle of its own.
    async fn open_index(&self, phase: Phase) -> Result<I::Index, ErrorOf<I>> {
        let (handles, worker) = (&self.of().handles, self.member.index);
        let known = handles.borrow().get(&worker).filter(|_| phase == Phase::Task).cloned();
        if let Some(index) = known {
            return Ok(index);
        }
        let opened = I::Index::open(&self.member, self.root(0), I::config(self)).await?;
        if phase != Phase::Task {
            return Ok(opened);
        }
        // If another task has opened the index meanwhile, its handle counts.
        Ok(handles.borrow_mut().entry(worker).or_insert(opened).clone())
    }
}
