//! The tables, the targets and the document.

use std::fmt::Write;

use serde_json::{Value, json};

use super::args::SpatialArgs;
use super::plot;
use super::results::{Cell, Results, What};
use super::subject::{Built, Structure, Work};
use crate::error::Failure;
use crate::report::tables::{Marks, conditions, versions_of};
use crate::report::targets::Target;
use crate::report::{Outputs, save_plot};

const MARKS: Marks =
    Marks { begin: "<!-- measured spatial: begin -->", end: "<!-- measured spatial: end -->" };
const CRATES: [&str; 2] = ["rstar", "static_aabb2d_index"];

fn outputs(args: &SpatialArgs) -> Outputs<'_> {
    let (json, markdown, plot) =
        (args.json.as_deref(), args.markdown.as_deref(), args.plot.as_deref());
    Outputs { json, markdown, plot, marks: MARKS }
}

/// Checks that the outputs can be written.
pub(crate) fn check_outputs(args: &SpatialArgs) -> Result<(), Failure> {
    outputs(args).check()
}

/// Writes all requested outputs; the tables go to standard output as well.
pub(crate) fn write(args: &SpatialArgs, results: &Results) -> Result<(), Failure> {
    let outputs = outputs(args);
    let tables = tables(args, results);
    let lines: Vec<String> = targets(results).iter().map(Target::line).collect();
    outputs.print(&tables, if args.check_targets { &lines } else { &[] });
    outputs.save_tables(&tables)?;
    if let Some(path) = outputs.plot {
        save_plot(path, plot::plot(args, results))?;
    }
    outputs.save_document(&document(args, results))
}

/// All targets with their measurements.
fn targets(results: &Results) -> Vec<Target> {
    use Structure::{Latchwork, LatchworkTwo, Rstar, Static};
    let mut all = Vec::new();
    let mut at_least = |words: String, wanted: f64, ours: (Structure, What), theirs| {
        if let Some(got) = results.ratio(ours, theirs) {
            let wanted_words = format!(">= {wanted:.1}");
            all.push(Target { what: words, wanted: wanted_words, got, met: got >= wanted });
        }
    };
    let packed = |work, threads| What { built: Built::Packed, threads, work };
    let grown = |work| What { built: Built::Grown, threads: 1, work };
    for work in Work::QUERIES {
        let what = packed(work, 1);
        let name = work.name().replace(',', "");
        at_least(format!("{name} to rstar"), 2.0, (Latchwork, what), (Rstar, what));
        if matches!(work, Work::Few | Work::Some | Work::Many) {
            let words = format!("{name} to static_aabb2d_index");
            at_least(words, 1.0, (Latchwork, what), (Static, what));
        }
    }
    for work in [Work::Insert, Work::Remove] {
        let words = format!("{} to rstar", work.name());
        at_least(words, 4.0, (Latchwork, grown(work)), (Rstar, grown(work)));
    }
    let load = packed(Work::Load, 1);
    at_least("load to static_aabb2d_index".to_owned(), 1.0, (Latchwork, load), (Static, load));
    for work in Work::QUERIES {
        let (one, two, name) = (packed(work, 1), packed(work, 2), work.name().replace(',', ""));
        at_least(format!("{name} two threads to one"), 1.9, (Latchwork, two), (Latchwork, one));
        at_least(format!("{name} two nodes to one"), 1.9, (LatchworkTwo, two), (Latchwork, one));
    }
    if let Some(cell) = results.cell(Latchwork, grown(Work::Memory)) {
        let (what, wanted) = ("bytes of pages per byte of entries".to_owned(), "<= 1.6".to_owned());
        all.push(Target { what, wanted, got: cell.median, met: cell.median <= 1.6 });
    }
    all
}

fn tables(args: &SpatialArgs, results: &Results) -> String {
    let mut text = format!(
        "Medians (least to most) of {} repetitions of {} ms with {} boxes, lines of {} bytes.\n",
        args.repeats, args.time_ms, args.boxes, args.line_size,
    );
    text += &conditions(&results.machine, &versions_of(&CRATES));
    for (built, threads) in [(Built::Packed, 1), (Built::Packed, 2), (Built::Grown, 1)] {
        let of = if built == Built::Packed { "loaded at once" } else { "grown by inserts" };
        let plural = if threads == 1 { "" } else { "s" };
        let _ = write!(text, "\n### Boxes {of}, {threads} thread{plural}\n\n");
        text += &rates(results, built, threads);
    }
    let memory = What { built: Built::Grown, threads: 1, work: Work::Memory };
    for (built, words) in [(Built::Packed, "loaded at once"), (Built::Grown, "grown by inserts")] {
        if let Some(cell) = results.cell(Structure::Latchwork, What { built, ..memory }) {
            let ratio = cell.median;
            let _ = write!(text, "\nPages {words} take {ratio:.2} bytes per byte of entries.\n");
        }
    }
    text += "\n### Targets\n\n| target | wanted | got | |\n| --- | ---: | ---: | --- |\n";
    for Target { what, wanted, got, met } in targets(results) {
        let end = if met { "met" } else { "missed" };
        let _ = writeln!(text, "| {what} | {wanted} | {got:.2} | {end} |");
    }
    text
}

/// A table with measurements as rows and structures as columns.
fn rates(results: &Results, built: Built, threads: usize) -> String {
    let here = |cell: &&Cell| {
        (cell.what.built, cell.what.threads) == (built, threads) && cell.what.work != Work::Memory
    };
    let cells: Vec<&Cell> = results.cells.iter().filter(here).collect();
    let mut structures: Vec<Structure> = cells.iter().map(|cell| cell.structure).collect();
    structures.sort();
    structures.dedup();
    let mut works: Vec<Work> = cells.iter().map(|cell| cell.what.work).collect();
    works.sort();
    works.dedup();
    let mut text = String::from("| M/s |");
    for structure in &structures {
        let strong = if structure.is_ours() { "**" } else { "" };
        let _ = write!(text, " {strong}{}{strong} |", structure.name());
    }
    text += &format!("\n| --- |{}\n", " ---: |".repeat(structures.len()));
    for work in works {
        let _ = write!(text, "| {} |", work.name());
        for structure in &structures {
            let what = What { built, threads, work };
            match results.cell(*structure, what) {
                Some(cell) => _ = write!(text, " {} |", spread(cell)),
                None => text += " |",
            }
        }
        text += "\n";
    }
    text
}

/// Millions per second.
fn spread(cell: &Cell) -> String {
    let digits = if cell.median < 1e5 { 4 } else { 3 };
    let millions = |rate: f64| format!("{:.digits$}", rate / 1e6);
    format!("{} ({} to {})", millions(cell.median), millions(cell.min), millions(cell.max))
}

fn document(args: &SpatialArgs, results: &Results) -> String {
    let targets: Vec<Value> = targets(results).iter().map(Target::document).collect();
    let document = json!({
        "schema": 1,
        "app": "compare spatial",
        "version": env!("CARGO_PKG_VERSION"),
        "machine": results.machine,
        "config": {
            "boxes": args.boxes,
            "repeats": args.repeats,
            "time_ms": args.time_ms,
            "line_size": args.line_size,
            "seed": args.seed,
        },
        "crates": versions_of(&CRATES),
        "units": { "memory": "bytes of pages/byte of entries", "other": "operations/s" },
        "cells": results.cells,
        "targets": targets,
    });
    format!("{document:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn targets_compare_medians_and_tables_have_all_cells() {
        let mut results = Results::new(Machine::look());
        let packed = |work| What { built: Built::Packed, threads: 1, work };
        results.add(Structure::Latchwork, packed(Work::Some), 3e5);
        results.add(Structure::Rstar, packed(Work::Some), 1e5);
        results.add(Structure::Static, packed(Work::Some), 4e5);
        let memory = What { built: Built::Grown, threads: 1, work: Work::Memory };
        results.add(Structure::Latchwork, memory, 1.5);
        let lines: Vec<String> = targets(&results).iter().map(Target::line).collect();
        let expected = [
            "window 110 hits to rstar, >= 2.0, 3.00, met",
            "window 110 hits to static_aabb2d_index, >= 1.0, 0.75, missed",
            "bytes of pages per byte of entries, <= 1.6, 1.50, met",
        ];
        assert_eq!(lines, expected);
        let table = rates(&results, Built::Packed, 1);
        assert!(table.contains("| window, 110 hits | 0.300 (0.300 to 0.300) | 0.100"), "{table}");
    }
}
