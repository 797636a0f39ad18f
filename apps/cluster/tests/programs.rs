//! The programs themselves, where they have been built beside the command.

mod common;

use common::{CLUSTER, Place};
use serde_json::Value;
use std::path::Path;

#[test]
fn a_program_runs_over_shared_memory_and_over_sockets() {
    let bin = Path::new(CLUSTER).parent().expect("a directory").display().to_string();
    for name in ["memnode", "ycsb"] {
        if !Path::new(&bin).join(name).is_file() {
            eprintln!("skipped: {name} has not been built");
            return;
        }
    }
    let place = Place::new();
    let matrix = format!(
        "title = 'YCSB'\nbin = '{bin}'\nprogram = 'ycsb'\nmemory = '64M'\nmemory-nodes = 2\ntime-limit = 60\n\
         flags = {{ command = 'check', property = 'recordcount=500', operations = 500, threads = 1, cache-mb = 8 }}\n\
         [[cases]]\nfabric = ['shm', 'tcp']\n"
    );
    std::fs::write(place.path("ycsb.toml"), matrix).expect("a file");
    let ended = place.start("matrix ycsb.toml --results all").wait();
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.out, ended.err);
    assert_eq!(ended.out.matches("| 5 ok | 1 good |").count(), 2, "{}", ended.out);
    let table: Value = serde_json::from_str(&place.read("all/table.json")).expect("JSON");
    let nodes = table["cases"][1]["runs"][0]["document"]["nodes"].as_array().map(Vec::len);
    assert_eq!(nodes, Some(4), "two compute nodes, and two of memory");
}
