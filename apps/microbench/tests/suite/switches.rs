//! Flags that are not settings of the protocol have an effect. The runs are in virtual time, where
//! the same flags give the same figures.

use crate::MICROBENCH;

/// The result of two nodes with two workers each, whose accesses miss most of the time.
fn document(arguments: &str) -> serde_json::Value {
    let shape = "--lines 2000 --operations 8000 --warmup 2000 --threads 2";
    MICROBENCH.document(&format!("--fabric sim --nic connectx3 {shape} {arguments}"))
}

/// Operations per second.
fn throughput(arguments: &str) -> f64 {
    document(arguments)["throughput_ops_s"].as_f64().expect("a number")
}

#[test]
fn more_operations_in_flight_get_more_out_of_a_worker() {
    let [one, two, four] = [1, 2, 4].map(|n| throughput(&format!("--reads 50 --inflight {n}")));
    assert!(two > 1.5 * one && four > 1.3 * two, "{one}, {two}, {four}");
}

#[test]
fn buffered_writes_are_faster_and_batches_faster_still() {
    let writes = |more: &str| throughput(&format!("--reads 0 --writes blind {more}"));
    let sequential = writes("");
    let [one, eight] = [1, 8].map(|n| {
        writes(&format!("--consistency tso --set write-deadline=100ms --set write-batch={n}"))
    });
    assert!(eight > 1.5 * one && eight > 1.5 * sequential, "{sequential}, {one}, {eight}");
}

/// Early release saves time only for a worker that waits.
#[test]
fn a_worker_with_other_operations_in_flight_releases_nothing_early() {
    let early = |inflight: u32| {
        let document = document(&format!(
            "--reads 0 --lines 500 --set release=adaptive --inflight {inflight}"
        ));
        document["counters"]["early_releases"].as_u64().expect("a number")
    };
    let (one, four) = (early(1), early(4));
    assert!(one > 2000 && four < one / 8, "{one}, {four}");
}

/// The worst cell: all accesses write, and all nodes share all lines.
#[test]
fn surviving_deaths_costs_writes_of_shared_lines_at_most_a_tenth() {
    for (nodes, theta) in [(2, "0"), (2, "0.99"), (8, "0"), (8, "0.99")] {
        let writes = |survive: &str| {
            let shape = format!("--compute-nodes {nodes} --theta {theta} --sharing 100 --reads 0");
            throughput(&format!("{shape} --set survive={survive}"))
        };
        let (off, on) = (writes("off"), writes("on"));
        assert!(on >= 0.9 * off, "{nodes} nodes, theta {theta}: {on} of {off}");
        assert_ne!(on, off, "{nodes} nodes, theta {theta}: nothing is written back");
    }
}
