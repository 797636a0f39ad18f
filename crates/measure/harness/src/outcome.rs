//! The outcome of a run: its checks, and the output of its results for people, for scripts and in a
//! document.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use latchwork_cluster::ClusterConfig;
use latchwork_engine::Counters;
use latchwork_report::conditions::Conditions;
use latchwork_report::histogram::Measured;
use latchwork_report::result::{CheckOutcome, NodeResult, RecoveryResult, ResultDocument};
use latchwork_runtime::Time;

use crate::{GIT, Limit, RunCluster, stop};

pub use crate::console::{
    is_for_people_only, print_for_people, print_progress, print_result, say, say_during_phase,
    say_folded, tell,
};
pub use crate::numbers::{many, short};

/// A check at the end of a run.
pub struct RunCheck {
    /// The check's name, in one word.
    pub name: &'static str,
    /// The check's outcome.
    pub outcome: CheckOutcome,
    /// A sentence about what the check found.
    pub detail: String,
}

impl RunCheck {
    /// A check with this outcome.
    pub fn new(name: &'static str, is_good: bool, detail: String) -> RunCheck {
        let outcome = if is_good { CheckOutcome::Ok } else { CheckOutcome::Failed };
        RunCheck { name, outcome, detail }
    }

    /// Whether the check found no error.
    pub fn is_good(&self) -> bool {
        self.outcome == CheckOutcome::Ok
    }

    fn word(&self) -> &'static str {
        if self.is_good() { "ok" } else { "FAILED" }
    }
}

/// The result document of a run on this cluster, with counters, checks and event hash. The program
/// adds its settings and its measurements. `counters` has the compute nodes, and behind them the
/// agents, whose counters are those of the memory nodes.
pub(crate) fn document(
    app: &str,
    cluster: &ClusterConfig,
    counters: &[Counters],
    checks: &[RunCheck],
    event_hash: Option<u64>,
) -> ResultDocument {
    let mut document = ResultDocument::new(app, env!("CARGO_PKG_VERSION"), GIT);
    document.stopped = stop::ended_early().map(|signal| signal.name().to_owned());
    document.event_hash = event_hash.map(|hash| format!("{hash:#018x}"));
    document.checks = checks.iter().map(|check| (check.name.to_owned(), check.outcome)).collect();
    document.counters = named(cluster, counters.iter().copied().sum());
    let (compute, agents) = counters.split_at(cluster.compute_nodes.min(counters.len()));
    let compute = compute
        .iter()
        .zip(1..)
        .map(|(counters, id)| node("compute", id, named(cluster, *counters)));
    let memory = (0..cluster.memory_nodes).map(|id| {
        let mut counted = agents.get(id).map(|agent| named(cluster, *agent)).unwrap_or_default();
        counted.insert("bytes".to_owned(), cluster.memory_bytes);
        node("memory", id as u64, counted)
    });
    document.nodes = compute.chain(memory).collect();
    document
}

fn named(cluster: &ClusterConfig, counters: Counters) -> BTreeMap<String, u64> {
    counters.entries(cluster.own_counts()).map(|(name, count)| (name.to_owned(), count)).collect()
}

fn node(role: &str, id: u64, counters: BTreeMap<String, u64>) -> NodeResult {
    NodeResult { role: role.to_owned(), id, counters, series: Vec::new() }
}

/// Writes one line for scripts for each check.
///
/// # Errors
/// When `out` fails.
pub fn write_check_lines(out: &mut dyn Write, checks: &[RunCheck]) -> io::Result<()> {
    checks.iter().try_for_each(|check| writeln!(out, "[CHECK], {}, {}", check.name, check.word()))
}

/// Writes one line for people for each check, with the finding.
///
/// # Errors
/// When `out` fails.
pub fn write_checks(out: &mut dyn Write, checks: &[RunCheck]) -> io::Result<()> {
    writeln!(out)?;
    for check in checks {
        writeln!(out, "check  {:<16} {:<6} {}", check.name, check.word(), check.detail)?;
    }
    writeln!(out)
}

/// Writes one line for people for each recovery, and one with the dead compute nodes of the run.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_recoveries(
    out: &mut dyn Write,
    recoveries: &[RecoveryResult],
    dead: &[String],
) -> io::Result<()> {
    for recovery in recoveries {
        let RecoveryResult { node, known_ms, swept_ms, longest_access_ms, .. } = recovery;
        let RecoveryResult { lines_released, lines_reverted, .. } = recovery;
        let swept = match swept_ms {
            Some(ms) => format!("swept {ms:.1} ms later"),
            None => "not swept".to_owned(),
        };
        let lines = match (lines_released, lines_reverted) {
            (Some(released), Some(reverted)) => format!("; lines: {released}, {reverted} reverted"),
            _ => String::new(),
        };
        let longest = longest_access_ms.unwrap_or_default();
        let known = known_ms / 1e3;
        writeln!(
            out,
            "death  {node} after {known:.2} s, {swept}; longest access {longest:.0} ms{lines}"
        )?;
    }
    if !dead.is_empty() {
        let dead = dead.join(", ");
        writeln!(out, "death  {dead}: their results are missing")?;
    }
    Ok(())
}

/// Writes a table of latencies in microseconds, with a row for each kind of operation that
/// occurred. A kind with latencies from intended starts has a second row.
///
/// # Errors
/// When `out` fails.
pub fn write_latencies(out: &mut dyn Write, measured: &[Measured]) -> io::Result<()> {
    let heads = ["count", "mean", "p50", "p95", "p99", "p99.9", "max"].map(str::to_owned);
    writeln!(out)?;
    row(out, "latency in us", &heads)?;
    for kind in measured {
        for (name, latency) in [(&*kind.name, kind.latency), ("  intended", kind.intended)] {
            let Some(l) = latency else { continue };
            let us = [l.mean, l.p50, l.p95, l.p99, l.p999, l.max].map(narrow_us);
            let cells = [vec![narrow(l.count)], us.to_vec()].concat();
            row(out, name, &cells)?;
        }
    }
    Ok(())
}

/// Writes the limit of a run, if it is known.
///
/// # Errors
/// When `out` fails.
pub fn write_limit(out: &mut dyn Write, limit: Option<&Limit>) -> io::Result<()> {
    limit.map_or(Ok(()), |limit| writeln!(out, "limit  {limit}"))
}

/// Writes the machines of a run and the core time of its workers. Adds a warning if the workers
/// waited too long for cores.
///
/// # Errors
/// When `out` fails.
pub fn write_conditions(out: &mut dyn Write, conditions: Option<&Conditions>) -> io::Result<()> {
    let Some(conditions) = conditions else { return Ok(()) };
    for machine in &conditions.machines {
        let mhz = machine.mhz.map_or(String::new(), |mhz| format!(" at {mhz:.0} MHz"));
        let (cpu, cores) = (&machine.cpu, many(machine.cores, "core"));
        let (load, steal) = (machine.load_before, 100.0 * machine.steal);
        writeln!(out, "host   {cpu}, {cores}{mhz}; load before {load:.2}, steal {steal:.1} %")?;
    }
    if conditions.workers.is_empty() {
        return Ok(());
    }
    let (on, off) = (100.0 * conditions.on_core(), 100.0 * conditions.kept_off());
    writeln!(
        out,
        "cores  workers ran for {on:.0} % of the time and waited for a core for {off:.1} %"
    )?;
    if conditions.is_crowded() {
        writeln!(
            out,
            "warning: the workers waited for a core for {off:.0} % of the time: other programs run, or there are \
             more workers than cores. The figures are not those of a free machine."
        )?;
    }
    Ok(())
}

/// Writes a row of the latency table, which has the width of a terminal.
fn row(out: &mut dyn Write, name: &str, cells: &[String]) -> io::Result<()> {
    write!(out, "{name:<17}")?;
    cells.iter().try_for_each(|cell| write!(out, " {cell:>7}"))?;
    writeln!(out)
}

/// A count as text of at most seven columns.
fn narrow(count: u64) -> String {
    if count < 10_000_000 { count.to_string() } else { narrow_large(count as f64) }
}

/// Microseconds as text of at most seven columns.
fn narrow_us(us: f64) -> String {
    match us {
        us if us < 9_999.995 => format!("{us:.2}"),
        us if us < 9_999_999.5 => format!("{us:.0}"),
        us => narrow_large(us),
    }
}

fn narrow_large(number: f64) -> String {
    match number {
        n if n < 999.95e6 => format!("{:.1} M", n / 1e6),
        n => format!("{:.1} G", n / 1e9),
    }
}

/// The figures of a simulated world at its end.
pub struct WorldEnd {
    /// The event hash of the world.
    pub event_hash: u64,
    /// The number of events.
    pub events: u64,
    /// The virtual time of the world.
    pub virtual_time: Duration,
    /// The real time of the simulation.
    pub real_time: Duration,
}

impl WorldEnd {
    /// The figures of the cluster's world. `None` if the cluster is not simulated. `real_time` is
    /// how long the simulation took.
    pub fn of(cluster: &RunCluster, real_time: Duration) -> Option<WorldEnd> {
        let RunCluster::Simulated(cluster) = cluster else { return None };
        let kernel = cluster.kernel();
        let (event_hash, events) = (kernel.event_hash(), kernel.events());
        Some(WorldEnd { event_hash, events, virtual_time: kernel.now() - Time::ZERO, real_time })
    }

    /// Writes the world in a line for people.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let (time, real) = (self.virtual_time.as_secs_f64(), self.real_time.as_secs_f64());
        writeln!(
            out,
            "world  {time:.3} s of virtual time, {} events in {real:.1} s, event hash {:#018x}",
            self.events, self.event_hash
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use latchwork_report::conditions::WorkerTime;
    use latchwork_report::histogram::Latencies;
    use latchwork_workload::ycsb::OperationKind;

    use super::*;

    fn text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).expect("memory");
        String::from_utf8(out).expect("text")
    }

    fn checks() -> [RunCheck; 2] {
        let check = |name, is_good| RunCheck::new(name, is_good, format!("about {name}"));
        [check("records", true), check("tree", false)]
    }

    #[test]
    fn checks_are_reported_to_scripts_and_to_people() {
        let lines = text(|out| write_check_lines(out, &checks()));
        assert_eq!(lines, "[CHECK], records, ok\n[CHECK], tree, FAILED\n");
        let table = text(|out| write_checks(out, &checks()));
        assert!(table.contains("check  tree             FAILED about tree\n"), "{table}");
    }

    #[test]
    fn a_run_without_cores_of_its_own_carries_a_warning() {
        let of = |run_delay_s| {
            let worker =
                WorkerTime { elapsed_s: 2.0, cpu_s: 1.0, run_delay_s, ..WorkerTime::default() };
            Conditions { workers: vec![worker], ..Conditions::default() }
        };
        let told =
            |conditions: Option<Conditions>| text(|out| write_conditions(out, conditions.as_ref()));
        let crowded = told(Some(of(0.86)));
        let line = "cores  workers ran for 50 % of the time and waited for a core for 43.0 %\n";
        let warning = "\nwarning: the workers waited for a core for 43 % of the time: ";
        assert!(crowded.starts_with(line) && crowded.contains(warning), "{crowded}");
        assert!(!told(Some(of(0.1))).contains("warning"));
        assert_eq!(told(None), "");
        assert_eq!(told(Some(Conditions::default())), "", "the system does not tell");
    }

    #[test]
    fn latencies_from_intended_starts_have_a_row_of_their_own() {
        let mut latencies = Latencies::new();
        let us = Duration::from_micros(1);
        latencies.record(OperationKind::Read, us, None);
        let rows = |latencies: &Latencies<_>| {
            text(|out| write_latencies(out, &latencies.measured())).trim_start().lines().count()
        };
        assert_eq!(rows(&latencies), 2, "the head and one kind");
        latencies.record(OperationKind::Read, us, Some(2 * us));
        assert_eq!(rows(&latencies), 3);
    }

    #[test]
    fn every_row_of_latencies_fits_a_terminal() {
        let mut latencies = Latencies::new();
        let long = Duration::from_secs(5_000_000);
        for us in [1, 999, 123_456, 99_999_999] {
            let us = Duration::from_micros(us);
            latencies.record(OperationKind::ReadModifyWrite, us, Some(long));
        }
        let table = text(|out| write_latencies(out, &latencies.measured()));
        let widths: Vec<_> = table.trim_start().lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [73; 3], "{table}");
        assert!(table.contains("READ-MODIFY-WRITE       4 "), "{table}");
        for (us, shown) in [(1.0, "1.00"), (9_999.994, "9999.99"), (9_999.996, "10000")] {
            assert_eq!(narrow_us(us), shown);
        }
        assert_eq!((narrow(9_999_999).len(), narrow(10_000_000).as_str()), (7, "10.0 M"));
        for us in [9_999_999.4, 9_999_999.6, 99.96e6, 999.94e6, 999.96e6, 999.9e9] {
            assert!(narrow_us(us).len() <= 7, "{}", narrow_us(us));
        }
    }

    #[test]
    fn a_document_has_all_nodes_and_what_they_counted_together() {
        let counters = Counters { cache_misses: 3, ..Counters::default() };
        let cluster = ClusterConfig { memory_nodes: 2, memory_bytes: 77, ..Default::default() };
        let document = document("test", &cluster, &[counters; 2], &checks(), Some(0xab));
        assert_eq!(document.event_hash.as_deref(), Some("0x00000000000000ab"));
        assert_eq!(document.counters["cache_misses"], 6);
        assert_eq!(document.checks["tree"], CheckOutcome::Failed);
        let nodes = document.nodes.iter().map(|node| (node.role.as_str(), node.id));
        let expected = [("compute", 1), ("compute", 2), ("memory", 0), ("memory", 1)];
        assert_eq!(nodes.collect::<Vec<_>>(), expected);
        assert_eq!(document.nodes[0].counters["cache_misses"], 3);
        assert_eq!(document.nodes[3].counters["bytes"], 77);
        assert_eq!(document.nodes[3].counters.len(), 1, "a memory node without an agent");
    }

    #[test]
    fn an_agent_counts_at_its_memory_node() {
        let cluster = ClusterConfig { memory_nodes: 2, ..Default::default() };
        let counted = |messages| Counters { messages, ..Counters::default() };
        let counters = [5, 6, 70, 80].map(counted);
        let document = document("test", &cluster, &counters, &checks(), None);
        assert_eq!(document.counters["messages"], 161);
        let of = |node: &NodeResult| (node.role.clone(), node.counters["messages"]);
        let expected = [("compute", 5), ("compute", 6), ("memory", 70), ("memory", 80)];
        let expected = expected.map(|(role, messages)| (role.to_owned(), messages));
        assert_eq!(document.nodes.iter().map(of).collect::<Vec<_>>(), expected);
        assert!(document.nodes[3].counters.contains_key("bytes"));
    }

    #[test]
    fn there_are_many_or_one() {
        assert_eq!([1, 2].map(|count| many(count, "worker")), ["1 worker", "2 workers"]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(812.4), "812");
        assert_eq!(short(34_120.0), "34.1 k");
        assert_eq!(short(2_456_000.0), "2.46 M");
        assert_eq!(short(1.2e9), "1.20 G");
    }
}
