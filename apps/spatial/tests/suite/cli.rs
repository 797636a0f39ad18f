//! The program from its users' view: accepted flags, output, and exit status.

use std::time::Duration;

use latchwork_processes::{shown, too_wide};

use crate::SPATIAL;
use crate::common::{Files, document, good, measure};

#[test]
fn no_help_is_long() {
    for command in ["load", "query", "bench"] {
        let help = format!("{command} --help");
        let ended = SPATIAL.good(&help);
        assert!(SPATIAL.flags_of_help(&help) <= 32, "{ended:?}");
        assert!(ended.out.contains("--fabric") && ended.out.contains("--json"), "{}", ended.out);
    }
    let settings = SPATIAL.run("--help-settings").out;
    for setting in ["other-longitude=", "spots=100", "evict-batch="] {
        let start = format!("  {setting}");
        assert!(settings.lines().any(|line| line.starts_with(&start)), "{setting}: {settings}");
    }
}

#[test]
fn what_cannot_be_is_one_line_and_leaves_nothing_behind() {
    let files = Files::new(20, 20);
    let places = files.places_csv();
    let cases: Vec<(&str, i32, &[&str])> = vec![
        ("query window 1,2,3 --data F", 2, &["query window 1,2,3", "WEST,SOUTH,EAST,NORTH"]),
        ("query window --data F", 2, &["WEST,SOUTH,EAST,NORTH"]),
        ("query window 3,2,1,4 --data F", 2, &["west is above its east", "--great-circle"]),
        ("query window 1,4,2,3 --data F --great-circle", 2, &["south is above its north"]),
        ("query window nan,1,2,3 --data F", 2, &["NaN is not a finite number"]),
        ("query window -inf,1,2,3 --data F --great-circle", 2, &["-inf is not a finite"]),
        ("query point 1 --data F", 2, &["LONGITUDE,LATITUDE"]),
        ("query point 1,91 --data F --great-circle", 2, &["the latitude 91"]),
        ("query nearest --data F", 2, &["a point as LONGITUDE,LATITUDE, or a CSV file"]),
        ("query nearest none.csv --data F", 2, &["none.csv: it cannot be read"]),
        ("query join --data F", 2, &["give a second CSV file"]),
        ("query join F --data F --within 20km", 2, &["--within 20km", "--great-circle"]),
        ("query join F --data F --within 20 --great-circle", 2, &["say the unit"]),
        ("query nearest 1,2 --data F --within 5", 2, &["--within", "query join"]),
        (
            "query nearest F --data F --set other-latitude=x --set other-longitude=y",
            2,
            &["--set other-longitude: there is no column y", "there are name, latitude, longitude"],
        ),
        ("bench --set spot-skew=1 --distribution hotspots", 2, &["--set spot-skew=1", "below 1"]),
        (
            "bench --entries 200000 --memory-mb 16",
            1,
            &["memory exhausted", "--memory-mb 16", "use"],
        ),
        ("query nearest 1,2 --data F --csv - --svg -", 2, &["are one file"]),
        ("load F --memory-mb 1", 2, &["--memory-mb 1", "at least"]),
        ("load F --nic connectx5", 2, &["--nic connectx5", "--fabric sim"]),
    ];
    let cases = cases.into_iter();
    let cases: Vec<_> =
        cases.map(|(line, status, words)| (line.replace('F', &places), status, words)).collect();
    SPATIAL.refuses(&cases);
}

#[test]
fn on_a_terminal_a_result_stands_once_and_fits() {
    let files = Files::new(200, 100);
    for arguments in [
        format!("query nearest {} --data {} --great-circle", files.boxes_csv(), files.places_csv()),
        format!("query window -60,-60,60,60 --data {}", files.boxes_csv()),
        format!("load {} --great-circle", files.boxes_csv()),
        "bench --entries 500 --operations 500".to_owned(),
    ] {
        let command = SPATIAL.command(&format!("{arguments} --threads 1"));
        let (status, text) = shown(command, Duration::from_secs(120));
        assert!(status.success(), "{text}");
        // The path of a file may be longer than a line.
        let text = text.replace(&files.path("").display().to_string(), "");
        assert_eq!(too_wide(&text), [""; 0]);
        assert_eq!(text.matches("check  tree").count(), 1, "{text}");
        assert!(!text.contains("[MEASURE]") && !text.contains("[CHECK]"), "{text}");
    }
}

#[test]
fn the_document_is_complete() {
    let files = Files::new(300, 50);
    let (places, boxes) = (files.places_csv(), files.boxes_csv());
    let document = document(&format!("query nearest {boxes} --data {places} --great-circle -k 4"));
    assert_eq!((&document["schema"], &document["app"]), (&1.into(), &"spatial".into()));
    assert_eq!((&document["ops"], &document["load"]["ops"]), (&50.into(), &300.into()));
    let config = &document["config"];
    assert_eq!((&config["space"], &config["query"]), (&"sphere".into(), &"nearest".into()));
    assert_eq!((&config["rows"], &config["other_rows"]), (&300.into(), &50.into()));
    assert_eq!(measure(&document, "answers"), 200.0);
    assert_eq!(measure(&document, "entries"), 300.0);
    assert_eq!(document["checks"]["contents"], "ok");
    assert_eq!(document["checks"]["tree"], "ok");
    assert!(document["latency_us"]["NEAREST"]["p99"].as_f64() > Some(0.0));
}

#[test]
fn a_picture_has_the_levels_of_the_tree() {
    let files = Files::new(2_000, 1);
    let picture = files.path("tree.svg");
    let loads = ["inserts", "bulk", "hilbert"];
    for load_by in loads {
        let flags = format!("--gcl-size 1024 --great-circle --load-by {load_by}");
        good(&format!("load {} {flags} --svg {}", files.places_csv(), picture.display()));
        let svg = std::fs::read_to_string(&picture).expect("a picture");
        for part in ["<svg ", "2,000 places", "leaves (level 0)", "children of the root", "</svg>"]
        {
            assert!(svg.contains(part), "{load_by}: {part}");
        }
        assert!(!svg.contains("NaN"), "{load_by}");
    }
}

#[test]
fn a_place_that_begins_with_a_minus_may_follow_settings() {
    let files = Files::new(50, 1);
    // With a setting the command line is put together anew.
    let out = good(&format!(
        "query nearest -10,-20 --data {} --great-circle --set evict-batch=2 -k 3 --csv -",
        files.places_csv()
    ));
    assert_eq!(out.lines().count(), 4, "{out}");
}
