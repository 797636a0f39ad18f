//! Rows as a picture, in SVG.

mod axis;
mod chart;
mod style;
mod table;
mod values;

pub(crate) use table::Table;

use crate::error::{Result, wrong};
use crate::rows::Row;
use crate::spec::{PlotKind, Spec};

/// The picture of the rows that the figure draws.
///
/// # Errors
/// No row is selected, two rows have the same position, or a row has no number in the drawn column.
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
