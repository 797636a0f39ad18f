//! The same program under each coherence protocol and each concurrency control: two nodes add to
//! the same counters, and it shows how often each commit had to be tried. Run it with
//!
//! ```text
//! cargo run --release -p latchwork --example choosing
//! ```

use std::error::Error;

use latchwork::cluster::{ClusterConfig, Embedded, Protocol};
use latchwork::database::{Instance, Opened, Options};
use latchwork::txn::schema::ColumnType;
use latchwork::txn::{Schema, Scheme, Settings, TxnError};

const COUNTERS: u32 = 8;
const ROUNDS: u64 = 300;

/// Runs the same counters under each protocol and each scheme.
pub fn main() -> Result<(), Box<dyn Error>> {
    println!("protocol  scheme  commits  attempts      ms");
    for protocol in Protocol::ALL {
        for scheme in Scheme::ALL {
            run(protocol, scheme)?;
        }
    }
    Ok(())
}

fn run(protocol: Protocol, scheme: Scheme) -> Result<(), Box<dyn Error>> {
    let mut config =
        ClusterConfig { compute_nodes: 2, memory_bytes: 64 << 20, ..ClusterConfig::default() };
    // The protocol is the cluster's, the scheme the database's: a program is the same under all of
    // them.
    config.policy = protocol.policy();
    let transactions = Settings { scheme, ..Settings::default() };
    let counters = Schema::builder("counters")
        .column("counter", ColumnType::U32)
        .column("value", ColumnType::U64)
        .primary_key(["counter"])
        // A lock is a line's. Rows that all nodes write have lines of their own.
        .rows_per_line(1)
        .build()?;
    let options = Options { transactions, tables: vec![counters], ..Options::default() };

    let cluster = Embedded::start(config)?;
    let instance = Instance::in_memory(cluster.config(), options);
    let begin = cluster.clock().now();
    let attempts = instance.run(&cluster, add)?.into_iter().sum::<Result<u64, TxnError>>()?;
    let elapsed = (cluster.clock().now() - begin).as_millis();
    let sum = instance.run(&cluster, total)?.into_iter().next().ok_or("there is no worker")??;
    if sum != 2 * ROUNDS {
        return Err(format!("{protocol} {scheme}: the counters have {sum}").into());
    }
    println!(
        "{protocol:<8}  {scheme:<6}  {sum:>7}  {attempts:>8}  {elapsed:>6}",
        scheme = scheme.name()
    );
    Ok(())
}

/// Adds one to a counter, `ROUNDS` times. Returns how many attempts that took.
async fn add(database: Opened) -> Result<u64, TxnError> {
    let counters = database.table("counters").await?;
    let mut attempts = 0;
    for _ in 0..ROUNDS {
        let counter = database.member().handle.random_below(COUNTERS.into()) as u32;
        let key = counter.to_be_bytes();
        let add = database.run(async |tx| {
            attempts += 1;
            let mut row = Vec::new();
            match tx.get_for_update(&counters, &key, &mut row).await? {
                false => tx.insert(&counters, &key, &1_u64.to_le_bytes()).await,
                true => {
                    let column = counters.schema().column("value")?;
                    let value = counters.schema().row(&row)?.u64(column)?;
                    tx.update(&counters, &key, &(value + 1).to_le_bytes()).await
                }
            }
        });
        add.await?;
    }
    Ok(attempts)
}

async fn total(database: Opened) -> Result<u64, TxnError> {
    let counters = database.table("counters").await?;
    database
        .run(async |tx| {
            let mut sum = 0;
            for counter in 0..COUNTERS {
                let mut row = Vec::new();
                if tx.get(&counters, &counter.to_be_bytes(), &mut row).await? {
                    let column = counters.schema().column("value")?;
                    sum += counters.schema().row(&row)?.u64(column)?;
                }
            }
            Ok(sum)
        })
        .await
}
