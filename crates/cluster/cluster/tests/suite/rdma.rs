//! The same cluster on RDMA devices. Its nodes are in one process, spread over all devices. The
//! test is skipped on machines without devices. `scripts/test-ibv.sh` runs it on Soft-RoCE.

#![cfg(target_os = "linux")]

use std::io::Write;

use latchwork_cluster::{Embedded, Protocol};
use latchwork_fabric::Threaded;
use latchwork_verbs_ibv::{IbvConfig, IbvFabric};

use crate::common::{Load, hammer, read_counters, small, totals};

/// The devices, or `None` without devices, after printing why. In the virtual machine there must be
/// devices.
fn devices(inbox_capacity: usize) -> Option<Threaded> {
    // The timeout is long, because the virtual machine is emulated on a busy host.
    match IbvFabric::open(IbvConfig { inbox_capacity, timeout: 18, ..IbvConfig::default() }) {
        Ok(fabric) => Some(Threaded::Ibv(fabric)),
        Err(error) => {
            assert!(std::env::var_os("RXE_HOSTS").is_none(), "no RDMA fabric: {error}");
            let _ =
                writeln!(std::io::stderr(), "skipped (scripts/test-ibv.sh has devices): {error}");
            None
        }
    }
}

#[test]
fn threads_on_rdma_devices_lose_no_write() {
    let shapes = [(2, 2, 16, 4, 1024), (3, 1, 8, 16, 8)];
    for (protocol, shape) in Protocol::ALL.into_iter().flat_map(|p| shapes.map(|s| (p, s))) {
        let (nodes, workers, frames, lines, inbox) = shape;
        let load = Load { lines, operations: 100, tasks: 4, writes: 40, dropped: 10 };
        let mut config = small(nodes, workers, frames, 1);
        config.protocol = protocol;
        let Some(fabric) = devices(inbox) else { return };
        let cluster = Embedded::start_on(config, fabric).expect("a configuration");
        let counts = cluster.run(|member| hammer(member, load)).expect("no worker fails");
        let reads = cluster
            .run_on(1, |member| async move { read_counters(&member, load.lines).await })
            .expect("no worker fails");
        for read in reads {
            assert_eq!(read, totals(&counts), "a write was lost");
        }
    }
}
