//! Every workload under both protocols on one, two and four compute nodes, with successful checks.
//! Also unusual sizes of records and caches.

use crate::YCSB;

fn good(arguments: &str) {
    YCSB.checked(arguments, &["operations", "records", "dataintegrity", "tree"]);
}

fn all_workloads(kind: &str) {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        for nodes in [1, 2, 4] {
            good(&format!(
                "check -w {workload} {kind} --compute-nodes {nodes} --threads 2 \
                 --cache-mb 4 -p recordcount=1000 --operations 1000 --load-by inserts"
            ));
        }
    }
}

#[test]
fn workloads_a_to_f_are_right_under_selcc() {
    all_workloads("--protocol selcc");
}

#[test]
fn workloads_a_to_f_are_right_under_sel() {
    all_workloads("--protocol sel");
}

#[test]
fn workloads_a_to_f_are_right_in_trees_without_a_coherent_cache() {
    for index in ["sherman", "fg-plus", "fg"] {
        all_workloads(&format!("--index {index}"));
    }
}

#[test]
fn upserts_and_binary_keys_are_right_in_every_index() {
    for index in ["blink", "sherman", "fg-plus", "fg"] {
        for workload in
            ["write-only", "write-intensive", "read-intensive", "range-only", "range-write"]
        {
            good(&format!(
                "check -w {workload} --index {index} --compute-nodes 2 --threads 2 --cache-mb 4 \
                 -p recordcount=1000 --operations 2000"
            ));
        }
    }
}

#[test]
fn fields_of_varying_length_grow_and_shrink() {
    for more in ["-w a", "-w f", "-w f -p writeallfields=true", "-w a -p readallfields=false"] {
        good(&format!(
            "check {more} -p fieldlengthdistribution=uniform -p fieldlength=180 -p recordcount=1000 \
             --operations 5000 --cache-mb 4"
        ));
    }
}

#[test]
fn short_and_long_records_are_right() {
    good("check -w a -p fieldcount=1 -p fieldlength=1 -p recordcount=5000 --operations 5000");
    good("check -w f -p fieldlength=7 --gcl-size 1024 -p recordcount=2000 --operations 5000");
    good("check -w a -p fieldlength=1600 --gcl-size 65536 -p recordcount=500 --operations 2000");
    good("check -w f -p writeallfields=true -p recordcount=500 --operations 2000");
}

#[test]
fn a_cache_of_a_few_lines_evicts_and_stays_right() {
    good("check -w a --cache-mb 0.15 -p recordcount=2000 --operations 2000 --inflight 4");
    good("check -w e --cache-mb 0.15 -p recordcount=2000 --operations 200 --load-by inserts");
}

#[test]
fn every_distribution_and_order_of_keys_is_right() {
    for distribution in
        ["uniform", "zipfian", "zipfian-records", "latest", "hotspot", "sequential", "exponential"]
    {
        good(&format!(
            "check -w d -p requestdistribution={distribution} -p recordcount=1000 \
             --operations 3000 -p insertorder=ordered -p zeropadding=12"
        ));
    }
    good(
        "check -w e -p insertorder=ordered -p insertstart=500 -p insertcount=900 \
         -p recordcount=1500 --operations 500",
    );
}

#[test]
fn more_workers_than_cores_finish() {
    good("check -w a --compute-nodes 8 --threads 4 -p recordcount=1000 --operations 10000");
}
