//! [`IndexLoad`]: a workload on one index, and what the tasks of a thread share of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;

use latchwork_history::calls::ObjectModel;

use super::shared::SharedIndex;
use crate::workloads::client::Client;

/// An error of the index of a workload.
pub(in crate::workloads) type ErrorOf<I> = <<I as IndexLoad>::Index as SharedIndex>::Error;
/// A recorded operation on one key of the index of a workload, with its answer.
pub(in crate::workloads) type CallOf<I> = <<I as IndexLoad>::Model as ObjectModel>::Operation;

/// A workload on one index.
pub(in crate::workloads) trait IndexLoad: Sized + 'static {
    /// The name of the index in messages.
    const NAME: &'static str;
    /// Maximum number of waits for a line in an operation that may read the whole index. This is an
    /// estimate.
    const WALK_MAX: u32;
    /// The index.
    type Index: SharedIndex;
    /// The model of one key, which is absent at first.
    type Model: ObjectModel<State = Option<Self::Value>, Operation: Clone + Send + 'static>;
    /// The value of a key in the model.
    type Value;
    /// What a task knows, beside its handle on the index.
    type Task;
    /// A drawn operation.
    type Operation;
    /// An entry of the index, as nodes read it at the end.
    type Entry: PartialEq + Debug + Send + 'static;

    /// The configuration of the index.
    fn config(client: &Client<Indexed<Self>>) -> <Self::Index as SharedIndex>::Config;

    /// Loads entries into the new index, and records them.
    async fn fill(
        _client: &Client<Indexed<Self>>,
        _index: &Self::Index,
    ) -> Result<(), ErrorOf<Self>> {
        Ok(())
    }

    /// Makes what a task knows. An error is a mistake in the scenario.
    fn begin(client: &Client<Indexed<Self>>) -> Result<Self::Task, String>;

    /// Draws the next operation.
    fn draw(client: &Client<Indexed<Self>>) -> Self::Operation;

    /// Carries out an operation, and records it.
    async fn apply(client: &Client<Indexed<Self>>, operation: Self::Operation);

    /// Reads all entries after all work.
    async fn look(client: &Client<Indexed<Self>>);

    /// Runs before the validation. A seeded bug can change the index here.
    async fn before_validation(_client: &Client<Indexed<Self>>) -> Result<(), ErrorOf<Self>> {
        Ok(())
    }

    /// The model of one key.
    fn model() -> Self::Model;
}

/// The workload, with the handles of all workers of this thread on its index.
pub(in crate::workloads) struct Indexed<I: IndexLoad> {
    pub(super) load: I,
    pub(super) handles: RefCell<BTreeMap<usize, I::Index>>,
}

/// What a task knows.
pub(in crate::workloads) struct IndexTask<I: IndexLoad> {
    pub(super) index: I::Index,
    pub(super) own: I::Task,
}

impl<I: IndexLoad> Indexed<I> {
    pub(in crate::workloads) fn new(load: I) -> Indexed<I> {
        Indexed { load, handles: RefCell::default() }
    }
}
