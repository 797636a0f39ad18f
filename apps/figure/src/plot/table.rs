//! A coloured table: a comparison of each row with the base row, cell by cell.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{Drawn, FAINT, FONT, INK};
use super::values::values;
use crate::claim::digits;
use crate::error::{Result, wrong};
use crate::rows::Row;
use crate::spec::Spec;

const HEAD: i32 = 66;
const NAMES: i32 = 230;
const CELL: (i32, i32) = (92, 22);

/// A table with one base row. The base row shows its numbers. The other rows show ratios to the
/// base row.
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<(String, Vec<Option<f64>>)>,
    /// The index of the base row.
    pub(crate) base: usize,
}

impl Table {
    pub(crate) fn new(spec: &Spec, rows: &[&Row]) -> Result<Table> {
        let plot = &spec.plot;
        let columns = values(rows, &plot.x, false)?;
        let names = values(rows, &plot.series, false)?;
        let base = plot.base.as_deref().unwrap_or_default();
        let Some(base) = names.iter().position(|name| name == base) else {
            return wrong(
                "plot",
                format!("no point has {} = {base}, which is the base", plot.series),
            );
        };
        let mut cells = vec![vec![None; columns.len()]; names.len()];
        for row in rows {
            let of = |values: &[String], column: &str| {
                let text = row.text(column);
                values.iter().position(|value| Some(value.as_str()) == text).unwrap_or_default()
            };
            let cell = &mut cells[of(&names, &plot.series)][of(&columns, &plot.x)];
            if cell.replace(row.number(&plot.y)? / plot.y_unit).is_some() {
                return wrong("plot", format!("{} has the same place as another", row.name()));
            }
        }
        let to: Vec<Option<f64>> = cells[base].clone();
        for (index, row) in cells.iter_mut().enumerate() {
            if index != base {
                row.iter_mut()
                    .zip(&to)
                    .for_each(|(cell, to)| *cell = cell.zip(*to).map(|(cell, to)| cell / to));
            }
        }
        Ok(Table { columns, rows: names.into_iter().zip(cells).collect(), base })
    }

    /// As Markdown.
    pub(crate) fn markdown(&self, head: &str) -> String {
        let mut text = format!("| {head} |");
        self.columns.iter().for_each(|column| text += &format!(" {column} |"));
        text += "\n| --- |";
        self.columns.iter().for_each(|_| text += " ---: |");
        text.push('\n');
        for (name, cells) in &self.rows {
            text += &format!("| {name} |");
            for cell in cells {
                text += &format!(" {} |", cell.map_or_else(String::new, digits));
            }
            text.push('\n');
        }
        text
    }
}

pub(super) fn draw(spec: &Spec, rows: &[&Row]) -> Result<String> {
    let table = Table::new(spec, rows)?;
    let mut svg = String::new();
    match table.draw(spec, &mut svg) {
        Ok(()) => Ok(svg),
        Err(error) => wrong("plot", error),
    }
}

impl Table {
    fn draw(&self, spec: &Spec, svg: &mut String) -> Drawn<()> {
        let width = NAMES + CELL.0 * self.columns.len() as i32 + 16;
        let height = HEAD + CELL.1 * self.rows.len() as i32 + 14;
        let root = SVGBackend::with_string(svg, (width as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw(&Text::new(spec.title.clone(), (14, 10), (FONT, 19).into_font().color(&INK)))?;
        let small = (FONT, 14).into_font().color(&INK);
        let centred = small.pos(Pos::new(HPos::Center, VPos::Center));
        for (index, column) in self.columns.iter().enumerate() {
            let x = NAMES + CELL.0 * index as i32 + CELL.0 / 2;
            root.draw(&Text::new(column.clone(), (x, HEAD - 14), centred.clone()))?;
        }
        for (index, (name, cells)) in self.rows.iter().enumerate() {
            let y = HEAD + CELL.1 * index as i32;
            root.draw(&Text::new(name.clone(), (14, y + 5), small.clone()))?;
            for (column, cell) in cells.iter().enumerate() {
                let Some(cell) = cell else { continue };
                let x = NAMES + CELL.0 * column as i32;
                let shade = if index == self.base { FAINT.mix(0.15) } else { shade(*cell) };
                let corners = [(x + 1, y + 1), (x + CELL.0 - 1, y + CELL.1 - 1)];
                root.draw(&Rectangle::new(corners, shade.filled()))?;
                let at = (x + CELL.0 / 2, y + CELL.1 / 2);
                root.draw(&Text::new(digits(*cell), at, centred.clone()))?;
            }
        }
        root.present()?;
        Ok(())
    }
}

/// The colour of a cell: blue above the base, orange below. A larger difference is darker.
fn shade(ratio: f64) -> RGBAColor {
    let colour = if ratio >= 1.0 { RGBColor(0, 114, 178) } else { RGBColor(213, 94, 0) };
    let distance = if ratio >= 1.0 { ratio - 1.0 } else { 1.0 / ratio.max(0.1) - 1.0 };
    colour.mix((distance * 1.5).min(0.75))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::point;
    use crate::rows::{RowKind, rows};
    use crate::spec::tests::{GOOD, spec};

    #[test]
    fn cells_are_ratios_to_the_base_row() {
        let text = GOOD
            .replace("kind = 'lines'", "kind = 'table'\nbase = 'none'")
            .replace("x = 'threads'", "x = 'cell'");
        let spec = spec(&text);
        let points = [
            point("series=none cell=a", 2e6),
            point("series=none cell=b", 4e6),
            point("series=lease cell=a", 3e6),
        ];
        let rows = rows(&points, RowKind::Points).unwrap();
        let refs: Vec<&Row> = rows.iter().collect();
        let table = Table::new(&spec, &refs).unwrap();
        let markdown = table.markdown("switch");
        assert_eq!(
            markdown,
            "| switch | a | b |\n| --- | ---: | ---: |\n| none | 2.00 | 4.00 |\n| lease | 1.50 |  |\n"
        );
        let svg = draw(&spec, &refs).unwrap();
        assert_eq!(svg.matches("<rect").count(), 1 + 3);
        let line = Table::new(&spec, &refs[2..]).err().expect("no base").to_string();
        assert_eq!(line, "plot: no point has series = none, which is the base");
    }
}
