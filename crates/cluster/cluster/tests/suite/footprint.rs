//! The memory use of a large world.

use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::contract::alone;
use latchwork_verbs_sim::{NicProfile, SimConfig};

const GIB: u64 = 1 << 30;
const LIMIT: Duration = Duration::from_secs(10);

/// The peak memory use of this process, in bytes; `None` where the system does not report it.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// Sixteen compute nodes with sixteen workers and a cache of 128 MiB each, and eight memory nodes
/// of 1 GiB. The whole world fits in 4 GiB, with every frame of every cache in use. A memory node
/// uses memory only for pages that were touched.
#[test]
fn sixteen_nodes_of_sixteen_workers_and_eight_memory_nodes_fit_in_four_gib() {
    if !alone("footprint::sixteen_nodes_of_sixteen_workers_and_eight_memory_nodes_fit_in_four_gib")
    {
        return;
    }
    let config = ClusterConfig {
        compute_nodes: 16,
        memory_nodes: 8,
        workers: 16,
        memory_bytes: GIB,
        cache_bytes: 128 << 20,
        ..ClusterConfig::default()
    };
    let caches = (config.compute_nodes * config.cache_bytes) as u64;
    let nic = NicProfile::named("connectx5").expect("a profile that comes with the simulator");
    let network = SimConfig { payload_max: Some(64), ..SimConfig::nic(nic) };
    let cluster = Simulated::start(config, network).expect("a machine with enough memory");
    let done = cluster.run(LIMIT, |member| async move {
        let memory = &member.memory;
        // Each worker has its own lines, so that each worker uses its part of all structures.
        let mut lines = Vec::new();
        for _ in 0..8 {
            lines.push(memory.allocate().await.expect("a pool with room"));
        }
        for round in 0..10 {
            let line = lines[member.handle.random_below(8) as usize];
            let write = memory.write(line, |guard| {
                guard.words().set_u64(0, round);
                guard.mark_dirty(0..8);
            });
            write.await.expect("a line");
            memory.evict(line);
        }
        memory.read(lines[0], |words| words.u64(0)).await.expect("a line")
    });
    assert_eq!(done.expect("a world that ends in order").len(), 256);
    assert!(cluster.network().verbs() > 256 * 16, "{} verbs", cluster.network().verbs());
    let Some(peak) = peak() else {
        println!("skipped: there is no /proc to ask for the memory taken");
        return;
    };
    println!("{} MiB, and {} MiB of frames", peak >> 20, caches >> 20);
    assert!(peak < GIB, "{} MiB, of which hardly any are frames", peak >> 20);
    assert!(peak + caches < 4 * GIB, "{} MiB and full caches", peak >> 20);
}
