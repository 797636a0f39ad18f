//! The levels of the tree over its data, as SVG.
//!
//! ```text
//!   title
//!   legend: entries, leaves, the levels above
//!   ┌──────────────────────────────────────────┐
//!   │ entries as dots or boxes, then the boxes │ axes with round numbers
//!   │ of each level, from the leaves up        │
//!   └──────────────────────────────────────────┘
//! ```

mod scale;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::geometry::Space;
use crate::index::{Levels, Sides};
use scale::{Scale, name, widened};

/// The width of the picture, and the greatest height of its plot.
const WIDTH: f64 = 960.0;
const HEIGHT_MAX: f64 = 680.0;
/// The space beside the plot: left, top, right, bottom.
const MARGIN: [f64; 4] = [58.0, 78.0, 20.0, 34.0];
/// Entries are drawn on a grid of this many points, and each point of it once.
const GRID: f64 = 0.5;
/// A box with longer sides than this is drawn as one.
const DOT: f64 = 2.0;

/// How the boxes of a level look, from the leaves up.
struct Look {
    stroke: &'static str,
    width: f64,
    dashes: &'static str,
    fill: f64,
}

const LOOKS: [Look; 4] = [
    Look { stroke: "#2a7f9e", width: 0.8, dashes: "", fill: 0.07 },
    Look { stroke: "#d9622b", width: 1.8, dashes: "", fill: 0.03 },
    Look { stroke: "#7a2a73", width: 2.6, dashes: "9 4", fill: 0.0 },
    Look { stroke: "#222222", width: 3.2, dashes: "2 4", fill: 0.0 },
];

/// What a picture is about.
pub(crate) struct Caption {
    pub(crate) title: String,
    pub(crate) space: Space,
    /// The noun for entries.
    pub(crate) entries: &'static str,
}

/// Draws the levels of a tree.
pub(crate) fn draw(caption: &Caption, levels: &Levels) -> String {
    let range = |axis: usize| {
        let low = levels.entries.iter().map(|sides| sides[axis]).fold(f64::INFINITY, f64::min);
        let high = levels.entries.iter().map(|sides| sides[axis + 2]);
        let high = high.fold(f64::NEG_INFINITY, f64::max);
        if low <= high { widened((low, high)) } else { (0.0, 1.0) }
    };
    let (x_range, y_range) = (range(0), range(1));
    let [left, top, right, bottom] = MARGIN;
    let width = WIDTH - left - right;
    let ratio = (y_range.1 - y_range.0) / (x_range.1 - x_range.0);
    let height = (width * ratio).clamp(200.0, HEIGHT_MAX);
    let x = Scale::new(x_range, [left, left + width]);
    let y = Scale::new(y_range, [top + height, top]);
    let (plot, total) = ([left, top, width, height], top + height + bottom);

    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {total:.0}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"{WIDTH}\" height=\"{total:.0}\" fill=\"#faf9f6\"/>\n\
         <text x=\"{left}\" y=\"28\" font-size=\"18\" font-weight=\"bold\">{}</text>",
        escaped(&caption.title)
    );
    legend(&mut svg, caption, levels);
    grid(&mut svg, caption.space, (&x, &y), plot);
    let _ = writeln!(
        svg,
        "<clipPath id=\"plot\"><rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height:.1}\"/></clipPath>\n\
         <g clip-path=\"url(#plot)\">"
    );
    entries(&mut svg, &levels.entries, &x, &y);
    for (height, boxes) in levels.pages.iter().rev().enumerate() {
        level(&mut svg, height, boxes, (&x, &y));
    }
    let _ = writeln!(
        svg,
        "</g>\n<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height:.1}\" fill=\"none\" stroke=\"#999\"/>\n</svg>"
    );
    svg
}

fn look(height: usize) -> &'static Look {
    &LOOKS[height.min(LOOKS.len() - 1)]
}

/// One line: a mark and a text for the entries and for each level.
fn legend(svg: &mut String, caption: &Caption, levels: &Levels) {
    let mut at = MARGIN[0];
    let y = 54.0;
    let mut add = |svg: &mut String, mark: String, text: String| {
        let _ = writeln!(svg, "{mark}<text x=\"{:.0}\" y=\"{y}\">{text}</text>", at + 26.0);
        at += 26.0 + 6.6 * text.chars().count() as f64 + 22.0;
        at
    };
    let dot = format!(
        "<circle cx=\"{:.0}\" cy=\"{:.0}\" r=\"2.5\" fill=\"#777\"/>",
        MARGIN[0] + 10.0,
        y - 4.0
    );
    let mut next =
        add(svg, dot, format!("{} {}", thousands(levels.entries.len()), caption.entries));
    let count = levels.pages.len();
    for (height, boxes) in levels.pages.iter().rev().enumerate() {
        let Look { stroke, width, dashes, fill } = look(height);
        let mark = format!(
            "<rect x=\"{next:.0}\" y=\"{:.0}\" width=\"20\" height=\"12\" fill=\"{stroke}\" fill-opacity=\"{fill}\" \
             stroke=\"{stroke}\" stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\"/>",
            y - 11.0
        );
        let text = match height {
            0 => format!("{} leaves (level 0)", thousands(boxes.len())),
            _ if height + 1 == count => {
                format!("{} children of the root (level {height})", thousands(boxes.len()))
            }
            _ => format!("{} pages (level {height})", thousands(boxes.len())),
        };
        next = add(svg, mark, text);
    }
}

fn grid(
    svg: &mut String,
    space: Space,
    (x, y): (&Scale, &Scale),
    [left, top, width, height]: [f64; 4],
) {
    let (right, bottom) = (left + width, top + height);
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height:.1}\" fill=\"#fff\"/>"
    );
    let (mut lines, mut names) = (String::new(), String::new());
    for tick in x.ticks(12.0) {
        let at = x.at(tick);
        let _ = write!(lines, "M{at:.1} {top}V{bottom:.1}");
        let name = name(space, 0, tick);
        let below = bottom + 18.0;
        let _ = writeln!(
            names,
            "<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{name}</text>"
        );
    }
    for tick in y.ticks((height / 70.0).max(2.0)) {
        let at = y.at(tick);
        let _ = write!(lines, "M{left} {at:.1}H{right}");
        let (name, before) = (name(space, 1, tick), left - 7.0);
        let _ = writeln!(
            names,
            "<text x=\"{before}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            at + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"{lines}\" fill=\"none\" stroke=\"#e6e3dc\"/>\n{}",
        names.trim_end()
    );
}

/// Small entries as dots, the others as boxes.
fn entries(svg: &mut String, entries: &[Sides], x: &Scale, y: &Scale) {
    let (mut dots, mut boxes) = (BTreeSet::new(), String::new());
    for sides in entries {
        let [left, right] = [x.at(sides[0]), x.at(sides[2])];
        let [top, bottom] = [y.at(sides[3]), y.at(sides[1])];
        if right - left <= DOT && bottom - top <= DOT {
            let on_grid = |at: f64| (at / GRID).round() as i64;
            // Rows first: then a dot is written as a step from the dot before.
            dots.insert((on_grid((top + bottom) / 2.0), on_grid((left + right) / 2.0)));
        } else {
            rect(&mut boxes, [left, top, right, bottom]);
        }
    }
    let mut path = String::new();
    for (row, column) in dots {
        let _ = write!(path, "M{} {}h0", column as f64 * GRID, row as f64 * GRID);
    }
    let _ = writeln!(
        svg,
        "<path d=\"{path}\" stroke=\"#777\" stroke-width=\"1.6\" stroke-linecap=\"round\"/>\n\
         <path d=\"{boxes}\" fill=\"#777\" fill-opacity=\"0.25\" stroke=\"#777\" stroke-width=\"0.6\"/>"
    );
}

fn level(svg: &mut String, height: usize, boxes: &[Sides], (x, y): (&Scale, &Scale)) {
    let mut path = String::new();
    for sides in boxes {
        rect(&mut path, [x.at(sides[0]), y.at(sides[3]), x.at(sides[2]), y.at(sides[1])]);
    }
    let Look { stroke, width, dashes, fill } = look(height);
    let _ = writeln!(
        svg,
        "<path d=\"{path}\" fill=\"{stroke}\" fill-opacity=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
         stroke-dasharray=\"{dashes}\"/>"
    );
}

fn rect(path: &mut String, [left, top, right, bottom]: [f64; 4]) {
    let (width, height) = (right - left, bottom - top);
    let _ = write!(path, "M{left:.1} {top:.1}h{width:.1}v{height:.1}h{:.1}z", -width);
}

/// A number with commas between groups of three digits.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}

/// A text in SVG.
fn escaped(text: &str) -> String {
    let text = text.replace(char::is_control, "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caption() -> Caption {
        Caption { title: "a < b & c".to_owned(), space: Space::Sphere, entries: "places" }
    }

    #[test]
    fn every_level_is_drawn_and_told_apart() {
        let pages =
            vec![vec![[0.0, 0.0, 10.0, 10.0]], vec![[0.0, 0.0, 4.0, 4.0], [5.0, 5.0, 9.0, 9.0]]];
        let entries = vec![[1.0, 1.0, 1.0, 1.0], [6.0, 6.0, 9.0, 9.0]];
        let svg = draw(&caption(), &Levels { pages, entries });
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        for part in [
            "a &lt; b &amp; c",
            "2 places",
            "2 leaves (level 0)",
            "1 children of the root (level 1)",
            LOOKS[0].stroke,
            LOOKS[1].stroke,
            "5°E",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn an_empty_tree_and_a_tree_of_one_place_have_a_picture() {
        for entries in [vec![], vec![[5.0, 5.0, 5.0, 5.0]]] {
            let svg = draw(&caption(), &Levels { pages: vec![], entries });
            assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }

    #[test]
    fn equal_dots_are_drawn_once() {
        let of =
            |count| draw(&caption(), &Levels { pages: vec![], entries: vec![[1.0; 4]; count] });
        assert!(of(100_000).len() < of(1).len() + 10);
        assert_eq!(
            [thousands(5), thousands(1_000), thousands(1_234_567)],
            ["5", "1,000", "1,234,567"]
        );
    }
}
