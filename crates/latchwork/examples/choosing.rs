//! The same program under each coherence protocol and each concurrency control. Two nodes add to
//! the same counters, and the program prints how often each commit had to be tried. Run it with
//!
//! ```text
//! cargo run --release -p latchwork --example choosing
//! ```

use latchwork::cluster::Protocol;
use latchwork::txn::schema::ColumnType;
use latchwork::txn::{Schema, Scheme};
use latchwork::{Cluster, ClusterConfig, ClusterWorker, Error, Result};

const COUNTERS: u32 = 8;
const ROUNDS: u64 = 300;

/// Runs the same counters under each protocol and each scheme.
pub fn main() -> Result<()> {
    println!("protocol  scheme  commits  attempts      ms");
    for protocol in Protocol::ALL {
        for scheme in Scheme::ALL {
            run(protocol, scheme)?;
        }
    }
    Ok(())
}

fn run(protocol: Protocol, scheme: Scheme) -> Result<()> {
    let mut config =
        ClusterConfig { compute_nodes: 2, memory_bytes: 64 << 20, ..ClusterConfig::default() };
    // The cluster has the protocol, and the database has the scheme. The rest of the program does
    // not depend on them.
    config.protocol = protocol;
    let counters = Schema::builder("counters")
        .column("counter", ColumnType::U32)
        .column("value", ColumnType::U64)
        .primary_key(["counter"])
        // A lock locks a whole line. So each row that all nodes write has a line of its own.
        .rows_per_line(1)
        .build()?;
    let cluster = Cluster::start(config)?;
    let database = cluster.database("database").table(counters);
    database.with(|options| options.transactions.scheme = scheme).open()?;

    let begin = cluster.now();
    let attempts: u64 = cluster.run(add)?.into_iter().sum();
    let elapsed = (cluster.now() - begin).as_millis();
    let sum = cluster.run(total)?[0];
    if sum != 2 * ROUNDS {
        return Err(Error::program(format!("{protocol} {scheme}: the counters have {sum}")));
    }
    println!(
        "{protocol:<8}  {scheme:<6}  {sum:>7}  {attempts:>8}  {elapsed:>6}",
        scheme = scheme.name()
    );
    cluster.close()
}

/// Adds one to a counter, `ROUNDS` times. Returns how many attempts that took.
async fn add(worker: ClusterWorker) -> Result<u64> {
    let database = worker.database("database")?;
    let counters = database.table("counters").await?;
    let mut attempts = 0;
    for _ in 0..ROUNDS {
        let counter = worker.handle.random_below(COUNTERS.into()) as u32;
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

async fn total(worker: ClusterWorker) -> Result<u64> {
    let database = worker.database("database")?;
    let counters = database.table("counters").await?;
    let sum = database.run(async |tx| {
        let mut sum = 0;
        for counter in 0..COUNTERS {
            let mut row = Vec::new();
            if tx.get(&counters, &counter.to_be_bytes(), &mut row).await? {
                let column = counters.schema().column("value")?;
                sum += counters.schema().row(&row)?.u64(column)?;
            }
        }
        Ok(sum)
    });
    Ok(sum.await?)
}
