//! A bank with a log: two compute nodes move money between accounts, and no balance is lost when
//! the program is killed. Run it, kill it while it works, and run it again:
//!
//! ```text
//! cargo run --release -p latchwork --example bank -- DIRECTORY [TRANSFERS]
//! ```

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;

use latchwork::cluster::{ClusterConfig, Embedded};
use latchwork::database::{Instance, Opened, Options};
use latchwork::selcc::Worker;
use latchwork::txn::schema::ColumnType;
use latchwork::txn::{Range, Schema, Table, Transaction, TxnError};

const ACCOUNTS: u32 = 100;
const CENTS: u64 = 1_000;
/// A worker says after so many transfers how far it is.
const TOLD_EVERY: u64 = 100;
/// The first worker writes a checkpoint after so many.
const CHECKPOINT_EVERY: u64 = 2_000;

/// What is in the bank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Books {
    /// Accounts.
    pub accounts: usize,
    /// The sum of all balances.
    pub cents: u64,
    /// By all workers, in all runs.
    pub transfers: u64,
}

/// Opens the bank in the directory, makes the transfers, and prints the books.
pub fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("usage: bank DIRECTORY [TRANSFERS]")?;
    let transfers = args.next().map_or(Ok(10_000), |given| given.parse())?;
    let books = run(Path::new(&directory), transfers)?;
    println!("{books:?}");
    Ok(())
}

/// Opens the bank, or founds it; makes so many transfers on each worker, and returns what is in the
/// books then.
pub fn run(directory: &Path, transfers: u64) -> Result<Books, Box<dyn Error>> {
    let config = ClusterConfig {
        compute_nodes: 2,
        memory_bytes: 64 << 20,
        cache_frames: Some(1_000),
        ..ClusterConfig::default()
    };
    let cluster = Embedded::start(config)?;
    // Two columns each. A commit returns when it is durable, which is the default of the log.
    let table = |name: &str, key: &str, value: &str| {
        let columns = [(key, ColumnType::U32), (value, ColumnType::U64)];
        let schema = Schema::builder(name);
        let schema =
            columns.iter().fold(schema, |schema, (name, kind)| schema.column(*name, *kind));
        schema.primary_key([key]).build()
    };
    let tables =
        vec![table("accounts", "account", "cents")?, table("workers", "worker", "transfers")?];
    let options = Options { tables, ..Options::default() };
    let bank = Instance::at(directory, cluster.config(), options)?;
    println!("{} rows were there, from {} commits", bank.found().rows, bank.found().commits);
    // Phases: all workers end one before any begins the next.
    each(bank.run(&cluster, found)?)?;
    each(bank.run(&cluster, |database| work(database, transfers))?)?;
    let books = each(bank.run(&cluster, audit)?)?;
    bank.close()?;
    books.into_iter().next().ok_or_else(|| "there is no worker".into())
}

fn each<T>(results: Vec<Result<T, TxnError>>) -> Result<Vec<T>, TxnError> {
    results.into_iter().collect()
}

/// A row's only number, and 0 for a row that is not there.
async fn number(
    tx: &mut Transaction<Worker>,
    table: &Table<Worker>,
    key: u32,
) -> Result<u64, TxnError> {
    let mut row = Vec::new();
    tx.get_for_update(table, &key.to_be_bytes(), &mut row).await?;
    Ok(row.first_chunk().map_or(0, |number| u64::from_le_bytes(*number)))
}

/// Opens the accounts, all in one transaction, if that was not done.
async fn found(database: Opened) -> Result<(), TxnError> {
    let (accounts, workers) = (database.table("accounts").await?, database.table("workers").await?);
    let worker = database.member().index as u32;
    database
        .run(async |tx| {
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
        })
        .await
}

/// Moves money, and counts in the same transaction how often.
async fn work(database: Opened, transfers: u64) -> Result<(), TxnError> {
    let (accounts, workers) = (database.table("accounts").await?, database.table("workers").await?);
    let member = database.member();
    for made in 1..=transfers {
        let account = || member.handle.random_below(ACCOUNTS.into()) as u32;
        let (from, to, amount) = (account(), account(), member.handle.random_below(50));
        let transfer = async |tx: &mut Transaction<Worker>| {
            let has = number(tx, &accounts, from).await?;
            let amount = amount.min(has);
            tx.update(&accounts, &from.to_be_bytes(), &(has - amount).to_le_bytes()).await?;
            let has = number(tx, &accounts, to).await?;
            tx.update(&accounts, &to.to_be_bytes(), &(has + amount).to_le_bytes()).await?;
            let worker = member.index as u32;
            let count = number(tx, &workers, worker).await? + 1;
            tx.update(&workers, &worker.to_be_bytes(), &count.to_le_bytes()).await?;
            Ok(count)
        };
        // All of it or nothing. Where other transactions are in the way it runs again.
        let count = database.run(transfer).await?;
        if made.is_multiple_of(TOLD_EVERY) {
            println!("worker {} has made {count} transfers", member.index);
        }
        if member.index == 0 && made.is_multiple_of(CHECKPOINT_EVERY) {
            match database.checkpoint().await {
                Ok(written) => println!("a checkpoint of {} rows", written.rows),
                // The one before stays in place, and the log has everything since.
                Err(error) => eprintln!("no checkpoint: {error}"),
            }
        }
    }
    Ok(())
}

/// Reads all books in one transaction.
async fn audit(database: Opened) -> Result<Books, TxnError> {
    let (accounts, workers) = (database.table("accounts").await?, database.table("workers").await?);
    database
        .run(async |tx| {
            let mut books = Books { accounts: 0, cents: 0, transfers: 0 };
            let number =
                |row: &[u8]| row.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
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
        })
        .await
}
