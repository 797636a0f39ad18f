//! The table of a matrix: for people in Markdown, for programs as CSV and JSON.

use std::collections::BTreeSet;

use latchwork_harness::{COLUMNS, folded};
use latchwork_report::histogram::LatencySummary;
use latchwork_report::result::{CheckOutcome, ResultDocument};
use latchwork_report::text::csv_line;
use serde_json::{Value, json};

use super::ran::Ran;
use super::spec::{Case, differing};

type Row<'a> = (&'a Case, Vec<Ran>);

/// The table in Markdown, with one line for each case.
pub(super) fn markdown(title: &str, cases: &[Case], rows: &[Row<'_>]) -> String {
    let keys = columns(cases);
    let mut text = format!("# {title}\n\n|");
    for key in &keys {
        text += &format!(" {key} |");
    }
    text += " operations/s | of which | p50 us | p99 us | checks | runs |\n|";
    text += &" --- |".repeat(keys.len());
    text += " ---: | --- | ---: | ---: | --- | --- |\n";
    for (case, runs) in rows {
        text.push('|');
        for key in &keys {
            text += &format!(" {} |", cell(&value(case, key)));
        }
        let Measured { throughput, kind, p50, p99, checks, state } = measured(runs);
        text += &format!(" {throughput} | {kind} | {p50} | {p99} | {checks} | {state} |\n");
    }
    let commits: BTreeSet<_> = documents(rows).map(|document| document.git.as_str()).collect();
    if commits.len() > 1 {
        let commits: Vec<_> = commits.into_iter().collect();
        text += &format!("\nThe programs are of several commits: {}.\n", commits.join(", "));
    }
    text
}

/// Whether a table fits a terminal.
pub(super) fn fits(markdown: &str) -> bool {
    markdown.lines().all(|line| line.chars().count() <= COLUMNS)
}

/// A list with a few lines for each case, for a terminal that is too narrow for the table.
pub(super) fn list(title: &str, rows: &[Row<'_>]) -> String {
    let mut text = format!("# {title}\n");
    for (case, runs) in rows {
        let Measured { throughput, kind, p50, p99, checks, state } = measured(runs);
        text += &format!(
            "\n{}\n  {throughput} operations/s; {kind} p50 {p50} us, p99 {p99} us\n  checks {checks}; runs {state}\n",
            case.name
        );
    }
    folded(&text)
}

fn documents<'a>(rows: &'a [Row<'_>]) -> impl Iterator<Item = &'a ResultDocument> {
    rows.iter().flat_map(|(_, runs)| runs).filter_map(|ran| ran.document.as_ref())
}

/// The columns: program, fabric, and each key in which cases differ.
fn columns(cases: &[Case]) -> Vec<String> {
    let mut keys = vec!["program".to_owned(), "fabric".to_owned()];
    keys.extend(differing(cases).into_iter().filter(|key| key != "program" && key != "fabric"));
    keys
}

fn value(case: &Case, key: &str) -> String {
    match key {
        "fabric" => case.run.fabric().name().to_owned(),
        key => case.label(key).unwrap_or_default().to_owned(),
    }
}

/// Text in a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The results of a case: medians over its successful runs.
struct Measured {
    throughput: String,
    kind: String,
    p50: String,
    p99: String,
    checks: String,
    state: String,
}

fn measured(runs: &[Ran]) -> Measured {
    let good: Vec<_> = runs.iter().filter(|ran| ran.is_good()).collect();
    let documents: Vec<_> = good.iter().filter_map(|ran| ran.document.as_ref()).collect();
    let number = |values: Vec<f64>, digits: usize| match spread(values) {
        None => "-".to_owned(),
        Some((middle, least, most)) if documents.len() > 1 => {
            format!("{middle:.digits$} ({least:.digits$} to {most:.digits$})")
        }
        Some((middle, ..)) => format!("{middle:.digits$}"),
    };
    let throughput =
        number(documents.iter().map(|document| document.throughput_ops_s).collect(), 0);
    let kinds: Vec<_> = documents.iter().filter_map(|document| commonest(document)).collect();
    let kind = kinds.first().map_or("-", |(kind, _)| kind);
    let of = |pick: fn(&LatencySummary) -> f64| {
        let all = kinds.iter().filter(|(name, _)| *name == kind);
        spread(all.map(|(_, latency)| pick(latency)).collect()).map(|(middle, ..)| middle)
    };
    let latency = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let (p50, p99) = (latency(of(|latency| latency.p50)), latency(of(|latency| latency.p99)));
    let checks = checks(runs);
    let state = match runs.iter().find(|ran| !ran.is_good()) {
        None => format!("{} good", runs.len()),
        Some(_) if runs.iter().all(|ran| ran.outcome.is_none()) => "not run".to_owned(),
        Some(bad) => {
            format!("**FAILED**, {} of {} good: {}", good.len(), runs.len(), cell(&bad.problem()))
        }
    };
    Measured { throughput, kind: kind.to_owned(), p50, p99, checks, state }
}

/// The outcomes of the checks of all runs.
fn checks(runs: &[Ran]) -> String {
    let documents: Vec<_> = runs.iter().filter_map(|ran| ran.document.as_ref()).collect();
    let failed: BTreeSet<_> = documents.iter().flat_map(|document| failed(document)).collect();
    let most = documents.iter().map(|document| document.checks.len()).max();
    match most {
        None => "-".to_owned(),
        Some(_) if !failed.is_empty() => {
            format!("**FAILED**: {}", failed.into_iter().collect::<Vec<_>>().join(", "))
        }
        Some(count) => format!("{count} ok"),
    }
}

fn failed(document: &ResultDocument) -> Vec<&str> {
    let bad = document.checks.iter().filter(|(_, outcome)| **outcome == CheckOutcome::Failed);
    bad.map(|(name, _)| name.as_str()).collect()
}

/// The most frequent kind of operation.
fn commonest(document: &ResultDocument) -> Option<(&str, LatencySummary)> {
    let real = document.latency_us.iter().filter(|(kind, _)| !kind.starts_with("Intended-"));
    let most = real.max_by_key(|(_, latency)| latency.count)?;
    Some((most.0, *most.1))
}

/// The median, the minimum and the maximum.
fn spread(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    let half = values.len() / 2;
    let middle = match values.len() % 2 {
        1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    };
    Some((middle, least, most))
}

/// A line for each run.
pub(super) fn csv(cases: &[Case], rows: &[Row<'_>]) -> String {
    let keys = columns(cases);
    let measures = [
        "run",
        "good",
        "status",
        "problem",
        "elapsed_s",
        "ops",
        "throughput_ops_s",
        "operation",
        "p50_us",
        "p99_us",
        "checks_ok",
        "checks_failed",
        "git",
    ];
    let mut text = csv_line(keys.iter().map(String::as_str).chain(measures));
    for (case, runs) in rows {
        for (number, ran) in runs.iter().enumerate() {
            let mut cells: Vec<String> = keys.iter().map(|key| value(case, key)).collect();
            let status = ran.outcome.as_ref().map(|outcome| outcome.status.to_string());
            let problem = if ran.is_good() { String::new() } else { ran.problem() };
            cells.extend([(number + 1).to_string(), ran.is_good().to_string()]);
            cells.extend([status.unwrap_or_default(), problem]);
            match &ran.document {
                None => cells.extend((0..9).map(|_| String::new())),
                Some(document) => {
                    let (kind, latency) = commonest(document).unzip();
                    let (kind, latency) = (kind.unwrap_or_default(), latency);
                    let number =
                        |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
                    let bad = failed(document);
                    cells.extend([document.elapsed_s.to_string(), document.ops.to_string()]);
                    cells.extend([document.throughput_ops_s.to_string(), kind.to_owned()]);
                    cells.extend([number(latency.map(|l| l.p50)), number(latency.map(|l| l.p99))]);
                    cells.push((document.checks.len() - bad.len()).to_string());
                    cells.extend([bad.join(" "), document.git.clone()]);
                }
            }
            text += &csv_line(cells.iter().map(String::as_str));
        }
    }
    text
}

/// All results.
pub(super) fn json(title: &str, rows: &[Row<'_>]) -> String {
    let run = |ran: &Ran| {
        json!({
            "good": ran.is_good(),
            "problem": (!ran.is_good()).then(|| ran.problem()),
            "run": ran.outcome,
            "document": ran.document,
        })
    };
    let case = |(case, runs): &Row<'_>| {
        let labels: serde_json::Map<_, _> = case
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), Value::from(value.clone())))
            .collect();
        json!({
            "name": case.name,
            "directory": case.directory(),
            "labels": labels,
            "runs": runs.iter().map(run).collect::<Vec<_>>(),
        })
    };
    let all = json!({ "title": title, "cases": rows.iter().map(case).collect::<Vec<_>>() });
    format!("{all:#}\n")
}
