//! Runs with the real programs, if they have been built beside the command.

use std::path::Path;
use std::time::Duration;

use latchwork_runtime::Clock;
use serde_json::Value;

use crate::common::{CLUSTER, LIMIT, Place, signal, wait_until};

/// The directory of the programs, if they have been built.
fn programs() -> Option<String> {
    let bin = Path::new(CLUSTER).parent().expect("a directory");
    let missing = ["memnode", "ycsb"].into_iter().find(|name| !bin.join(name).is_file());
    match missing {
        None => Some(bin.display().to_string()),
        Some(name) => {
            eprintln!("skipped: {name} has not been built");
            None
        }
    }
}

#[test]
fn a_program_runs_over_shared_memory_and_over_sockets() {
    let Some(bin) = programs() else { return };
    let place = Place::new();
    let matrix = format!(
        "title = 'YCSB'\nbin = '{bin}'\nprogram = 'ycsb'\nmemory-mb = '64M'\nmemory-nodes = 2\ntime-limit = 60\n\
         flags = {{ command = 'check', property = 'recordcount=500', operations = 500, threads = 1, cache-mb = 8 }}\n\
         [[cases]]\nfabric = ['shm', 'tcp']\nflags = {{ protocol = ['selcc', 'gam', 'scalestore'] }}\n"
    );
    std::fs::write(place.path("ycsb.toml"), matrix).expect("a file");
    let ended = place.start("matrix ycsb.toml --results all").wait();
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.out, ended.err);
    assert_eq!(ended.out.matches("| 5 ok | 1 good |").count(), 6, "{}", ended.out);
    let table: Value = serde_json::from_str(&place.read("all/table.json")).expect("JSON");
    let nodes = table["cases"][1]["runs"][0]["document"]["nodes"].as_array().map(Vec::len);
    assert_eq!(nodes, Some(4), "two compute nodes, and two of memory");
}

/// Bug: with a stopped node a run took 24 s to end, although the lease was 4 s and the deadline 6
/// s. Mechanism: the run waited for the whole grace, and then for the time until the kill. After
/// that, memory nodes waited for dead nodes to leave. Fix: the run kills a stopped process as soon
/// as it waits for the process's end. After a failure no process waits for dead nodes.
#[test]
fn a_run_with_a_stopped_node_ends_within_its_lease_and_its_deadline() {
    const LEASE: Duration = Duration::from_secs(10);
    const DEADLINE: Duration = Duration::from_secs(20);
    let Some(bin) = programs() else { return };
    let stops = |who: &str| {
        let place = Place::new();
        let (lease, deadline) = (LEASE.as_secs(), DEADLINE.as_secs());
        let running = place.start(&format!(
            "run --bin {bin} --results results --fabric tcp --memory-nodes 2 --memory-mb 64M --member-lease {lease} ycsb -- \
             run -p recordcount=500 --threads 1 --cache-mb 8 --time 600 --warmup 0 --set deadline={deadline}s
             --set survive=off"
        ));
        let is_measured = || {
            std::fs::read_to_string(place.path("results/C1.err"))
                .is_ok_and(|text| text.lines().any(|line| line.starts_with("run: ")))
        };
        assert!(wait_until(|| is_measured() || running.is_over()), "{LIMIT:?}");
        let name = place.path(&format!("results/{who}.err"));
        let is_it = |pid: &u32| {
            std::fs::read_link(format!("/proc/{pid}/fd/2")).is_ok_and(|file| file == name)
        };
        let clock = Clock::start();
        let begin = clock.now();
        signal(running.processes().into_iter().find(is_it).expect("the node"), "STOP");
        let ended = running.wait();
        let took = clock.now() - begin;
        assert_ne!(ended.status, Some(0), "{}", ended.err);
        let told = format!("cluster: {who} is stopped, and the run is over: killed");
        assert!(ended.err.contains(&told), "{}", ended.err);
        let told = format!("cluster: {who} has not answered for 1 s: it is stopped");
        assert!(ended.err.contains(&told), "{}", ended.err);
        let told = ended.unfolded();
        let reason = ["did not answer for ", "has not answered for "];
        let reason = reason.map(|reason| format!("cluster: {who} {reason}"));
        let last = told
            .lines()
            .rfind(|line| line.starts_with("cluster: C") || line.starts_with("cluster: M"));
        let last = last.expect("the reason");
        assert!(reason.iter().any(|reason| last.starts_with(reason)), "{last}");
        assert!(took < LEASE + DEADLINE, "{who}: {took:?}: {}", ended.err);
        eprintln!("{who} was stopped, and the run ended after {took:?}");
    };
    // Side by side, because both runs wait for most of their time.
    std::thread::scope(|scope| {
        scope.spawn(|| stops("C2"));
        scope.spawn(|| stops("M1"));
    });
}
