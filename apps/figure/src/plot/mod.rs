//! Rows as a picture, in SVG.

mod axis;
mod chart;
mod table;

pub(crate) use table::Table;

use plotters::prelude::{RGBColor, SVGBackend};

use crate::error::{Result, wrong};
use crate::rows::Row;
use crate::spec::{PlotKind, Spec};

type Area<'a> = plotters::drawing::DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
/// Drawing into text does not fail, but the library's signatures allow an error.
type Drawn<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Colours that all readers can distinguish (Okabe and Ito, 2008), and some more.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(188, 189, 34),
];
const INK: RGBColor = RGBColor(30, 41, 59);
const FAINT: RGBColor = RGBColor(100, 116, 139);
const FONT: &str = "sans-serif";

fn colour(series: usize) -> RGBColor {
    COLOURS[series % COLOURS.len()]
}

/// The picture of the rows that the figure draws.
///
/// # Errors
/// When there are none, when two rows have the same position, or when a row has no number there.
pub(crate) fn draw(spec: &Spec, rows: &[Row]) -> Result<String> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.is(&spec.plot.only)).collect();
    if rows.is_empty() {
        return wrong("plot", "`only` selects no point");
    }
    match spec.plot.kind {
        PlotKind::Table => table::draw(spec, &rows),
        PlotKind::Lines | PlotKind::Bars => chart::draw(spec, &rows),
    }
}

/// The values of a column in the order of the rows. If all are numbers and `sorted` is set, in the
/// order of the numbers.
fn values(rows: &[&Row], column: &str, sorted: bool) -> Result<Vec<String>> {
    let mut values: Vec<String> = Vec::new();
    for row in rows {
        match row.text(column) {
            Some(text) if values.iter().any(|value| value == text) => {}
            Some(text) => values.push(text.to_owned()),
            None => return wrong(row.name(), format!("there is no column {column}")),
        }
    }
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
    if let (true, Some(numbers)) = (sorted, numbers) {
        let mut pairs: Vec<_> = numbers.into_iter().zip(values).collect();
        pairs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        values = pairs.into_iter().map(|(_, value)| value).collect();
    }
    Ok(values)
}
