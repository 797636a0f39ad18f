//! Anomalies of the literature, each made by hand. The check finds each anomaly and names its
//! class. The check accepts a similar history without the anomaly.

use latchwork_history::{Class, Direction, HistoryReport, RecordedChange, TransactionOutcome};

use crate::common::Maker;

/// Asserts one violation, of this class, with a cycle of this many transactions.
#[track_caller]
fn only(report: &HistoryReport, class: Class, length: usize) {
    assert_eq!(report.violations_found, 1, "{report}");
    let violation = &report.violations[0];
    assert_eq!((violation.class, violation.cycle.len()), (class, length), "{report}");
    for (step, next) in violation.cycle.iter().zip(violation.cycle.iter().cycle().skip(1)) {
        assert_eq!(step.to, next.from, "{report}");
    }
    assert!(!report.is_serializable());
}

#[track_caller]
fn none(report: &HistoryReport) {
    assert!(report.is_serializable() && report.violations.is_empty(), "{report}");
}

fn committed(cts: u64) -> TransactionOutcome {
    TransactionOutcome::Committed { cts }
}

#[test]
fn lost_update() {
    let mut maker = Maker::default();
    maker.commit(10).put("x");
    maker.commit(20).read("x", 10).put("x");
    maker.commit(30).read("x", 20).put("x");
    none(&maker.check());
    maker.commit(40).read("x", 20).put("x");
    only(&maker.check(), Class::LostUpdate, 2);
    let text = maker.check().to_string();
    assert!(text.contains("T0.0.2 < T0.0.3  ww 1/x: version 30, replaced by 40"), "{text}");
    assert!(text.contains("T0.0.3 < T0.0.2  rw 1/x: read version 20, replaced by 30"), "{text}");
}

#[test]
fn lost_update_of_a_row_that_was_not_there() {
    let mut maker = Maker::default();
    maker.commit(10).read("x", 0).put("x");
    maker.commit(20).read("x", 0).put("x");
    only(&maker.check(), Class::LostUpdate, 2);
}

#[test]
fn write_skew() {
    let mut maker = Maker::default();
    maker.commit(10).put("x").put("y");
    maker.commit(20).read("x", 10).read("y", 10).put("x");
    none(&maker.check());
    maker.commit(30).read("x", 10).read("y", 10).put("y");
    only(&maker.check(), Class::AntiDependency, 2);
}

#[test]
fn read_skew() {
    let mut maker = Maker::default();
    maker.commit(10).put("x").put("y");
    maker.commit(20).put("x").put("y");
    maker.commit(0).read("x", 10).read("y", 10);
    maker.commit(0).read("x", 20).read("y", 20);
    none(&maker.check());
    maker.commit(0).read("x", 10).read("y", 20);
    only(&maker.check(), Class::ReadSkew, 2);
}

#[test]
fn a_read_that_does_not_repeat() {
    let mut maker = Maker::default();
    maker.commit(10).put("x");
    maker.commit(20).put("x");
    maker.commit(0).read("x", 10).read("x", 20);
    only(&maker.check(), Class::ReadSkew, 2);
}

#[test]
fn long_fork() {
    let mut maker = Maker::default();
    maker.commit(10).put("x");
    maker.commit(20).put("y");
    maker.commit(0).read("x", 10).read("y", 0);
    none(&maker.check());
    maker.commit(0).read("x", 0).read("y", 20);
    only(&maker.check(), Class::AntiDependency, 4);
}

/// Fekete, O'Neil, O'Neil, "A read-only transaction anomaly under snapshot isolation" (SIGMOD
/// Record 2004).
#[test]
fn read_only_anomaly() {
    let mut maker = Maker::default();
    maker.commit(1).put("checking").put("savings");
    maker.commit(20).read("savings", 1).put("savings");
    maker.commit(30).read("checking", 1).read("savings", 1).put("checking");
    none(&maker.check());
    maker.commit(0).read("checking", 1).read("savings", 20);
    only(&maker.check(), Class::AntiDependency, 3);
}

#[test]
fn circular_information_flow() {
    let mut maker = Maker::default();
    maker.commit(10).put("x").read("y", 0);
    maker.commit(20).put("y").read("x", 10);
    none(&maker.check());
    let mut maker = Maker::default();
    maker.commit(10).put("x").read("y", 20);
    maker.commit(20).put("y").read("x", 10);
    only(&maker.check(), Class::CircularInformationFlow, 2);
}

#[test]
fn aborted_read() {
    let mut maker = Maker::default();
    maker.at(0, 9, TransactionOutcome::Aborted { cts: 10 }).put("x");
    maker.commit(20).read("x", 0).put("x");
    none(&maker.check());
    maker.commit(0).read("x", 10);
    only(&maker.check(), Class::AbortedRead, 0);
    let text = maker.check().to_string();
    assert!(
        text.contains("T0.0.2 read 1/x of version 10, which its writer, T0.0.0, took back"),
        "{text}"
    );
}

#[test]
fn intermediate_read_and_torn_value() {
    let mut maker = Maker::default();
    maker.commit(10).write("x", RecordedChange::Value(7)).write("x", RecordedChange::Value(8));
    maker.commit(0).read_value("x", 10, 8);
    none(&maker.check());
    maker.commit(0).read_value("x", 10, 7);
    only(&maker.check(), Class::IntermediateRead, 0);
    maker.history.transactions.pop();
    maker.commit(0).read_value("x", 10, 9);
    only(&maker.check(), Class::Value, 0);
}

#[test]
fn unwritten() {
    let mut maker = Maker::default();
    maker.commit(10).put("x");
    maker.commit(0).read("x", 11);
    only(&maker.check(), Class::Unwritten, 0);
    // No recorded transaction wrote the state from before the recording.
    maker.history.base = 11;
    none(&maker.check());
}

#[test]
fn two_of_one_timestamp() {
    let mut maker = Maker::default();
    maker.commit(10).put("x");
    maker.commit(10).read("x", 10);
    none(&maker.check());
    maker.commit(10).put("y");
    only(&maker.check(), Class::Timestamp, 0);
    let mut maker = Maker::default();
    maker.commit(0).put("x");
    only(&maker.check(), Class::Timestamp, 0);
}

#[test]
fn phantom_insert() {
    // Two transactions look for rows in a range, find none, and insert one each.
    let mut maker = Maker::default();
    maker.commit(10).scan("a", "m", &[]).put("b");
    maker.commit(20).scan("a", "m", &[("b", 10)]).put("c");
    maker.commit(0).scan("d", "m", &[]);
    none(&maker.check());
    maker.commit(30).scan("a", "m", &[("b", 10)]).put("d");
    only(&maker.check(), Class::Phantom, 2);
    let text = maker.check().to_string();
    assert!(
        text.contains("T0.0.3 < T0.0.1  rw 1/c: not seen in a range, put as version 20"),
        "{text}"
    );
}

#[test]
fn phantom_delete() {
    let mut maker = Maker::default();
    maker.at(0, 5, committed(10)).put("b").put("z");
    maker.at(6, 1000, committed(20)).delete("b").put("z");
    maker.at(6, 1000, committed(0)).scan("a", "m", &[]).read("z", 20);
    maker.commit(0).scan("a", "m", &[("b", 10)]).read("z", 10);
    none(&maker.check());
    // The reader has seen the deletion, but not the other write of the same transaction.
    maker.at(6, 1000, committed(0)).scan("a", "c", &[]).read("z", 10);
    only(&maker.check(), Class::ReadSkew, 2);
}

#[test]
fn a_scan_reaches_only_as_far_as_it_looked() {
    for (direction, stopped, is_seen) in [
        (Direction::Up, "d", false),
        (Direction::Up, "x", true),
        (Direction::Down, "d", true),
        (Direction::Down, "x", false),
    ] {
        // The scan did not find "m". Another transaction read "m", then wrote "n", which the
        // scanning transaction read. So a scan that covered "m" makes a cycle.
        let mut maker = Maker::default();
        maker.commit(10).put("d").put("x").put("m");
        maker.commit(20).read("m", 10).put("n");
        let seen = [(stopped, 10)];
        maker.commit(0).scan_to("a", "z", direction, Some(stopped), &seen).read("n", 20);
        let report = maker.check();
        assert_eq!(report.is_serializable(), !is_seen, "{direction:?} to {stopped}: {report}");
    }
}

#[test]
fn an_entry_without_a_version_is_there_or_not() {
    let mut maker = Maker::default();
    maker.commit(10).put("entry").put("z");
    maker.commit(20).delete("entry").put("z");
    maker.commit(0).scan("a", "m", &[("entry", 0)]).read("z", 10);
    none(&maker.check());
    maker.commit(0).scan("a", "m", &[("entry", 0)]).read("z", 20);
    only(&maker.check(), Class::Phantom, 2);
    let mut maker = Maker::default();
    maker.commit(0).scan("a", "m", &[("entry", 0)]);
    only(&maker.check(), Class::Unwritten, 0);
}

#[test]
fn own_writes_are_not_missed() {
    let mut maker = Maker::default();
    maker.commit(10).put("b");
    maker.commit(20).read("b", 10).delete("b").put("c").scan("a", "m", &[]);
    none(&maker.check());
}

#[test]
fn a_purged_tombstone_may_have_been_any() {
    // "b" was inserted and deleted twice while the reader ran. So "b" may have been absent at three
    // times. The versions of "y" and "z" decide which of these times the reader saw.
    let history = |z: u64, y: u64| {
        let mut maker = Maker::default();
        maker.commit(10).put("b");
        maker.commit(20).delete("b").put("y");
        maker.commit(30).put("b").put("z");
        maker.commit(40).delete("b");
        maker.commit(0).read("b", 0).read("y", y).read("z", z);
        maker.commit(0).scan("a", "c", &[]).read("y", y).read("z", z);
        maker.check()
    };
    none(&history(0, 0));
    none(&history(0, 20));
    none(&history(30, 20));
    assert!(!history(30, 0).is_serializable());
}

#[test]
fn unknown_transactions_count_if_a_counted_one_read_from_them() {
    let unknown = |is_read: bool| {
        let mut maker = Maker::default();
        maker.commit(10).put("x").put("y");
        maker
            .at(0, 1000, TransactionOutcome::Unknown { cts: 20 })
            .read("x", 10)
            .read("y", 10)
            .put("x");
        maker.commit(30).read("x", 10).read("y", 10).put("y");
        if is_read {
            maker.commit(0).read("x", 20);
        }
        maker.check()
    };
    let report = unknown(false);
    none(&report);
    assert_eq!((report.unknown, report.unknown_seen), (1, 0));
    let report = unknown(true);
    only(&report, Class::AntiDependency, 2);
    assert_eq!((report.unknown, report.unknown_seen), (1, 1));
}

#[test]
fn what_an_unknown_transaction_may_have_deleted_is_left_open() {
    let mut maker = Maker::default();
    maker.at(0, 10, committed(10)).put("b");
    maker.at(20, 30, TransactionOutcome::Unknown { cts: 20 }).delete("b");
    maker.at(40, 50, committed(0)).scan("a", "m", &[]).read("b", 0);
    let report = maker.check_strictly();
    none(&report);
    assert_eq!(report.undecided, 2);
    maker.history.transactions.remove(1);
    only(&maker.check_strictly(), Class::RealTime, 2);
}

#[test]
fn real_time_is_checked_on_request() {
    let mut maker = Maker::default();
    maker.at(0, 10, committed(10)).put("x");
    maker.at(20, 30, committed(20)).put("x");
    maker.at(30, 50, committed(0)).read("x", 10);
    none(&maker.check_strictly());
    maker.at(31, 50, committed(0)).read("x", 10);
    none(&maker.check());
    only(&maker.check_strictly(), Class::RealTime, 2);
    let text = maker.check_strictly().to_string();
    assert!(text.starts_with("NOT strictly serializable"), "{text}");
    assert!(text.contains("real time: ended at 30 ns, begun at 31 ns"), "{text}");
}
