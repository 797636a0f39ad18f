//! The crate's profiles match the published figures, and calibration detects a profile that does
//! not.

use latchwork_verbs_sim::{Measure, NicProfile, calibrate};

#[test]
fn every_profile_does_what_was_published() {
    for name in NicProfile::names() {
        let profile = NicProfile::named(name).unwrap();
        assert!(profile.published.len() >= 8, "{name}: {}", profile.published.len());
        for figure in calibrate::calibrate(&profile).unwrap() {
            let (published, simulated) = (&figure.published, figure.simulated);
            assert!(figure.is_within(), "{name}: {simulated} instead of {published:?}");
        }
    }
}

/// The measures of the ConnectX-5 that leave their tolerance after `spoil` has changed its profile.
fn spoilt(spoil: impl FnOnce(&mut NicProfile)) -> Vec<Measure> {
    let mut profile = NicProfile::named("connectx5").unwrap();
    spoil(&mut profile);
    let figures = calibrate::calibrate(&profile).unwrap();
    let mut outside: Vec<_> =
        figures.iter().filter(|f| !f.is_within()).map(|f| f.published.measure).collect();
    outside.dedup();
    outside
}

#[test]
fn whatever_is_wrong_with_a_profile_is_seen_by_some_measure_and_not_by_all() {
    use Measure::*;
    assert_eq!(spoilt(|_| {}), []);
    assert_eq!(spoilt(|p| p.write_ns += 400), [WriteOneWay, SendOneWay]);
    assert_eq!(spoilt(|p| p.read_ns += 500), [ReadLatency]);
    assert_eq!(spoilt(|p| p.gather_ns += 800), [WriteOneWay]);
    assert_eq!(spoilt(|p| p.atomic_fetch_ns += 300), [AtomicLatency]);
    assert_eq!(spoilt(|p| p.serve_rate_mops /= 2.0), [WriteInbound]);
    assert_eq!(spoilt(|p| p.serve_read_rate_mops /= 2.0), [ReadInbound, ReadSwarm]);
    assert_eq!(spoilt(|p| p.send_read_rate_mops /= 2.0), [ReadOutbound, ReadSwarm]);
    assert_eq!(spoilt(|p| p.serve_atomic_rate_mops /= 2.0), [AtomicManyAddresses]);
    let wire = [WriteOneWay, ReadBandwidth, WriteBandwidth];
    assert_eq!(spoilt(|p| p.bandwidth_gbit_s *= 1.5), wire);
    // A bucket for every word.
    assert_eq!(spoilt(|p| p.atomic_ns = 100), [AtomicLatency, AtomicOneAddress, AtomicOneBucket]);
    // One bucket for all.
    assert_eq!(spoilt(|p| p.atomic_bucket_bits = 0), [AtomicManyAddresses]);
}

#[test]
fn a_measurement_that_does_not_end_is_an_error() {
    let mut profile = NicProfile::named("connectx5").unwrap();
    profile.one_way_ns = 1_000_000_000;
    let error = calibrate::measure(&profile, &profile.published[0]).unwrap_err().to_string();
    assert!(error.contains("READ latency: no end after 100 s of virtual time"), "{error}");
}

#[test]
fn the_same_profile_gives_the_same_figures() {
    let profile = NicProfile::named("connectx3").unwrap();
    let measure = |n: usize| calibrate::measure(&profile, &profile.published[n]).unwrap();
    for n in 0..profile.published.len() {
        assert_eq!(measure(n), measure(n));
    }
}

#[test]
fn the_table_shows_what_is_outside() {
    let mut profile = NicProfile::named("ethernet10g").unwrap();
    profile.published.truncate(2);
    profile.write_ns += 10_000;
    profile.published[0].tolerance = 0.5;
    let figures = calibrate::calibrate(&profile).unwrap();
    let table = calibrate::CalibrationTable { name: &profile.name, figures: &figures }.to_string();
    let line = |measure: &str| {
        let found = table.lines().find(|line| line.starts_with(measure));
        found.unwrap_or_else(|| panic!("{table}"))
    };
    assert!(line("SEND one way").ends_with(" 50 % ok"), "{table}");
    assert!(line("WRITE one way").ends_with(" 15 % OUTSIDE"), "{table}");
    for source in profile.published.iter().map(|published| &published.source) {
        assert!(table.lines().any(|line| line.trim_start() == source), "{table}");
    }
    let rows = table.lines().filter(|line| !line.starts_with(' '));
    assert!(rows.clone().count() == 3 && rows.clone().all(|row| row.len() <= 80), "{table}");
}
