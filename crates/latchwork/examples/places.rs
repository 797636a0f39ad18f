//! Two compute nodes share one R-tree of places. Each node inserts half of the places. Then both
//! nodes count the places in a window, and find the place nearest to a point. Run it with
//!
//! ```text
//! cargo run --release -p latchwork --example places
//! ```

use std::ops::ControlFlow;

use latchwork::rtree::{Entry, RTreeConfig, Rect};
use latchwork::{Cluster, ClusterConfig, ClusterWorker, Result};

/// The places form a square of this many rows and columns, one unit apart.
const SIDE: u64 = 40;
/// The payload of an entry: the row of the place.
const CONFIG: RTreeConfig = RTreeConfig { payload_len: 8, ..RTreeConfig::DEFAULT };

/// Starts the cluster, and runs two phases on it.
pub fn main() -> Result<()> {
    let cluster = Cluster::start(ClusterConfig { compute_nodes: 2, ..ClusterConfig::default() })?;
    cluster.run(insert)?;
    for (node, (found, near)) in cluster.run(ask)?.into_iter().enumerate() {
        println!("node {} found {found} places in the window, and place {near} nearby", node + 1);
        if (found, near) != (25, 2 * SIDE + 3) {
            return Err("places are missing".into());
        }
    }
    cluster.close()
}

/// Worker 0 inserts the even places, worker 1 the odd ones.
async fn insert(worker: ClusterWorker) -> Result<()> {
    // The first worker that asks for the name makes the tree.
    let places = worker.rtree::<2>("places", CONFIG).await?;
    for id in (0..SIDE * SIDE).filter(|id| id % 2 == worker.index as u64) {
        let (row, column) = (id / SIDE, id % SIDE);
        let place = Rect::point([column as f64, row as f64])?;
        places.insert(&place, id, &row.to_le_bytes()).await?;
    }
    Ok(())
}

/// Counts the places in a window, and finds the one nearest to a point.
async fn ask(worker: ClusterWorker) -> Result<(u64, u64)> {
    let places = worker.rtree::<2>("places", CONFIG).await?;
    let mut found = 0;
    let visit = |entry: Entry<'_, 2>| {
        // The row follows from the id, too.
        found += u64::from(entry.payload == (entry.id / SIDE).to_le_bytes());
        ControlFlow::Continue(())
    };
    places.intersecting(&Rect::new([10.0, 20.0], [14.0, 24.0])?, visit).await?;
    let near = places.nearest([3.2, 1.9], 1).await?;
    Ok((found, near.first().map_or(0, |place| place.id)))
}
