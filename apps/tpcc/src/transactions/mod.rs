//! The five transactions (clause 2).
//!
//! The transactions read and write what the standard requires. Clause 2.3 leaves the order of the
//! accesses open. Here stocks and customers come before districts and warehouses, so that the
//! hottest rows are locked for the shortest time. Rows are changed in place. An update writes only
//! the bytes that transactions may change.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::ops::ControlFlow;

use latchwork_cluster::Worker;
use latchwork_partition::TransactionRows;
use latchwork_txn::schema::end_of_prefix;
use latchwork_txn::{Range, TxnError, Values};
use latchwork_workload::tpcc::key::{CustomerKey, DistrictKey};
use latchwork_workload::tpcc::row::BadRow;
use latchwork_workload::tpcc::{CustomerChoice, TpccTable, TpccTransaction};

use crate::tables::{INDEX, Tables};

/// The reason why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Txn(#[from] TxnError),
    #[error(transparent)]
    Row(#[from] BadRow),
    /// A row that every database has is missing.
    #[error("a row of {} is missing: {key}", .table.name())]
    Missing { table: TpccTable, key: String },
}

/// The result of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ended {
    /// Whether the transaction's input requested the rollback.
    pub(crate) rolled_back: bool,
    /// Districts in which a delivery found no new order.
    pub(crate) skipped: u32,
    /// The number that the terminal would show, in cents or as a count. It makes each transaction
    /// compute a result.
    pub(crate) shown: i64,
}

/// The context of a transaction, with shared tables or with partitions.
pub(crate) struct Work<'a, T> {
    tx: T,
    tables: &'a Tables,
    buffers: &'a mut Buffers,
    now_us: NonZeroU64,
    /// The number for a row of HISTORY, if the transaction writes one.
    history: u64,
}

/// Buffers that a task reuses.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The row that was read last.
    row: Vec<u8>,
    /// A new row.
    made: Vec<u8>,
    text: Vec<u8>,
    from: Vec<u8>,
    to: Vec<u8>,
    customers: Vec<CustomerKey>,
    lines: Vec<u8>,
    items: Vec<u32>,
    /// Rows that were read together: items of an order, and their stocks.
    many: [Values; 2],
}

/// Tries a transaction once, in `tx`, which has just begun. Afterwards the transaction has
/// committed, was rolled back on request, or has left no change.
pub(crate) async fn attempt<T: TransactionRows<Worker>>(
    tx: T,
    tables: &Tables,
    input: &TpccTransaction,
    buffers: &mut Buffers,
    (now_us, history): (NonZeroU64, u64),
) -> Result<Ended, Failure> {
    let mut work = Work { tx, tables, buffers, now_us, history };
    let ended = match input {
        TpccTransaction::NewOrder(input) => work.new_order(input).await,
        TpccTransaction::Payment(input) => work.payment(input).await,
        TpccTransaction::OrderStatus(input) => work.order_status(input).await,
        TpccTransaction::Delivery(input) => work.delivery(input).await,
        TpccTransaction::StockLevel(input) => work.stock_level(input).await,
    };
    match ended {
        Ok(ended) if !ended.rolled_back => {
            work.tx.commit().await?;
            Ok(ended)
        }
        ended => {
            // This result follows from the reads and not from a commit, so the reads must be valid.
            // An optimistic transaction has not validated its reads yet, so it validates them here.
            if acts_on_what_it_read(&ended) {
                work.tx.validate().await?;
            }
            work.tx.abort();
            ended
        }
    }
}

/// Whether the result follows from the transaction's reads, and not from a conflict.
fn acts_on_what_it_read(ended: &Result<Ended, Failure>) -> bool {
    matches!(
        ended,
        Ok(_) | Err(Failure::Missing { .. } | Failure::Txn(TxnError::Exists | TxnError::NotFound))
    )
}

/// The operations of a transaction. A future that need not wait is ready at its first poll.
impl<T: TransactionRows<Worker>> Work<'_, T> {
    /// Reads an existing row into `buffers.row`.
    async fn read(&mut self, table: TpccTable, key: &[u8]) -> Result<(), Failure> {
        let found = self.tx.get(self.tables.of(table), key, &mut self.buffers.row).await?;
        there(found, table, key)
    }

    /// As [`read`](Work::read), for a row that will be written.
    async fn read_to_write(&mut self, table: TpccTable, key: &[u8]) -> Result<(), Failure> {
        let row = &mut self.buffers.row;
        let found = self.tx.get_for_update(self.tables.of(table), key, row).await?;
        there(found, table, key)
    }

    /// Writes the bytes at the start of a row that transactions change.
    async fn write_updated(
        &mut self,
        table: TpccTable,
        key: &[u8],
        to: &[u8],
    ) -> Result<(), Failure> {
        Ok(self.tx.update_part(self.tables.of(table), key, 0, to).await?)
    }

    /// Adds the row in `buffers.made`. The row cannot exist yet, because a district or a worker's
    /// counter gives each number only once. A lookup would cost an access, and could find only the
    /// effect of a stale read.
    async fn insert(&mut self, table: TpccTable, key: &[u8]) -> Result<(), Failure> {
        Ok(self.tx.insert_blind(self.tables.of(table), key, &self.buffers.made).await?)
    }

    /// The customer that an input names.
    async fn customer(
        &mut self,
        district: DistrictKey,
        choice: &CustomerChoice,
    ) -> Result<CustomerKey, Failure> {
        let DistrictKey { warehouse, district } = district;
        let name = match choice {
            CustomerChoice::Number(customer) => {
                return Ok(CustomerKey { warehouse, district, customer: *customer });
            }
            CustomerChoice::LastName(name) => name,
        };
        let Buffers { from, to, customers, .. } = &mut *self.buffers;
        let rows = self.tables.of(TpccTable::Customer);
        let begin = [warehouse.into(), district.into(), name.as_bytes().into()];
        rows.schema().index_prefix(INDEX, &begin, from).map_err(TxnError::from)?;
        end_of_prefix(from, to);
        customers.clear();
        let mut bad = None;
        let visit = |key: &[u8], _: &[u8]| match CustomerKey::from_bytes(key) {
            Some(customer) => {
                customers.push(customer);
                ControlFlow::Continue(())
            }
            None => {
                bad = Some(BadRow { table: TpccTable::Customer.name(), len: key.len() });
                ControlFlow::Break(())
            }
        };
        self.tx.scan_index(rows, INDEX, Range::between(from, to), visit).await?;
        if let Some(bad) = bad {
            return Err(bad.into());
        }
        let middle = customers.get(CustomerChoice::middle(customers.len()));
        middle.copied().ok_or_else(|| Failure::Missing {
            table: TpccTable::Customer,
            key: format!(
                "warehouse {warehouse}, district {district}, {}",
                String::from_utf8_lossy(name.as_bytes())
            ),
        })
    }
}

fn there(found: bool, table: TpccTable, key: &[u8]) -> Result<(), Failure> {
    if found { Ok(()) } else { Err(missing(table, key)) }
}

#[cold]
fn missing(table: TpccTable, key: &[u8]) -> Failure {
    Failure::Missing { table, key: format!("{key:02x?}") }
}
