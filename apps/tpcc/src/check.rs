//! The checks at the end of a run:
//!
//! - the consistency conditions hold over all rows,
//! - every added or removed row belongs to a transaction,
//! - the indexes lead to the same rows as the tables.

use std::ops::{Bound, ControlFlow, RangeInclusive};
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_harness::outcome::RunCheck;
use latchwork_harness::{AppError, PhaseProgress};
use latchwork_txn::{Range, TxnError};
use latchwork_workload::tpcc::check::{ConsistencyCheck, ConsistencyReport, StockCheck};
use latchwork_workload::tpcc::key::{DistrictKey, WarehouseKey};
use latchwork_workload::tpcc::row::BadRow;
use latchwork_workload::tpcc::{DISTRICTS, Scale, TpccTable, TransactionKind};
use serde::{Deserialize, Serialize};

use crate::session::{Logged, Session};
use crate::settings::Settings;
use crate::tables::{INDEX, Rows, Store, Tables};
use crate::tally::Tally;

/// The number of rows that one transaction of a check reads.
const CHUNK: usize = 500;

/// What one worker has found, or many workers.
#[derive(Serialize, Deserialize)]
pub(crate) struct Found {
    report: Option<ConsistencyReport>,
    stock: StockCheck,
    /// Rows of each table, and entries of its index.
    rows: [u64; TpccTable::ALL.len()],
    indexed: [u64; TpccTable::ALL.len()],
}

/// The expected numbers of rows.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    /// Orders and payments from before the run.
    pub(crate) orders: u64,
    pub(crate) history: u64,
    /// Orders and payments that the run has committed.
    pub(crate) new_orders: u64,
    pub(crate) payments: u64,
}

impl Expected {
    /// The expected numbers after a run, or without one.
    pub(crate) fn new(settings: &Settings, tally: Option<&Tally>) -> Expected {
        let population = &settings.population;
        let districts = u64::from(population.warehouses()) * u64::from(DISTRICTS);
        let loaded = districts * u64::from(population.scale().customers());
        let before =
            |table: TpccTable| settings.stored.as_ref().map(|stored| stored.rows[table as usize]);
        let commits = |kind| tally.map_or(0, |tally| tally.commits(kind));
        Expected {
            orders: before(TpccTable::Order).unwrap_or(loaded),
            history: before(TpccTable::History).unwrap_or(loaded),
            new_orders: commits(TransactionKind::NewOrder),
            payments: commits(TransactionKind::Payment),
        }
    }
}

/// Checks one worker's share of the warehouses. `None` if another worker has failed.
pub(crate) async fn check(
    session: Arc<Session>,
    phase: Arc<PhaseProgress>,
    member: Member,
) -> Result<Option<Found>, AppError> {
    let (session, phase, member) = (&*session, &*phase, &member);
    let (store, tables) = session.open(phase, member, Logged::No).await?;
    let population = &session.settings.population;
    let (scale, warehouses) = (population.scale(), population.warehouses());
    let workers = session.settings.common.workers() as u64;
    let edge = |worker: u64| (u64::from(warehouses) * worker / workers) as u32;
    let mine = edge(member.index as u64) + 1..=edge(member.index as u64 + 1);
    let mut looker = Looker {
        session,
        phase,
        member,
        store,
        tables,
        rows: Default::default(),
        indexed: Default::default(),
    };
    let mut stock = StockCheck::new(scale, warehouses);
    let report = match mine.is_empty() {
        true => None,
        false => looker.conditions(mine.clone(), &mut stock).await?,
    };
    if member.index == 0 {
        looker.count(TpccTable::Item).await?;
    }
    let Looker { rows, indexed, .. } = looker;
    Ok((!phase.stopped()).then_some(Found { report, stock, rows, indexed }))
}

/// A worker that reads rows.
struct Looker<'a> {
    session: &'a Session,
    phase: &'a PhaseProgress,
    member: &'a Member,
    store: Store,
    tables: Tables,
    rows: [u64; TpccTable::ALL.len()],
    indexed: [u64; TpccTable::ALL.len()],
}

/// A range of rows.
#[derive(Clone)]
struct Span<'a> {
    from: Bound<&'a [u8]>,
    to: Bound<&'a [u8]>,
}

impl Looker<'_> {
    async fn conditions(
        &mut self,
        mine: RangeInclusive<u32>,
        stock: &mut StockCheck,
    ) -> Result<Option<ConsistencyReport>, AppError> {
        let population = &self.session.settings.population;
        let (scale, warehouses) = (population.scale(), population.warehouses());
        let mut check = ConsistencyCheck::new(scale, warehouses, mine.clone());
        for warehouse in mine.clone() {
            let (from, to) =
                (WarehouseKey { warehouse }, WarehouseKey { warehouse: warehouse + 1 });
            let (from, to) = (from.to_bytes(), to.to_bytes());
            let span = between(&from, &to);
            for table in [TpccTable::Warehouse, TpccTable::District, TpccTable::Customer] {
                self.each(table, &span, |key, row| check.add(table, key, row)).await?;
            }
            self.each(TpccTable::Stock, &span, |key, row| stock.add(TpccTable::Stock, key, row))
                .await?;
            for district in 1..=DISTRICTS {
                let key = DistrictKey { warehouse, district };
                let (from, to) = (key, DistrictKey { warehouse, district: district + 1 });
                let (from, to) = (from.to_bytes(), to.to_bytes());
                let span = between(&from, &to);
                for table in [TpccTable::Order, TpccTable::NewOrder, TpccTable::OrderLine] {
                    let add = |key: &[u8], row: &[u8]| {
                        check.add(table, key, row)?;
                        stock.add(table, key, row)
                    };
                    self.each(table, &span, add).await?;
                }
                check.settle(key, u32::MAX);
            }
            for table in [TpccTable::Customer, TpccTable::Order] {
                self.each_indexed(table, &span).await?;
            }
            if self.phase.stopped() {
                return Ok(None);
            }
        }
        // A payment in this warehouse by a customer of another warehouse has its row here. So it
        // counts here.
        let here = |key: &[u8]| {
            let warehouse = key.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            mine.contains(&warehouse)
                || *mine.start() == 1 && !(1..=warehouses).contains(&warehouse)
        };
        let mut mine_of_all = 0;
        let all = Span { from: Bound::Unbounded, to: Bound::Unbounded };
        let add = |key: &[u8], row: &[u8]| {
            mine_of_all += u64::from(here(key));
            check.add(TpccTable::History, key, row)
        };
        self.each(TpccTable::History, &all, add).await?;
        self.rows[TpccTable::History as usize] = mine_of_all;
        Ok(Some(check.finish()))
    }

    /// Counts the rows of a table.
    async fn count(&mut self, table: TpccTable) -> Result<(), AppError> {
        let all = Span { from: Bound::Unbounded, to: Bound::Unbounded };
        self.each(table, &all, |_, _| Ok(())).await
    }

    /// Passes all rows of a table in a range to `add`, and counts them.
    async fn each(
        &mut self,
        table: TpccTable,
        span: &Span<'_>,
        add: impl FnMut(&[u8], &[u8]) -> Result<(), BadRow>,
    ) -> Result<(), AppError> {
        let count = self.walk(table, By::Key, span, add).await?;
        self.rows[table as usize] += count;
        Ok(())
    }

    /// Counts the rows that the index of a table leads to in a range.
    async fn each_indexed(&mut self, table: TpccTable, span: &Span<'_>) -> Result<(), AppError> {
        let count = self.walk(table, By::Index, span, |_, _| Ok(())).await?;
        self.indexed[table as usize] += count;
        Ok(())
    }

    async fn walk(
        &self,
        table: TpccTable,
        by: By,
        span: &Span<'_>,
        mut add: impl FnMut(&[u8], &[u8]) -> Result<(), BadRow>,
    ) -> Result<u64, AppError> {
        let rows = self.tables.of(table);
        let (mut chunk, mut count) = (Chunk::default(), 0);
        let mut last: Option<Vec<u8>> = None;
        while !self.phase.stopped() {
            let from = last.as_deref().map_or(span.from, Bound::Excluded);
            let range = Range { from, to: span.to, ..Range::all() }.limit(CHUNK);
            let read = chunk.read(&self.store, rows, by, range).await;
            read.map_err(|error| self.session.txn_error(&error))?;
            for (key, row) in chunk.rows() {
                add(key, row).map_err(|bad| {
                    AppError::Failed(format!("the row of {} at {key:02x?}: {bad}", table.name()))
                })?;
                count += 1;
                self.phase.count(self.member.index);
            }
            self.phase.reach(self.member.handle.now());
            if chunk.ends.len() < CHUNK {
                break;
            }
            last = chunk.resume(rows, by).map_err(|error| self.session.txn_error(&error))?;
        }
        Ok(count)
    }
}

/// The order in which a walk reads rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Key,
    /// The order of the table's index.
    Index,
}

/// The rows that one transaction read. The walk adds them after the transaction has proved that
/// they existed at the same time.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// The end of each key, and the end of the row that follows the key, in `bytes`.
    ends: Vec<(usize, usize)>,
}

impl Chunk {
    async fn read(
        &mut self,
        store: &Store,
        rows: &Rows,
        by: By,
        range: Range<'_>,
    ) -> Result<(), TxnError> {
        let read = async |tx: &mut latchwork_txn::Transaction<_>| {
            self.bytes.clear();
            self.ends.clear();
            let visit = |key: &[u8], row: &[u8]| {
                self.bytes.extend_from_slice(key);
                let middle = self.bytes.len();
                self.bytes.extend_from_slice(row);
                self.ends.push((middle, self.bytes.len()));
                ControlFlow::Continue(())
            };
            match by {
                By::Key => tx.scan(rows, range, visit).await.map(drop),
                By::Index => tx.scan_index(rows, INDEX, range, visit).await.map(drop),
            }
        };
        store.run(read).await
    }

    fn rows(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        (0..self.ends.len()).map(|at| {
            let begin = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
            let (middle, end) = self.ends[at];
            (&self.bytes[begin..middle], &self.bytes[middle..end])
        })
    }

    /// The position after the last row, from which the next transaction continues.
    fn resume(&self, rows: &Rows, by: By) -> Result<Option<Vec<u8>>, TxnError> {
        let Some((key, row)) = self.rows().next_back() else { return Ok(None) };
        let mut last = key.to_vec();
        if by == By::Index {
            rows.schema().index_key(INDEX, key, row, &mut last)?;
        }
        Ok(Some(last))
    }
}

fn between<'a>(from: &'a [u8], to: &'a [u8]) -> Span<'a> {
    Span { from: Bound::Included(from), to: Bound::Excluded(to) }
}

impl Found {
    /// Adds the findings of another worker.
    pub(crate) fn merge(&mut self, other: Found) {
        match (&mut self.report, other.report) {
            (Some(report), Some(other)) => report.merge(other),
            (report, other) => *report = report.take().or(other),
        }
        self.stock.merge(&other.stock);
        let add = |mine: &mut [u64], theirs: &[u64]| {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        };
        add(&mut self.rows, &other.rows);
        add(&mut self.indexed, &other.indexed);
    }

    /// Compares the findings with the expected numbers. The result names each row that is wrong.
    pub(crate) fn judge(
        self,
        scale: Scale,
        warehouses: u32,
        expected: &Expected,
    ) -> (Vec<RunCheck>, Option<ConsistencyReport>) {
        let Found { report, stock, rows, indexed } = self;
        let mut checks = vec![rows_check(scale, warehouses, expected, &rows)];
        checks.push(indexes_check(&rows, &indexed));
        let Some(mut report) = report else {
            let detail = "nobody looked at the warehouses".to_owned();
            checks.push(RunCheck::new(CONDITIONS[0], false, detail));
            return (checks, None);
        };
        stock.finish_into(&mut report);
        for (number, name) in CONDITIONS.iter().enumerate() {
            let Some(condition) = report.condition(number) else { continue };
            let detail = match condition.named.first() {
                None if number == 0 => "each row belongs to a district and a customer".to_owned(),
                None => format!("{} compared", condition.compared),
                Some(first) => format!(
                    "{} of {} wrong; {}",
                    condition.violations, condition.compared, first.text
                ),
            };
            let good = !report.broken().contains(&number);
            checks.push(RunCheck::new(name, good, detail));
        }
        (checks, Some(report))
    }
}

/// The names of the checks, in the order of the conditions: see [`ConsistencyReport::condition`].
const CONDITIONS: [&str; 14] = [
    "tpcc-rows",
    "tpcc-3.3.2.01",
    "tpcc-3.3.2.02",
    "tpcc-3.3.2.03",
    "tpcc-3.3.2.04",
    "tpcc-3.3.2.05",
    "tpcc-3.3.2.06",
    "tpcc-3.3.2.07",
    "tpcc-3.3.2.08",
    "tpcc-3.3.2.09",
    "tpcc-3.3.2.10",
    "tpcc-3.3.2.11",
    "tpcc-3.3.2.12",
    "tpcc-stock",
];

/// Whether each table has the expected number of rows: the old number, and the rows that payments
/// and new orders have added.
fn rows_check(
    scale: Scale,
    warehouses: u32,
    expected: &Expected,
    rows: &[u64; TpccTable::ALL.len()],
) -> RunCheck {
    let (warehouses, items) = (u64::from(warehouses), u64::from(scale.items()));
    let districts = warehouses * u64::from(DISTRICTS);
    let customers = districts * u64::from(scale.customers());
    let all = [
        (TpccTable::Warehouse, warehouses),
        (TpccTable::District, districts),
        (TpccTable::Customer, customers),
        (TpccTable::Item, items),
        (TpccTable::Stock, warehouses * items),
        (TpccTable::History, expected.history + expected.payments),
        (TpccTable::Order, expected.orders + expected.new_orders),
    ];
    let wrong = all.into_iter().find(|&(table, belong)| rows[table as usize] != belong);
    let Expected { new_orders, payments, .. } = expected;
    match wrong {
        None => {
            let detail = format!(
                "those that were there, and those of {new_orders} new orders and {payments} payments"
            );
            RunCheck::new("rows", true, detail)
        }
        Some((table, belong)) => {
            let detail = format!(
                "{} has {} rows where {belong} belong, after {new_orders} new orders and {payments} payments",
                table.name(),
                rows[table as usize]
            );
            RunCheck::new("rows", false, detail)
        }
    }
}

/// Whether the indexes lead to as many rows as the tables have.
fn indexes_check(
    rows: &[u64; TpccTable::ALL.len()],
    indexed: &[u64; TpccTable::ALL.len()],
) -> RunCheck {
    let with_index =
        || TpccTable::ALL.into_iter().filter_map(|table| Some((table, table.index()?)));
    let wrong = with_index().find(|(table, _)| rows[*table as usize] != indexed[*table as usize]);
    match wrong {
        None => {
            let entries: u64 = with_index().map(|(table, _)| indexed[table as usize]).sum();
            RunCheck::new("indexes", true, format!("{entries} entries, one for each row"))
        }
        Some((table, index)) => {
            let detail = format!(
                "{} leads to {} rows of {}",
                index.name(),
                indexed[table as usize],
                rows[table as usize]
            );
            RunCheck::new("indexes", false, detail)
        }
    }
}

#[cfg(test)]
mod tests;
