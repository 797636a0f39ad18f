//! The benchmark: its checks hold under every mix and distribution, and virtual figures repeat.

use crate::common::{document, measure};

#[test]
fn every_mix_and_distribution_keeps_all_objects() {
    for distribution in ["uniform", "clustered", "hotspots"] {
        for workload in ["insert", "query", "move", "mixed", "move=9,window=1"] {
            for shape in ["--fabric shm --threads 2", "--fabric sim --compute-nodes 3"] {
                let flags = format!(
                    "bench --entries 400 --operations 1200 --gcl-size 512 --inflight 3 -w {workload} \
                     --distribution {distribution} {shape} --set wander=200 --set step=0.1"
                );
                let document = document(&flags);
                for check in ["operations", "objects", "contents", "tree"] {
                    assert_eq!(document["checks"][check], "ok", "{flags}");
                }
                assert_eq!(document["ops"], 1200, "{flags}");
            }
        }
    }
}

#[test]
fn the_first_line_says_what_is_run() {
    let flags = "bench --entries 400 --fabric sim --inflight 3 --time 0.001 --warmup 0.002";
    let err = crate::SPATIAL.good(flags).err;
    let first = err.split("\n\n").next().expect("a first line").replace("\n  ", " ");
    for word in
        ["loaded by sort-tile-recursive packing", "3 operations in flight", "warm-up of 2ms"]
    {
        assert!(first.contains(word), "{word}: {first}");
    }
}

#[test]
fn a_window_finds_as_many_objects_as_its_part_of_the_square() {
    let of = |percent: &str| {
        let flags = "bench --entries 20000 --operations 2000 --fabric sim -w window=1 --set side=0";
        measure(&document(&format!("{flags} --selectivity {percent}")), "found_per_window")
    };
    let (small, large) = (of("0.01"), of("1"));
    assert!((1.5..2.5).contains(&small), "{small}");
    // A window at the side of the square is partly outside.
    assert!((170.0..205.0).contains(&large), "{large}");
}

#[test]
fn one_command_line_is_one_result_and_another_seed_another() {
    let flags =
        "bench --entries 1000 --time 0.002 --warmup 0.001 --fabric sim --distribution hotspots";
    let (one, again) = (document(flags), document(flags));
    assert_eq!(one, again);
    let other = document(&format!("{flags} --seed 43"));
    assert_ne!(one["event_hash"], other["event_hash"]);
    assert!(one["limit"].is_string(), "{one}");
}
