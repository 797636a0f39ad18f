//! Runs with partitions: each compute node owns warehouses, and nodes commit together by two-phase
//! commit. Every scheme runs, on threads and in virtual time, with logs, and with kills.

use serde_json::Value;

use crate::TPCC;
use crate::program::{SMALL, document, good, kills, orders, prepared, temporary};

fn counted(document: &Value, name: &str) -> u64 {
    document["counters"][name].as_u64().unwrap_or_else(|| panic!("{name}"))
}

/// Runs with a history, which must be serializable.
fn recorded(flags: &str) -> Value {
    let history = temporary("history");
    let flags = format!("{SMALL} --partitioned {flags} --record {}", history.display());
    let document = document(&flags);
    assert_eq!(document["checks"]["serializability"], "ok", "{flags}");
    assert_eq!(document["config"]["partitioned"], true);
    std::fs::remove_file(&history).expect("a history");
    document
}

fn every_scheme(more: &str) {
    for cc in ["2pl", "to", "occ"] {
        for nodes in [1, 2, 4] {
            let flags = format!("-w 4 --cc {cc} --compute-nodes {nodes} --operations 400 {more}");
            let document = recorded(&flags);
            // Distributed are payments by customers of other warehouses, and some order lines.
            let distributed = counted(&document, "partitions_distributed");
            assert_eq!(distributed > 5, nodes > 1, "{flags}: {distributed}");
            assert!(counted(&document, "partitions_local") > 100, "{flags}");
            assert_eq!(counted(&document, "partitions_prepared"), 0, "there is no log");
        }
    }
}

#[test]
fn every_scheme_is_serializable_on_threads() {
    every_scheme("--threads 1");
}

#[test]
fn several_workers_of_a_node_on_threads() {
    for cc in ["2pl", "to", "occ"] {
        let ratio = "--weight neworder --distribution-ratio 60";
        recorded(&format!(
            "-w 4 --cc {cc} --compute-nodes 2 --threads 3 --inflight 2 --operations 400 {ratio}"
        ));
    }
}

#[test]
fn every_scheme_is_serializable_in_virtual_time() {
    every_scheme("--threads 2 --inflight 2 --fabric sim");
}

#[test]
fn a_worker_without_terminals_waits_for_the_end_of_a_long_run() {
    let shape = "-w 2 --compute-nodes 2 --threads 3 --fabric sim";
    let document = document(&format!("{SMALL} {shape} --partitioned --set wait=on --time 300"));
    assert!(document["throughput_ops_s"].as_f64().is_some_and(|rate| rate > 0.0));
}

#[test]
fn the_baseline_has_partitions_too() {
    for fabric in ["shm", "sim"] {
        recorded(&format!("--protocol sel --operations 300 --threads 1 --fabric {fabric}"));
    }
}

#[test]
fn one_command_line_is_one_world() {
    let shape =
        format!("{SMALL} --partitioned --fabric sim --operations 300 --threads 2 --wal sync");
    assert_eq!(document(&shape), document(&shape));
}

#[test]
fn as_many_orders_are_of_several_nodes_as_requested() {
    let shape = format!(
        "{SMALL} -w 4 --partitioned --compute-nodes 2 --threads 1 --operations 1000 --weight neworder --fabric sim --wal sync"
    );
    for (ratio, least, most) in [(0, 0, 0), (40, 340, 460), (100, 1000, 1000)] {
        let document = document(&format!("{shape} --distribution-ratio {ratio}"));
        let distributed = counted(&document, "partitions_distributed");
        let rolled_back = counted(&document, "new_order_rollbacks");
        assert!(
            (least..=most).contains(&(distributed + if ratio == 100 { rolled_back } else { 0 })),
            "{ratio} %: {distributed} and {rolled_back}"
        );
        // Each distributed transaction has one other node, and both nodes have logs.
        assert_eq!(counted(&document, "partitions_decided"), distributed);
        assert!(counted(&document, "partitions_prepared") >= distributed);
        assert_eq!(counted(&document, "partitions_repeated"), 0, "nothing is lost");
    }
}

#[test]
fn commits_of_partitions_are_acknowledged_by_their_logs() {
    let directory = temporary("log");
    let shape =
        format!("{SMALL} -w 4 --partitioned --operations 300 --threads 2 --compute-nodes 2");
    for wal in ["sync", "async"] {
        let document = document(&format!("{shape} --wal {wal} --wal-dir {}", directory.display()));
        assert!(counted(&document, "log_commits") > 200);
        assert!(counted(&document, "partitions_decided") > 5);
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}

#[test]
fn a_database_is_partitioned_or_shared_from_run_to_run_and_each_finds_what_was_there() {
    let directory = prepared("-w 4 --partitioned");
    let at = format!("--wal-dir {} --cache-mb 16 --memory-mb 256", directory.display());
    let mut expected = orders(&at);
    for flags in [
        "--partitioned --compute-nodes 2 --distribution-ratio 50",
        "--compute-nodes 2",
        "--partitioned --compute-nodes 4 --cc to",
    ] {
        let document = document(&format!("run {at} {flags} --threads 1 --operations 300"));
        let completed = document["latency_us"]["NEW_ORDER"]["count"].as_u64().expect("a count");
        expected += completed - counted(&document, "new_order_rollbacks");
        assert_eq!(orders(&at), expected, "{flags}");
    }
    let output = TPCC.run(&format!("run {at} --partitioned --compute-nodes 3"));
    let err = output.err;
    assert_eq!(output.status, Some(2), "{err}");
    assert!(err.contains("--partitioned: 3 compute nodes cannot share 4 warehouses"), "{err}");
    let (_, err) = good(&format!("check {at} --partitioned --compute-nodes 2"));
    assert!(err.contains("of transactions over several nodes "), "{err}");
    std::fs::remove_dir_all(&directory).expect("removed");
}

/// Kills runs in the middle of distributed commits. Of each order or payment, all parts must exist
/// or none. The conditions on stocks and customers show that, because these rows are on another
/// node.
fn killed(count: u64) {
    let directory = prepared("-w 4");
    let acknowledged = kills(&directory, count, |round| {
        let nodes = [2, 4][round as usize % 2];
        let cc = ["2pl", "to", "occ"][round as usize % 3];
        let work = match round % 4 {
            0 => "--distribution-ratio 100 --weight neworder",
            1 => "--distribution-ratio 50",
            2 => "--weight 50,50,0,0,0",
            // A run without partitions continues with the database of the partitions.
            _ => return format!("--compute-nodes {nodes} --threads 1 --cc {cc} --inflight 4"),
        };
        format!("--partitioned --compute-nodes {nodes} --threads 1 --inflight 4 --cc {cc} {work}")
    });
    println!("{count} kills, {acknowledged} orders acknowledged");
    std::fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn partitions_that_are_killed_keep_what_they_acknowledged_and_nothing_by_halves() {
    killed(24);
}

/// `KILLS=200 cargo test --release -p latchwork-tpcc --test suite partitioned:: -- --ignored
/// --nocapture`
#[test]
#[ignore = "as many kills as KILLS says"]
fn more_kills() {
    killed(std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(100));
}
