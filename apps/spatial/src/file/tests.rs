use latchwork_rtree::Rect;

use super::*;

fn names() -> ColumnNames {
    ColumnNames { flags: ["--longitude", "--latitude", "--label"], ..ColumnNames::default() }
}

fn named(longitude: &[&str], latitude: &[&str]) -> ColumnNames {
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    ColumnNames { longitude: list(longitude), latitude: list(latitude), ..names() }
}

fn parse(text: &str, names: &ColumnNames) -> Result<DataFile, String> {
    DataFile::parse(Path::new("f.csv"), text, names, Space::Sphere)
}

fn wrong(text: &str) -> String {
    let line = parse(text, &names()).expect_err(text);
    assert!(!line.contains(char::is_control), "{line:?}");
    line
}

fn areas(file: &DataFile) -> Vec<([f64; 2], [f64; 2])> {
    file.rows.iter().map(|row| (row.area.low(), row.area.high())).collect()
}

#[test]
fn places_and_boxes_are_read_by_the_names_of_columns() {
    let text = "ident,lat,lon\nA,1.5,2\n B , -3e0 ,\"4\"\n";
    let file = parse(text, &names()).expect("a file");
    assert_eq!(areas(&file), [([2.0, 1.5], [2.0, 1.5]), ([4.0, -3.0], [4.0, -3.0])]);
    let labels: Vec<_> = file.rows.iter().map(|row| (row.label.as_str(), row.line)).collect();
    assert_eq!(labels, [("A", 2), ("B", 3)]);
    let boxes = parse("a,b,c,d\n1,2,3,4\n", &named(&["c", "a"], &["b", "d"])).expect("a file");
    assert_eq!(areas(&boxes), [([1.0, 2.0], [3.0, 4.0])], "corners in any order");
    assert_eq!(boxes.rows[0].label, "line 2");
}

#[test]
fn windows_line_ends_and_a_mark_change_nothing() {
    let unix = "lon,lat,name\n1,2,a\n3,4,b\n";
    let plain = parse(unix, &names()).expect("a file");
    let other = parse(&unix.replace('\n', "\r\n"), &names()).expect("a file");
    assert_eq!(plain, other);
    assert_eq!(parse(unix.trim_end(), &names()).expect("a file"), plain, "no last line end");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("f.csv");
    std::fs::write(&path, format!("\u{feff}{unix}")).expect("room");
    let marked = DataFile::read(&path, &names(), Space::Sphere).expect("a file");
    assert_eq!((marked.rows, marked.columns), (plain.rows, plain.columns));
}

#[test]
fn rows_without_coordinates_are_counted() {
    let text = "lon,lat\n1,2\n,\n,\n5,\n";
    let file = parse(text, &names()).expect("a file");
    let counts = (file.rows.len(), file.rows_without, file.rows_partial, file.rows_of_file());
    assert_eq!(counts, (1, 2, 1, 4));
    let words = file.in_words().join("; ");
    assert!(words.contains("2 rows without coordinates are left out"), "{words}");
}

#[test]
fn what_is_wrong_is_one_line_with_its_place() {
    for (text, words) in [
        ("", &["it is empty", "name the columns"][..]),
        ("\n\n", &["it is empty"]),
        ("1,2\n3,4\n", &["line 1: no header", "`1` is a number"]),
        ("a,b\n1,2\n", &["no columns look like coordinates", "--longitude", "there are a, b"]),
        ("lon;lat\n1;2\n", &["separate fields by commas"]),
        ("lon,lat\n1,2\n1,x\n", &["line 3, column lat: `x` is not a number"]),
        ("lon,lat\n1,NaN\n", &["line 2, column lat: `NaN` is not a finite number"]),
        ("lon,lat\n-inf,1\n", &["line 2, column lon: `-inf` is not a finite number"]),
        ("lon,lat\n1,\"2,5\"\n", &["line 2, column lat", "decimal point"]),
        ("lon,lat\n181,1\n", &["line 2, column lon: the longitude 181"]),
        ("lon,lat\n1,-90.5\n", &["line 2, column lat: the latitude -90.5"]),
        ("lon,lat\n1,2\n1\n", &["line 3: it has 1 fields", "has 2", "cut off?"]),
        ("lon,lat\n1,2,3\n1,2\n", &["line 2: it has 3 fields"]),
        ("lon,lat,name\n1,2,\"a\n", &["line 2", "not closed", "cut off?"]),
        ("lon,lat\n1,a\u{1b}[2J\n", &["line 2, column lat"]),
    ] {
        let line = wrong(text);
        assert!(words.iter().all(|word| line.contains(word)), "{text:?}: {line}");
    }
    assert!(!wrong("lon,lat\n1,2,3\n1,2\n").contains("cut off"), "not the last line");
}

#[test]
fn a_missing_column_names_those_that_there_are() {
    let text = "lon,lat,lat\n1,2,3\n";
    let line = parse(text, &named(&["longitude"], &["lat"])).expect_err("no such column");
    assert_eq!(line, "--longitude: there is no column longitude; there are lon, lat, lat");
    let line = parse(text, &named(&["lon"], &["lat"])).expect_err("two of them");
    assert!(line.contains("two columns are named lat"), "{line}");
    let line = parse(text, &named(&["lon"], &["lat", "lat"])).expect_err("not in pairs");
    assert!(line.contains("--longitude names 1 columns, and --latitude names 2"), "{line}");
    let half = ColumnNames { latitude: None, ..named(&["lon"], &[]) };
    assert_eq!(parse(text, &half).expect_err("half"), "--longitude needs --latitude");
}

#[test]
fn on_a_plane_numbers_have_no_range() {
    let text = "x,y\n1e6,-1e6\n";
    let file = DataFile::parse(Path::new("f.csv"), text, &names(), Space::Plane).expect("a file");
    assert_eq!(file.rows[0].area, Rect::point([1e6, -1e6]).expect("a point"));
    assert!(parse(text, &names()).is_err());
}
