//! The whole program on small structures: its outputs, and its refusals.
#![allow(missing_docs, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

fn compare(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_compare"));
    command.args(arguments.split_whitespace()).output().expect("the program starts")
}

/// A fresh folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn good(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// The cells of a document, as (structure, workload).
fn cells(document: &Value) -> Vec<(String, String)> {
    let cells = document["cells"].as_array().expect("cells");
    let text = |cell: &Value, field: &str| cell[field].as_str().expect("a name").to_owned();
    cells
        .iter()
        .map(|cell| {
            for sample in cell["samples"].as_array().expect("samples") {
                assert!(sample.as_f64().is_some_and(|sample| sample > 0.0), "{cell}");
            }
            let [min, median, max] = ["min", "median", "max"].map(|field| cell[field].as_f64());
            assert!(min <= median && median <= max, "{cell}");
            (text(cell, "structure"), text(cell, "workload"))
        })
        .collect()
}

#[test]
fn every_structure_does_every_workload_and_the_tables_come_to_their_place() {
    let folder = folder("tables");
    let [page, plot, json] = ["page.md", "plot.svg", "all.json"].map(|name| folder.join(name));
    fs::write(&page, format!("# Title\n\n{BEGIN}\nold\n{END}\n\nThe end.\n")).expect("a page");
    let output = compare(&format!(
        "--keys 10k --time-ms 20 --repeats 1 --check-targets --markdown {} --plot {} --json {} \
         --structure latchwork,ferntree,scc-tree,congee,bplustree,skiplist,btreemap,scc-hash,dashmap,papaya",
        page.display(),
        plot.display(),
        json.display()
    ));
    let shown = good(&output);
    let targets: Vec<&str> = shown
        .lines()
        .filter(|line| line.ends_with(", met") || line.ends_with(", missed"))
        .collect();
    assert!(targets.iter().all(|line| line.split(", ").count() == 4), "{targets:?}");
    assert!(targets.len() > 50, "{targets:?}");

    let page = fs::read_to_string(page).expect("the page");
    assert!(page.starts_with("# Title\n") && page.ends_with("The end.\n"), "{page}");
    assert!(!page.contains("old\n") && page.contains("### Values of 100 bytes, 2 threads"));
    for size in [8, 100] {
        let svg = fs::read_to_string(folder.join(format!("plot-{size}.svg"))).expect("a plot");
        assert!(svg.starts_with("<svg") && svg.contains("Scans of 100, zipf"));
    }

    let document: Value =
        serde_json::from_str(&fs::read_to_string(json).expect("a document")).expect("JSON");
    let cells = cells(&document);
    let count = |structure: &str, workload: &str| {
        cells.iter().filter(|(s, w)| s == structure && w == workload).count()
    };
    let ordered =
        ["latchwork", "ferntree", "scc-tree", "bplustree", "skiplist", "btreemap", "congee"];
    for structure in ordered.into_iter().chain(["scc-hash", "dashmap", "papaya"]) {
        // Two sizes of values, one and two threads, two distributions.
        assert_eq!(count(structure, "load"), 4, "{structure}");
        assert_eq!(count(structure, "memory"), 2, "{structure}");
        assert_eq!(count(structure, "read"), 8, "{structure}");
        assert_eq!(count(structure, "update"), 8, "{structure}");
        let scans = match structure {
            "congee" => 4,
            _ if ordered.contains(&structure) => 8,
            _ => 0,
        };
        assert_eq!(count(structure, "scan"), scans, "{structure}");
    }
    assert_eq!(count("latchwork", "interleaved"), 8);
}

#[test]
fn threads_on_two_nodes_find_what_one_of_them_loaded() {
    let output = compare(
        "--keys 10k --time-ms 20 --repeats 1 --structure latchwork-2 --threads 1,2 --value-size 8 \
         --distribution uniform --workload read,update,scan,interleaved --json -",
    );
    let document: Value = serde_json::from_str(&good(&output)).expect("nothing but JSON");
    let cells = cells(&document);
    for workload in ["read", "update", "scan", "interleaved"] {
        let of = |name: &str| cells.iter().filter(|(s, w)| s == name && w == workload).count();
        assert_eq!((of("latchwork"), of("latchwork-2")), (2, 1), "{workload}");
    }
}

#[test]
fn structures_that_do_not_fit_together_are_measured_in_groups() {
    let output = compare(
        "--keys 1M --memory-mb 300 --time-ms 1 --repeats 1 --threads 1 --value-size 8 --json - \
         --distribution uniform --workload read --structure ferntree,btreemap,dashmap",
    );
    let document: Value = serde_json::from_str(&good(&output)).expect("nothing but JSON");
    let cells = document["cells"].as_array().expect("cells");
    let ours = cells.iter().filter(|cell| cell["structure"] == "latchwork").count();
    let groups = cells.iter().filter_map(|cell| cell["group"].as_u64()).max();
    assert!(ours > 1 && groups == Some(ours as u64 - 1), "{document}");
}

#[test]
fn what_cannot_be_done_is_one_line_before_anything_is_measured() {
    let page = folder("refused").join("page.md");
    fs::write(&page, "no place\n").expect("a page");
    for (arguments, status, words) in [
        ("--keys 3".to_owned(), 2, "from 1000"),
        ("--structure btree".to_owned(), 2, "btreemap"),
        ("--json /no/such/folder/all.json".to_owned(), 1, "no such folder"),
        (format!("--markdown {}", page.display()), 2, BEGIN),
        (
            "--workload interleaved --keys 1k --time-ms 1 --check-targets --structure papaya"
                .to_owned(),
            2,
            "no target",
        ),
    ] {
        let output = compare(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().unwrap_or_default();
        assert_eq!(output.status.code(), Some(status), "{arguments}: {errors}");
        assert!(last.starts_with("compare: ") && last.contains(words), "{arguments}: {errors}");
    }
}
