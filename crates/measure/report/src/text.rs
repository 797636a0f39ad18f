//! Text output for programs: YCSB's final lines, which existing scripts read, and lines of CSV.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use crate::histogram::{Latencies, LatencySummary, Measured, OperationKindSet};
use crate::result::ResultPhase;

/// Writes the lines that YCSB writes at the end of a phase. Latencies are in microseconds with up
/// to three decimals.
///
/// ```
/// use std::time::Duration;
///
/// use latchwork_report::histogram::{Latencies, OperationKindSet};
/// use latchwork_report::{result::ResultPhase, text};
///
/// #[derive(Clone, Copy)]
/// enum Kind {
///     Read,
/// }
///
/// impl OperationKindSet for Kind {
///     const NAMES: &'static [&'static str] = &["READ"];
///
///     fn index(self) -> usize {
///         self as usize
///     }
/// }
///
/// let mut latencies = Latencies::new();
/// latencies.record(Kind::Read, Duration::from_nanos(1500), None);
/// let mut out = Vec::new();
/// text::write_lines(&mut out, &ResultPhase::new(1, 0.25), &latencies.measured())?;
/// let text = String::from_utf8(out).unwrap();
/// assert!(text.starts_with("[OVERALL], RunTime(ms), 250\n[OVERALL], Throughput(ops/sec), 4.0\n"));
/// assert!(text.contains("[READ], 99.9PercentileLatency(us), 1.5"));
/// assert!(text.ends_with("[READ], Return=OK, 1\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Fails when `out` does.
pub fn write_lines(
    out: &mut impl Write,
    phase: &ResultPhase,
    measured: &[Measured],
) -> io::Result<()> {
    writeln!(out, "[OVERALL], RunTime(ms), {:.0}", phase.elapsed_s * 1000.0)?;
    writeln!(out, "[OVERALL], Throughput(ops/sec), {:?}", phase.throughput_ops_s)?;
    for kind in measured {
        if let Some(latency) = &kind.latency {
            latency_lines(out, &kind.name, latency)?;
            writeln!(out, "[{}], Return=OK, {}", kind.name, kind.ok)?;
        }
        for (status, count) in &kind.failed {
            writeln!(out, "[{}], Return={status}, {count}", kind.name)?;
        }
        if let Some(intended) = &kind.intended {
            latency_lines(out, &format!("Intended-{}", kind.name), intended)?;
        }
    }
    Ok(())
}

fn latency_lines(out: &mut impl Write, name: &str, latency: &LatencySummary) -> io::Result<()> {
    writeln!(out, "[{name}], Operations, {}", latency.count)?;
    let lines = [
        ("AverageLatency(us)", latency.mean),
        ("MinLatency(us)", latency.min),
        ("MaxLatency(us)", latency.max),
        ("50thPercentileLatency(us)", latency.p50),
        ("95thPercentileLatency(us)", latency.p95),
        ("99thPercentileLatency(us)", latency.p99),
        ("99.9PercentileLatency(us)", latency.p999),
    ];
    for (label, us) in lines {
        writeln!(out, "[{name}], {label}, {:?}", (us * 1000.0).round() / 1000.0)?;
    }
    Ok(())
}

/// The line that YCSB's client prints now and then with `-s`, without its date. `elapsed` says how
/// long the phase has gone on, in seconds with a unit. `ops` counts the operations since its begin,
/// and `latencies` has those of the last interval. Latencies are in microseconds.
///
/// ```
/// use std::time::Duration;
/// # use latchwork_report::histogram::{Latencies, OperationKindSet};
/// # #[derive(Clone, Copy)]
/// # enum Kind {
/// #     Read,
/// # }
/// # impl OperationKindSet for Kind {
/// #     const NAMES: &'static [&'static str] = &["READ"];
/// #     fn index(self) -> usize {
/// #         self as usize
/// #     }
/// # }
///
/// let mut latencies = Latencies::new();
/// latencies.record(Kind::Read, Duration::from_nanos(1500), None);
/// let line = latchwork_report::text::status_line("20 sec", 7, &latencies, Duration::from_secs(10));
/// assert_eq!(
///     line,
///     "20 sec: 7 operations; 0.1 current ops/sec; [READ: Count=1, Max=1.5, Min=1.5, Avg=1.5, 50=1.5, \
///      90=1.5, 99=1.5, 99.9=1.5, 99.99=1.5]"
/// );
/// ```
pub fn status_line<K: OperationKindSet>(
    elapsed: &str,
    ops: u64,
    latencies: &Latencies<K>,
    interval: Duration,
) -> String {
    let current = (latencies.ok() + latencies.failed()) as f64 / interval.as_secs_f64().max(1e-9);
    let current = (current * 100.0).round() / 100.0;
    let mut line = format!("{elapsed}: {ops} operations; {current} current ops/sec;");
    // Writing to a string cannot fail.
    for (name, histogram, failed) in latencies.kinds() {
        let us = |ns: u64| (ns as f64 / 10.0).round() / 100.0;
        if !histogram.is_empty() {
            let (max, min) = (us(histogram.max()), us(histogram.min()));
            let (count, mean) = (histogram.len(), us(histogram.mean() as u64));
            let _ = write!(line, " [{name}: Count={count}, Max={max}, Min={min}, Avg={mean}");
            for percent in [50.0, 90.0, 99.0, 99.9, 99.99] {
                let at = histogram.value_at_percentile(percent).min(histogram.max());
                let _ = write!(line, ", {percent}={}", us(at));
            }
            line.push(']');
        }
        if failed > 0 {
            let _ = write!(line, " [{name}-FAILED: Count={failed}]");
        }
    }
    line
}

/// A line of CSV (RFC 4180, with Unix line ends).
///
/// ```
/// let line = latchwork_report::text::csv_line(["ycsb", "-p a=1,b", "say \"ok\""].into_iter());
/// assert_eq!(line, "ycsb,\"-p a=1,b\",\"say \"\"ok\"\"\"\n");
/// ```
pub fn csv_line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<_> = cells
        .map(|cell| match cell.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.to_owned(),
        })
        .collect();
    quoted.join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::OperationFailure;
    use crate::testing::OperationKind::{Read, Update};

    #[test]
    fn a_status_line_has_each_kind_of_its_interval_and_what_failed() {
        let mut latencies = Latencies::new();
        (1..=4).for_each(|us| latencies.record(Read, Duration::from_micros(us), None));
        latencies.record_failure(Update, OperationFailure::NotFound);
        let line = status_line("0.5 sec", 12, &latencies, Duration::from_millis(500));
        let read = "[READ: Count=4, Max=4, Min=1, Avg=2.5, 50=2, 90=4, 99=4, 99.9=4, 99.99=4]";
        let rest = "[UPDATE-FAILED: Count=1]";
        assert_eq!(line, format!("0.5 sec: 12 operations; 10 current ops/sec; {read} {rest}"));
        let still = status_line::<crate::testing::OperationKind>(
            "1 sec",
            12,
            &Latencies::new(),
            Duration::from_secs(1),
        );
        assert_eq!(still, "1 sec: 12 operations; 0 current ops/sec;");
    }

    #[test]
    fn lines_are_those_of_ycsb() {
        let mut latencies = Latencies::new();
        let us = Duration::from_micros(1);
        latencies.record(Read, us, Some(2 * us));
        latencies.record(Read, us, Some(2 * us));
        latencies.record_failure(Update, OperationFailure::NotFound);
        let mut out = Vec::new();
        write_lines(&mut out, &ResultPhase::new(2, 2.0), &latencies.measured()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "\
[OVERALL], RunTime(ms), 2000
[OVERALL], Throughput(ops/sec), 1.0
[READ], Operations, 2
[READ], AverageLatency(us), 1.0
[READ], MinLatency(us), 1.0
[READ], MaxLatency(us), 1.0
[READ], 50thPercentileLatency(us), 1.0
[READ], 95thPercentileLatency(us), 1.0
[READ], 99thPercentileLatency(us), 1.0
[READ], 99.9PercentileLatency(us), 1.0
[READ], Return=OK, 2
[Intended-READ], Operations, 2
";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("[UPDATE], Return=NOT_FOUND, 1\n"));
        assert!(!text.contains("[UPDATE], Operations"));
    }
}
