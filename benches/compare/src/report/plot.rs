//! The measurements of one size of values as a picture: a panel per measurement, a row per
//! structure, a bar per number of threads.

use std::fmt::Write;

use crate::args::{Distribution, Structure, Workload};
use crate::report::names::{is_ordered, name};
use crate::results::{Cell, Results, What};

const PANEL_WIDTH: f64 = 470.0;
const LABELS: f64 = 156.0;
const NUMBERS: f64 = 46.0;
const HEAD: f64 = 58.0;
const TITLE: f64 = 30.0;
const BAR: f64 = 9.5;
const ROW_GAP: f64 = 6.0;
const PANEL_GAP: f64 = 22.0;
const MARGIN: f64 = 16.0;

/// Shades for one, two and more threads.
const OURS: [&str; 3] = ["#b45309", "#f59e0b", "#fcd34d"];
const ORDERED: [&str; 3] = ["#334155", "#94a3b8", "#cbd5e1"];
const UNORDERED: [&str; 3] = ["#0f766e", "#5eb8ae", "#b2dfdb"];

/// A row: the structure and the measurement.
type Row = (Structure, Workload);

struct Panel {
    title: String,
    unit: &'static str,
    scale: f64,
    workload: Workload,
    distribution: Option<Distribution>,
}

/// The picture, as SVG.
pub(crate) fn plot(results: &Results, value_size: usize) -> String {
    let threads = threads(results);
    let panels: Vec<(Panel, Vec<Row>)> = panels()
        .into_iter()
        .map(|panel| {
            let rows = rows(results, value_size, &panel);
            (panel, rows)
        })
        .filter(|(_, rows)| !rows.is_empty())
        .collect();
    let mut body = String::new();
    let mut top = HEAD;
    for pair in panels.chunks(2) {
        let mut height = 0.0_f64;
        for (column, (panel, rows)) in pair.iter().enumerate() {
            let left = MARGIN + column as f64 * (PANEL_WIDTH + PANEL_GAP);
            let drawn = draw(&mut body, results, value_size, &threads, panel, rows, (left, top));
            height = height.max(drawn);
        }
        top += height + PANEL_GAP;
    }
    let width = 2.0 * (MARGIN + PANEL_WIDTH) + PANEL_GAP;
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="11" fill="#1e293b">"##
    );
    let _ = writeln!(svg, r##"<rect width="{width}" height="{top}" fill="#ffffff"/>"##);
    let _ = writeln!(
        svg,
        r#"<text x="{MARGIN}" y="24" font-size="15" font-weight="600">Keys of 8 bytes, values of {value_size} bytes</text>"#
    );
    legend(&mut svg, &threads);
    svg + &body + "</svg>\n"
}

fn threads(results: &Results) -> Vec<usize> {
    let mut threads: Vec<usize> = results.cells.iter().filter_map(|cell| cell.threads).collect();
    threads.sort();
    threads.dedup();
    threads
}

/// All possible panels, in reading order.
fn panels() -> Vec<Panel> {
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
        Panel { title, unit, scale, workload, distribution }
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
fn rows(results: &Results, value_size: usize, panel: &Panel) -> Vec<Row> {
    let mut rows = Vec::new();
    for structure in results.structures() {
        let workloads: &[Workload] = match panel.workload {
            Workload::Read => &[Workload::Read, Workload::Interleaved],
            ref other => std::slice::from_ref(other),
        };
        for &workload in workloads {
            let there = results.cells.iter().any(|cell| {
                cell.structure == structure
                    && cell.value_size == value_size
                    && cell.workload == workload
                    && cell.distribution == panel.distribution
            });
            // The tables have this measurement; a label for it would not fit.
            let too_much = (Structure::LatchworkTwo, Workload::Interleaved);
            if there && (structure, workload) != too_much {
                rows.push((structure, workload));
            }
        }
    }
    rows
}

fn shades(structure: Structure) -> &'static [&'static str; 3] {
    match structure {
        Structure::Latchwork | Structure::LatchworkTwo => &OURS,
        _ if is_ordered(structure) => &ORDERED,
        _ => &UNORDERED,
    }
}

fn legend(svg: &mut String, threads: &[usize]) {
    let mut x = MARGIN;
    let y = 36.0;
    for (i, count) in threads.iter().enumerate() {
        for shades in [&OURS, &ORDERED, &UNORDERED] {
            let shade = shades[i.min(2)];
            let _ = writeln!(
                svg,
                r#"<rect x="{x}" y="{y}" width="10" height="{BAR}" rx="1.5" fill="{shade}"/>"#
            );
            x += 12.0;
        }
        let plural = if *count == 1 { "" } else { "s" };
        let _ =
            writeln!(svg, r#"<text x="{}" y="{}">{count} thread{plural}</text>"#, x + 3.0, y + 8.0);
        x += 80.0;
    }
    for (shade, words) in [
        (OURS[0], "coherent over two compute nodes"),
        (ORDERED[0], "in memory, ordered"),
        (UNORDERED[0], "in memory, hashed"),
    ] {
        let _ =
            writeln!(svg, r#"<circle cx="{}" cy="{}" r="4.5" fill="{shade}"/>"#, x + 5.0, y + 4.0);
        let _ = writeln!(svg, r#"<text x="{}" y="{}">{words}</text>"#, x + 14.0, y + 8.0);
        x += 30.0 + 6.2 * words.len() as f64;
    }
}

/// Draws a panel, and returns its height.
fn draw(
    svg: &mut String,
    results: &Results,
    value_size: usize,
    threads: &[usize],
    panel: &Panel,
    rows: &[Row],
    (left, top): (f64, f64),
) -> f64 {
    let bars: Vec<Vec<(usize, &Cell)>> = rows
        .iter()
        .map(|&(structure, workload)| {
            let what =
                |threads| What { value_size, threads, workload, distribution: panel.distribution };
            if workload == Workload::Memory {
                return results
                    .cell(structure, what(None))
                    .map(|cell| (0, cell))
                    .into_iter()
                    .collect();
            }
            let cell = |(i, count): (usize, &usize)| {
                Some((i, results.cell(structure, what(Some(*count)))?))
            };
            threads.iter().enumerate().filter_map(cell).collect()
        })
        .collect();
    let most = bars.iter().flatten().map(|(_, cell)| cell.max / panel.scale).fold(0.0, f64::max);
    let (step, most) = axis(most);
    let across = (PANEL_WIDTH - LABELS - NUMBERS) / most;
    let (x0, y0) = (left + LABELS, top + TITLE);
    let slots = if panel.workload == Workload::Memory { 1 } else { threads.len() };
    let row_height = slots as f64 * BAR + ROW_GAP;
    let height = rows.len() as f64 * row_height;
    let _ = writeln!(
        svg,
        r##"<text x="{left}" y="{}" font-weight="600" font-size="12.5">{}<tspan dx="7" font-weight="400" font-size="11" fill="#64748b">{}</tspan></text>"##,
        top + 12.0,
        panel.title,
        panel.unit
    );
    let mut tick = 0.0;
    while tick <= most + step / 2.0 {
        let x = x0 + tick * across;
        let _ = writeln!(
            svg,
            r##"<line x1="{x:.1}" x2="{x:.1}" y1="{y0}" y2="{:.1}" stroke="#e2e8f0"/><text x="{x:.1}" y="{:.1}" text-anchor="middle" font-size="9.5" fill="#64748b">{tick}</text>"##,
            y0 + height,
            y0 + height + 11.0
        );
        tick += step;
    }
    for (row, (&(structure, workload), bars)) in rows.iter().zip(&bars).enumerate() {
        let y = y0 + row as f64 * row_height + ROW_GAP / 2.0;
        let weight = if structure <= Structure::LatchworkTwo { 600 } else { 400 };
        let of_16 = if workload == Workload::Interleaved { ", 16 at once" } else { "" };
        let _ = writeln!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="end" font-weight="{weight}">{}{of_16}</text>"#,
            x0 - 6.0,
            y + slots as f64 * BAR / 2.0 + 4.0,
            name(structure)
        );
        for &(i, cell) in bars {
            let y = y + if slots == 1 { 0.0 } else { i as f64 * BAR };
            bar(svg, cell, panel.scale, across, shades(structure)[i.min(2)], (x0, y));
        }
    }
    TITLE + height + 14.0
}

/// A bar with its spread and its number.
fn bar(svg: &mut String, cell: &Cell, scale: f64, across: f64, shade: &str, (x0, y): (f64, f64)) {
    let at = |value: f64| value / scale * across;
    let middle = y + BAR / 2.0 - 0.5;
    let _ = writeln!(
        svg,
        r#"<rect x="{x0:.1}" y="{y:.1}" width="{:.1}" height="{:.1}" rx="1.5" fill="{shade}"/>"#,
        at(cell.median),
        BAR - 1.0
    );
    if cell.max > cell.min {
        let (from, to) = (x0 + at(cell.min), x0 + at(cell.max));
        let _ = writeln!(
            svg,
            r##"<path d="M{from:.1} {middle:.1}H{to:.1}M{from:.1} {:.1}v4M{to:.1} {:.1}v4" stroke="#0f172a" stroke-width="0.8" fill="none"/>"##,
            middle - 2.0,
            middle - 2.0
        );
    }
    let value = cell.median / scale;
    let digits = if value < 9.995 { 2 } else { 1 };
    let _ = writeln!(
        svg,
        r##"<text x="{:.1}" y="{:.1}" font-size="9" fill="#475569">{value:.digits$}</text>"##,
        x0 + at(cell.max.max(cell.median)) + 4.0,
        middle + 3.2
    );
}

/// A step of 1, 2 or 5 times a power of ten, and the last tick, for an axis up to `most`.
fn axis(most: f64) -> (f64, f64) {
    let most = most.max(1e-3);
    let mut decade = 1e-6;
    loop {
        for step in [1.0, 2.0, 5.0].map(|step| step * decade) {
            if most <= 6.0 * step {
                return (step, (most / step).ceil() * step);
            }
        }
        decade *= 10.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn an_axis_ends_at_or_beyond_the_largest_value_with_few_ticks() {
        for most in [0.02, 0.9, 1.0, 2.4, 7.3, 11.9, 160.0, 950.0] {
            let (step, end) = axis(most);
            assert!(end >= most && end < most + step * 1.001, "{most}: {step} {end}");
            assert!((2.0..=6.0).contains(&(end / step).round()), "{most}: {step} {end}");
        }
    }

    #[test]
    fn every_row_that_was_measured_is_drawn_and_others_are_not() {
        let svg = plot(
            &results(&[
                (Structure::Latchwork, Workload::Read, 0, 2e6),
                (Structure::Latchwork, Workload::Interleaved, 0, 5e6),
                (Structure::Ferntree, Workload::Read, 0, 3e6),
            ]),
            8,
        );
        for shown in ["Point reads, uniform", "latchwork, 16 at once", ">ferntree<", ">5.00<"] {
            assert!(svg.contains(shown), "{shown} is missing");
        }
        assert!(!svg.contains("congee") && !svg.contains("zipf"));
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }
}
