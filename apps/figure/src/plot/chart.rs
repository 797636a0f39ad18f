//! Line and bar plots, in panels.

use plotters::prelude::*;

use super::axis::{Axis, Ticks};
use super::style::{Area, Drawn, FAINT, FONT, INK, colour};
use super::values::values;
use crate::error::{Result, wrong};
use crate::rows::Row;
use crate::spec::{Bars, Plot, PlotKind, Spec};

const PANEL: (u32, u32) = (390, 270);
const TITLE: u32 = 34;
const LEGEND: u32 = 20;

/// The contents of a panel.
struct Panel {
    title: String,
    /// For each series its points: horizontal position, value.
    series: Vec<Vec<(f64, f64)>>,
    /// Bars behind the lines, each with the number of its series.
    bars: Vec<(usize, Vec<(f64, f64)>)>,
}

struct Chart<'a> {
    plot: &'a Plot,
    xs: Vec<String>,
    names: Vec<String>,
    panels: Vec<Panel>,
}

pub(super) fn draw(spec: &Spec, rows: &[&Row]) -> Result<String> {
    let chart = Chart::new(&spec.plot, rows)?;
    let mut svg = String::new();
    match chart.draw(&spec.title, &mut svg) {
        Ok(()) => Ok(svg),
        Err(error) => wrong("plot", error),
    }
}

impl<'a> Chart<'a> {
    fn new(plot: &'a Plot, rows: &[&Row]) -> Result<Chart<'a>> {
        let xs = values(rows, &plot.x, true)?;
        let names = values(rows, &plot.series, false)?;
        let titles = match &plot.panel {
            Some(column) => values(rows, column, false)?,
            None => vec![String::new()],
        };
        let mut panels = Vec::new();
        for value in titles {
            let of_panel: Vec<&Row> = match &plot.panel {
                Some(column) => {
                    rows.iter().copied().filter(|row| row.text(column) == Some(&value)).collect()
                }
                None => rows.to_vec(),
            };
            let mut panel = Panel {
                title: plot.panel_titles.get(&value).cloned().unwrap_or(value),
                series: Vec::new(),
                bars: Vec::new(),
            };
            for (index, name) in names.iter().enumerate() {
                let series: Vec<&Row> = of_panel
                    .iter()
                    .copied()
                    .filter(|row| row.text(&plot.series) == Some(name))
                    .collect();
                panel.series.push(points(plot, &xs, &series, &plot.y, plot.y_unit)?);
                if let Some(bars) = &plot.bars {
                    let barred: Vec<&Row> =
                        series.into_iter().filter(|row| row.is(&bars.only)).collect();
                    if !barred.is_empty() {
                        panel.bars.push((index, points(plot, &xs, &barred, &bars.y, 1.0)?));
                    }
                }
            }
            panels.push(panel);
        }
        Ok(Chart { plot, xs, names, panels })
    }

    fn draw(&self, title: &str, svg: &mut String) -> Drawn<()> {
        let columns = if self.panels.len() == 4 { 2 } else { self.panels.len().min(3) };
        let lines = self.panels.len().div_ceil(columns);
        let width = (PANEL.0 * columns as u32).max(2 * PANEL.0);
        let legend = self.legend(width);
        let legend_lines = legend.last().map_or(0, |(_, (_, line))| line + 1) as u32;
        let head = TITLE + LEGEND * legend_lines + 6;
        let height = head + PANEL.1 * lines as u32;
        let root = SVGBackend::with_string(svg, (width, height)).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw(&Text::new(title.to_owned(), (14, 10), (FONT, 19).into_font().color(&INK)))?;
        for (index, (x, line)) in &legend {
            let y = (TITLE + LEGEND * *line as u32) as i32;
            root.draw(&Rectangle::new([(*x, y + 3), (x + 14, y + 12)], colour(*index).filled()))?;
            let text = Text::new(
                self.names[*index].clone(),
                (x + 20, y),
                (FONT, 15).into_font().color(&INK),
            );
            root.draw(&text)?;
        }
        let (_, body) = root.split_vertically(head);
        for (area, panel) in body.split_evenly((lines, columns)).iter().zip(&self.panels) {
            self.panel(area, panel)?;
        }
        root.present()?;
        Ok(())
    }

    /// The positions of the series' names: left end and line.
    fn legend(&self, width: u32) -> Vec<(usize, (i32, usize))> {
        let (mut x, mut line) = (14, 0);
        let mut places = Vec::new();
        for (index, name) in self.names.iter().enumerate() {
            let wide = 44 + 8 * name.chars().count() as i32;
            if x + wide > width as i32 && x > 14 {
                (x, line) = (14, line + 1);
            }
            places.push((index, (x, line)));
            x += wide;
        }
        places
    }

    fn panel(&self, area: &Area<'_>, panel: &Panel) -> Drawn<()> {
        let plot = self.plot;
        let all: Vec<f64> = panel.series.iter().flatten().map(|(_, y)| *y).collect();
        let axis = Axis::new(&all, plot.y_is_log);
        let (x_low, x_high, x_ticks) = if plot.x_is_linear {
            let most = panel.series.iter().flatten().map(|(x, _)| *x).fold(0.0, f64::max);
            (0.0, most, Axis::new(&[most], false).ticks)
        } else {
            let ticks = (0..self.xs.len()).map(|x| x as f64).collect();
            (-0.5, self.xs.len() as f64 - 0.5, ticks)
        };
        // The axis reaches at least 1, so that small parts look small.
        let shares = panel.bars.iter().flat_map(|(_, bars)| bars).map(|(_, share)| *share);
        let parts = Axis::new(&shares.chain([1.0]).collect::<Vec<_>>(), false);
        let mut chart = ChartBuilder::on(area)
            .caption(&panel.title, (FONT, 16).into_font().color(&INK))
            .margin(8)
            .x_label_area_size(38)
            .y_label_area_size(52)
            .right_y_label_area_size(if plot.bars.is_some() { 44 } else { 4 })
            .build_cartesian_2d(
                Ticks { range: x_low..x_high, ticks: x_ticks },
                Ticks { range: axis.low..axis.high, ticks: axis.ticks.clone() },
            )?
            .set_secondary_coord(
                x_low..x_high,
                Ticks { range: parts.low..parts.high, ticks: parts.ticks.clone() },
            );
        let x_label = |x: &f64| match self.xs.get(x.round().max(0.0) as usize) {
            _ if plot.x_is_linear => Axis::new(&[1.0], false).label(*x),
            Some(name) => name.clone(),
            None => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT.mix(0.25))
            .axis_style(FAINT)
            .label_style((FONT, 14).into_font().color(&INK))
            .axis_desc_style((FONT, 14).into_font().color(&FAINT))
            .x_label_formatter(&x_label)
            .y_label_formatter(&|place| axis.label(*place))
            .x_desc(plot.x_label.clone())
            .y_desc(plot.y_label.clone())
            .draw()?;
        if let Some(Bars { label, .. }) = &plot.bars {
            chart
                .configure_secondary_axes()
                .axis_style(FAINT)
                .label_style((FONT, 13).into_font().color(&FAINT))
                .y_label_formatter(&|part| format!("{:.0} %", part * 100.0))
                .y_desc(label.clone())
                .draw()?;
            let width = 0.7 / panel.bars.len().max(1) as f64;
            for (index, (series, bars)) in panel.bars.iter().enumerate() {
                let left = |x: f64| x - 0.35 + width * index as f64;
                chart.draw_secondary_series(bars.iter().map(|(x, y)| {
                    let corners = [(left(*x), 0.0), (left(*x) + width, *y)];
                    Rectangle::new(corners, colour(*series).mix(0.25).filled())
                }))?;
            }
        }
        let count = panel.series.len();
        for (index, points) in panel.series.iter().enumerate() {
            let colour = colour(index);
            if plot.kind == PlotKind::Lines {
                let points = points.iter().map(|(x, y)| (*x, axis.place(*y)));
                chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
                if !plot.x_is_linear {
                    chart.draw_series(points.map(|at| Circle::new(at, 3, colour.filled())))?;
                }
            } else {
                let width = 0.8 / count as f64;
                let left = |x: f64| x - 0.4 + width * index as f64;
                chart.draw_series(points.iter().map(|(x, y)| {
                    let corners = [(left(*x), axis.low), (left(*x) + width * 0.92, axis.place(*y))];
                    Rectangle::new(corners, colour.filled())
                }))?;
            }
        }
        Ok(())
    }
}

/// The points of one series in one panel, from left to right.
fn points(
    plot: &Plot,
    xs: &[String],
    rows: &[&Row],
    y: &str,
    unit: f64,
) -> Result<Vec<(f64, f64)>> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for row in rows {
        let x = if plot.x_is_linear {
            row.number(&plot.x)? / plot.x_unit
        } else {
            let x = row.text(&plot.x).and_then(|text| xs.iter().position(|x| x == text));
            x.unwrap_or_default() as f64
        };
        if points.iter().any(|(other, _)| *other == x) {
            return wrong("plot", format!("{} has the same place as another", row.name()));
        }
        points.push((x, row.number(y)? / unit));
    }
    points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(points)
}

#[cfg(test)]
mod tests {
    use crate::plot::draw;
    use crate::point::Point;
    use crate::rows::tests::point;
    use crate::rows::{RowKind, rows};
    use crate::spec::tests::{GOOD, spec};

    fn points() -> Vec<Point> {
        let mut points = Vec::new();
        for reads in ["95", "0"] {
            for threads in ["10", "2", "8"] {
                for series in ["SELCC", "SEL"] {
                    let labels = format!("reads={reads} threads={threads} series={series}");
                    points.push(point(&labels, 1e6));
                }
            }
        }
        points
    }

    #[test]
    fn every_series_panel_and_point_is_there() {
        let rows = rows(&points(), RowKind::Points).unwrap();
        let svg = draw(&spec(GOOD), &rows).expect("a picture");
        assert_eq!((svg.matches("<svg").count(), svg.matches("</svg>").count()), (1, 1));
        assert_eq!(svg.matches("<circle").count(), 12);
        for text in ["Access locality", "SELCC", "SEL", "Write-only", "10"] {
            assert!(svg.contains(&format!("\n{text}\n")), "{text} is missing");
        }
        let at = |text: &str| svg.find(&format!("\n{text}\n")).unwrap();
        assert!(at("2") < at("8") && at("8") < at("10"), "numbers are in their order");
        assert_eq!(svg, draw(&spec(GOOD), &rows).unwrap());
    }

    #[test]
    fn bars_and_logarithmic_axes_are_drawn() {
        let text = GOOD.replace("kind = 'lines'", "kind = 'bars'\ny-is-log = true");
        let rows = rows(&points(), RowKind::Points).unwrap();
        let svg = draw(&spec(&text), &rows).expect("a picture");
        // A rectangle for each point, one for each name in the legend, and the background.
        assert_eq!(svg.matches("<rect").count(), 12 + 2 + 1);
        let text = GOOD.replace(
            "[[claim]]",
            "bars = { y = 'hit_ratio', label = 'hits', only = { series = 'SELCC' } }\n[[claim]]",
        );
        let svg = draw(&spec(&text), &rows).expect("a picture");
        assert_eq!(svg.matches("<rect").count(), 6 + 2 + 1);
        assert!(svg.contains("\n40 %\n"));
    }

    #[test]
    fn two_points_at_one_place_and_none_at_all_are_errors() {
        let mut twice = points();
        twice.push(point("reads=0 threads=8 series=SEL", 2e6));
        let line = draw(&spec(GOOD), &rows(&twice, RowKind::Points).unwrap()).unwrap_err();
        assert_eq!(
            line.to_string(),
            "plot: point reads=0 threads=8 series=SEL has the same place as another"
        );
        let text = GOOD.replace("x = 'threads'", "x = 'threads'\nonly = { reads = '50' }");
        let line = draw(&spec(&text), &rows(&points(), RowKind::Points).unwrap()).unwrap_err();
        assert_eq!(line.to_string(), "plot: `only` selects no point");
        let text = GOOD.replace("x = 'threads'", "x = 'nodes'");
        let line = draw(&spec(&text), &rows(&points(), RowKind::Points).unwrap()).unwrap_err();
        assert!(line.to_string().ends_with("there is no column nodes"), "{line}");
    }
}
