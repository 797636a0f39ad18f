//! A bank with a log: two compute nodes move money between accounts, and no balance is lost when
//! the program is killed. Run it, kill it while it works, and run it again:
//!
//! ```text
//! cargo run --release -p latchwork --example bank -- DIRECTORY [TRANSFERS]
//! ```

use std::ops::ControlFlow;
use std::path::Path;

use latchwork::cluster::Worker;
use latchwork::txn::schema::ColumnType;
use latchwork::txn::{Range, Schema, Table, Transaction, TxnError};
use latchwork::{Cluster, ClusterConfig, ClusterWorker, Result};

const USAGE: &str = "usage: bank DIRECTORY [TRANSFERS]";
const ACCOUNTS: u32 = 100;
const CENTS: u64 = 1_000;
/// A worker prints its count after this many transfers.
const TOLD_EVERY: u64 = 100;
/// The first worker writes a checkpoint after this many of its transfers.
const CHECKPOINT_EVERY: u64 = 2_000;

/// The totals of the bank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Books {
    /// The number of accounts.
    pub accounts: usize,
    /// The sum of all balances, in cents.
    pub cents: u64,
    /// The number of transfers of all workers, in all runs.
    pub transfers: u64,
}

/// Opens the bank in the directory, makes the transfers, and prints the books.
pub fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or(USAGE)?;
    let transfers = args.next().map_or(Ok(10_000), |given| given.parse());
    let books = run(Path::new(&directory), transfers.map_err(|_| USAGE)?)?;
    println!("{books:?}");
    Ok(())
}

/// Opens the bank, or makes a new one. Then makes `transfers` transfers on each worker, and returns
/// the totals.
pub fn run(directory: &Path, transfers: u64) -> Result<Books> {
    let config = ClusterConfig {
        compute_nodes: 2,
        memory_bytes: 64 << 20,
        cache_frames: Some(1_000),
        ..ClusterConfig::default()
    };
    let cluster = Cluster::start(config)?;
    let accounts = Schema::builder("accounts")
        .column("account", ColumnType::U32)
        .column("cents", ColumnType::U64)
        .primary_key(["account"])
        .build()?;
    let workers = Schema::builder("workers")
        .column("worker", ColumnType::U32)
        .column("transfers", ColumnType::U64)
        .primary_key(["worker"])
        .build()?;
    // A commit returns when it is durable, which is the default of the log.
    let bank = cluster.database("bank").directory(directory).table(accounts).table(workers);
    let there = bank.open()?;
    println!("{} rows were there, from {} records of the log", there.rows, there.records);
    // Two phases: all workers end the first before any worker begins the second.
    cluster.run(found)?;
    cluster.run(async move |worker| work(worker, transfers).await)?;
    let books = cluster.run(audit)?;
    cluster.close()?;
    books.into_iter().next().ok_or_else(|| "there is no worker".into())
}

/// The number in a row, and 0 if there is no row.
async fn number(
    tx: &mut Transaction<Worker>,
    table: &Table<Worker>,
    key: u32,
) -> std::result::Result<u64, TxnError> {
    let mut row = Vec::new();
    tx.get_for_update(table, &key.to_be_bytes(), &mut row).await?;
    Ok(row.first_chunk().map_or(0, |number| u64::from_le_bytes(*number)))
}

/// Opens the accounts, all in one transaction, unless an earlier run has opened them.
async fn found(worker: ClusterWorker) -> Result<()> {
    let bank = worker.database("bank")?;
    let (accounts, workers) = (bank.table("accounts").await?, bank.table("workers").await?);
    let worker = worker.index as u32;
    let founding = bank.run(async |tx| {
        if !tx.get(&workers, &worker.to_be_bytes(), &mut Vec::new()).await? {
            tx.insert(&workers, &worker.to_be_bytes(), &0_u64.to_le_bytes()).await?;
        }
        if worker > 0 || tx.get(&accounts, &0_u32.to_be_bytes(), &mut Vec::new()).await? {
            return Ok(());
        }
        for account in 0..ACCOUNTS {
            tx.insert(&accounts, &account.to_be_bytes(), &CENTS.to_le_bytes()).await?;
        }
        Ok(())
    });
    Ok(founding.await?)
}

/// Moves money, and counts the transfers of this worker in the same transactions.
async fn work(worker: ClusterWorker, transfers: u64) -> Result<()> {
    let bank = worker.database("bank")?;
    let (accounts, workers) = (bank.table("accounts").await?, bank.table("workers").await?);
    for made in 1..=transfers {
        let account = || worker.handle.random_below(ACCOUNTS.into()) as u32;
        let (from, to, amount) = (account(), account(), worker.handle.random_below(50));
        let transfer = async |tx: &mut Transaction<Worker>| {
            let has = number(tx, &accounts, from).await?;
            let amount = amount.min(has);
            tx.update(&accounts, &from.to_be_bytes(), &(has - amount).to_le_bytes()).await?;
            let has = number(tx, &accounts, to).await?;
            tx.update(&accounts, &to.to_be_bytes(), &(has + amount).to_le_bytes()).await?;
            let me = worker.index as u32;
            let count = number(tx, &workers, me).await? + 1;
            tx.update(&workers, &me.to_be_bytes(), &count.to_le_bytes()).await?;
            Ok(count)
        };
        // The transaction takes effect as a whole or not at all. After a conflict it runs again.
        let count = bank.run(transfer).await?;
        if made.is_multiple_of(TOLD_EVERY) {
            println!("worker {} has made {count} transfers", worker.index);
        }
        if worker.index == 0 && made.is_multiple_of(CHECKPOINT_EVERY) {
            match bank.checkpoint().await {
                Ok(written) => println!("a checkpoint of {} rows", written.rows),
                // The last checkpoint stays valid, and the log has all later commits.
                Err(error) => eprintln!("no checkpoint: {error}"),
            }
        }
    }
    Ok(())
}

/// Reads all accounts and counts in one transaction.
async fn audit(worker: ClusterWorker) -> Result<Books> {
    let bank = worker.database("bank")?;
    let (accounts, workers) = (bank.table("accounts").await?, bank.table("workers").await?);
    let books = bank.run(async |tx| {
        let mut books = Books { accounts: 0, cents: 0, transfers: 0 };
        let number = |row: &[u8]| row.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        tx.scan(&accounts, Range::all(), |_, row| {
            books.accounts += 1;
            books.cents += number(row);
            ControlFlow::Continue(())
        })
        .await?;
        tx.scan(&workers, Range::all(), |_, row| {
            books.transfers += number(row);
            ControlFlow::Continue(())
        })
        .await?;
        Ok(books)
    });
    Ok(books.await?)
}
