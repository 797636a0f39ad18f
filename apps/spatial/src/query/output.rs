//! Answers as a table for people, and as CSV.

use std::io::{self, Write};

use latchwork_report::text::csv_line;

use super::answers::Answer;
use super::question::Query;
use crate::args::QueryKind;
use crate::file::Row;
use crate::geometry::Space;

/// The most rows of a table.
const ROWS_MAX: usize = 20;

/// Writes the first answers in a table that fits a terminal.
///
/// # Errors
/// When `out` fails.
pub(crate) fn table(out: &mut dyn Write, query: &Query, answers: &[Answer]) -> io::Result<()> {
    let has_places = query.other.is_some();
    let distance = |answer: &Answer| query.space.shown(answer.distance);
    writeln!(out)?;
    match (query.kind, has_places) {
        (QueryKind::Window | QueryKind::Point, _) => {
            writeln!(
                out,
                "{:<30} {:>10} {:>10} {:>10} {:>10}",
                "row", "west", "south", "east", "north"
            )?;
        }
        (_, false) => writeln!(out, "{:<30} {:>14}", "row", "distance")?,
        (QueryKind::Nearest, true) => {
            writeln!(out, "{:<26} {:<26} {:>14}", "nearest to", "row", "distance")?;
        }
        (QueryKind::Join, true) => {
            writeln!(out, "{:<26} {:<26} {:>14}", "row", "near", "distance")?;
        }
    }
    for answer in answers.iter().take(ROWS_MAX) {
        let (label, place) = (query.label(answer.id), query.place_label(answer.query));
        match (query.kind, has_places) {
            (QueryKind::Window | QueryKind::Point, _) => {
                let sides = row(query, answer.id).map(|row| sides(query.space, row));
                let sides = sides.unwrap_or_default().map(|side| format!("{side:>10.4}"));
                writeln!(out, "{:<30} {}", cut(label, 30), sides.join(" "))?;
            }
            (_, false) => writeln!(out, "{:<30} {:>14}", cut(label, 30), distance(answer))?,
            (QueryKind::Nearest, true) => {
                let names = (cut(place, 26), cut(label, 26));
                writeln!(out, "{:<26} {:<26} {:>14}", names.0, names.1, distance(answer))?;
            }
            (QueryKind::Join, true) => {
                let names = (cut(label, 26), cut(place, 26));
                writeln!(out, "{:<26} {:<26} {:>14}", names.0, names.1, distance(answer))?;
            }
        }
    }
    match answers.len().saturating_sub(ROWS_MAX) {
        0 => Ok(()),
        more => writeln!(out, ".. and {more} more; --csv FILE writes all"),
    }
}

/// All answers as CSV.
pub(crate) fn csv(query: &Query, answers: &[Answer]) -> String {
    let distance = match query.space {
        Space::Plane => "distance",
        Space::Sphere => "distance_m",
    };
    let is_window = matches!(query.kind, QueryKind::Window | QueryKind::Point);
    let mut head: Vec<&str> = match (query.kind, &query.other) {
        (QueryKind::Nearest, Some(_)) => vec!["to_line", "to", "rank"],
        (QueryKind::Join, Some(_)) => vec!["with_line", "with"],
        _ => Vec::new(),
    };
    head.extend(["line", "label"]);
    head.extend(if is_window { vec!["west", "south", "east", "north"] } else { vec![distance] });
    let mut text = csv_line(head.into_iter());
    let (mut rank, mut before) = (0, None);
    for answer in answers {
        rank = if before == Some(answer.query) { rank + 1 } else { 1 };
        before = Some(answer.query);
        let mut cells = Vec::new();
        if let Some(place) =
            query.other.as_ref().and_then(|file| file.rows.get(answer.query as usize))
        {
            cells.extend([place.line.to_string(), place.label.clone()]);
            if query.kind == QueryKind::Nearest {
                cells.push(rank.to_string());
            }
        }
        if let Some(row) = row(query, answer.id) {
            cells.extend([row.line.to_string(), row.label.clone()]);
            match is_window {
                true => cells.extend(sides(query.space, row).map(|side| side.to_string())),
                false => cells.push(answer.distance.to_string()),
            }
        }
        text.push_str(&csv_line(cells.iter().map(String::as_str)));
    }
    text
}

fn row(query: &Query, id: u64) -> Option<&Row> {
    query.data.rows.get(id as usize)
}

/// West, south, east and north. On the sphere the east of a box across the antimeridian is below
/// its west.
fn sides(space: Space, row: &Row) -> [f64; 4] {
    let [[west, south], [east, north]] = [row.area.low(), row.area.high()];
    let east = if space == Space::Sphere && east > 180.0 { east - 360.0 } else { east };
    [west, south, east, north]
}

/// The beginning of a text.
fn cut(text: &str, columns: usize) -> String {
    match text.chars().count() > columns {
        true => text.chars().take(columns - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}
