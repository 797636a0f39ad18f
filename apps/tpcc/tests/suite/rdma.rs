//! The program as the compute nodes of a cluster of processes on RDMA devices, each node on its own
//! device. The test is skipped without devices. `scripts/test-ibv.sh` runs it on Soft-RoCE in a
//! virtual machine. The machine is slow, so the runs are short.

use std::time::Duration;

use latchwork_processes::{Memory, one_document};
use serde_json::Value;

use crate::TPCC;

const LIMIT: Duration = Duration::from_secs(240);

#[test]
fn transactions_on_devices_keep_the_conditions() {
    let Some(memory) = Memory::start_on_devices(2, 64 << 20) else { return };
    let flags = "-w 1 --set items=50 --set customers=5 --threads 1 --inflight 1 --cache-mb 8 --operations 30 --set deadline=60s";
    let ended = memory.start_program(TPCC.0, 3, flags).wait(LIMIT);
    let document: Value = serde_json::from_str(one_document(&ended)).expect("a document");
    let checks = document["checks"].as_object().expect("checks");
    assert_eq!(checks.len(), 17, "{checks:?}");
    assert!(checks.values().all(|check| check == "ok"), "{checks:?}");
    assert_eq!(document["ops"], 30, "as many as were asked for, all together");
    memory.end();
}
