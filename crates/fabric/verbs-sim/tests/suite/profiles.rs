//! People write profiles, so every error in a profile is reported in one line with its position.

use latchwork_verbs_sim::{NicProfile, calibrate};

const GOOD: &str = r#"# A NIC of nowhere.
name = "nowhere"
bandwidth_gbit_s = 56
packet_gbit_s = 52
packet_bytes = 4096
one_way_ns = 400
jitter_ns = 40
engines = 1
send_rate_mops = 35.5
send_read_rate_mops = 22
serve_rate_mops = 35
serve_read_rate_mops = 26
serve_atomic_rate_mops = 2.7
inline_max_bytes = 256
gather_ns = 300
write_ns = 150
read_ns = 400
atomic_fetch_ns = 370
atomic_ns = 370
atomic_cold_ns = 180
atomic_bucket_bits = 12
completion_ns = 200
queue_pairs = 1
reads_max = 16
requests_max = 128

[cpu]
post_ns = 60
doorbell_ns = 100
poll_ns = 40
message_ns = 150
sweep_ns = 20
hit_ns = 60
copy_ns_per_kib = 40
latch_ns = 20

[[published]]
measure = "read_latency"
bytes = 64
value = 1.9
unit = "us"
tolerance = 0.1
source = "Somebody, section 3"

[[published]]
measure = "atomic_one_address"
value = 2.2
unit = "Mops"
tolerance = 0.1
source = "Somebody, figure 4"
"#;

#[test]
fn a_good_profile_is_read() {
    let profile = NicProfile::parse(GOOD, "nowhere.toml").unwrap();
    assert_eq!((profile.name.as_str(), profile.send_rate_mops), ("nowhere", 35.5));
    assert_eq!((profile.bandwidth_gbit_s, profile.cpu.poll_ns), (56.0, 40));
    assert_eq!(profile.published.len(), 2);
    assert_eq!((profile.published[0].bytes, profile.published[1].bytes), (64, 8));
}

#[test]
fn keys_of_on_chip_memory_and_places_may_be_left_out() {
    let without = NicProfile::parse(GOOD, "nowhere.toml").unwrap();
    let keys = |profile: &NicProfile| (profile.atomics_waiting_max, profile.chip_bytes);
    assert_eq!(keys(&without), (0, 0));
    let with = |line: &str| {
        let text = GOOD.replace("[cpu]", &format!("{line}\n\n[cpu]"));
        NicProfile::parse(&text, "nowhere.toml").map_err(|error| error.to_string())
    };
    assert_eq!(keys(&with("atomics_waiting_max = 16").unwrap()), (16, 0));
    let chip = with("chip_bytes = 65536\nchip_atomic_rate_mops = 50").unwrap();
    assert_eq!((keys(&chip), chip.chip_atomic_rate_mops), ((0, 65536), 50.0));
    for (line, problem) in [
        ("atomics_waiting_max = -1", "must be a number of atomics, 0 (no limit) to 65536"),
        ("chip_bytes = 1.5", "must be a number of bytes, 0 (none) to 1073741824"),
    ] {
        assert_eq!(with(line).unwrap_err(), format!("nowhere.toml:27: {line}: {problem}"));
    }
}

#[test]
fn the_profiles_that_come_along_are_read_under_their_names() {
    assert!(NicProfile::names().count() >= 3);
    for name in NicProfile::names() {
        let profile = NicProfile::find(name).unwrap();
        assert_eq!(profile.name, name);
        assert_eq!(NicProfile::named(name).unwrap(), profile);
    }
    let additions = |name: &str| {
        let profile = NicProfile::named(name).unwrap();
        (profile.chip_bytes, profile.atomics_waiting_max)
    };
    assert_eq!(additions("connectx5"), (0, 0));
    assert_eq!(additions("connectx5-chip"), (256 << 10, 0));
    assert_eq!(additions("connectx5-stalling"), (256 << 10, 16));
}

/// A text of [`GOOD`], its replacement, and the resulting error. `…` stands for a list of all
/// accepted values.
const BAD: &[(&str, &str, &str)] = &[
    (
        "bandwidth_gbit_s = 56",
        "bandwidth_gbit_s = -3",
        "nowhere.toml:3: bandwidth_gbit_s = -3: must be a positive number of Gbit/s, 0.001 to 10000",
    ),
    (
        "bandwidth_gbit_s = 56",
        "bandwidth_gbit_s = \"fast\"",
        "nowhere.toml:3: bandwidth_gbit_s = \"fast\": must be a positive number of Gbit/s, 0.001 to 10000",
    ),
    (
        "bandwidth_gbit_s = 56",
        "bandwidth_gbit_s = nan # not measured",
        "nowhere.toml:3: bandwidth_gbit_s = nan: must be a positive number of Gbit/s, 0.001 to 10000",
    ),
    (
        "bandwidth_gbit_s = 56",
        "bandwith_gbit_s = 56",
        "nowhere.toml:3: bandwith_gbit_s = 56: unknown field `bandwith_gbit_s`, expected one of `…",
    ),
    (
        "one_way_ns = 400",
        "one_way_ns = 1.5",
        "nowhere.toml:6: one_way_ns = 1.5: must be a whole number of nanoseconds, at most 1000000000",
    ),
    (
        "one_way_ns = 400",
        "one_way_ns = -400",
        "nowhere.toml:6: one_way_ns = -400: must be a whole number of nanoseconds, at most 1000000000",
    ),
    (
        "one_way_ns = 400",
        "one_way_ns 400",
        "nowhere.toml:6: one_way_ns 400: key with no value, expected `=`",
    ),
    (
        "one_way_ns = 400",
        "one_way_ns = ",
        "nowhere.toml:6: one_way_ns =: string values must be quoted, expected literal string",
    ),
    (
        "one_way_ns = 400",
        "bandwidth_gbit_s = 400",
        "nowhere.toml:6: bandwidth_gbit_s = 400: duplicate key",
    ),
    ("one_way_ns = 400\n", "", "nowhere.toml:1: missing field `one_way_ns`"),
    (
        "send_rate_mops = 35.5",
        "send_rate_mops = 0",
        "nowhere.toml:9: send_rate_mops = 0: must be a positive number of millions per second, 0.001 to 10000",
    ),
    (
        "serve_read_rate_mops = 26",
        "serve_read_rate_mops = inf",
        "nowhere.toml:12: serve_read_rate_mops = inf: must be a positive number of millions per second, 0.001 to 10000",
    ),
    (
        "atomic_bucket_bits = 12",
        "atomic_bucket_bits = 33",
        "nowhere.toml:21: atomic_bucket_bits = 33: must be a number of address bits, 0 to 32",
    ),
    (
        "queue_pairs = 1",
        "queue_pairs = 101",
        "nowhere.toml:23: queue_pairs = 101: must be a number of queue pairs, 1 to 100",
    ),
    (
        "queue_pairs = 1",
        "queue_pairs = 0",
        "nowhere.toml:23: queue_pairs = 0: must be a number of queue pairs, 1 to 100",
    ),
    (
        "reads_max = 16",
        "reads_max = 2",
        "nowhere.toml:24: reads_max = 2: must be a number of requests, 4 (a whole batch) to 65536",
    ),
    (
        "inline_max_bytes = 256",
        "inline_max_bytes = 99999999999999999999",
        "nowhere.toml:14: inline_max_bytes = 99999999999999999999: must be a number of bytes, 0 to 4096",
    ),
    ("poll_ns = 40\n", "", "nowhere.toml:27: [cpu]: missing field `poll_ns`"),
    (
        "sweep_ns = 20",
        "sweep_ns = true",
        "nowhere.toml:32: sweep_ns = true: must be a whole number of nanoseconds, at most 1000000000",
    ),
    ("[cpu]", "[gpu]", "nowhere.toml:27: [gpu]: unknown field `gpu`, expected one of `…"),
    ("name = \"nowhere\"", "name = \"\"", "nowhere.toml:2: name = \"\": must be one line of text"),
    (
        "measure = \"read_latency\"",
        "measure = \"read_speed\"",
        "nowhere.toml:38: measure = \"read_speed\": unknown variant `read_speed`, expected one of `…",
    ),
    (
        "unit = \"us\"",
        "unit = \"ms\"",
        "nowhere.toml:41: unit = \"ms\": unknown variant `ms`, expected one of `us`, `Mops`, `Gbit/s`",
    ),
    (
        "unit = \"us\"",
        "unit = \"Mops\"",
        "nowhere.toml:37: [[published]]: READ latency: the unit must be \"us\"",
    ),
    (
        "bytes = 64\n",
        "",
        "nowhere.toml:37: [[published]]: READ latency: this measure needs `bytes`",
    ),
    (
        "bytes = 64",
        "bytes = 63",
        "nowhere.toml:39: bytes = 63: must be a number of bytes, a multiple of 8, 8 to 4194304",
    ),
    (
        "value = 2.2",
        "bytes = 8\nvalue = 2.2",
        "nowhere.toml:37: [[published]]: atomics, one address: this measure has no `bytes`",
    ),
    ("value = 1.9", "value = 0", "nowhere.toml:40: value = 0: must be a positive number"),
    (
        "tolerance = 0.1\nsource = \"Somebody, section 3\"",
        "tolerance = 2\nsource = \"Somebody, section 3\"",
        "nowhere.toml:42: tolerance = 2: must be a part of the value, above 0 and at most 0.5",
    ),
    (
        "source = \"Somebody, section 3\"",
        "",
        "nowhere.toml:37: [[published]]: missing field `source`",
    ),
];

#[test]
fn what_is_wrong_is_one_line_that_says_where() {
    for (good, bad, expected) in BAD {
        assert_eq!(GOOD.matches(good).count(), 1, "{good}");
        let text = GOOD.replace(good, bad);
        let error = NicProfile::parse(&text, "nowhere.toml").unwrap_err().to_string();
        match expected.strip_suffix('…') {
            Some(start) => assert!(error.starts_with(start), "{error}"),
            None => assert_eq!(&error, expected),
        }
        assert_eq!(error.lines().count(), 1);
    }
}

#[test]
fn an_unknown_name_and_an_unreadable_file_are_reported() {
    let error = NicProfile::find("connectx9").unwrap_err().to_string();
    let expected = "no NIC profile is called `connectx9`: give one of connectx3, connectx5, \
                    ethernet10g, connectx5-chip, connectx5-stalling, or the path of a profile file";
    assert_eq!(error, expected);
    let error = NicProfile::find(env!("CARGO_MANIFEST_DIR")).unwrap_err().to_string();
    assert!(error.ends_with(": it is a directory; name a file"), "{error}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/connectx3.toml");
    assert_eq!(NicProfile::find(file).unwrap(), NicProfile::named("connectx3").unwrap());
    let text = std::fs::read_to_string(file).unwrap();
    let doubled = text.replacen("queue_pairs = 1\n", "queue_pairs = 1\nqueue_pairs = 2\n", 1);
    assert_ne!(doubled, text);
    let error = NicProfile::parse(&doubled, "doubled").unwrap_err().to_string();
    assert!(error.contains("duplicate key"), "{error}");
}

/// Values that people and broken scripts write behind an `=`.
const ODD: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "0.5",
    "-0.0",
    "1e-300",
    "1e300",
    "nan",
    "-inf",
    "1_000_000_000",
    "10000",
    "9223372036854775807",
    "99999999999999999999",
    "true",
    "\"\"",
    "\"56\"",
    "[]",
    "{}",
    "[1, 2]",
    "{ a = 1 }",
    "1979-05-27",
    "0x10",
    "=",
    "'",
    "\"\"\"",
];

#[test]
fn whatever_stands_behind_a_key_is_taken_or_refused_where_it_stands() {
    let (mut taken, mut refused) = (0, 0);
    for (index, line) in GOOD.lines().enumerate() {
        let Some((key, _)) = line.split_once(" = ") else { continue };
        for odd in ODD {
            let mut lines: Vec<_> = GOOD.lines().map(str::to_owned).collect();
            lines[index] = format!("{key} = {odd}");
            match NicProfile::parse(&lines.join("\n"), "odd.toml") {
                // The model can run every accepted profile. A run may take long, but it does not
                // panic.
                Ok(profile) => {
                    taken += 1;
                    let _ = calibrate::measure(&profile, &profile.published[0]);
                }
                Err(error) => {
                    refused += 1;
                    let error = error.to_string();
                    let start: usize = match error.split(':').nth(1) {
                        Some(line) => line.parse().unwrap(),
                        None => panic!("{error}"),
                    };
                    // An error between figures of a table is reported at the head of the table.
                    let head =
                        lines[..=index].iter().rposition(|line| line.starts_with('[')).unwrap_or(0);
                    // A string without an end ends with the file.
                    let unended = odd.contains("\"\"\"") || odd.contains('\'');
                    assert!(
                        start == index + 1 || start == head + 1 || unended,
                        "{error}\n{key} = {odd} stands in line {}",
                        index + 1,
                    );
                    assert_eq!(error.lines().count(), 1, "{error}");
                }
            }
        }
    }
    assert!(taken > 100 && refused > 500, "{taken} {refused}");
}
