//! Each seeded fault in a database is found by the check that should find it.

use latchwork_cluster::Worker;
use latchwork_harness::driver::{Outcome, Started};
use latchwork_txn::Transaction;
use latchwork_workload::tpcc::key::{CustomerKey, ItemKey, OrderKey, OrderLineKey, StockKey};

use super::*;
use crate::outcome;
use crate::testing::{change, loaded, with};

const WAREHOUSE: u32 = 2;
const DISTRICT: u8 = 3;

/// Names of the failed checks, and their whole text.
fn failed(started: &Started<Session>, expected: &Expected) -> (Vec<&'static str>, String) {
    let (outcome, report) = checked(started, expected);
    assert_eq!(outcome.checks.len(), CONDITIONS.len() + 2, "all of them were made");
    let failed = outcome.checks.iter().filter(|check| !check.is_good());
    let report = report.map_or(String::new(), |report| report.to_string());
    let details: String = failed.clone().map(|check| check.detail.clone()).collect();
    (failed.map(|check| check.name).collect(), details + &report)
}

/// The checks of a database, and the consistency conditions.
fn checked(
    Started { driver, cluster }: &Started<Session>,
    expected: &Expected,
) -> (Outcome, Option<ConsistencyReport>) {
    let (mut outcome, mut found) = (Outcome::default(), outcome::Found::default());
    driver.check(cluster, expected, &mut outcome, &mut found).expect("the check runs");
    (outcome, found.report)
}

/// The expected numbers of a database after loading.
fn loaded_rows(started: &Started<Session>) -> Expected {
    Expected::new(&started.driver.settings, None)
}

/// A fault: a change that none of the five transactions makes.
#[derive(Clone, Copy)]
enum Fault {
    /// Adds one to the first byte that transactions change.
    Change(TpccTable),
    Delete(TpccTable),
}

async fn plant(
    tx: &mut Transaction<Worker>,
    tables: &Tables,
    fault: Fault,
) -> Result<(), TxnError> {
    let (Fault::Change(table) | Fault::Delete(table)) = fault;
    let (warehouse, district) = (WAREHOUSE, DISTRICT);
    // The last order of the district is new, and its customer has no other order.
    let order = OrderKey { warehouse, district, order: 30 };
    let key = match table {
        TpccTable::Warehouse => WarehouseKey { warehouse }.to_bytes().to_vec(),
        TpccTable::District => DistrictKey { warehouse, district }.to_bytes().to_vec(),
        TpccTable::Customer => CustomerKey { warehouse, district, customer: 4 }.to_bytes().to_vec(),
        TpccTable::History => {
            let key = latchwork_workload::tpcc::key::HistoryKey { warehouse, district, number: 4 };
            key.to_bytes().to_vec()
        }
        TpccTable::NewOrder | TpccTable::Order => order.to_bytes().to_vec(),
        TpccTable::OrderLine => {
            OrderLineKey { warehouse, district, order: 30, line: 1 }.to_bytes().to_vec()
        }
        TpccTable::Item => ItemKey { item: 17 }.to_bytes().to_vec(),
        TpccTable::Stock => StockKey { warehouse, item: 17 }.to_bytes().to_vec(),
    };
    let rows = tables.of(table);
    match fault {
        Fault::Delete(_) => tx.delete(rows, &key).await,
        Fault::Change(_) => {
            let mut row = Vec::new();
            assert!(tx.get_for_update(rows, &key, &mut row).await?, "a row to spoil");
            // The second byte of a stock belongs to its quantity, which no check compares. So the
            // change is in the next field.
            let at = if table == TpccTable::Stock { 2 } else { 0 };
            tx.update_part(rows, &key, at, &[row[at].wrapping_add(1)]).await
        }
    }
}

#[test]
fn each_seeded_fault_fails_its_checks_and_is_named() {
    use Fault::{Change, Delete};
    let faults = [
        (
            Change(TpccTable::Warehouse),
            vec!["tpcc-3.3.2.01", "tpcc-3.3.2.08"],
            "warehouse 2: W_YTD",
        ),
        (Change(TpccTable::District), vec!["tpcc-3.3.2.01", "tpcc-3.3.2.09"], "district 3"),
        (Change(TpccTable::Customer), vec!["tpcc-3.3.2.10", "tpcc-3.3.2.12"], "customer 4"),
        (Delete(TpccTable::Customer), vec!["rows"], "CUSTOMER has 599 rows where 600 belong"),
        (Delete(TpccTable::History), vec!["rows", "tpcc-3.3.2.08", "tpcc-3.3.2.09"], "HISTORY"),
        (Delete(TpccTable::NewOrder), vec!["tpcc-3.3.2.02", "tpcc-3.3.2.05"], "order 30"),
        (Change(TpccTable::Order), vec!["tpcc-3.3.2.05", "tpcc-3.3.2.07"], "order 30"),
        (Delete(TpccTable::Order), vec!["rows", "tpcc-3.3.2.02"], "ORDER has 599 rows"),
        (Delete(TpccTable::OrderLine), vec!["tpcc-3.3.2.04", "tpcc-3.3.2.06"], "order 30"),
        (Change(TpccTable::OrderLine), vec!["tpcc-3.3.2.07"], "order 30"),
        (Delete(TpccTable::Item), vec!["rows"], "ITEM has 199 rows where 200 belong"),
        (Change(TpccTable::Stock), vec!["tpcc-stock"], "warehouse 2: sums of S_YTD"),
    ];
    for (fault, checks, named) in faults {
        let driver = loaded();
        let (wrong, said) = failed(&driver, &loaded_rows(&driver));
        assert!(wrong.is_empty(), "a good database: {said}");
        with(&driver, move |store, tables| async move {
            change(&store, async |tx| plant(tx, &tables, fault).await).await
        });
        let (wrong, said) = failed(&driver, &loaded_rows(&driver));
        assert!(checks.iter().all(|check| wrong.contains(check)), "{wrong:?}\n{said}");
        assert!(said.contains(named), "{named}\n{said}");
    }
}

#[test]
fn transactions_that_left_no_row_or_one_too_many_are_found() {
    let driver = loaded();
    let lost = Expected { payments: 1, ..loaded_rows(&driver) };
    let (wrong, said) = failed(&driver, &lost);
    assert_eq!(wrong, ["rows"]);
    assert!(said.contains("HISTORY has 600 rows where 601 belong"), "{said}");
    let lost = Expected { new_orders: 2, ..loaded_rows(&driver) };
    let (wrong, said) = failed(&driver, &lost);
    assert_eq!(wrong, ["rows"]);
    assert!(said.contains("ORDER has 600 rows where 602 belong"), "{said}");
}

#[test]
fn an_index_that_leads_to_fewer_rows_is_found() {
    let mut rows = [0; TpccTable::ALL.len()];
    (rows[TpccTable::Customer as usize], rows[TpccTable::Order as usize]) = (10, 20);
    assert!(indexes_check(&rows, &rows).is_good());
    let mut indexed = rows;
    indexed[TpccTable::Order as usize] = 19;
    let check = indexes_check(&rows, &indexed);
    assert!(!check.is_good());
    assert_eq!(check.detail, "ORDER by customer leads to 19 rows of 20");
}

#[test]
fn checks_are_named_as_the_workload_names_them() {
    let driver = loaded();
    let (_, report) = checked(&driver, &loaded_rows(&driver));
    let report = report.expect("all conditions");
    let mut names = CONDITIONS.to_vec();
    names.sort_unstable();
    assert!(report.outcomes().keys().eq(&names));
}
