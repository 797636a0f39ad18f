//! [`PartitionedTransaction`]: a transaction that began on this node and sends its operations to
//! the row owners.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;

use latchwork_coherence::{LineLocks, UserMessages};
use latchwork_txn::{Conflict, Range, Scheme, Table, Timestamp, TxnError, Values};

use crate::TransactionRows;
use crate::commit::{Committing, abort_there};
use crate::inner::Inner;
use crate::message::{Reply, Request};
use crate::operation::{OperationAnswer, PartitionOperation, RowOperation};

/// The error for an answer that does not fit its operation.
fn odd(node: u8) -> TxnError {
    TxnError::Remote { node, what: "an answer makes no sense: it is of another version".into() }
}

/// A transaction that began on this node. Operations on rows of other nodes run on those nodes.
/// Dropping the transaction aborts it.
///
/// The operations are those of [`TransactionRows`], as on one node, with these differences:
///
/// - Each operation may fail with [`Conflict::Unreachable`], when the row owner does not answer,
///   and with [`TxnError::Remote`]. After either error the transaction can only be aborted.
/// - One node must own all rows of a range: the owner of the lower end, or of the upper end if
///   there is no lower end. A range without ends is scanned on this node only. The owner function
///   gets keys of the index. So the part of a key that decides the owner must be at the same
///   position in the primary key and in each index key.
/// - A blind insert of a row of another node looks the key up there.
/// - A commit may fail with [`TxnError::NoAnswer`]: the outcome is unknown. This happens when the
///   only other node that takes part does not report the outcome, or when the committing worker has
///   ended.
pub struct PartitionedTransaction<M: LineLocks + UserMessages> {
    inner: Rc<Inner<M>>,
    /// `None` once the transaction has ended.
    local: Option<latchwork_txn::Transaction<M>>,
    /// Whether the transaction has done anything on this node.
    local_used: bool,
    /// The transaction id, drawn when the first other node needs it.
    id: Option<Timestamp>,
    /// The other nodes that take part, with the number of the last request to each.
    remotes: BTreeMap<u8, u32>,
    doomed: bool,
}

impl<M: LineLocks + UserMessages> fmt::Debug for PartitionedTransaction<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Transaction");
        out.field("id", &self.id).field("local", &self.local).field("remotes", &self.remotes);
        out.finish_non_exhaustive()
    }
}

impl<M: LineLocks + UserMessages> PartitionedTransaction<M> {
    pub(crate) fn begin(inner: Rc<Inner<M>>, local: latchwork_txn::Transaction<M>) -> Self {
        let (local, remotes) = (Some(local), BTreeMap::new());
        PartitionedTransaction { inner, local, local_used: false, id: None, remotes, doomed: false }
    }

    /// The count of other nodes that take part so far.
    pub fn remotes(&self) -> usize {
        self.remotes.len()
    }

    /// The other node that owns this row; `None` if this node does.
    fn owner(&self, table: &Table<M>, key: &[u8]) -> Option<u8> {
        (self.inner.owner)(table, key).filter(|owner| *owner != self.inner.node())
    }

    /// The other node that owns all of this range; `None` if this node does.
    fn owner_of_range(&self, table: &Table<M>, range: &Range<'_>) -> Option<u8> {
        let ends = [range.from, range.to];
        let key = ends.into_iter().find_map(|end| match end {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        });
        self.owner(table, key?)
    }

    fn local(&mut self) -> Result<&mut latchwork_txn::Transaction<M>, TxnError> {
        self.local_used = true;
        match &mut self.local {
            Some(local) if !self.doomed => Ok(local),
            _ => Err(TxnError::Doomed),
        }
    }

    /// The transaction id.
    fn name(&mut self) -> Result<Timestamp, TxnError> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let local = self.local.as_ref().ok_or(TxnError::Doomed)?;
        let database = &self.inner.database;
        let id = match database.scheme() {
            Scheme::TimestampOrdering => local.timestamp(),
            _ => database.node().clock().draw(Timestamp::ZERO)?,
        };
        self.id = Some(id);
        Ok(id)
    }

    async fn ask(&mut self, owner: u8, request: Request) -> Result<Reply, TxnError> {
        if self.doomed || self.local.is_none() {
            return Err(TxnError::Doomed);
        }
        let id = self.name()?;
        let number = self.remotes.entry(owner).or_default();
        *number += 1;
        let number = *number;
        // Until the answer arrives, the state of the participant is unknown. So a drop of this
        // future leaves the transaction doomed.
        self.doomed = true;
        let reply = self.inner.call(owner, id, number, request).await?;
        if let Reply::No(fault) = reply {
            // The participant has aborted, or waits for an abort.
            return Err(fault.into_error(owner));
        }
        self.doomed = false;
        Ok(reply)
    }

    /// Runs several operations on rows of one node with one message. The operations run in order,
    /// up to the first that fails. `owner` is the number of the node.
    ///
    /// # Errors
    /// The error of the operation that failed, as documented for that operation.
    pub async fn batch(
        &mut self,
        owner: u8,
        operations: Vec<PartitionOperation>,
    ) -> Result<Vec<OperationAnswer>, TxnError> {
        if owner == self.inner.node() {
            self.local()?;
            let inner = self.inner.clone();
            let Some(local) = &mut self.local else { return Err(TxnError::Doomed) };
            let mut answers = Vec::new();
            for operation in &operations {
                answers.push(inner.operate(local, operation).await?);
            }
            return Ok(answers);
        }
        let count = operations.len();
        let ts = self.local.as_ref().map_or(Timestamp::ZERO, |local| local.timestamp());
        match self.ask(owner, Request::Operations { ts, operations }).await? {
            Reply::Answers(answers, None) if answers.len() == count => Ok(answers),
            Reply::Answers(_, Some(fault)) => {
                let error = fault.into_error(owner);
                self.doomed = !matches!(
                    error,
                    TxnError::Exists
                        | TxnError::NotFound
                        | TxnError::RowTooLong { .. }
                        | TxnError::OutsideValue { .. }
                );
                Err(error)
            }
            _ => {
                self.doomed = true;
                Err(odd(owner))
            }
        }
    }

    async fn one(
        &mut self,
        owner: u8,
        table: &Table<M>,
        what: RowOperation,
    ) -> Result<OperationAnswer, TxnError> {
        let operation = PartitionOperation { table: table.id(), what };
        self.batch(owner, vec![operation]).await?.pop().ok_or_else(|| odd(owner))
    }

    async fn change(
        &mut self,
        owner: u8,
        table: &Table<M>,
        what: RowOperation,
    ) -> Result<(), TxnError> {
        self.one(owner, table, what).await.map(drop)
    }

    async fn read_many<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
        for_update: bool,
    ) -> Result<(), TxnError> {
        if keys.iter().all(|key| self.owner(table, key.as_ref()).is_none()) {
            let local = self.local()?;
            return match for_update {
                true => local.get_many_for_update(table, keys, values).await,
                false => local.get_many(table, keys, values).await,
            };
        }
        values.clear();
        let mut row = Vec::new();
        for key in keys {
            let key = key.as_ref();
            let there = match for_update {
                true => self.get_for_update(table, key, &mut row).await?,
                false => self.get(table, key, &mut row).await?,
            };
            values.push(there.then_some(&row[..]));
        }
        Ok(())
    }

    async fn get_there(
        &mut self,
        owner: u8,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
        for_update: bool,
    ) -> Result<bool, TxnError> {
        value.clear();
        let what = RowOperation::Get { key: key.to_vec(), for_update };
        match self.one(owner, table, what).await? {
            OperationAnswer::Row(row) => Ok(row.is_some_and(|row| {
                *value = row;
                true
            })),
            _ => Err(odd(owner)),
        }
    }

    async fn scan_there(
        &mut self,
        owner: u8,
        table: &Table<M>,
        index: Option<u8>,
        range: Range<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TxnError> {
        let what = RowOperation::Scan {
            index,
            from: range.from.map(<[u8]>::to_vec),
            to: range.to.map(<[u8]>::to_vec),
            descending: range.descending,
            limit: u32::try_from(range.limit).unwrap_or(u32::MAX),
        };
        let OperationAnswer::Rows(rows) = self.one(owner, table, what).await? else {
            return Err(odd(owner));
        };
        let mut shown = 0;
        for (key, row) in &rows {
            shown += 1;
            if visit(key, row).is_break() {
                break;
            }
        }
        Ok(shown)
    }

    /// Commits a transaction whose rows all belong to one other node. That node commits its part as
    /// a transaction of its own, without two phases.
    async fn commit_there(
        inner: &Rc<Inner<M>>,
        owner: u8,
        id: Timestamp,
        number: u32,
    ) -> Result<Timestamp, TxnError> {
        match inner.call(owner, id, number, Request::CommitAlone).await {
            Ok(Reply::Ended(cts)) => {
                inner.site.count(|counts| &counts.shipped, 1);
                Ok(cts)
            }
            Ok(Reply::No(fault)) => Err(fault.into_error(owner)),
            Err(TxnError::Conflict(Conflict::Unreachable)) => {
                Err(TxnError::NoAnswer { node: owner })
            }
            Ok(_) => Err(odd(owner)),
            Err(error) => Err(error),
        }
    }
}

impl<M: LineLocks + UserMessages> TransactionRows<M> for PartitionedTransaction<M> {
    async fn get(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, TxnError> {
        match self.owner(table, key) {
            None => self.local()?.get(table, key, value).await,
            Some(owner) => self.get_there(owner, table, key, value, false).await,
        }
    }

    async fn get_for_update(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, TxnError> {
        match self.owner(table, key) {
            None => self.local()?.get_for_update(table, key, value).await,
            Some(owner) => self.get_there(owner, table, key, value, true).await,
        }
    }

    async fn get_many<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
    ) -> Result<(), TxnError> {
        self.read_many(table, keys, values, false).await
    }

    async fn get_many_for_update<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
    ) -> Result<(), TxnError> {
        self.read_many(table, keys, values, true).await
    }

    async fn scan(
        &mut self,
        table: &Table<M>,
        range: Range<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TxnError> {
        match self.owner_of_range(table, &range) {
            None => self.local()?.scan(table, range, visit).await,
            Some(owner) => self.scan_there(owner, table, None, range, visit).await,
        }
    }

    async fn scan_index(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: Range<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TxnError> {
        match self.owner_of_range(table, &range) {
            None => self.local()?.scan_index(table, index, range, visit).await,
            Some(owner) => {
                let number = u8::try_from(index).ok().filter(|index| *index < u8::MAX);
                let indexes = table.schema().indexes().len();
                let number = number.ok_or(TxnError::NoIndex { index, indexes })?;
                self.scan_there(owner, table, Some(number), range, visit).await
            }
        }
    }

    async fn insert(&mut self, table: &Table<M>, key: &[u8], value: &[u8]) -> Result<(), TxnError> {
        match self.owner(table, key) {
            None => self.local()?.insert(table, key, value).await,
            Some(owner) => {
                let what = RowOperation::Insert { key: key.to_vec(), value: value.to_vec() };
                self.change(owner, table, what).await
            }
        }
    }

    async fn insert_blind(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), TxnError> {
        match self.owner(table, key) {
            None => self.local()?.insert_blind(table, key, value),
            Some(_) => self.insert(table, key, value).await,
        }
    }

    async fn update(&mut self, table: &Table<M>, key: &[u8], value: &[u8]) -> Result<(), TxnError> {
        match self.owner(table, key) {
            None => self.local()?.update(table, key, value).await,
            Some(owner) => {
                let what = RowOperation::Update { key: key.to_vec(), value: value.to_vec() };
                self.change(owner, table, what).await
            }
        }
    }

    async fn update_part(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), TxnError> {
        match self.owner(table, key) {
            None => self.local()?.update_part(table, key, offset, bytes).await,
            Some(owner) => {
                let offset = u32::try_from(offset).unwrap_or(u32::MAX);
                let what =
                    RowOperation::UpdatePart { key: key.to_vec(), offset, bytes: bytes.to_vec() };
                self.change(owner, table, what).await
            }
        }
    }

    async fn delete(&mut self, table: &Table<M>, key: &[u8]) -> Result<(), TxnError> {
        match self.owner(table, key) {
            None => self.local()?.delete(table, key).await,
            Some(owner) => {
                self.change(owner, table, RowOperation::Delete { key: key.to_vec() }).await
            }
        }
    }

    async fn validate(&mut self) -> Result<(), TxnError> {
        // The transaction reads nothing during this check. So if no part has changed, all its reads
        // were true together just before the check.
        let owners: Vec<u8> = self.remotes.keys().copied().collect();
        self.local()?.validate().await?;
        for owner in owners {
            let Reply::Checked = self.ask(owner, Request::Check).await? else {
                return Err(odd(owner));
            };
        }
        Ok(())
    }

    async fn commit(mut self) -> Result<Timestamp, TxnError> {
        if self.doomed {
            return Err(TxnError::Doomed);
        }
        let Some(local) = self.local.take() else { return Err(TxnError::Doomed) };
        let (inner, remotes) = (self.inner.clone(), std::mem::take(&mut self.remotes));
        let node = inner.node();
        let Some(id) = self.id.filter(|_| !remotes.is_empty()) else {
            let committed = local.commit().await;
            inner.site.count(|counts| &counts.local, u64::from(committed.is_ok()));
            return committed;
        };
        if let (false, Some((&owner, &number))) = (self.local_used, remotes.first_key_value())
            && remotes.len() == 1
        {
            local.abort();
            return Self::commit_there(&inner, owner, id, number + 1).await;
        }
        // The commit runs in a task of its own, so the commit continues even if the caller drops
        // this future.
        let handle = inner.database.memory().handle().clone();
        let committing = Committing::new(inner, id, remotes);
        let decided = handle.spawn_service(committing.run(local)).await;
        // The task ends without an answer only when its worker ends. The transaction may have
        // committed by then.
        decided.unwrap_or(Err(TxnError::NoAnswer { node }))
    }

    fn abort(self) {
        drop(self);
    }
}

impl<M: LineLocks + UserMessages> Drop for PartitionedTransaction<M> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        abort_there(&self.inner, id, self.remotes.keys().copied());
    }
}
