//! Small runs of every kind on both fabrics under both protocols. All checks must succeed.

use crate::MICROBENCH;

fn good(arguments: &str) {
    // Buffered writes are not linearizable, so no check claims that they are.
    let buffered = arguments.contains("--consistency");
    let out = checked(arguments, &["contents", "writes"]);
    assert_eq!(out.contains("[CHECK], linearizability, ok"), !buffered, "{arguments}\n{out}");
}

fn checked(arguments: &str, checks: &[&str]) -> String {
    MICROBENCH.checked(arguments, checks).out
}

fn everywhere(arguments: &str) {
    for fabric in ["shm", "sim"] {
        for protocol in ["selcc", "sel"] {
            good(&format!(
                "--fabric {fabric} --protocol {protocol} --threads 2 --warmup 500 --operations 3000 \
                 --lines 300 {arguments}"
            ));
        }
    }
}

#[test]
fn shares_of_reads_and_kinds_of_writes_are_right() {
    for arguments in [
        "--reads 100",
        "--reads 95",
        "--reads 0 --compute-nodes 4",
        "--reads 50 --writes blind --compute-nodes 3",
        "--reads 0 --writes blind --inflight 4",
    ] {
        everywhere(arguments);
    }
}

/// SEL serves nodes in no order. With back-offs that grow regardless of the deadline, a writer of a
/// popular line waited past its own deadline, and the run failed.
#[test]
fn no_buffered_write_sleeps_through_its_deadline() {
    for (seed, consistency) in [(4, "tso"), (1, "pso")] {
        good(&format!(
            "--fabric sim --nic connectx3 --protocol sel --compute-nodes 8 --memory-nodes 8 --theta 0.99 \
             --reads 50 --writes blind --warmup 20000 --operations 30000 --seed {seed} \
             --consistency {consistency}"
        ));
    }
}

#[test]
fn sharing_locality_and_skew_are_right() {
    for arguments in [
        "--reads 50 --sharing 0",
        "--reads 50 --sharing 40 --set locality=50 --set spatial=50",
        "--reads 50 --theta 0.99 --set scale=100",
        "--reads 0 --theta 10 --compute-nodes 4",
        "--theta 10 --set writer-nodes=1 --compute-nodes 3 --memory-nodes 3",
    ] {
        everywhere(arguments);
    }
}

#[test]
fn sizes_of_lines_items_and_caches_are_right() {
    for arguments in [
        "--reads 50 --gcl-size 512 --item-size 8",
        "--reads 50 --gcl-size 8192 --item-size 8000",
        "--reads 50 --set cache-share=2",
        "--reads 50 --cache-mb 0.15 --inflight 4",
        "--reads 50 --lines 1 --item-size 1000",
    ] {
        everywhere(arguments);
    }
}

/// At the end every buffered write is visible and none is lost, even if many tasks wait for one
/// line.
#[test]
fn buffered_writes_are_right() {
    for consistency in ["tso", "pso"] {
        for arguments in [
            "--reads 50",
            "--reads 0 --theta 0.99 --set write-batch=32",
            "--reads 20 --theta 10 --compute-nodes 3 --inflight 4",
        ] {
            everywhere(&format!(
                "--writes blind --consistency {consistency} --set write-deadline=1s {arguments}"
            ));
        }
    }
}

/// The error is one line, which names the writes and what to do.
#[test]
fn writes_that_are_late_are_one_error_that_says_what_helps() {
    let arguments = "--fabric sim --reads 0 --writes blind --consistency pso --set write-deadline=1us --lines 300 \
                     --theta 0.99 --operations 3000 --warmup 0";
    let output = MICROBENCH.run(arguments);
    let err = &output.err;
    let errors: Vec<&str> =
        err.lines().filter(|line| line.contains("buffered writes were lost")).collect();
    assert!(output.status != Some(0) && errors.len() == 1, "{err}");
    assert!(errors[0].contains("a longer write-deadline (--set) than 1µs"), "{err}");
}

#[test]
fn every_nic_measures() {
    for nic in ["connectx3", "connectx5", "ethernet10g"] {
        good(&format!("--fabric sim --nic {nic} --lines 300 --operations 3000 --warmup 0"));
    }
}

#[test]
fn more_workers_than_cores_finish() {
    good("--reads 50 --compute-nodes 8 --threads 4 --lines 500 --operations 10000 --warmup 1000");
}
