//! The runways and radio aids of the world: the answers of the program beside those of a scan with
//! a geometry of the test's own. Without the files the tests print why they do nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use latchwork_processes::{Memory, one_document};

use crate::SPATIAL;
use crate::common::{Sides, document, good, measure, real_data, rows};

/// The fields with coordinates in a line of one of the files.
fn fields(path: &str, names: &[&str]) -> Vec<(u64, Vec<f64>)> {
    let text = std::fs::read_to_string(path).expect("a file");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("names").clone();
    let at = |name: &&str| header.iter().position(|column| column == *name).expect("a column");
    let columns: Vec<usize> = names.iter().map(at).collect();
    let mut found = Vec::new();
    for record in reader.records() {
        let record = record.expect("a record");
        let line = record.position().expect("a position").line();
        let numbers = columns.iter().map(|column| record[*column].parse().ok());
        if let Some(numbers) = numbers.collect::<Option<Vec<f64>>>() {
            found.push((line, numbers));
        }
    }
    found
}

/// The boxes of runways, by line.
fn runways(path: &str) -> Vec<(u64, Sides)> {
    let names = ["le_longitude_deg", "le_latitude_deg", "he_longitude_deg", "he_latitude_deg"];
    let boxed = |numbers: &[f64]| {
        let (a, b) = (numbers[0].min(numbers[2]), numbers[0].max(numbers[2]));
        let (west, east) = if b - a > 180.0 { (b, a + 360.0) } else { (a, b) };
        let (south, north) = (numbers[1].min(numbers[3]), numbers[1].max(numbers[3]));
        Sides { west, south, east, north }
    };
    fields(path, &names).iter().map(|(line, numbers)| (*line, boxed(numbers))).collect()
}

fn navaids(path: &str) -> Vec<(u64, [f64; 2])> {
    let names = ["longitude_deg", "latitude_deg"];
    let place = |(line, numbers): &(u64, Vec<f64>)| (*line, [numbers[0], numbers[1]]);
    fields(path, &names).iter().map(place).collect()
}

/// As columns of the output.
fn number(row: &[String], column: usize) -> f64 {
    row[column].parse().expect("a number")
}

/// The output as records. Names of rows have commas and quotes.
fn records(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let records = reader.records().map(|record| record.expect("a record"));
    records.map(|record| record.iter().map(str::to_owned).collect()).collect()
}

#[test]
fn the_five_navaids_nearest_to_each_runway_are_those_of_a_scan() {
    let Some([runways_csv, navaids_csv]) = real_data("the nearest navaids") else { return };
    let (runways, navaids) = (runways(&runways_csv), navaids(&navaids_csv));
    let out = good(&format!(
        "query nearest {runways_csv} --data {navaids_csv} --great-circle -k 5 --csv -"
    ));
    let rows = records(&out);
    assert_eq!(rows.len(), 5 * runways.len());
    // Every fiftieth runway, those near a pole, and those beside the antimeridian.
    let is_special = |sides: &Sides| {
        sides.north.abs() > 75.0 || sides.south.abs() > 75.0 || sides.west.abs() > 178.0
    };
    let sample = runways.iter().enumerate();
    let sample: Vec<_> =
        sample.filter(|(at, (_, sides))| at % 50 == 0 || is_special(sides)).collect();
    assert!(sample.len() > 310, "{}", sample.len());
    for (at, (line, sides)) in sample {
        let mut best: Vec<(f64, u64)> = Vec::new();
        for (navaid, [longitude, latitude]) in &navaids {
            let limit = best.get(4).map_or(f64::INFINITY, |last| last.0);
            // A degree of latitude has more than 111 km.
            if sides.degrees_to_latitude(*latitude) * 111_000.0 <= limit {
                best.push((sides.metres_to(*longitude, *latitude), *navaid));
                best.sort_by(|a, b| a.0.total_cmp(&b.0));
                best.truncate(5);
            }
        }
        for (rank, (distance, _)) in best.iter().enumerate() {
            let row = &rows[5 * at + rank];
            assert_eq!(row[0], line.to_string());
            assert!((number(row, 5) - distance).abs() < 0.1, "{row:?}: {distance}");
            let [longitude, latitude] =
                navaids.iter().find(|(line, _)| row[3] == line.to_string()).expect("a navaid").1;
            let own = sides.metres_to(longitude, latitude);
            assert!((own - distance).abs() < 0.1, "{row:?}: {own} {distance}");
        }
    }
}

#[test]
fn the_runways_within_20_km_of_a_navaid_are_those_of_a_scan() {
    let Some([runways_csv, navaids_csv]) = real_data("the near runways") else { return };
    let (runways, navaids) = (runways(&runways_csv), navaids(&navaids_csv));
    let out = good(&format!(
        "query join {navaids_csv} --data {runways_csv} --within 20km --great-circle --csv -"
    ));
    let found: BTreeSet<(u64, u64)> = records(&out)
        .iter()
        .map(|row| (row[2].parse().expect("a line"), row[0].parse().expect("a line")))
        .collect();
    let mut near = BTreeSet::new();
    for (runway, sides) in &runways {
        for (navaid, [longitude, latitude]) in &navaids {
            if sides.degrees_to_latitude(*latitude) <= 0.2 {
                let distance = sides.metres_to(*longitude, *latitude);
                // Pairs at the limit itself depend on rounding.
                if distance <= 20_000.0 - 0.01 {
                    near.insert((*runway, *navaid));
                } else if distance <= 20_000.0 + 0.01 {
                    assert!(found.contains(&(*runway, *navaid)) || distance > 20_000.0 - 0.01);
                }
            }
        }
    }
    assert!(near.len() > 10_000, "{}", near.len());
    assert_eq!(found.len(), near.len());
    assert!(near.is_subset(&found));
}

#[test]
fn all_in_a_window_of_degrees_are_those_of_a_scan() {
    let Some([runways_csv, _]) = real_data("a window of runways") else { return };
    let runways = runways(&runways_csv);
    for (window, is_inside) in [
        (
            "5,45,11,48",
            (|s: &Sides| s.west <= 11.0 && s.east >= 5.0 && s.south <= 48.0 && s.north >= 45.0)
                as fn(&Sides) -> bool,
        ),
        ("175,-50,-175,-10", |s: &Sides| {
            let meets = |west: f64, east: f64| s.west <= east && s.east >= west;
            (meets(175.0, 185.0) || meets(-185.0, -175.0)) && s.south <= -10.0 && s.north >= -50.0
        }),
    ] {
        let out = good(&format!(
            "query window {window} --data {runways_csv} --great-circle --load-by inserts --csv -"
        ));
        let found: BTreeSet<u64> =
            rows(&out).iter().map(|row| row[0].parse().expect("a line")).collect();
        let inside = runways.iter().filter(|(_, sides)| is_inside(sides));
        let expected: BTreeSet<u64> = inside.map(|(line, _)| *line).collect();
        assert!(!expected.is_empty());
        assert_eq!(found, expected, "{window}");
    }
}

#[test]
fn the_real_answers_are_the_same_on_all_clusters() {
    let Some([runways_csv, navaids_csv]) = real_data("all clusters") else { return };
    // Some clusters, and for the query that takes least, all.
    let some = [
        ("shm", 1, "selcc"),
        ("shm", 2, "sel"),
        ("shm", 4, "selcc"),
        ("tcp", 2, "selcc"),
        ("tcp", 4, "sel"),
        ("sim", 4, "selcc"),
    ];
    let fabrics = ["shm", "tcp", "sim"].into_iter();
    let fabrics = fabrics.flat_map(|fabric| [1, 2, 4].map(|nodes| (fabric, nodes)));
    let all = fabrics.flat_map(|(fabric, nodes)| ["selcc", "sel"].map(|by| (fabric, nodes, by)));
    for (query, clusters) in [
        (format!("query nearest {runways_csv} --data {navaids_csv} --great-circle"), some.to_vec()),
        (
            format!("query join {navaids_csv} --data {runways_csv} --within 20km --great-circle"),
            some.to_vec(),
        ),
        (format!("query window -10,40,5,60 --data {runways_csv}"), all.collect()),
    ] {
        let mut digests = Vec::new();
        for (fabric, nodes, protocol) in clusters {
            let load = if nodes == 4 { "inserts" } else { "bulk" };
            let document = document(&format!(
                "{query} --threads 1 --fabric {fabric} --compute-nodes {nodes} --load-by {load} \
                 --protocol {protocol}"
            ));
            digests.push(measure(&document, "answers_digest"));
        }
        assert!(digests.iter().all(|digest| *digest == digests[0]), "{query}: {digests:?}");
    }
}

#[test]
fn processes_give_the_real_answers_too() {
    let Some([runways_csv, navaids_csv]) = real_data("processes") else { return };
    let memory = Memory::start(1, 128 << 20);
    // So many answers that processes send them to each other in several parts.
    let query = format!(
        "query nearest {runways_csv} --data {navaids_csv} -k 20 --great-circle --threads 1 --cache-mb 16"
    );
    let alone = document(&format!("{query} --compute-nodes 1"));
    for (nodes, protocol) in [(1, "selcc"), (2, "sel"), (4, "selcc"), (4, "sel")] {
        let flags = format!("{query} --protocol {protocol}");
        let ended = memory.start_program(SPATIAL.0, nodes, &flags).wait(Duration::from_secs(240));
        let together = serde_json::from_str(one_document(&ended)).expect("a document");
        for name in ["answers", "answers_digest"] {
            assert_eq!(
                measure(&together, name),
                measure(&alone, name),
                "{nodes} {protocol}: {name}"
            );
        }
    }
    memory.end();
}
