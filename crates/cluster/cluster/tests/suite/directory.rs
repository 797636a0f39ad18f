//! The same cluster in a directory, as if its peers were other processes. All its memory is in
//! files, its workers sleep where other processes could wake them, and no file remains at its end.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;

use latchwork_cluster::{Embedded, Protocol};
use latchwork_fabric::Threaded;
use latchwork_verbs_shm::{ShmConfig, ShmFabric};

use crate::common::{Load, hammer, read_counters, small, totals};

fn directory() -> PathBuf {
    let shm = PathBuf::from("/dev/shm");
    let base = if shm.is_dir() { shm } else { std::env::temp_dir() };
    base.join(format!("latchwork-cluster-{}", std::process::id()))
}

#[test]
fn threads_in_a_directory_lose_no_write_and_leave_no_file() {
    let directory = directory();
    for protocol in Protocol::ALL {
        let load = Load { lines: 16, operations: 300, tasks: 4, writes: 40, dropped: 10 };
        let mut config = small(3, 2, 8, 1);
        config.protocol = protocol;
        // One owner's file, the memory nodes, and for each compute node a page file and a cache. An
        // agent has only a page file: its arena is the memory of its node.
        let agents = if protocol.has_homes() { config.memory_nodes } else { 0 };
        let files = 1 + config.memory_nodes + 2 * 3 + agents;
        let fabric = ShmFabric::in_directory(&directory, ShmConfig { inbox_capacity: 16 });
        let threaded = Threaded::Shm(fabric.expect("a directory"));
        let cluster = Embedded::start_on(config, threaded).expect("a configuration");
        assert_eq!(fs::read_dir(&directory).expect("a directory").count(), files);
        let counts = cluster.run(|member| hammer(member, load)).expect("no worker fails");
        let reads = cluster
            .run_on(1, |member| async move { read_counters(&member, load.lines).await })
            .expect("no worker fails");
        for read in reads {
            assert_eq!(read, totals(&counts), "a write was lost");
        }
        drop(cluster);
        assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 0);
    }
    fs::remove_dir(&directory).expect("an empty directory");
}
