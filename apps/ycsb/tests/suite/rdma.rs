//! The program as the compute nodes of a cluster of processes on RDMA devices, each node on its own
//! device. The test is skipped without devices. `scripts/test-ibv.sh` runs it on Soft-RoCE in a
//! virtual machine. The machine is slow, so the runs are short.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use latchwork_processes::{Memory, one_document};
use serde_json::Value;

use crate::YCSB;

const LIMIT: Duration = Duration::from_secs(240);
const SMALL: &str = "-p recordcount=60 --threads 1 --cache-mb 4 --inflight 2 --set deadline=60s";

/// Only one cluster runs at a time, because each has five processes.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn every_workload_runs_on_devices_and_its_checks_hold() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(memory) = Memory::start_on_devices(2, 160 << 20) else { return };
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let flags = format!("check -w {workload} {SMALL} --operations 40");
        let ended = memory.start_program(YCSB.0, 3, &flags).wait(LIMIT);
        let document: Value = serde_json::from_str(one_document(&ended)).expect("a document");
        let checks = document["checks"].as_object().expect("checks");
        assert!(checks.values().all(|check| check == "ok"), "{workload}: {checks:?}");
        assert!(checks.contains_key("linearizability"), "{workload}: {checks:?}");
        assert_eq!(document["ops"], 40, "{workload}: as many as were asked for, all together");
    }
    memory.end();
}

#[test]
fn the_others_end_with_the_name_of_the_node_that_was_killed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(memory) = Memory::start_on_devices(2, 64 << 20) else { return };
    let flags = format!("run {SMALL} --time 200 --set member-lease=15");
    let mut program = memory.start_program(YCSB.0, 3, &flags);
    program.wait_for_line("run: ", LIMIT);
    program.kill(2);
    let ended = program.wait(LIMIT);
    assert_eq!(ended[2].status, None, "it was killed");
    for process in &ended[..2] {
        assert_eq!(process.status, Some(1), "{}", process.err);
        let errors = process.err.lines().filter(|line| line.starts_with("ycsb: compute node"));
        let errors: Vec<_> = errors.collect();
        let [error] = errors[..] else { panic!("one line: {}", process.err) };
        assert!(error.contains("compute node C") && error.contains(" died"), "{error}");
    }
}
