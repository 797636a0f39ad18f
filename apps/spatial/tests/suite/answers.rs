//! Answers on a plane and on the sphere, compared with a geometry of the test's own.

use crate::common::{Files, Sides, good, rows};

fn number(row: &[String], column: usize) -> f64 {
    row[column].parse().expect("a number")
}

#[test]
fn the_nearest_on_the_sphere_are_those_of_a_scan_also_near_poles_and_the_antimeridian() {
    let files = Files::new(400, 200);
    let out = good(&format!(
        "query nearest {} --data {} --great-circle -k 3 --gcl-size 512 --check --csv -",
        files.boxes_csv(),
        files.places_csv()
    ));
    let rows = rows(&out);
    assert_eq!(rows.len(), 600);
    for (at, sides) in files.boxes.iter().enumerate() {
        let mut expected: Vec<f64> = files
            .places
            .iter()
            .map(|(longitude, latitude)| sides.metres_to(*longitude, *latitude))
            .collect();
        expected.sort_by(f64::total_cmp);
        for rank in 0..3 {
            let row = &rows[3 * at + rank];
            assert_eq!((&row[1], &row[2]), (&format!("B{at}"), &(rank + 1).to_string()));
            let place: usize = row[4][1..].parse().expect("P and a number");
            let (longitude, latitude) = files.places[place];
            let own = sides.metres_to(longitude, latitude);
            let told = number(row, 5);
            assert!((told - own).abs() < 0.1, "{row:?}: {own}");
            assert!((told - expected[rank]).abs() < 0.1, "{row:?}: {}", expected[rank]);
        }
    }
}

#[test]
fn a_join_on_the_sphere_has_each_pair_that_is_near_once() {
    let files = Files::new(300, 200);
    let flags = "--great-circle --within 250km --gcl-size 512 --check --csv -";
    let (places, boxes) = (files.places_csv(), files.boxes_csv());
    let out = good(&format!("query join {places} --data {boxes} {flags}"));
    let mut found: Vec<(String, String)> =
        rows(&out).iter().map(|row| (row[3].clone(), row[1].clone())).collect();
    found.sort();
    let mut expected = Vec::new();
    for (one, sides) in files.boxes.iter().enumerate() {
        for (two, (longitude, latitude)) in files.places.iter().enumerate() {
            if sides.metres_to(*longitude, *latitude) <= 250_000.0 {
                expected.push((format!("B{one}"), format!("P{two}")));
            }
        }
    }
    expected.sort();
    assert!(expected.len() > 300, "{}", expected.len());
    assert_eq!(found, expected);
    // The other way around the pairs are the same.
    let out = good(&format!("query join {boxes} --data {places} {flags}"));
    let mut swapped: Vec<(String, String)> =
        rows(&out).iter().map(|row| (row[1].clone(), row[3].clone())).collect();
    swapped.sort();
    assert_eq!(swapped, expected);
}

#[test]
fn a_window_across_the_antimeridian_has_both_sides() {
    let files = Files::new(300, 200);
    let flags = "--great-circle --gcl-size 512 --check --csv -";
    let out = good(&format!("query window 170,-60,-170,60 --data {} {flags}", files.places_csv()));
    let mut found: Vec<String> = rows(&out).iter().map(|row| row[1].clone()).collect();
    found.sort();
    let is_inside = |(_, (longitude, latitude)): &(usize, &(f64, f64))| {
        (*longitude >= 170.0 || *longitude <= -170.0) && (-60.0..=60.0).contains(latitude)
    };
    let inside = files.places.iter().enumerate().filter(is_inside);
    let mut expected: Vec<String> = inside.map(|(at, _)| format!("P{at}")).collect();
    expected.sort();
    assert!(expected.len() > 20, "{}", expected.len());
    assert_eq!(found, expected);
    // The same window on a plane has its west above its east.
    let ended =
        crate::SPATIAL.run(&format!("query window 170,-60,-170,60 --data {}", files.places_csv()));
    assert_eq!(ended.status, Some(2));
    assert!(ended.err.contains("--great-circle"), "{}", ended.err);
}

#[test]
fn a_point_is_in_the_boxes_that_contain_it() {
    let files = Files::new(1, 300);
    for Sides { west, south, east, north } in files.boxes.iter().take(20) {
        let middle = (west + east) / 2.0;
        let longitude = if middle > 180.0 { middle - 360.0 } else { middle };
        let latitude = (south + north) / 2.0;
        let out = good(&format!(
            "query point {longitude},{latitude} --data {} --great-circle --gcl-size 512 --threads 1 --check --csv -",
            files.boxes_csv()
        ));
        let contains = |sides: &&Sides| sides.metres_to(longitude, latitude) == 0.0;
        let expected = files.boxes.iter().filter(contains).count();
        assert!(expected > 0);
        assert_eq!(rows(&out).len(), expected, "{longitude},{latitude}");
    }
}

#[test]
fn on_a_plane_distances_are_those_of_the_numbers() {
    let files = Files::new(300, 150);
    // As planar boxes: the corners are in any order, and nothing wraps.
    let planar = |sides: &Sides| match sides.east > 180.0 {
        true => Sides { west: sides.east - 360.0, east: sides.west, ..*sides },
        false => *sides,
    };
    let distance = |sides: Sides, (x, y): (f64, f64)| {
        let gap = |low: f64, high: f64, at: f64| (low - at).max(at - high).max(0.0);
        gap(sides.west, sides.east, x).hypot(gap(sides.south, sides.north, y))
    };
    let (places, boxes) = (files.places_csv(), files.boxes_csv());
    let out =
        good(&format!("query nearest {boxes} --data {places} -k 2 --gcl-size 512 --check --csv -"));
    let rows = rows(&out);
    for (at, sides) in files.boxes.iter().enumerate() {
        let all = files.places.iter().map(|place| distance(planar(sides), *place));
        let mut expected: Vec<f64> = all.collect();
        expected.sort_by(f64::total_cmp);
        for rank in 0..2 {
            let told = number(&rows[2 * at + rank], 5);
            assert!((told - expected[rank]).abs() < 1e-9, "B{at}: {told} {}", expected[rank]);
        }
    }
    let out = good(&format!("query nearest 0.5,0.5 --data {places} -k 1 --check --csv -"));
    assert!(out.starts_with("line,label,distance\n"), "{out}");
}

#[test]
fn equal_rows_are_all_answers_in_the_order_of_the_file() {
    let files = Files::new(1, 1);
    let path = files.path("equal.csv");
    std::fs::write(&path, format!("x,y\n{}", "1,1\n".repeat(500))).expect("room");
    let path = path.display();
    let out = good(&format!("query window 0,0,2,2 --data {path} --gcl-size 512 --check --csv -"));
    assert_eq!(rows(&out).len(), 500);
    let out = good(&format!("query nearest 5,5 --data {path} -k 7 --gcl-size 512 --check --csv -"));
    let lines: Vec<String> = rows(&out).iter().map(|row| row[0].clone()).collect();
    assert_eq!(lines, ["2", "3", "4", "5", "6", "7", "8"]);
}
