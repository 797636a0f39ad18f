//! [`TransactionRows`]: the operations of a transaction that runs on one node or on several.

use std::ops::ControlFlow;

use latchwork_coherence::LineLocks;
use latchwork_txn::{Range, Table, Timestamp, TxnError, Values};

/// Rows by key and in ranges. The transaction is a [`latchwork_txn::Transaction`] over memory that
/// all nodes share, or a [`PartitionedTransaction`](crate::PartitionedTransaction).
#[expect(async_fn_in_trait, reason = "its futures stay on their worker, as all here")]
pub trait TransactionRows<M: LineLocks> {
    /// Prefetches a row that will probably be read soon; see
    /// [`latchwork_txn::Transaction::expect`].
    fn expect(&self, _table: &Table<M>, _key: &[u8]) {}

    /// Prefetches the cached locations of rows; see
    /// [`latchwork_txn::Transaction::expect_locations`].
    fn expect_places<K: AsRef<[u8]>>(&self, _table: &Table<M>, _keys: &[K]) {}

    /// Reads a row.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::get`].
    async fn get(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, TxnError>;

    /// Reads a row that the transaction will probably write.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::get_for_update`].
    async fn get_for_update(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, TxnError>;

    /// Reads many rows together.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::get_many`].
    async fn get_many<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
    ) -> Result<(), TxnError>;

    /// Reads many rows together that the transaction will probably write.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::get_many`].
    async fn get_many_for_update<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
    ) -> Result<(), TxnError>;

    /// Passes the rows of a range to `visit`. All rows of the range must be in one partition.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::scan`].
    async fn scan(
        &mut self,
        table: &Table<M>,
        range: Range<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TxnError>;

    /// Like [`scan`](TransactionRows::scan), in the order of an index.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::scan_index`].
    async fn scan_index(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: Range<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TxnError>;

    /// Adds a row.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::insert`].
    async fn insert(&mut self, table: &Table<M>, key: &[u8], value: &[u8]) -> Result<(), TxnError>;

    /// Adds a row. The caller knows that the row does not exist.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::insert_blind`].
    async fn insert_blind(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), TxnError>;

    /// Replaces the value of a row.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::update`].
    async fn update(&mut self, table: &Table<M>, key: &[u8], value: &[u8]) -> Result<(), TxnError>;

    /// Overwrites a part of the value of a row.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::update_part`].
    async fn update_part(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), TxnError>;

    /// Deletes a row.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::delete`].
    async fn delete(&mut self, table: &Table<M>, key: &[u8]) -> Result<(), TxnError>;

    /// Checks that everything read so far is unchanged.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::validate`].
    async fn validate(&mut self) -> Result<(), TxnError>;

    /// Makes the writes visible and, with logs, durable. Returns the commit timestamp.
    ///
    /// # Errors
    /// As [`latchwork_txn::Transaction::commit`].
    async fn commit(self) -> Result<Timestamp, TxnError>;

    /// Aborts the transaction, which then has no effect. Dropping it does the same.
    fn abort(self);
}

// A function that returns the future of the other one, and no `async fn` around it: the operations
// of a transaction are many and short, and each layer would store their arguments once more.
impl<M: LineLocks> TransactionRows<M> for latchwork_txn::Transaction<M> {
    fn expect(&self, table: &Table<M>, key: &[u8]) {
        self.expect(table, key);
    }

    fn expect_places<K: AsRef<[u8]>>(&self, table: &Table<M>, keys: &[K]) {
        Self::expect_locations(self, table, keys);
    }

    fn get(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> impl Future<Output = Result<bool, TxnError>> {
        Self::get(self, table, key, value)
    }

    fn get_for_update(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> impl Future<Output = Result<bool, TxnError>> {
        Self::get_for_update(self, table, key, value)
    }

    fn get_many<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
    ) -> impl Future<Output = Result<(), TxnError>> {
        Self::get_many(self, table, keys, values)
    }

    fn get_many_for_update<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
    ) -> impl Future<Output = Result<(), TxnError>> {
        Self::get_many_for_update(self, table, keys, values)
    }

    fn scan(
        &mut self,
        table: &Table<M>,
        range: Range<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> impl Future<Output = Result<usize, TxnError>> {
        Self::scan(self, table, range, visit)
    }

    fn scan_index(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: Range<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> impl Future<Output = Result<usize, TxnError>> {
        Self::scan_index(self, table, index, range, visit)
    }

    fn insert(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &[u8],
    ) -> impl Future<Output = Result<(), TxnError>> {
        Self::insert(self, table, key, value)
    }

    async fn insert_blind(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), TxnError> {
        Self::insert_blind(self, table, key, value)
    }

    fn update(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &[u8],
    ) -> impl Future<Output = Result<(), TxnError>> {
        Self::update(self, table, key, value)
    }

    fn update_part(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> impl Future<Output = Result<(), TxnError>> {
        Self::update_part(self, table, key, offset, bytes)
    }

    fn delete(
        &mut self,
        table: &Table<M>,
        key: &[u8],
    ) -> impl Future<Output = Result<(), TxnError>> {
        Self::delete(self, table, key)
    }

    fn validate(&mut self) -> impl Future<Output = Result<(), TxnError>> {
        Self::validate(self)
    }

    fn commit(self) -> impl Future<Output = Result<Timestamp, TxnError>> {
        Self::commit(self)
    }

    fn abort(self) {
        Self::abort(self);
    }
}
