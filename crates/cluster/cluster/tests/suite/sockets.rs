//! The same cluster over sockets. Its nodes are in one process, and all traffic between them goes
//! through agents.

use latchwork_cluster::{Embedded, Protocol};
use latchwork_fabric::Threaded;
use latchwork_verbs_tcp::{Secret, Security, TcpConfig, TcpFabric};

use crate::common::{LONG, Load, hammer, read_counters, small, totals};

fn loopback(inbox_capacity: usize) -> Threaded {
    let security = Security::Secret(Secret::random().expect("random bytes"));
    // The limits are longer than any stop of the machine.
    let (patience, connect_time) = (LONG, LONG);
    let config = TcpConfig {
        threads: 2,
        inbox_capacity,
        patience,
        connect_time,
        ..TcpConfig::new(security)
    };
    Threaded::Tcp(TcpFabric::new(config).expect("a thread or two"))
}

#[test]
fn threads_over_sockets_lose_no_write() {
    let shapes = [(2, 2, 16, 4, 1024), (4, 2, 8, 16, 8), (3, 1, 4, 12, 1024)];
    for (protocol, shape) in Protocol::ALL.into_iter().flat_map(|p| shapes.map(|s| (p, s))) {
        let (nodes, workers, frames, lines, inbox) = shape;
        let load = Load { lines, operations: 300, tasks: 4, writes: 40, dropped: 10 };
        let mut config = small(nodes, workers, frames, 1);
        config.protocol = protocol;
        let cluster = Embedded::start_on(config, loopback(inbox)).expect("a configuration");
        let counts = cluster.run(|member| hammer(member, load)).expect("no worker fails");
        let reads = cluster
            .run_on(1, |member| async move { read_counters(&member, load.lines).await })
            .expect("no worker fails");
        for read in reads {
            assert_eq!(read, totals(&counts), "a write was lost");
        }
    }
}
