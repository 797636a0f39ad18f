//! A cluster that keeps a NIC's time: what work costs is what the profile says.

use std::time::Duration;

use latchwork_cluster::{ClusterConfig, Simulated};
use latchwork_coherence::CoherentMemory;
use latchwork_verbs_sim::{NicProfile, SimConfig};

const LIMIT: Duration = Duration::from_secs(10);
const READS: u32 = 1_000;

/// How long a thousand reads of a cached line take one worker.
fn hits(change: impl Fn(&mut NicProfile)) -> Duration {
    let mut profile = NicProfile::named("connectx5").expect("it comes with the crate");
    change(&mut profile);
    let config = ClusterConfig {
        compute_nodes: 1,
        cache_bytes: 1 << 20,
        memory_bytes: 32 << 20,
        ..ClusterConfig::default()
    };
    let cluster = Simulated::start(config, SimConfig::nic(profile)).expect("a good configuration");
    let times = cluster.run(LIMIT, |member| async move {
        let memory = &member.memory;
        let _operation = memory.enter().await.expect("no faults");
        let line = memory.allocate().await.expect("an empty pool");
        memory.write(line, |guard| guard.words().set_u64(0, 1)).await.expect("no faults");
        let start = member.handle.now();
        for _ in 0..READS {
            assert_eq!(memory.read(line, |words| words.u64(0)).await.expect("no faults"), 1);
        }
        member.handle.now() - start
    });
    times.expect("no worker fails")[0]
}

#[test]
fn a_hit_costs_what_the_profile_says() {
    let free =
        |profile: &mut NicProfile| (profile.cpu.hit_ns, profile.cpu.copy_ns_per_kib) = (0, 0);
    assert_eq!(hits(free), Duration::ZERO);
    let some =
        |profile: &mut NicProfile| (profile.cpu.hit_ns, profile.cpu.copy_ns_per_kib) = (70, 15);
    // A line of 2 KiB is read as a whole.
    assert_eq!(hits(some), READS * Duration::from_nanos(70 + 2 * 15));
}
