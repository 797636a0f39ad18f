//! The cost of a transaction over several nodes in messages and records.

use std::time::Duration;

use latchwork_partition::PartitionSettings;
use latchwork_wal::Device;

use crate::cluster;
use crate::cluster::Nodes;

#[test]
fn messages_and_records_are_as_the_book_says() {
    let nodes = Nodes::new(3, 1, &PartitionSettings::default());
    let shared = nodes.clone();
    cluster::run(
        &nodes,
        |_| Device::default(),
        move |member, started| {
            let nodes = shared.clone();
            async move {
                if member.node != 0 {
                    return;
                }
                let handle = &member.handle;
                // Rows written on these nodes: messages, prepare records, decision records.
                let cases: [(&[u8], [u64; 3]); 4] = [
                    (&[0], [0, 0, 0]),
                    (&[1], [4, 0, 0]),
                    (&[0, 1], [6, 1, 1]),
                    (&[0, 1, 2], [12, 2, 1]),
                ];
                let now = || {
                    let stats = nodes.stats();
                    [stats.messages, stats.prepared, stats.decided]
                };
                for (parts, costs) in cases {
                    let (before, begin) = (now(), handle.now());
                    let write = started.node.run(async |tx| started.write(tx, parts, 1).await);
                    write.await.expect("nobody is in the way");
                    println!("{parts:?}: {:?}", handle.now() - begin);
                    // Time for the messages that follow the acknowledgement.
                    handle.sleep(Duration::from_millis(1)).await;
                    let after = now();
                    let spent = [0, 1, 2].map(|at| after[at] - before[at]);
                    assert_eq!(spent, costs, "{parts:?}");
                }
            }
        },
    );
}
