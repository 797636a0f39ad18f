//! Transactions on a cluster of two compute nodes: both sell seats of one hall, and no seat is sold
//! twice. There is no log: the database ends with the cluster. Run it with
//!
//! ```text
//! cargo run --release -p latchwork --example transactions
//! ```

use std::error::Error;
use std::ops::ControlFlow;

use latchwork::cluster::{ClusterConfig, Embedded};
use latchwork::database::{Instance, Opened, Options};
use latchwork::txn::schema::{ColumnType, Order};
use latchwork::txn::{Key, Range, Schema, TxnError};

const SEATS: u32 = 500;

/// Sells seats from two nodes.
pub fn main() -> Result<(), Box<dyn Error>> {
    let config =
        ClusterConfig { compute_nodes: 2, memory_bytes: 64 << 20, ..ClusterConfig::default() };
    let cluster = Embedded::start(config)?;
    let seats = Schema::builder("seats")
        .column("seat", ColumnType::U32)
        .column("node", ColumnType::U32)
        .primary_key(["seat"])
        // Entries of the index come and go in the transaction that changes the row.
        .index("by_node", [("node", Order::Ascending)])
        .build()?;
    let options = Options { tables: vec![seats], ..Options::default() };
    let hall = Instance::in_memory(cluster.config(), options);
    let sold = hall.run(&cluster, sell)?;
    let sold = sold.into_iter().collect::<Result<Vec<_>, TxnError>>()?;
    let found = hall.run(&cluster, count)?;
    for (node, (sold, found)) in sold.iter().zip(found).enumerate() {
        let found = found?;
        println!("node {} sold {sold} seats, and sees {found} of its own", node + 1);
        if *sold != found {
            return Err(format!("node {} sold {sold} seats and finds {found}", node + 1).into());
        }
    }
    match sold.iter().sum::<u32>() {
        SEATS => Ok(()),
        other => Err(format!("{other} of {SEATS} seats were sold").into()),
    }
}

/// Sells the first free seat, again and again. Returns how many this node has sold.
async fn sell(hall: Opened) -> Result<u32, TxnError> {
    let seats = hall.table("seats").await?;
    let node = hall.member().node as u32;
    let mut sold = 0;
    for seat in 0..SEATS {
        // Each node tries all seats. Where the other node is at the same seat, one of the two
        // transactions is aborted and runs again, and then finds the seat sold.
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
async fn count(hall: Opened) -> Result<u32, TxnError> {
    let seats = hall.table("seats").await?;
    let node = hall.member().node as u32;
    let (from, to) = (Key::new().u32(node).done(), Key::new().u32(node + 1).done());
    hall.run(async |tx| {
        let mut found = 0;
        tx.scan_index(&seats, 0, Range::between(&from, &to), |_, _| {
            found += 1;
            ControlFlow::Continue(())
        })
        .await?;
        Ok(found)
    })
    .await
}
