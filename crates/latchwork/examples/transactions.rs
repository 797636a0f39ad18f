//! Transactions on a cluster of two compute nodes. Both nodes sell seats of one hall, and no seat
//! is sold twice. The database has no log, so it ends with the cluster. Run it with
//!
//! ```text
//! cargo run --release -p latchwork --example transactions
//! ```

use std::ops::ControlFlow;

use latchwork::txn::schema::{ColumnType, Order};
use latchwork::txn::{Key, Range, Schema};
use latchwork::{Cluster, ClusterConfig, ClusterWorker, Error, Result};

const SEATS: u32 = 500;

/// Sells seats from two nodes.
pub fn main() -> Result<()> {
    let config =
        ClusterConfig { compute_nodes: 2, memory_bytes: 64 << 20, ..ClusterConfig::default() };
    let cluster = Cluster::start(config)?;
    let seats = Schema::builder("seats")
        .column("seat", ColumnType::U32)
        .column("node", ColumnType::U32)
        .primary_key(["seat"])
        // Entries of the index come and go in the transaction that changes the row.
        .index("by_node", [("node", Order::Ascending)])
        .build()?;
    cluster.database("hall").table(seats).open()?;
    let sold = cluster.run(sell)?;
    let found = cluster.run(count)?;
    for (node, (sold, found)) in sold.iter().zip(found).enumerate() {
        println!("node {} sold {sold} seats, and sees {found} of its own", node + 1);
        if *sold != found {
            let text = format!("node {} sold {sold} seats and finds {found}", node + 1);
            return Err(Error::program(text));
        }
    }
    match sold.iter().sum::<u32>() {
        SEATS => cluster.close(),
        other => Err(Error::program(format!("{other} of {SEATS} seats were sold"))),
    }
}

/// Sells the first free seat, again and again. Returns how many this node has sold.
async fn sell(worker: ClusterWorker) -> Result<u32> {
    let hall = worker.database("hall")?;
    let seats = hall.table("seats").await?;
    let node = worker.node as u32;
    let mut sold = 0;
    for seat in 0..SEATS {
        // Each node tries all seats. If both nodes try the same seat, one of the two transactions
        // is aborted and runs again. The second attempt finds the seat sold.
        let mine = hall.run(async |tx| {
            if tx.get(&seats, &seat.to_be_bytes(), &mut Vec::new()).await? {
                return Ok(false);
            }
            tx.insert(&seats, &seat.to_be_bytes(), &node.to_le_bytes()).await?;
            Ok(true)
        });
        sold += u32::from(mine.await?);
    }
    Ok(sold)
}

/// How many seats this node has sold, by the index.
async fn count(worker: ClusterWorker) -> Result<u32> {
    let hall = worker.database("hall")?;
    let seats = hall.table("seats").await?;
    let node = worker.node as u32;
    let (from, to) = (Key::new().u32(node).done(), Key::new().u32(node + 1).done());
    let found = hall.run(async |tx| {
        let mut found = 0;
        tx.scan_index(&seats, 0, Range::between(&from, &to), |_, _| {
            found += 1;
            ControlFlow::Continue(())
        })
        .await?;
        Ok(found)
    });
    Ok(found.await?)
}
