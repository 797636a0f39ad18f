//! Files that cannot be used: one line that names the file and the place, and says what to do.

use crate::SPATIAL;
use crate::common::{Files, good};

fn wrong(text: &[u8], flags: &str) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("bad.csv");
    std::fs::write(&path, text).expect("room");
    let ended = SPATIAL.run(&format!("load {} {flags}", path.display()));
    assert_eq!(ended.status, Some(2), "{}", ended.err);
    assert!(ended.out.is_empty(), "{}", ended.out);
    let lines: Vec<&str> = ended.err.lines().collect();
    let [line] = lines[..] else { panic!("one line: {}", ended.err) };
    assert!(line.starts_with("spatial: ") && line.contains("bad.csv: "), "{line}");
    line.to_owned()
}

#[test]
fn a_bad_file_is_one_line() {
    for (text, words) in [
        (&b""[..], &["it is empty"][..]),
        (b"1,2\n3,4\n", &["no header", "`1` is a number"]),
        (b"a,b\n1,2\n", &["--longitude and --latitude", "there are a, b"]),
        (b"lon,lat\n1,2\n3,north\n", &["line 3, column lat: `north` is not a number"]),
        (b"lon,lat\n1,nan\n", &["line 2, column lat", "not a finite number"]),
        (b"lon,lat\n1,2\n1,2\n1", &["line 4: it has 1 fields", "cut off?"]),
        (b"lon,lat,name\r\n1,2,\"cut", &["line 2", "not closed", "cut off?"]),
        (b"lon,lat\n,\n,\n", &["none of its 2 rows has coordinates in the columns lon, lat"]),
        (b"lon,lat\n1,\xff\n", &["line 2: it is not UTF-8 text"]),
        (b"\xff\xfel\0o\0", &["it is UTF-16 text"]),
        (b"lon;lat\n1;2\n", &["separate fields by commas"]),
    ] {
        let line = wrong(text, "");
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
    let line = wrong(b"a,b,c\n1,2,3\n", "--longitude a --latitude d");
    assert!(line.contains("--latitude: there is no column d; there are a, b, c"), "{line}");
    let line = wrong(b"lon,lat\n200,1\n", "--great-circle");
    assert!(
        line.contains("line 2, column lon: the longitude 200 is not from -180 to 180"),
        "{line}"
    );
}

#[test]
fn what_is_no_file_is_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, word) in [
        (directory.path().display().to_string(), "it is a directory"),
        (directory.path().join("none.csv").display().to_string(), "it cannot be read"),
    ] {
        let ended = SPATIAL.run(&format!("load {path}"));
        assert_eq!(ended.status, Some(2));
        assert!(ended.err.contains(word) && ended.err.lines().count() == 1, "{}", ended.err);
    }
}

#[test]
fn what_is_left_out_is_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("some.csv");
    std::fs::write(&path, "\u{feff}lon,lat\r\n1,2\r\n,\r\n3,\r\n4,5").expect("room");
    let out = good(&format!("load {}", path.display()));
    for line in [
        "[MEASURE], entries, 2",
        "[MEASURE], rows, 4",
        "[MEASURE], rows_without_coordinates, 1",
        "[MEASURE], rows_with_a_part, 1",
        "[CHECK], tree, ok",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
}

#[test]
fn an_output_is_not_one_of_the_inputs() {
    let files = Files::new(5, 5);
    let places = files.places_csv();
    for flags in [
        format!("load {places} --svg {places}"),
        format!("query nearest {places} --data {places} --csv {places}"),
        format!("query nearest {} --data {places} --json {places}", files.boxes_csv()),
    ] {
        let ended = SPATIAL.run(&flags);
        assert_eq!(ended.status, Some(2), "{}", ended.err);
        let text = std::fs::read_to_string(&places).expect("it is there");
        assert!(text.starts_with("name,latitude"), "{flags}: {text}");
    }
    let ended = SPATIAL.run(&format!("load {places} --svg /nowhere/p.svg"));
    assert_eq!(ended.status, Some(2));
    assert!(ended.err.contains("its directory does not exist"), "{}", ended.err);
}
