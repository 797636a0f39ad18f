//! The measurements of one size of values as a picture: a panel per measurement, a row per
//! structure, a bar per number of threads.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::args::{Distribution, Structure, Workload};
use crate::report::names::{is_ordered, name};
use crate::results::{Cell, Results, What};

// All in pixels.
const PANEL_WIDTH: i32 = 470;
const LABELS: i32 = 156;
const NUMBERS: i32 = 46;
const HEAD: i32 = 58;
const TITLE: i32 = 30;
const BAR: i32 = 10;
const ROW_GAP: i32 = 6;
const PANEL_GAP: i32 = 22;
const MARGIN: i32 = 16;

const INK: RGBColor = RGBColor(30, 41, 59);
const FAINT: RGBColor = RGBColor(100, 116, 139);
const GRID: RGBColor = RGBColor(226, 232, 240);

/// Shades for one, two and more threads.
const OURS: [RGBColor; 3] = [RGBColor(180, 83, 9), RGBColor(245, 158, 11), RGBColor(252, 211, 77)];
const ORDERED: [RGBColor; 3] =
    [RGBColor(51, 65, 85), RGBColor(148, 163, 184), RGBColor(203, 213, 225)];
const UNORDERED: [RGBColor; 3] =
    [RGBColor(15, 118, 110), RGBColor(94, 184, 174), RGBColor(178, 223, 219)];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Drawing into text does not fail, but the library's signatures allow an error.
type Drawn<T> = Result<T, Box<dyn std::error::Error>>;

/// A row: the structure and the measurement.
type Row = (Structure, Workload);

struct Panel {
    title: String,
    unit: &'static str,
    scale: f64,
    workload: Workload,
    distribution: Option<Distribution>,
}

/// The bars of a panel's row: for each, its place among the thread counts.
type Bars<'a> = Vec<(usize, &'a Cell)>;

/// The picture, as SVG.
pub(crate) fn plot(results: &Results, value_size: usize) -> Drawn<String> {
    let threads = threads(results);
    let panels = panels().into_iter().map(|panel| {
        let rows = rows(results, value_size, &panel);
        (panel, rows)
    });
    let panels: Vec<(Panel, Vec<Row>)> = panels.filter(|(_, rows)| !rows.is_empty()).collect();
    let heights = panels.chunks(2).map(|pair| {
        let heights = pair.iter().map(|(panel, rows)| height(panel, rows.len(), threads.len()));
        heights.max().unwrap_or(0)
    });
    let heights: Vec<i32> = heights.collect();
    let width = 2 * (MARGIN + PANEL_WIDTH) + PANEL_GAP;
    let all = HEAD + heights.iter().map(|height| height + PANEL_GAP).sum::<i32>();
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (width as u32, all as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("Keys of 8 bytes, values of {value_size} bytes");
    text(&root, &title, (MARGIN, 18), style(15, INK, FontStyle::Bold, HPos::Left))?;
    legend(&root, &threads)?;
    let mut top = HEAD;
    for (pair, height) in panels.chunks(2).zip(&heights) {
        for (column, (panel, rows)) in pair.iter().enumerate() {
            let left = MARGIN + column as i32 * (PANEL_WIDTH + PANEL_GAP);
            let bars = rows.iter().map(|row| bars(results, value_size, &threads, panel, *row));
            draw(&root, panel, rows, &bars.collect::<Vec<_>>(), threads.len(), (left, top))?;
        }
        top += height + PANEL_GAP;
    }
    root.present()?;
    drop(root);
    Ok(svg)
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

fn shades(structure: Structure) -> &'static [RGBColor; 3] {
    match structure {
        Structure::Latchwork | Structure::LatchworkTwo => &OURS,
        _ if is_ordered(structure) => &ORDERED,
        _ => &UNORDERED,
    }
}

fn style(size: i32, colour: RGBColor, face: FontStyle, across: HPos) -> TextStyle<'static> {
    let font = FontDesc::new(FontFamily::SansSerif, size.into(), face);
    font.color(&colour).pos(Pos::new(across, VPos::Center))
}

fn text(area: &Area<'_>, text: &str, at: (i32, i32), style: TextStyle<'_>) -> Drawn<()> {
    Ok(area.draw(&Text::new(text.to_owned(), at, style))?)
}

fn rectangle(
    area: &Area<'_>,
    (x, y): (i32, i32),
    (width, height): (i32, i32),
    shade: RGBColor,
) -> Drawn<()> {
    Ok(area.draw(&Rectangle::new([(x, y), (x + width, y + height)], shade.filled()))?)
}

fn line(area: &Area<'_>, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Drawn<()> {
    Ok(area.draw(&PathElement::new([from, to], colour))?)
}

fn legend(area: &Area<'_>, threads: &[usize]) -> Drawn<()> {
    let plain = || style(11, INK, FontStyle::Normal, HPos::Left);
    let (mut x, y) = (MARGIN, 36);
    for (i, count) in threads.iter().enumerate() {
        for shades in [&OURS, &ORDERED, &UNORDERED] {
            rectangle(area, (x, y), (10, BAR), shades[i.min(2)])?;
            x += 12;
        }
        let plural = if *count == 1 { "" } else { "s" };
        text(area, &format!("{count} thread{plural}"), (x + 3, y + BAR / 2), plain())?;
        x += 80;
    }
    for (shade, words) in [
        (OURS[0], "coherent over two compute nodes"),
        (ORDERED[0], "in memory, ordered"),
        (UNORDERED[0], "in memory, hashed"),
    ] {
        area.draw(&Circle::new((x + 5, y + BAR / 2), 4, shade.filled()))?;
        text(area, words, (x + 14, y + BAR / 2), plain())?;
        x += 30 + 62 * words.len() as i32 / 10;
    }
    Ok(())
}

fn bars<'r>(
    results: &'r Results,
    value_size: usize,
    threads: &[usize],
    panel: &Panel,
    (structure, workload): Row,
) -> Bars<'r> {
    let distribution = panel.distribution;
    let cell =
        |threads| results.cell(structure, What { value_size, threads, workload, distribution });
    match workload {
        Workload::Memory => cell(None).map(|cell| (0, cell)).into_iter().collect(),
        _ => {
            let counted = threads.iter().enumerate();
            counted.filter_map(|(i, &count)| Some((i, cell(Some(count))?))).collect()
        }
    }
}

/// The bars of a row, also where not all were measured.
fn slots(panel: &Panel, threads: usize) -> i32 {
    if panel.workload == Workload::Memory { 1 } else { threads as i32 }
}

fn height(panel: &Panel, rows: usize, threads: usize) -> i32 {
    TITLE + rows as i32 * (slots(panel, threads) * BAR + ROW_GAP) + 14
}

fn draw(
    area: &Area<'_>,
    panel: &Panel,
    rows: &[Row],
    bars: &[Bars<'_>],
    threads: usize,
    (left, top): (i32, i32),
) -> Drawn<()> {
    let most = bars.iter().flatten().map(|(_, cell)| cell.max / panel.scale).fold(0.0, f64::max);
    let (step, most) = axis(most);
    let across = f64::from(PANEL_WIDTH - LABELS - NUMBERS) / most;
    let (x0, y0) = (left + LABELS, top + TITLE);
    let row_height = slots(panel, threads) * BAR + ROW_GAP;
    let bottom = y0 + rows.len() as i32 * row_height;
    let bold = |size| style(size, INK, FontStyle::Bold, HPos::Left);
    text(area, &panel.title, (left, top + 8), bold(13))?;
    let unit = style(11, FAINT, FontStyle::Normal, HPos::Right);
    text(area, panel.unit, (left + PANEL_WIDTH, top + 8), unit)?;
    for tick in 0..=(most / step).round() as u32 {
        let value = f64::from(tick) * step;
        let x = x0 + (value * across).round() as i32;
        line(area, (x, y0), (x, bottom), GRID)?;
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let small = style(10, FAINT, FontStyle::Normal, HPos::Center);
        text(area, &format!("{value:.digits$}"), (x, bottom + 7), small)?;
    }
    for (row, (&(structure, workload), bars)) in rows.iter().zip(bars).enumerate() {
        let y = y0 + row as i32 * row_height + ROW_GAP / 2;
        let is_ours = structure <= Structure::LatchworkTwo;
        let face = if is_ours { FontStyle::Bold } else { FontStyle::Normal };
        let of_16 = if workload == Workload::Interleaved { ", 16 at once" } else { "" };
        let middle = y + slots(panel, threads) * BAR / 2;
        let label = style(11, INK, face, HPos::Right);
        text(area, &format!("{}{of_16}", name(structure)), (x0 - 6, middle), label)?;
        for &(i, cell) in bars {
            let shade = shades(structure)[i.min(2)];
            bar(area, cell, across / panel.scale, shade, (x0, y + i as i32 * BAR))?;
        }
        // The number of each bar stands behind its spread.
        for &(i, cell) in bars {
            let value = cell.median / panel.scale;
            let digits = if value < 9.995 { 2 } else { 1 };
            let end = cell.max.max(cell.median) / panel.scale * across;
            let at = (x0 + end.round() as i32 + 4, y + i as i32 * BAR + BAR / 2);
            let small = style(9, FAINT, FontStyle::Normal, HPos::Left);
            text(area, &format!("{value:.digits$}"), at, small)?;
        }
    }
    Ok(())
}

/// A bar with its spread.
fn bar(
    area: &Area<'_>,
    cell: &Cell,
    across: f64,
    shade: RGBColor,
    (x0, y): (i32, i32),
) -> Drawn<()> {
    let at = |value: f64| x0 + (value * across).round() as i32;
    rectangle(area, (x0, y), (at(cell.median) - x0, BAR - 1), shade)?;
    if cell.max > cell.min {
        let (from, to, middle) = (at(cell.min), at(cell.max), y + BAR / 2);
        line(area, (from, middle), (to, middle), INK)?;
        for end in [from, to] {
            line(area, (end, middle - 2), (end, middle + 2), INK)?;
        }
    }
    Ok(())
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
        )
        .expect("text takes everything");
        for shown in ["Point reads, uniform", "latchwork, 16 at once", "ferntree", "5.00"] {
            assert!(svg.lines().any(|line| line.trim() == shown), "{shown} is missing");
        }
        assert!(!svg.contains("congee") && !svg.contains("zipf"));
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }
}
