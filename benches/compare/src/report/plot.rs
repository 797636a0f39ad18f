//! The measurements of one size of values as a picture: a panel per measurement, a row per
//! structure, a bar per number of threads.

use crate::args::{Distribution, Structure, Workload};
use crate::report::chart::{Bar, Drawn, Legend, MORE, OTHERS, OURS, Panel, Row, Shades, chart};
use crate::report::names::{is_ordered, name};
use crate::results::{Results, What};

/// What a panel shows.
struct Shown {
    title: String,
    unit: &'static str,
    scale: f64,
    workload: Workload,
    distribution: Option<Distribution>,
}

/// The picture, as SVG.
pub(crate) fn plot(results: &Results, value_size: usize) -> Drawn<String> {
    let threads = threads(results);
    let panels = panels().into_iter().map(|shown| {
        let slots = if shown.workload == Workload::Memory { 1 } else { threads.len() };
        let rows = rows(results, value_size, &threads, &shown);
        Panel { title: shown.title, unit: shown.unit, slots, rows }
    });
    let panels: Vec<Panel> = panels.filter(|panel| !panel.rows.is_empty()).collect();
    let kinds = [
        (&OURS, "coherent over two compute nodes"),
        (&OTHERS, "in memory, ordered"),
        (&MORE, "in memory, hashed"),
    ];
    let title = format!("Keys of 8 bytes, values of {value_size} bytes");
    chart(&title, &Legend { threads: &threads, kinds: &kinds }, &panels)
}

fn threads(results: &Results) -> Vec<usize> {
    let mut threads: Vec<usize> = results.cells.iter().filter_map(|cell| cell.threads).collect();
    threads.sort();
    threads.dedup();
    threads
}

/// All possible panels, in reading order.
fn panels() -> Vec<Shown> {
    use Distribution::{Uniform, Zipf};
    let panel = |title: &str, workload, distribution: Option<Distribution>| {
        let (unit, scale) = match workload {
            Workload::Memory => ("bytes per key, values included", 1.0),
            Workload::Scan => ("M entries/s", 1e6),
            _ => ("M/s", 1e6),
        };
        let title = match distribution {
            Some(distribution) => format!("{title}, {}", distribution.name()),
            None => title.to_owned(),
        };
        Shown { title, unit, scale, workload, distribution }
    };
    vec![
        panel("Load in random order", Workload::Load, None),
        panel("Memory", Workload::Memory, None),
        panel("Point reads", Workload::Read, Some(Uniform)),
        panel("Point reads", Workload::Read, Some(Zipf)),
        panel("Reads and updates, half of each", Workload::Update, Some(Uniform)),
        panel("Reads and updates, half of each", Workload::Update, Some(Zipf)),
        panel("Scans of 100", Workload::Scan, Some(Uniform)),
        panel("Scans of 100", Workload::Scan, Some(Zipf)),
    ]
}

/// The rows with a measurement. Interleaved reads stand among the reads.
fn rows(results: &Results, value_size: usize, threads: &[usize], shown: &Shown) -> Vec<Row> {
    let workloads: &[Workload] = match shown.workload {
        Workload::Read => &[Workload::Read, Workload::Interleaved],
        ref other => std::slice::from_ref(other),
    };
    let mut rows = Vec::new();
    for structure in results.structures() {
        for &workload in workloads {
            let bars = bars(results, value_size, threads, shown, (structure, workload));
            // The tables have this measurement; a label for it would not fit.
            let too_much = (Structure::LatchworkTwo, Workload::Interleaved);
            if bars.is_empty() || (structure, workload) == too_much {
                continue;
            }
            let of_16 = if workload == Workload::Interleaved { ", 16 at once" } else { "" };
            let label = format!("{}{of_16}", name(structure));
            let is_ours = structure <= Structure::LatchworkTwo;
            rows.push(Row { label, is_ours, shades: shades(structure), bars });
        }
    }
    rows
}

fn shades(structure: Structure) -> &'static Shades {
    match structure {
        Structure::Latchwork | Structure::LatchworkTwo => &OURS,
        _ if is_ordered(structure) => &OTHERS,
        _ => &MORE,
    }
}

fn bars(
    results: &Results,
    value_size: usize,
    threads: &[usize],
    shown: &Shown,
    (structure, workload): (Structure, Workload),
) -> Vec<Bar> {
    let distribution = shown.distribution;
    let bar = |slot, threads| {
        let what = What { value_size, threads, workload, distribution };
        let cell = results.cell(structure, what)?;
        let [median, min, max] = [cell.median, cell.min, cell.max].map(|rate| rate / shown.scale);
        Some(Bar { slot, median, min, max })
    };
    match workload {
        Workload::Memory => bar(0, None).into_iter().collect(),
        _ => (0..).zip(threads).filter_map(|(slot, count)| bar(slot, Some(*count))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn every_row_that_was_measured_is_drawn_and_others_are_not() {
        let svg = plot(
            &results(&[
                (Structure::Latchwork, Workload::Read, 0, 2e6),
                (Structure::Latchwork, Workload::Interleaved, 0, 5e6),
                (Structure::Ferntree, Workload::Read, 0, 3e6),
            ]),
            8,
        )
        .expect("text takes everything");
        for shown in ["Point reads, uniform", "latchwork, 16 at once", "ferntree", "5.00"] {
            assert!(svg.lines().any(|line| line.trim() == shown), "{shown} is missing");
        }
        assert!(!svg.contains("congee") && !svg.contains("zipf"));
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }
}
