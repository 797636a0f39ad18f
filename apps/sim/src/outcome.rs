//! The outcome of one world or of many, for people and as a document.

use std::fmt::Write as _;
use std::time::Duration;

use latchwork_files::Output;
use latchwork_harness::outcome::{self, short};
use latchwork_harness::{AppError, folded};
use latchwork_hunt::{Scenario, Totals, WorldReport};
use latchwork_report::result::{CheckOutcome, ResultDocument, ResultPhase};
use serde_json::Value;

use crate::world::in_a_line;

/// A world's report, in lines.
pub(crate) fn report_lines(scenario: &Scenario, report: &WorldReport, real: Duration) -> String {
    let mut totals = Totals::default();
    totals.add(scenario, report);
    let mut text = String::new();
    let _ = writeln!(text, "world       {}", in_a_line(scenario));
    let _ = writeln!(text, "event hash  {:#018x}", report.hash);
    text += &counts(&totals, real);
    let _ = match &report.failure {
        None => writeln!(text, "checks      ok"),
        Some(failure) => writeln!(text, "checks      FAILED: {failure}"),
    };
    folded(&text)
}

/// The totals of many worlds, in lines.
pub(crate) fn counts(totals: &Totals, real: Duration) -> String {
    let mut text = String::new();
    let seconds = real.as_secs_f64();
    let per_s = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let _ = writeln!(
        text,
        "events      {}: {}/s",
        short(totals.events as f64),
        short(per_s(totals.events))
    );
    let _ = writeln!(
        text,
        "verbs       {}: {}/s",
        short(totals.verbs as f64),
        short(per_s(totals.verbs))
    );
    let virtual_s = totals.virtual_time.as_secs_f64();
    let _ = writeln!(text, "time        {seconds:.3} s, virtual {virtual_s:.6} s");
    let _ = writeln!(
        text,
        "operations  {}, and {} that ended in an error that faults explain",
        totals.operations, totals.clean_errors
    );
    if totals.undecided > 0 {
        let keys = totals.undecided;
        let _ = writeln!(text, "undecided   {keys} keys: too many of their calls overlap to judge");
    }
    let _ = writeln!(text, "faults      {}", struck(totals));
    text
}

/// The number of injected faults of each kind, in a line.
pub(crate) fn struck(totals: &Totals) -> String {
    let some = totals.struck().into_iter().filter(|(_, count)| *count > 0);
    let words: Vec<String> = some.map(|(name, count)| format!("{name} {count}")).collect();
    if words.is_empty() { "none struck".to_owned() } else { words.join("; ") }
}

/// The document of one world.
pub(crate) fn world_document(
    scenario: &Scenario,
    report: &WorldReport,
    real: Duration,
) -> ResultDocument {
    let mut totals = Totals::default();
    totals.add(scenario, report);
    let mut document = document(&totals, real);
    document.event_hash = Some(format!("{:#018x}", report.hash));
    document.config = describe(scenario);
    let (name, outcome) = match &report.failure {
        None => ("world".to_owned(), CheckOutcome::Ok),
        Some(failure) => (failure.check.to_string(), CheckOutcome::Failed),
    };
    document.checks.insert(name, outcome);
    document
}

/// The document of many worlds, without settings and without the outcomes of checks.
pub(crate) fn document(totals: &Totals, real: Duration) -> ResultDocument {
    let version = env!("CARGO_PKG_VERSION");
    let mut document = ResultDocument::new("sim", version, latchwork_harness::GIT);
    document.set_measured(&ResultPhase::new(totals.operations, real.as_secs_f64()), &[]);
    let virtual_ns = u64::try_from(totals.virtual_time.as_nanos()).unwrap_or(u64::MAX);
    let counters = [
        ("worlds", totals.worlds),
        ("worlds_with_faults", totals.with_faults),
        ("events", totals.events),
        ("verbs", totals.verbs),
        ("virtual_time_ns", virtual_ns),
        ("clean_errors", totals.clean_errors),
        ("undecided", totals.undecided),
    ];
    let counters = counters.map(|(name, count)| (name.to_owned(), count));
    let struck = totals.struck().map(|(name, count)| (counter_name("fault", name), count));
    let kinds = totals.by_workload.iter();
    let kinds = kinds.map(|(name, count)| (counter_name("worlds", name), *count));
    document.counters = counters.into_iter().chain(struck).chain(kinds).collect();
    document
}

fn counter_name(family: &str, name: &str) -> String {
    format!("{family}_{}", name.replace(", ", "_").replace(' ', "_"))
}

/// A scenario as keys and values.
pub(crate) fn describe(scenario: &Scenario) -> std::collections::BTreeMap<String, Value> {
    match serde_json::to_value(scenario) {
        Ok(Value::Object(entries)) => entries.into_iter().collect(),
        _ => std::collections::BTreeMap::new(),
    }
}

/// Prints text for people on standard output. If standard output carries the document, the text
/// goes to standard error.
pub(crate) fn tell(text: &str, document: Option<&Output>) -> Result<(), AppError> {
    outcome::tell(document, |out| out.write_all(text.as_bytes()))
}
