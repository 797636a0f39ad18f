//! A picture of panels with bars: a row per structure, a bar per number of threads.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

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

/// The colours of bars for one, two and more threads.
pub(crate) type Shades = [RGBColor; 3];

/// Structures that are coherent over two compute nodes.
pub(crate) const OURS: Shades =
    [RGBColor(180, 83, 9), RGBColor(245, 158, 11), RGBColor(252, 211, 77)];
/// Structures in memory.
pub(crate) const OTHERS: Shades =
    [RGBColor(51, 65, 85), RGBColor(148, 163, 184), RGBColor(203, 213, 225)];
/// A second kind of structures in memory.
pub(crate) const MORE: Shades =
    [RGBColor(15, 118, 110), RGBColor(94, 184, 174), RGBColor(178, 223, 219)];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Drawing into text does not fail, but the library's signatures allow an error.
pub(crate) type Drawn<T> = Result<T, Box<dyn std::error::Error>>;

/// A bar with its spread, in the unit of its panel.
pub(crate) struct Bar {
    /// The place among the thread counts.
    pub(crate) slot: usize,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) is_ours: bool,
    pub(crate) shades: &'static Shades,
    pub(crate) bars: Vec<Bar>,
}

pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    /// The bars of a row, also where not all were measured.
    pub(crate) slots: usize,
    pub(crate) rows: Vec<Row>,
}

pub(crate) struct Legend<'a> {
    pub(crate) threads: &'a [usize],
    pub(crate) kinds: &'a [(&'static Shades, &'static str)],
}

/// The picture, as SVG.
pub(crate) fn chart(title: &str, legend: &Legend<'_>, panels: &[Panel]) -> Drawn<String> {
    let heights = panels.chunks(2).map(|pair| pair.iter().map(height).max().unwrap_or(0));
    let heights: Vec<i32> = heights.collect();
    let width = 2 * (MARGIN + PANEL_WIDTH) + PANEL_GAP;
    let all = HEAD + heights.iter().map(|height| height + PANEL_GAP).sum::<i32>();
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (width as u32, all as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    text(&root, title, (MARGIN, 18), style(15, INK, FontStyle::Bold, HPos::Left))?;
    draw_legend(&root, legend)?;
    let mut top = HEAD;
    for (pair, height) in panels.chunks(2).zip(&heights) {
        for (column, panel) in pair.iter().enumerate() {
            let left = MARGIN + column as i32 * (PANEL_WIDTH + PANEL_GAP);
            draw(&root, panel, (left, top))?;
        }
        top += height + PANEL_GAP;
    }
    root.present()?;
    drop(root);
    Ok(svg)
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

fn draw_legend(area: &Area<'_>, legend: &Legend<'_>) -> Drawn<()> {
    let plain = || style(11, INK, FontStyle::Normal, HPos::Left);
    let (mut x, y) = (MARGIN, 36);
    for (i, count) in legend.threads.iter().enumerate() {
        for (shades, _) in legend.kinds {
            rectangle(area, (x, y), (10, BAR), shades[i.min(2)])?;
            x += 12;
        }
        let plural = if *count == 1 { "" } else { "s" };
        text(area, &format!("{count} thread{plural}"), (x + 3, y + BAR / 2), plain())?;
        x += 80;
    }
    for (shades, words) in legend.kinds {
        area.draw(&Circle::new((x + 5, y + BAR / 2), 4, shades[0].filled()))?;
        text(area, words, (x + 14, y + BAR / 2), plain())?;
        x += 30 + 62 * words.len() as i32 / 10;
    }
    Ok(())
}

fn height(panel: &Panel) -> i32 {
    TITLE + panel.rows.len() as i32 * row_height(panel) + 14
}

fn row_height(panel: &Panel) -> i32 {
    panel.slots as i32 * BAR + ROW_GAP
}

fn draw(area: &Area<'_>, panel: &Panel, (left, top): (i32, i32)) -> Drawn<()> {
    let most = panel.rows.iter().flat_map(|row| &row.bars).map(|bar| bar.max).fold(0.0, f64::max);
    let (step, most) = axis(most);
    let across = f64::from(PANEL_WIDTH - LABELS - NUMBERS) / most;
    let (x0, y0) = (left + LABELS, top + TITLE);
    let bottom = y0 + panel.rows.len() as i32 * row_height(panel);
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
    for (number, row) in panel.rows.iter().enumerate() {
        let y = y0 + number as i32 * row_height(panel) + ROW_GAP / 2;
        let face = if row.is_ours { FontStyle::Bold } else { FontStyle::Normal };
        let middle = y + panel.slots as i32 * BAR / 2;
        let label = style(11, INK, face, HPos::Right);
        text(area, &row.label, (x0 - 6, middle), label)?;
        for bar in &row.bars {
            let shade = row.shades[bar.slot.min(2)];
            draw_bar(area, bar, across, shade, (x0, y + bar.slot as i32 * BAR))?;
        }
        // The number of each bar stands behind its spread.
        for bar in &row.bars {
            let value = bar.median;
            let digits = if value < 0.0995 {
                4
            } else if value < 9.995 {
                2
            } else {
                1
            };
            let end = bar.max.max(bar.median) * across;
            let at = (x0 + end.round() as i32 + 4, y + bar.slot as i32 * BAR + BAR / 2);
            let small = style(9, FAINT, FontStyle::Normal, HPos::Left);
            text(area, &format!("{value:.digits$}"), at, small)?;
        }
    }
    Ok(())
}

/// A bar with its spread.
fn draw_bar(
    area: &Area<'_>,
    bar: &Bar,
    across: f64,
    shade: RGBColor,
    (x0, y): (i32, i32),
) -> Drawn<()> {
    let at = |value: f64| x0 + (value * across).round() as i32;
    rectangle(area, (x0, y), (at(bar.median) - x0, BAR - 1), shade)?;
    if bar.max > bar.min {
        let (from, to, middle) = (at(bar.min), at(bar.max), y + BAR / 2);
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

    #[test]
    fn an_axis_ends_at_or_beyond_the_largest_value_with_few_ticks() {
        for most in [0.02, 0.9, 1.0, 2.4, 7.3, 11.9, 160.0, 950.0] {
            let (step, end) = axis(most);
            assert!(end >= most && end < most + step * 1.001, "{most}: {step} {end}");
            assert!((2.0..=6.0).contains(&(end / step).round()), "{most}: {step} {end}");
        }
    }
}
